"""The key by which a home holds out the same people in every run: whether it is still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.record import ledger


def digest(home: Home) -> str | None:
    """Return a digest of the key on which nobody can try guesses; None when it is not there."""
    if not home.holdout.is_file():
        return None
    return ledger.keyed(home, hashlib.sha256(home.holdout.read_bytes()).hexdigest())


def entered(known: Iterable[dict[str, Any]]) -> str | None:
    """Return the digest that was entered last; None when none was, or its loss was stated since."""
    last = None
    for entry in known:
        last = None if entry.get("event") == "resumed" else entry.get("holdout", last)
    return last


def is_another(home: Home) -> bool:
    """Return whether the key is gone, or another than the one that was entered."""
    last = entered(ledger.entries(home))
    return last is not None and last != digest(home)


def check(home: Home) -> None:
    """Refuse a run that would hold out others than the runs before.

    Raises
    ------
    Refused
        When the key is another. One that is missing is needed by no run that has come so far.
    """
    if home.holdout.is_file() and is_another(home):
        raise Refused(
            "keys/holdout, which says who is held out, is not the key of the earlier runs, so others would "
            "be held out and the releases could be compared; restore it from a backup, or state its loss "
            "with anonflow audit resume"
        )
