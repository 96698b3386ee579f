"""Withdraw a published release: its files are moved aside, and a signed notice takes their place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from tasks.common import keys
from tasks.common.home import Home, make_private, sync
from tasks.publication.manifest import LedgerReference
from tasks.publication.signed import PUBLIC_KEY, SignedFile, signature_of, write_signed
from tasks.record.entry import LedgerEntry, ReleaseFacts

NOTICE = "WITHDRAWN.json"
NOTICE_SIGNATURE = signature_of(NOTICE)
READ_FOLDER, READ_FILE = 0o500, 0o400
COPIES = "Copies taken before this date cannot be called back; they should no longer be used."


@dataclass(frozen=True)
class Notice:
    """The notice of a withdrawal, which replaces the release."""

    release: str
    name: str
    withdrawn: str
    by: str
    reason: str
    ledger: LedgerReference
    notice: str = COPIES

    @classmethod
    def of(cls, entry: LedgerEntry[ReleaseFacts]) -> Notice:
        """Return the notice of a withdrawal that the ledger announces."""
        facts = entry.facts
        return cls(
            release=facts.release,
            name=facts.name,
            withdrawn=entry.time,
            by=facts.actor,
            reason=facts.decided.reason if facts.decided else "",
            ledger=LedgerReference.of(entry),
        )

    def to_json(self) -> bytes:
        """Return the notice as it is written and signed."""
        return (json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace")

    def is_stated_by(self, content: bytes) -> bool:
        """Return whether a stored notice says the same; the sentence about copies may be worded anew."""
        try:
            stored = json.loads(content)
        except ValueError:
            return False
        return isinstance(stored, dict) and stored | {"notice": self.notice} == json.loads(self.to_json())


def move_aside(home: Home, entry: LedgerEntry[ReleaseFacts]) -> Path:
    """Move a release's folder to the withdrawn ones, and put a notice in its place; return the new folder.

    Each step is done when it is not done yet, so that it completes what a crash has cut short.

    Parameters
    ----------
    entry : the ledger's announcement of the withdrawal
    """
    name, release_id = entry.facts.name, entry.facts.release
    place: Path = home.releases / name / release_id
    aside: Path = make_private(make_private(home.withdrawn) / name) / release_id
    with home.lock("publish"):
        notice = _stage_notice(home, place.with_name(f".{release_id}.withdrawn"), Notice.of(entry))
        if place.is_dir() and not (place / NOTICE).exists():
            os.rename(place, aside)
            sync(aside.parent)
        _make_read_only(aside)
        if place.exists():
            shutil.rmtree(notice)
        else:
            os.rename(notice, place)
        sync(place.parent)
    return aside


def notice_problems(folder: Path, entry: LedgerEntry[ReleaseFacts] | None, signers: Collection[str]) -> list[str]:
    """Return what is wrong with a notice, one sentence per finding.

    Parameters
    ----------
    entry : the ledger's announcement of the withdrawal, which the notice must state
    signers : the public keys that have signed in this home, in base64; without any, the signer is not checked
    """
    try:
        signed = SignedFile.read(folder, NOTICE)
    except (OSError, ValueError):
        return ["the notice of its withdrawal is gone, or cannot be read"]
    problems = [] if signed.genuine else [f"{NOTICE} is not what was signed"]
    public = keys.public_of(signed.public_key)
    if signers and (public is None or keys.raw(public) not in signers):
        problems.append(f"{PUBLIC_KEY}, which signs the notice, is not a key of this home")
    if entry is not None and not Notice.of(entry).is_stated_by(signed.content):
        problems.append(f"{NOTICE} does not say what the ledger says of the withdrawal")
    expected = {NOTICE, NOTICE_SIGNATURE, PUBLIC_KEY}
    return problems + [f"{p.name} was added" for p in sorted(folder.iterdir()) if p.name not in expected]


def _stage_notice(home: Home, folder: Path, notice: Notice) -> Path:
    """Write the notice beside, whole, before anything is moved; what a crash left there would be published with it."""
    if folder.is_dir():
        shutil.rmtree(folder)
    make_private(make_private(folder.parent) / folder.name)
    write_signed(home, folder, NOTICE, notice.to_json())
    sync(folder)
    return folder


def _make_read_only(folder: Path) -> None:
    """Protect the withdrawn files from being changed by mistake."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        path.chmod(READ_FILE)
    folder.chmod(READ_FOLDER)
