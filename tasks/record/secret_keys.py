"""The secrets that must stay the same in every run of a home: whether they still are, by what the ledger says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.keys import secret_fingerprint
from tasks.record.entry import Facts, KeyFingerprints, LedgerEntry, ReleaseFacts
from tasks.record.ledger import entries
from tasks.record.ledger_verification import Finding

CONSEQUENCES = {
    "holdout": "other records would be held out, and the releases could be compared",
    "digests": "the same data would not be recognised, and would be released again",
}


def fingerprints(home: Home) -> KeyFingerprints:
    """Return the fingerprints of both secrets, to be entered."""
    return KeyFingerprints(digests=secret_fingerprint(home.digest_key), holdout=secret_fingerprint(home.holdout_key))


def problems(home: Home, known: Sequence[LedgerEntry[Facts]]) -> list[Finding]:
    """Return which secret is gone, or is another than the one that was entered last."""
    last, now = _entered(known), fingerprints(home)
    pairs = {"holdout": (last.holdout, now.holdout), "digests": (last.digests, now.digests)}
    return [
        Finding(
            "secret key",
            f"keys/{name}",
            f"keys/{name} {'is gone' if there is None else 'is not the key of the earlier runs'}: {CONSEQUENCES[name]}",
        )
        for name, (entered, there) in pairs.items()
        if entered is not None and entered != there
    ]


def check(home: Home) -> None:
    """Refuse a run that would hold out other records than the runs before, or not recognise their data.

    Raises
    ------
    Refused
        When a secret is another. A holdout key that is missing is needed by no run that has come so far.
    """
    for finding in problems(home, entries(home)):
        if home.holdout_key.is_file() or finding.where != "keys/holdout":
            raise Refused(f"{finding.sentence}; restore it from a backup, or state its loss with anonflow audit resume")


def _entered(known: Sequence[LedgerEntry[Facts]]) -> KeyFingerprints:
    """Return the fingerprints that were entered last; None for those of which none was since a loss was stated."""
    last = KeyFingerprints()
    for entry in known:
        if entry.event == "resumed":
            last = KeyFingerprints()
        elif isinstance(entry.facts, ReleaseFacts):
            given = entry.facts.keys
            last = replace(last, digests=given.digests or last.digests, holdout=given.holdout or last.holdout)
    return last
