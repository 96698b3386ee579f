"""Remove what is old and what nothing that was published needs; the ledger says what, and stays provable."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from tasks.audit.tracked_runs import entries_of_runs
from tasks.common.home import DOSSIER, Home, account
from tasks.decision.cleanup import leftovers
from tasks.record import ledger
from tasks.record.entry import Event, LedgerEntry, PruneFacts, ReleaseFacts
from tasks.record.ledger_verification import Entries

Kind = Literal["assessment", "MLflow files", "comparison", "notice", "log", "leftover"]
# How a candidate ends of which nothing was published.
ENDED: tuple[Event, ...] = ("rejected", "expired", "superseded", "abandoned")
# Files and folders that are old by their own time: only what nothing in the ledger names.
OLD: dict[str, Kind] = {
    "comparisons/*": "comparison",
    "notices/*.json": "notice",
    "notices/delivered/*": "notice",
    "logs/*.log.[12]": "log",
    "databases": "leftover",
    "backup.json": "leftover",
}


@dataclass(frozen=True)
class Prunable:
    """One file or folder that can go: its kind, what it is called, where it is, and how large, in bytes."""

    kind: Kind
    name: str
    path: Path
    size: int


def prunable(home: Home, before: float) -> list[Prunable]:
    """Return what nothing that was published or waits needs, and is older than a time in seconds since 1970."""
    known = ledger.entries(home)
    found = [*_assessments(home, known, before), *_tracked(home, known, before)]
    for pattern, kind in OLD.items():
        found += [_of(kind, path.name, path) for path in sorted(home.path.glob(pattern)) if _changed(path) < before]
    return found + [_of("leftover", path.name, path) for path in leftovers(home) if _changed(path) < before]


def prune(home: Home, before: float, runs: int = 0) -> tuple[LedgerEntry[PruneFacts], list[Prunable]]:
    """Enter what is removed in the ledger, then remove it; return the entry, and what was removed.

    A crash in between leaves things that the next call removes. No decision or publication is under way meanwhile.

    Parameters
    ----------
    runs : how many runs of Prefect are removed with it, for the entry

    Raises
    ------
    Refused
        When the ledger is not in order.
    """
    ledger.trusted(home)
    with home.lock("decide"), home.lock("publish"):
        found = prunable(home, before)
        counts: dict[str, int] = {"Prefect run": runs} if runs else {}
        for one in found:
            counts[one.kind] = counts.get(one.kind, 0) + 1
        facts = PruneFacts(
            by=account(),
            before=datetime.fromtimestamp(before, UTC).isoformat(timespec="seconds"),
            releases=tuple(one.name for one in found if one.kind == "assessment"),
            runs=tuple(one.name for one in found if one.kind == "MLflow files"),
            removed=counts,
        )
        entry = ledger.append(home, "pruned", facts)
        for one in found:
            _remove(one.path)
    return entry, found


def _assessments(home: Home, known: Entries, before: float) -> Iterator[Prunable]:
    for release in sorted(_ended(known, before)):
        if (folder := home.assessment(release)).is_dir():
            yield _of("assessment", release, folder)


def _tracked(home: Home, known: Entries, before: float) -> Iterator[Prunable]:
    """Give the attached files of runs of candidates that have ended, and of old runs that the ledger does not name."""
    ended, named = _ended(known, before), entries_of_runs(known)
    for folder in sorted((home.path / "mlflow" / "artifacts").glob("*/*/artifacts")):
        run = folder.parent.name
        entries = named.get(run)
        old = all(one.facts.release in ended for one in entries) if entries else _changed(folder) < before
        if old and any(folder.iterdir()):
            yield _of("MLflow files", run, folder)


def _ended(known: Entries, before: float) -> set[str]:
    """Return the candidates that ended before a time, and of which nothing was ever published."""
    entries = ledger.select(known, ReleaseFacts)
    last = {entry.facts.release: entry for entry in entries}
    published = {entry.facts.release for entry in entries if entry.event == "published"}
    return {
        release
        for release, entry in last.items()
        if entry.event in ENDED and release not in published and _seconds(entry.time) < before
    }


def _seconds(time_: str) -> float:
    return datetime.fromisoformat(time_).timestamp()


def _of(kind: Kind, name: str, path: Path) -> Prunable:
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return Prunable(kind, name, path, sum(one.stat().st_size for one in files))


def _changed(path: Path) -> float:
    """Return when a file or a folder's list was last changed; now where it is gone."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _remove(path: Path) -> None:
    if path.is_dir():
        # First, so that pages which a crash leaves are those of no assessment.
        (path / DOSSIER).unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
