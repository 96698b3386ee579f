"""Remove what a process that was killed has left in the home, beside its workspace; nobody uses it."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tasks.common.home import Home
from tasks.record import ledger

# What `write_private` calls a file until it is whole, which takes milliseconds.
HALF = re.compile(r"\..+\.[0-9a-f]{8}")
WRITING_SECONDS = 60


def leftovers(home: Home) -> list[Path]:
    """Return half-written files, releases that were staged only, and candidates nobody was asked about.

    Call it with no other decision under way, or take what it says as a guess.
    """
    return [*_half_written(home), *_staged(home), *_unasked(home)]


def remove_leftovers(home: Home) -> int:
    """Remove them while nobody decides or publishes; return how many there were."""
    with ledger.locked(home, ledger.DECIDING), ledger.locked(home, ledger.PUBLISHING):
        found = leftovers(home)
        for path in found:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    return len(found)


def _half_written(home: Home) -> Iterator[Path]:
    for pattern in (".*", "keys/.*", "assessments/*/.*", "comparisons/*/.*"):
        for path in home.path.glob(pattern):
            if HALF.fullmatch(path.name) and path.is_file() and _age(path) > WRITING_SECONDS:
                yield path


def _staged(home: Home) -> Iterator[Path]:
    yield from (path for path in home.releases.glob("*/.*/") if path.is_dir())


def _unasked(home: Home) -> Iterator[Path]:
    folders = [path for path in home.candidates.glob("*/") if path.is_dir()]
    known = {entry.get("release") for entry in ledger.find(home, "awaiting")} if folders else set()
    yield from (path for path in folders if path.name not in known)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
