"""Take a published release out of sight: its files are kept, a signed notice stays in their place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tasks.common import keys
from tasks.common.home import Home, make_private, sync, write_private
from tasks.record import ledger

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


def notice_problems(folder: Path, entry: dict[str, Any] | None, signers: Collection[str]) -> list[str]:
    """Return what is wrong with a notice, one sentence per finding.

    Parameters
    ----------
    entry : the ledger's announcement of the withdrawal, which the notice must tell
    signers : the public keys that have signed in this home, in base64; without any, whose key signed the
        notice is not checked
    """
    try:
        content = (folder / NOTICE).read_bytes()
        signature = (folder / NOTICE_SIGNATURE).read_text(encoding="ascii")
        key = (folder / NOTICE_KEY).read_bytes()
    except (OSError, ValueError):
        return ["the notice of its withdrawal is gone, or cannot be read"]
    found = [] if ledger.signed(key, content, signature) else [f"{NOTICE} is not what was signed"]
    public = keys.public_of(key.decode("ascii", "replace"))
    if signers and (public is None or keys.raw(public) not in signers):
        found.append(f"{NOTICE_KEY}, which signs the notice, is no key of this home")
    if entry is not None and not _tells(content, entry):
        found.append(f"{NOTICE} does not say what the ledger says of the withdrawal")
    known = {NOTICE, NOTICE_SIGNATURE, NOTICE_KEY}
    return found + [f"{p.name} was added" for p in sorted(folder.iterdir()) if p.name not in known]


def _tells(content: bytes, entry: dict[str, Any]) -> bool:
    """Return whether a notice gives release, time, person, reason and entry as the ledger does."""
    try:
        told = json.loads(content)
    except ValueError:
        return False
    # The sentence about copies may be worded anew.
    return isinstance(told, dict) and told | {"notice": COPIES} == json.loads(_notice(entry))


def _notice(entry: dict[str, Any]) -> bytes:
    said = {
        "release": entry["release"],
        "name": entry["name"],
        "withdrawn": entry["time"],
        "by": entry["approver"],
        "reason": entry["approval_reason"],
        "notice": COPIES,
        "ledger": {"entry": entry["number"], "digest": entry["digest"]},
    }
    return (json.dumps(said, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def _stage_notice(home: Home, folder: Path, entry: dict[str, Any]) -> Path:
    """Write the notice beside, whole, before anything is moved."""
    content = _notice(entry)
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
