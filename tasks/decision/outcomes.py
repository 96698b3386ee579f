"""What plans and their data have led to, as the ledger has it; MLflow mirrors it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from tasks.common.errors import Refused, ReleaseError, sanitise_errors, visible
from tasks.common.home import Home
from tasks.policy.assessment import Series
from tasks.policy.gate import GateResult
from tasks.record import ledger
from tasks.record.approval_rule import WaitingCandidate
from tasks.record.dossier import Dossier, find_dossier
from tasks.record.entry import Event, ExchangeFacts, Facts, LedgerEntry, MirrorFacts, ReleaseFacts
from tasks.record.members import Members, members_of
from tasks.record.mirrored import Mirrors
from tasks.record.predecessors import Lineage, nearly_as_many, predecessors, released_records
from tasks.record.replay import LedgerReplay
from tasks.tracking import mlflow as track
from tasks.tracking.curves import mirror_curves

Status = Literal["published", "unchanged", "rejected", "awaiting", "withdrawn", "expired", "superseded"]
Entry = LedgerEntry[ReleaseFacts]

# A candidate waits until it is decided on, and again when its publication was cut short.
WAITS: tuple[Event, ...] = ("awaiting", "approved", "abandoned")
# How a run of a plan, or what came of it, can have ended.
ENDS: tuple[Event, ...] = (
    "published", "awaiting", "rejected", "abandoned", "expired", "superseded", "withdrawing", "withdrawn",
)  # fmt: skip
UNCHANGED = (
    "plan and data are unchanged; no new release is made, since repeated releases of one table could be averaged"
)
# What MLflow's status tag says after an entry; entries of other events are not mirrored.
SHOWN: dict[Event, Status] = {
    "published": "published",
    "unchanged": "published",
    "rejected": "rejected",
    "awaiting": "awaiting",
    "approved": "awaiting",
    "withdrawn": "withdrawn",
    "expired": "expired",
    "superseded": "superseded",
}
# By event, what a run of the same plan on the same data comes to.
STANDS: dict[Event, tuple[Status, str]] = {
    "published": ("unchanged", UNCHANGED),
    "awaiting": ("awaiting", "this candidate awaits a decision already"),
    "rejected": (
        "rejected",
        "rejected before, and neither data nor plan have changed since; change one of them, or run with "
        "--rebuild, which is entered in the ledger",
    ),
}


@dataclass(frozen=True)
class Outcome:
    """How a run or a decision ended, and where to look."""

    status: Status
    release: str
    reason: str
    entry: Entry
    folder: Path | None = None
    report: Path | None = None
    records: int | None = None
    gates: tuple[GateResult, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def mlflow_run(self) -> str:
        """The tracked run."""
        return self.entry.facts.mlflow_run


def standing(home: Home, plan: str, data: str, records: str) -> Outcome | None:
    """Return what the same plan and data have led to already: a release, a candidate, or a rejection.

    The same data are the same file, and the same records in another. Drawing anew until a candidate passes would make
    the verdict worthless, so a rejection stands too.

    Parameters
    ----------
    plan, data, records : digests of the plan, of the file, and of its records
    """
    ends = ledger.find(home, ReleaseFacts, *ENDS)
    known = [e for e in ends if e.facts.plan == plan and e.facts.is_about(data, records)]
    if not known or known[-1].event not in STANDS:
        return None
    entry = known[-1]
    status, reason = STANDS[entry.event]
    folder = home.releases / entry.facts.name / entry.facts.release if status == "unchanged" else None
    if folder is not None and not folder.is_dir():
        return None
    if status == "rejected":
        why = f"by {entry.facts.decided.approver}" if entry.facts.decided else entry.facts.reason
        reason = f"{reason} ({visible(why)})"
    return ended(home, status, entry, reason, folder)


def published_before(home: Home, plan: str, data: str, records: str) -> int:
    """Count the releases of the same data that other plans have led to, and all that were withdrawn."""
    same = [e for e in ledger.find(home, ReleaseFacts, "withdrawn", "published") if e.facts.is_about(data, records)]
    gone = {e.facts.release for e in same if e.event == "withdrawn"}
    published = {e.facts.release: e.facts.plan for e in same if e.event == "published"}
    return sum(other != plan or release in gone for release, other in published.items())


def overtaken_by(home: Home, waiting: WaitingCandidate) -> str:
    """Return a release that was published since a candidate was made, and with which it was not measured; else "".

    Of the same plan, data or units under any plan, or of units of which it is not known whether they are the same: also
    of nearly as many units or records, whose figures a new run compares where those of the candidate follow from its
    source. What another office has released of units that it shares a secret about counts, too, once its digests were
    imported.
    """
    facts = waiting.facts
    made = ledger.of_release(home, facts.release, "awaiting")[-1].number
    folder, dossier = home.candidates / facts.release, find_dossier(home, facts.release)
    series = None if dossier is None else dossier.assessment.series
    return published_since(home, facts, members_of(home, facts.release), folder, series, made)


def published_since(
    home: Home, facts: ReleaseFacts, now: Members | None, folder: Path, series: Series | None, after: int
) -> str:
    """Return a release that was published after an entry of the ledger and may reveal units of a candidate, else "".

    See `overtaken_by`.

    Parameters
    ----------
    now : the units behind the candidate; None where they are not known
    folder : of the candidate's files
    after : the number of the entry
    """
    since = [one.facts for one in predecessors(home, Lineage.of(facts), now, after=after)]
    if series is None or series.keeps_figures:
        later = (e.facts for e in ledger.find(home, ReleaseFacts, "published") if e.number > after)
        since += [one for one in later if _as_large(home, one, now, folder)]
    imported = [e.facts for e in ledger.find(home, ExchangeFacts, "digests-imported") if e.number > after]
    if imported and now is not None and len(now.shared_key):
        return f"a release of {imported[-1].office}"
    return next((one.release for one in since if one.release != facts.release), "")


def _as_large(home: Home, other: ReleaseFacts, now: Members | None, folder: Path) -> bool:
    """Return whether a release may hold nearly as many units, or records: two plans may name units by other keys."""
    before, held = members_of(home, other.release), home.files_of(other.name, other.release)
    sizes: list[tuple[int | None, int | None]] = [(released_records(folder), released_records(held))]
    if now is not None and before is not None:
        sizes.append((now.count, before.count))
    return any(one is None or two is None or nearly_as_many(one, two) for one, two in sizes)


def waiting_candidate(home: Home, release: str) -> WaitingCandidate:
    """Return a candidate that waits for approvers.

    Raises
    ------
    Refused
        When no such candidate waits.
    """
    known = ledger.entries(home)
    about = [e for e in ledger.select(known, ReleaseFacts) if e.facts.release == release]
    if not any(e.event == "awaiting" for e in about):
        raise Refused(f"no candidate {visible(Path(release).name)!r} awaits a decision; see anonflow list")
    candidate = LedgerReplay.of(known).candidate(release) if about[-1].event in WAITS else None
    if candidate is None:
        raise Refused(f"{release} awaits no decision any more: it is {about[-1].event} since {about[-1].time}")
    return candidate


def waiting_after(home: Home, last: Entry) -> WaitingCandidate | None:
    """Return the candidate whose last entry this is, when it waits for approvers."""
    if last.event not in WAITS or not ledger.of_release(home, last.facts.release, "awaiting"):
        return None
    return waiting_candidate(home, last.facts.release)


def mirror_entry(home: Home, entry: Entry) -> bool:
    """Show an entry in MLflow's tags, registry and curves; return False when it is not taken, for the ledger has it."""
    try:
        shown = sanitise_errors(show_entry)(home, entry)
        if shown and SHOWN[entry.event] in ("published", "withdrawn"):
            sanitise_errors(mirror_curves)(home, entry.facts.name)
    except ReleaseError:
        return False
    return shown


