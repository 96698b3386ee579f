"""Take a published release out of sight: its files are kept, a signed notice stays in their place."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from tasks import ledger
from tasks.home import Home, make_private, sync, write_private

NOTICE = "WITHDRAWN.json"
NOTICE_SIGNATURE = "WITHDRAWN.json.sig"
NOTICE_KEY = "public-key.pem"
READ_FOLDER, READ_FILE = 0o500, 0o400
COPIES = "Copies taken before this date cannot be called back; whoever has one should no longer use it."


def move_aside(home: Home, entry: dict[str, Any]) -> Path:
    """Move a release's folder to the withdrawn ones, and put a notice in its place; return where it is kept.

    Each step is done when it is not done yet, so that a crash in between is mended by doing it again.

    Parameters
    ----------
    entry : the ledger's announcement of the withdrawal
    """
    name, release_id = entry["name"], entry["release"]
    place: Path = home.releases / name / release_id
    kept: Path = make_private(make_private(home.withdrawn) / name) / release_id
    with ledger.locked(home, ledger.PUBLISHING):
        notice = _stage_notice(home, place.with_name(f".{release_id}.withdrawn"), entry)
        if place.is_dir() and not (place / NOTICE).exists():
            os.rename(place, kept)
            sync(kept.parent)
        _make_read_only(kept)
        if place.exists():
            shutil.rmtree(notice)
        else:
            os.rename(notice, place)
        sync(place.parent)
    return kept


def notice_problems(folder: Path) -> list[str]:
    """Return what is wrong with a notice, one sentence per finding."""
    try:
        content = (folder / NOTICE).read_bytes()
        signature = (folder / NOTICE_SIGNATURE).read_text(encoding="ascii")
        key = (folder / NOTICE_KEY).read_bytes()
    except (OSError, ValueError):
        return ["the notice of its withdrawal is gone, or cannot be read"]
    found = [] if ledger.signed(key, content, signature) else [f"{NOTICE} is not what was signed"]
    known = {NOTICE, NOTICE_SIGNATURE, NOTICE_KEY}
    return found + [f"{p.name} was added" for p in sorted(folder.iterdir()) if p.name not in known]


def _stage_notice(home: Home, folder: Path, entry: dict[str, Any]) -> Path:
    """Write the notice beside, whole, before anything is moved."""
    said = {
        "release": entry["release"],
        "name": entry["name"],
        "withdrawn": entry["time"],
        "by": entry["approver"],
        "reason": entry["approval_reason"],
        "notice": COPIES,
        "ledger": {"entry": entry["number"], "digest": entry["digest"]},
    }
    content = (json.dumps(said, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace")
    make_private(make_private(folder.parent) / folder.name)
    write_private(folder / NOTICE, content)
    write_private(folder / NOTICE_SIGNATURE, ledger.sign(home, content).encode())
    write_private(folder / NOTICE_KEY, ledger.public_key(home).encode())
    sync(folder)
    return folder


def _make_read_only(folder: Path) -> None:
    """Guard what is kept against being changed by mistake."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        path.chmod(READ_FILE)
    folder.chmod(READ_FOLDER)
