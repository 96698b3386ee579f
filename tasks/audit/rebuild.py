"""Make runs again that MLflow has lost, from the dossiers and the ledger; the ledger records it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasks.audit.tracked_runs import entries_of_runs
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.decision.assessment_integrity import PAGES, stored_dossier_digest
from tasks.decision.outcomes import SHOWN, show_entry
from tasks.record import ledger
from tasks.record.dossier import read_dossier
from tasks.record.entry import LedgerEntry, MirrorFacts, ReleaseFacts
from tasks.tracking import mlflow as track
from tasks.tracking.curves import mirror_curves
from tasks.tracking.runs import release_run


def rebuild(home: Home, *, by: str, reason: str) -> LedgerEntry[MirrorFacts]:
    """Make the runs again that MLflow has no more; return the entry that says which.

    Of a run whose dossier is there no more, since the same release was assessed again, only that it is lost is entered.

    Raises
    ------
    Refused
        When the ledger is not in order, or no run is lost.
    """
    ledger.trusted(home)
    runs = entries_of_runs(ledger.entries(home))
    stored = track.stored_runs([*runs], home.path / "mlflow" / "artifacts")
    lost = {run: entries[-1].facts for run, entries in runs.items() if run not in stored}
    if not lost:
        raise Refused("MLflow has every run that the ledger names; there is nothing to make again")
    made = {run: _made(home, facts) for run, facts in lost.items()}
    parts = {new: dict(track.fingerprint(new)) for new in made.values() if new}
    entry = ledger.append(home, "mirror-rebuilt", MirrorFacts(by=by, reason=reason, runs=made, parts=parts))
    for run in lost:
        for last in [one for one in runs[run] if one.event in SHOWN][-1:]:
            show_entry(home, last)
    for plan in {facts.name for facts in lost.values()}:
        mirror_curves(home, plan, whole=True)
    return entry


def _made(home: Home, facts: ReleaseFacts) -> str:
    """Return the new run of a candidate, empty where its dossier is there no more."""
    if stored_dossier_digest(home, facts.release) != facts.dossier:
        return ""
    dossier = read_dossier(home, facts.release)
    return track.track(release_run(dossier, dossier.plan.name, _files(home, facts), rebuilt=True))


def _files(home: Home, facts: ReleaseFacts) -> Mapping[str, Path]:
    folder = home.assessment(facts.release)
    return {page: folder / page for page in PAGES if page in facts.candidate and (folder / page).is_file()}
