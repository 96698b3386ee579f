"""What has come of plans and their data, as the ledger has it; MLflow mirrors it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from tasks.common.errors import Refused, ReleaseError, sanitise_errors, visible
from tasks.common.home import Home
from tasks.connectors.fingerprint import same_table
from tasks.policy.verdict import Gate
from tasks.record import approvers as people
from tasks.record import ledger
from tasks.record.dossier import Dossier
from tasks.tracking import mlflow as track

Status = Literal["published", "unchanged", "rejected", "awaiting", "withdrawn", "expired"]

# A candidate waits until it is decided on, and again when its publication was cut short.
WAITS = ("awaiting", "approved", "abandoned")
# How a run of a plan, or what came of it, can have ended.
ENDS: tuple[ledger.Event, ...] = (
    "published",
    "awaiting",
    "rejected",
    "abandoned",
    "expired",
    "withdrawing",
    "withdrawn",
)
UNCHANGED = "the data and the plan are unchanged; repeated releases of one table can be averaged, so none is made"
# What one person's decision adds to the facts.
DECIDED = ("approver", "approval_reason", "identity", "approver_key", "approver_signature", "count")

# What MLflow's status tag says after an entry; entries of other events are not mirrored.
SHOWN: dict[str, Status] = {status: status for status in get_args(Status)} | {
    "unchanged": "published",
    "approved": "awaiting",
}

# By event, what a run of the same plan on the same data comes to.
STANDS: dict[str, tuple[Status, str]] = {
    "published": ("unchanged", UNCHANGED),
    "awaiting": ("awaiting", "this candidate awaits a decision already"),
    "rejected": (
        "rejected",
        "rejected before, and neither data nor plan have changed since; change one of them, or run with "
        "--rebuild, which the ledger tells",
    ),
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and where to look."""

    status: Status
    release: str
    reason: str
    folder: Path | None = None
    report: Path | None = None
    mlflow_run: str | None = None
    records: int | None = None
    gates: tuple[Gate, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    entry: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Awaited:
    """A candidate that waits: what was entered for it, and who has approved it so far."""

    entry: dict[str, Any]
    approvals: tuple[dict[str, Any], ...]

    @property
    def dossier(self) -> str:
        """The digest that decisions are about."""
        return str(self.entry["dossier"])

    @property
    def terms(self) -> dict[str, Any]:
        """Who must approve and until when, as the plan asked when the candidate was made."""
        terms = {"approvers": 1, "names": [], "requester_may_approve": True, "expires": None, "signed": False}
        return terms | (self.entry.get("approval") or {})

    @property
    def expired(self) -> bool:
        """Whether the time to decide is over and too few have approved."""
        until = self.terms["expires"]
        return bool(until) and not self.approved and now() > datetime.fromisoformat(until)

    @property
    def approved(self) -> bool:
        """Whether enough have approved; the publication was cut short then."""
        return len(self.approvals) >= int(self.terms["approvers"])


def standing(home: Home, plan_digest: str, data_digest: str, records: str | None = None) -> Outcome | None:
    """Return what the same plan and data have led to already: a release, a candidate, or a rejection.

    The same data are the same file, and the same ``records`` in another.

    Drawing anew until a candidate passes would make the verdict worthless, so a rejection stands too.
    """
    ends = ledger.find(home, *ENDS, plan=plan_digest)
    known = [entry for entry in ends if same_table(entry, data_digest, records)]
    if not known or known[-1]["event"] not in STANDS:
        return None
    last = known[-1]
    status, reason = STANDS[last["event"]]
    folder = home.releases / last["name"] / last["release"]
    if status == "unchanged" and not folder.is_dir():
        return None
    if status == "rejected":
        why = f"by {last['approver']}" if "approver" in last else last["reason"]
        reason = f"{reason} ({visible(why)})"
    return Outcome(
        status=status,
        release=last["release"],
        reason=reason,
        folder=folder if status == "unchanged" else None,
        report=home.assessment(last["release"]) / "report.html",
        mlflow_run=last.get("mlflow_run"),
        entry=last,
    )


def published_before(home: Home, plan_digest: str, data_digest: str, records: str | None = None) -> int:
    """Count the releases of the same data that other plans have led to, and all that were withdrawn."""
    both = ledger.find(home, "withdrawn", "published")
    same = [entry for entry in both if same_table(entry, data_digest, records)]
    gone = {e["release"] for e in same if e["event"] == "withdrawn"}
    found = [e for e in same if e["event"] == "published"]
    return len({e["release"] for e in found if e["plan"] != plan_digest or e["release"] in gone})


def awaited(home: Home, release_id: str) -> Awaited:
    """Return a candidate that waits for people.

    Raises
    ------
    Refused
        When no such candidate waits.
    """
    events = ledger.find(home, release=release_id)
    if not any(e["event"] == "awaiting" for e in events):
        raise Refused(f"no candidate {visible(Path(release_id).name)!r} awaits a decision; see anonflow list")
    last = events[-1]
    if last["event"] not in WAITS:
        raise Refused(f"{release_id} awaits no decision any more: it is {last['event']} since {last['time']}")
    begin = max(i for i, e in enumerate(events) if e["event"] == "awaiting")
    approvals: dict[str, dict[str, Any]] = {}
    on_list = people.listed(home)
    for entry in events[begin + 1 :]:
        who = str(entry.get("approver"))
        known = any(p.name == who and p.fingerprint == entry.get("approver_key") for p in on_list)
        if entry["event"] == "approved" and (known or not on_list):
            approvals.setdefault(people.folded(who), entry)
    return Awaited(events[begin], tuple(approvals.values()))


def waiting_at(home: Home, last: dict[str, Any]) -> Awaited | None:
    """Return the candidate whose last entry this is, when it waits for people."""
    if last["event"] not in WAITS or not ledger.find(home, "awaiting", release=last["release"]):
        return None
    return awaited(home, last["release"])


def mirror_entry(home: Home, entry: dict[str, Any]) -> bool:
    """Show an entry in MLflow's tags; return False when MLflow does not take it, for the ledger has it."""
    try:
        return sanitise_errors(show_entry)(home, entry)
    except ReleaseError:
        return False


def show_entry(home: Home, entry: dict[str, Any]) -> bool:
    """Show an entry in MLflow's tags; return False when it says nothing that is shown there.

    Raises
    ------
    ReleaseError
        When MLflow does not take it.
    """
    if not entry.get("mlflow_run") or entry["event"] not in SHOWN:
        return False
    said = {key: str(entry[key]) for key in ("approver", "approval_reason") if entry.get(key)}
    track.set_status(str(entry["mlflow_run"]), SHOWN[entry["event"]], **record_of(home, entry), **said)
    return True


def record_of(home: Home, entry: dict[str, Any]) -> dict[str, str]:
    """Return what MLflow is told of an entry, so that the ledger cannot lose it unseen."""
    return {"entry": f"{entry['number']} {entry['digest']}", "home": ledger.identity(home)}


def ended(home: Home, status: Status, entry: dict[str, Any], reason: str, folder: Path | None = None) -> Outcome:
    """Return the outcome that an entry of the ledger tells, without a run at hand."""
    return Outcome(
        status=status,
        release=entry["release"],
        reason=reason,
        folder=folder,
        report=home.assessment(entry["release"]) / "report.html",
        mlflow_run=entry.get("mlflow_run"),
        entry=entry,
    )


def outcome_of(
    home: Home,
    status: Status,
    dossier: Dossier,
    entry: dict[str, Any],
    folder: Path | None,
    told: str = "",
) -> Outcome:
    """Return the outcome of a run, with its gates; ``told`` takes the place of the entry's reason."""
    reason = told or entry["reason"]
    if status == "unchanged":
        reason += "; the release is identical to the one that stands, so nothing new is published"
    return Outcome(
        status=status,
        release=dossier.release.id,
        reason=reason,
        folder=folder,
        report=(folder or home.assessment(dossier.release.id)) / "report.html",
        mlflow_run=entry["mlflow_run"],
        records=dossier.release.records,
        gates=dossier.verdict.gates,
        entry=entry,
    )


def now() -> datetime:
    """Return the time at which it is decided."""
    return datetime.now(UTC)
