"""Entries of the ledger for tests: facts that are complete, with what a test states in their place."""

from __future__ import annotations

from typing import Any

from tasks.common.home import Home
from tasks.record import ledger
from tasks.record.entry import Event, KeyFingerprints, LedgerEntry, ReleaseFacts

KNOWN: dict[str, Any] = {
    "by": "runner",
    "run": "20260101T000000Z-0a0b0c",
    "requester": "runner",
    "name": "office",
    "release": "office-0123456789ab",
    "plan": "1" * 64,
    "data": "2" * 64,
    "records": "3" * 64,
    "dossier": "4" * 64,
    "masking": "7" * 64,
    "candidate": {"data.csv": "5" * 64, "report.html": "6" * 64},
    "verdict": "publish",
    "reason": "every gate passed",
    "gates": {"distance": ("pass", "0.1")},
    "mlflow_run": "0",
    "mlflow": {},
    "version": "0",
    "code": "c" * 64,
    "custodian": {},
    "keys": KeyFingerprints(),
}


def release_facts(**stated: Any) -> ReleaseFacts:
    """Return the facts of a release."""
    return ReleaseFacts(**KNOWN | stated)


def enter(home: Home, event: Event = "published", **stated: Any) -> LedgerEntry[ReleaseFacts]:
    """Enter the facts of a release."""
    return ledger.append(home, event, release_facts(**stated))
