"""Remove what a killed process has left in the home, apart from its workspace."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tasks.common.home import Home
from tasks.record import ledger
from tasks.record.entry import ReleaseFacts

# What `write_private` calls a file until it is whole, which takes milliseconds.
HALF = re.compile(r"\..+\.[0-9a-f]{8}")
WRITING_SECONDS = 60


def leftovers(home: Home) -> list[Path]:
    """Return half-written files, releases that were only staged, and candidates that were never entered.

    Without the locks of `remove_leftovers` the answer is a guess, since a decision may be under way.
    """
    return [*_half_written(home), *_staged(home), *_not_entered(home)]


def remove_leftovers(home: Home) -> int:
    """Remove `leftovers` while no decision or publication is under way; return how many there were."""
    with home.lock("decide"), home.lock("publish"):
        paths = leftovers(home)
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    return len(paths)


def _half_written(home: Home) -> Iterator[Path]:
    for pattern in (".*", "keys/.*", "assessments/*/.*", "comparisons/*/.*", "games/.*", "members/.*", "exchange/.*"):
        for path in home.path.glob(pattern):
            if HALF.fullmatch(path.name) and path.is_file() and _age(path) > WRITING_SECONDS:
                yield path


def _staged(home: Home) -> Iterator[Path]:
    yield from (path for path in home.releases.glob("*/.*/") if path.is_dir())


def _not_entered(home: Home) -> Iterator[Path]:
    folders = [path for path in home.candidates.glob("*/") if path.is_dir()]
    entered = {e.facts.release for e in ledger.find(home, ReleaseFacts, "awaiting")} if folders else set()
    yield from (path for path in folders if path.name not in entered)
    digests = list(home.members.glob("*.npz"))
    known = {e.facts.release for e in ledger.find(home, ReleaseFacts)} if digests else set()
    yield from (path for path in digests if path.stem not in known)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