def show_entry(home: Home, entry: Entry) -> bool:
    """Show an entry in MLflow's tags and registry; return False when it says nothing that is shown there.

    Raises
    ------
    ReleaseError
        When MLflow does not take it.
    """
    if entry.event not in SHOWN:
        return False
    tags = {"status_since": entry.time}
    if is_decision(entry.event, entry.facts):
        tags |= {"decided_by": entry.facts.decided_by}
    if decided := entry.facts.decided:
        tags |= {"decision_reason": decided.reason}
    run = Mirrors.of(ledger.find(home, MirrorFacts)).run_of(entry.facts)
    if not run:
        return False
    status = SHOWN[entry.event]
    track.set_status(run, status, **record_of(home, entry), **tags)
    track.mirror_version(entry.facts.name, run, entry.facts.release, status)
    return True


def is_decision(event: Event, facts: ReleaseFacts) -> bool:
    """Return whether people or the policy decided on a candidate or release by such an entry."""
    return facts.decided is not None or event in ("published", "rejected")


def record_of(home: Home, entry: LedgerEntry[Facts]) -> dict[str, str]:
    """Return what MLflow holds of an entry, so that the ledger cannot lose it unnoticed."""
    return {"entry": f"{entry.number} {entry.digest}", "home": ledger.identity(home)}


def ended(home: Home, status: Status, entry: Entry, reason: str, folder: Path | None = None) -> Outcome:
    """Return the outcome to which an entry of the ledger has led, without a run at hand."""
    report = home.assessment(entry.facts.release) / "report.html"
    return Outcome(status, entry.facts.release, reason, entry, folder, report)


def outcome_of(
    home: Home, status: Status, dossier: Dossier, entry: Entry, folder: Path | None, reason: str = ""
) -> Outcome:
    """Return the outcome of a run, with its gates; ``reason`` takes the place of the entry's."""
    release, reason = dossier.release, reason or entry.facts.reason
    if status == "unchanged":
        reason += "; the release is identical to the published one, so nothing new is published"
    return Outcome(
        status=status,
        release=release.id,
        reason=reason,
        entry=entry,
        folder=folder,
        report=(folder or home.assessment(release.id)) / "report.html",
        records=release.records,
        gates=dossier.verdict.gates,
    )


def has_expired(candidate: WaitingCandidate) -> bool:
    """Return whether the time to decide on a candidate is over, and too few have approved."""
    return candidate.has_expired(now())


def now() -> datetime:
    """Return the time at which a decision is made."""
    return datetime.now(UTC)
