"""Carry a decision out: publish, keep for a person, reject, withdraw; and enter it in the ledger.

The ledger is the truth and MLflow's tags mirror it. A publication is announced in the ledger before the
files are put in place, so that a crash in between is seen and settled by the next run; a withdrawal too.
"""

from __future__ import annotations

import getpass
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from tasks import ledger, people
from tasks.faults import Refused, ReleaseError, visible
from tasks.home import Home
from tasks.publish import MANIFEST, keep_candidate, load_candidate, publish, verify_release
from tasks.withdraw import move_aside
from tasks.workspace import Run, sha256_of

Status = Literal["published", "unchanged", "rejected", "awaiting", "withdrawn", "expired"]

LOCK = "decide.lock"
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
UNCHANGED = (
    "the data and the plan are unchanged; repeated releases of one table can be averaged, so none is made"
)
# What one person's decision adds to the facts.
DECIDED = ("approver", "approval_reason", "identity", "approver_key", "approver_signature", "count")

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
    gates: tuple[dict[str, Any], ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    record: dict[str, str] = field(default_factory=dict)


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
        return bool(until) and not self.approved and _now() > datetime.fromisoformat(until)

    @property
    def approved(self) -> bool:
        """Whether enough have approved; the publication was cut short then."""
        return len(self.approvals) >= int(self.terms["approvers"])


def standing(home: Home, plan_digest: str, data_digest: str) -> Outcome | None:
    """Return what the same plan and data have led to already: a release, a candidate, or a rejection.

    Drawing anew until a candidate passes would make the verdict worthless, so a rejection stands too.
    """
    known = ledger.find(home, *ENDS, plan=plan_digest, data=data_digest)
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
    )


def published_before(home: Home, plan_digest: str, data_digest: str) -> int:
    """Count the releases of the same data that other plans have led to, and all that were withdrawn."""
    gone = {e["release"] for e in ledger.find(home, "withdrawn", data=data_digest)}
    found = ledger.find(home, "published", data=data_digest)
    return len({e["release"] for e in found if e["plan"] != plan_digest or e["release"] in gone})


def recover(home: Home) -> None:
    """Settle what a crash has cut short, and candidates whose time is over.

    Whole publications are entered, others given up, or carried out when people have approved them;
    withdrawals are ended.
    """
    late: list[Outcome] = []
    with ledger.locked(home, LOCK):
        ledger.settle(home)
        last = {entry["release"]: entry for entry in ledger.entries(home) if entry.get("release")}
        for entry in last.values():
            if entry["event"] == "publishing":
                folder = home.releases / entry["name"] / entry["release"]
                whole = folder.is_dir() and not verify_release(folder)
                facts_ = ledger.facts_of(entry) | {"recovered": True} | (_files(folder) if whole else {})
                entry = ledger.append(home, "published" if whole else "abandoned", **facts_)
                if whole:
                    late.append(_ended(home, "published", entry, entry["reason"], folder))
            elif entry["event"] == "withdrawing":
                late.append(_end_withdrawal(home, entry))
            elif (waiting := _waiting(home, entry)) and waiting.expired:
                late.append(_expire(home, waiting))
            elif waiting and waiting.approved:
                late += _resumed(home, waiting)
    for outcome in late:
        mirror(outcome)


def conclude(run: Run, dossier: dict[str, Any], mlflow_run: str) -> Outcome:
    """Do what the verdict says and enter it in the ledger."""
    decision, release = dossier["verdict"]["decision"], dossier["release"]["id"]
    known = facts(dossier, mlflow_run) | {"mlflow": _logged(mlflow_run)}
    folder: Path | None = None
    with ledger.locked(run.home, LOCK):
        others = published_before(run.home, known["plan"], known["data"])
        if decision == "publish" and others > dossier["history"]["published"]:
            decision = "await"
        gone = ledger.find(run.home, "withdrawn", release=release)
        if decision == "publish" and not gone:
            again = bool(ledger.find(run.home, "published", release=release))
            folder, entry = _publish(run.home, run.folder / "candidate", dossier, known, again=again)
            status: Status = "unchanged" if again else "published"
        else:
            status = "awaiting" if decision == "await" and not gone else "rejected"
            if status == "awaiting":
                keep_candidate(run, dossier)
                known |= {"approval": _terms(run.home, dossier)}
            if gone:
                known |= {"reason": f"identical to what was withdrawn on {gone[-1]['time'][:10]}"}
            entry = ledger.append(run.home, status, **known)
    return _outcome(run.home, status, dossier, entry, folder)


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


def _waiting(home: Home, last: dict[str, Any]) -> Awaited | None:
    """Return the candidate whose last entry this is, when it waits for people."""
    if last["event"] not in WAITS or not ledger.find(home, "awaiting", release=last["release"]):
        return None
    return awaited(home, last["release"])


def approve(
    home: Home,
    release_id: str,
    *,
    by: str,
    reason: str,
    dossier: str | None = None,
    signature: str | None = None,
) -> Outcome:
    """Approve a candidate that awaits people, and publish it when enough have approved.

    Parameters
    ----------
    dossier : the digest of the dossier that was read, when it is known
    signature : the person's, as `tasks.people.sign` returns it; needed where there is a list of people

    Raises
    ------
    Refused
        When no such candidate waits, it is not the one that was assessed, its time is over, or this
        person may not approve it.
    """
    with ledger.locked(home, LOCK):
        waiting, said = _said(home, "approve", release_id, by, reason, dossier, signature)
        _check_may_approve(home, waiting, said["approver"])
        folder, found = load_candidate(home, release_id)
        terms = waiting.terms
        earlier = [a for a in waiting.approvals if not people.same(a["approver"], said["approver"])]
        known = _of(waiting) | said | {"count": len(earlier) + 1}
        entry = ledger.append(home, "approved", **known)
        if known["count"] < terms["approvers"]:
            told = f"{known['count']} of {terms['approvers']} approvals; another person must approve"
            return _outcome(home, "awaiting", found, entry, None, told)
        return _publish_approved(home, folder, found, known, (*earlier, known))


def reject(
    home: Home,
    release_id: str,
    *,
    by: str,
    reason: str,
    dossier: str | None = None,
    signature: str | None = None,
) -> Outcome:
    """Reject a candidate that awaits a person; it is removed, even when it was changed meanwhile.

    Raises
    ------
    Refused
        When no such candidate waits, its time is over, or this person may not decide.
    """
    with ledger.locked(home, LOCK):
        waiting, said = _said(home, "reject", release_id, by, reason, dossier, signature)
        entry = ledger.append(home, "rejected", **_of(waiting) | said)
        shutil.rmtree(home.candidates / entry["release"], ignore_errors=True)
    return _ended(home, "rejected", entry, f"rejected by {said['approver']}: {reason}")


def withdraw(
    home: Home,
    release_id: str,
    *,
    by: str,
    reason: str,
    signature: str | None = None,
    dossier: str | None = None,
) -> Outcome:
    """Withdraw a published release: its files are kept apart, and a signed notice stays in their place.

    Copies that others have taken cannot be called back. The release still counts as published when
    another of the same data is considered.

    Raises
    ------
    Refused
        When it was never published, is withdrawn already, or this person may not decide.
    """
    recover(home)
    with ledger.locked(home, LOCK):
        people.trusted(home)
        events = ledger.find(home, "published", "withdrawn", release=release_id)
        if not events:
            raise Refused(f"no release {visible(Path(release_id).name)!r} is published; see anonflow list")
        last = events[-1]
        if last["event"] == "withdrawn":
            raise Refused(f"{release_id} is withdrawn already, since {last['time']}")
        if dossier is not None and dossier.strip().lower() != last["dossier"]:
            raise Refused(f"the dossier that was named is not the one of {release_id}")
        said = _signed_by(home, "withdraw", last, by, reason, signature)
        known = {k: v for k, v in ledger.facts_of(last).items() if k not in (*DECIDED, "approvals")}
        outcome = _end_withdrawal(home, ledger.append(home, "withdrawing", **known | said))
    return outcome


def mirror(outcome: Outcome, **tags: str) -> bool:
    """Show an outcome in MLflow's tags; return False when MLflow does not take it, for the ledger has it."""
    from tasks.track import set_status

    if outcome.mlflow_run is None:
        return False
    try:
        set_status(outcome.mlflow_run, outcome.status, **outcome.record, **tags)
    except ReleaseError:
        return False
    return True


def facts(dossier: dict[str, Any], mlflow_run: str) -> dict[str, Any]:
    """Return what the ledger keeps of a dossier."""
    run = dossier["run"]
    return {
        "run": run["id"],
        "by": getpass.getuser(),
        "requester": run.get("requester", run.get("by")),
        "name": dossier["release"]["name"],
        "release": dossier["release"]["id"],
        "plan": dossier["plan"]["digest"],
        "data": dossier["source"]["digest"],
        "dossier": dossier["sha256"],
        "candidate": dossier["candidate"],
        "decision": dossier["verdict"]["decision"],
        "reason": dossier["verdict"]["reason"],
        "individual_protection": dossier["individual_protection"],
        "gates": {g["name"]: [g["verdict"], g["figure"]] for g in dossier["verdict"]["gates"]},
        "mlflow_run": mlflow_run,
        "version": run["versions"]["anonflow"],
        "code": run.get("code"),
    }


def _logged(mlflow_run: str) -> dict[str, str]:
    """Return digests of what MLflow holds of a run, by which a later change is found."""
    from tasks.track import fingerprint

    return fingerprint(mlflow_run)


def _terms(home: Home, dossier: dict[str, Any]) -> dict[str, Any]:
    """Return who must approve a candidate and until when, to be entered and signed."""
    asked = dossier.get("approval") or {}
    days = asked.get("within_days")
    return {
        "approvers": asked.get("approvers", 1),
        "names": asked.get("names", []),
        "requester_may_approve": asked.get("requester_may_approve", True),
        "expires": (_now() + timedelta(days=days)).isoformat(timespec="seconds") if days else None,
        "signed": bool(people.listed(home)),
    }


def _said(
    home: Home,
    decision: people.Decision,
    release_id: str,
    by: str,
    reason: str,
    dossier: str | None,
    signature: str | None,
) -> tuple[Awaited, dict[str, Any]]:
    """Return the candidate that a decision is about, and the decision as the ledger keeps it, checked."""
    people.trusted(home)
    waiting = awaited(home, release_id)
    if waiting.expired:
        outcome = _expire(home, waiting)
        mirror(outcome)
        raise Refused(outcome.reason)
    if dossier is not None and dossier.strip().lower() != waiting.dossier:
        raise Refused(
            f"the dossier that was named is not the one that was assessed for {release_id}; read the report "
            "of the candidate that waits, and decide again"
        )
    if waiting.terms["signed"] and not people.listed(home):
        raise Refused(
            "this candidate was made when there was a list of people who may decide, and the list is empty; "
            "add them again with anonflow people add"
        )
    return waiting, _signed_by(home, decision, waiting.entry, by, reason, signature)


def _signed_by(
    home: Home,
    decision: people.Decision,
    entry: dict[str, Any],
    by: str,
    reason: str,
    signature: str | None,
) -> dict[str, Any]:
    """Return a person's decision as the ledger keeps it: whose key has signed it, or that none has."""
    if not by.strip() or not reason.strip():
        raise Refused("state who decides and why")
    by, reason = by.strip(), reason.strip()
    said = {"by": getpass.getuser(), "approver": by, "approval_reason": reason}
    if not people.listed(home):
        return said | {"identity": "unverified"}
    people.verify(home, decision, entry["release"], entry["dossier"], by, reason, signature)
    person = people.find(home, by)
    return said | {
        "approver": person.name,
        "identity": "verified",
        "approver_key": person.fingerprint,
        "approver_signature": "".join(str(signature).split()),
    }


def _check_may_approve(home: Home, waiting: Awaited, by: str) -> None:
    """Refuse an approval by somebody who may not give it, or who has given it already."""
    terms = waiting.terms
    if terms["names"] and not any(people.same(by, name) for name in terms["names"]):
        raise Refused(f"{visible(by)} may not approve this: the plan names {', '.join(terms['names'])}")
    if not terms["requester_may_approve"]:
        _check_is_another(home, str(waiting.entry.get("requester")), by)
    if not waiting.approved and any(people.same(by, a["approver"]) for a in waiting.approvals):
        raise Refused(
            f"{visible(by)} has approved this already; {terms['approvers']} different people must approve"
        )


def _check_is_another(home: Home, requester: str, by: str) -> None:
    if not people.listed(home):
        raise Refused(
            "the plan says that the requester may not approve, which needs a list of people with their keys; "
            "add them with anonflow people add"
        )
    person = people.responsible(home, requester)
    if person is None:
        raise Refused(
            f"the plan says that the requester may not approve, and nobody on the list is known to run plans "
            f"as {visible(requester)}; say who does: anonflow people account NAME {visible(requester)}"
        )
    if people.same(person.name, by):
        raise Refused(
            f"{visible(by)} asked for this release (as {visible(requester)}), and the plan says that the "
            "requester may not approve it; somebody else must"
        )


def _expire(home: Home, waiting: Awaited) -> Outcome:
    until = waiting.terms["expires"]
    entry = ledger.append(home, "expired", **_of(waiting))
    shutil.rmtree(home.candidates / entry["release"], ignore_errors=True)
    reason = (
        f"{entry['release']} waited until {until}, and too few decided in time; it is removed. Run the plan "
        "again for a new one"
    )
    return _ended(home, "expired", entry, reason)


def _of(waiting: Awaited) -> dict[str, Any]:
    return ledger.facts_of(waiting.entry) | {"by": getpass.getuser()}


def _resumed(home: Home, waiting: Awaited) -> list[Outcome]:
    """Publish what enough people have approved and a crash kept from being published."""
    try:
        folder, dossier = load_candidate(home, waiting.entry["release"])
    except Refused:
        # Changed or gone: whoever asks for it is told so.
        return []
    last = waiting.approvals[-1]
    return [_publish_approved(home, folder, dossier, ledger.facts_of(last), waiting.approvals)]


def _publish_approved(
    home: Home,
    folder: Path,
    dossier: dict[str, Any],
    known: dict[str, Any],
    approvals: Sequence[dict[str, Any]],
) -> Outcome:
    kept = [{k: a.get(k) for k in DECIDED[:-1]} for a in approvals]
    target, entry = _publish(home, folder, dossier, known | {"approvals": kept})
    shutil.rmtree(folder)
    return _outcome(home, "published", dossier, entry, target)


def _publish(
    home: Home, folder: Path, dossier: dict[str, Any], known: dict[str, Any], *, again: bool = False
) -> tuple[Path, dict[str, Any]]:
    """Announce, publish, confirm; what stands already is confirmed as unchanged."""
    announced = None if again else ledger.append(home, "publishing", **known)
    approvals = known.get("approvals", ())
    approval = {
        "by": ", ".join(a["approver"] for a in approvals),
        "reason": "; ".join(a["approval_reason"] for a in approvals),
    }
    target = publish(home, folder, dossier, approval if approvals else None, announced)
    entry = ledger.append(home, "unchanged" if again else "published", **known | _files(target))
    return target, entry


def _files(folder: Path) -> dict[str, Any]:
    """Return the digests of what was published, for the ledger."""
    return {
        "manifest": sha256_of(folder / MANIFEST),
        "files": json.loads((folder / MANIFEST).read_bytes())["files"],
    }


def _end_withdrawal(home: Home, announced: dict[str, Any]) -> Outcome:
    move_aside(home, announced)
    entry = ledger.append(home, "withdrawn", **ledger.facts_of(announced))
    reason = (
        f"withdrawn by {entry['approver']}: {entry['approval_reason']}; a notice stands in its place. Copies "
        "that others have taken cannot be called back: tell those who have them"
    )
    return _ended(home, "withdrawn", entry, reason, home.withdrawn / entry["name"] / entry["release"])


def _record(home: Home, entry: dict[str, Any]) -> dict[str, str]:
    """Return what MLflow is told of an entry, so that the ledger cannot lose it unseen."""
    return {"entry": f"{entry['number']} {entry['digest']}", "home": ledger.identity(home)}


def _ended(
    home: Home, status: Status, entry: dict[str, Any], reason: str, folder: Path | None = None
) -> Outcome:
    return Outcome(
        status=status,
        release=entry["release"],
        reason=reason,
        folder=folder,
        report=home.assessment(entry["release"]) / "report.html",
        mlflow_run=entry.get("mlflow_run"),
        record=_record(home, entry),
    )


def _outcome(
    home: Home,
    status: Status,
    dossier: dict[str, Any],
    entry: dict[str, Any],
    folder: Path | None,
    told: str = "",
) -> Outcome:
    reason = told or entry["reason"]
    if status == "unchanged":
        reason += "; the release is identical to the one that stands, so nothing new is published"
    return Outcome(
        status=status,
        release=dossier["release"]["id"],
        reason=reason,
        folder=folder,
        report=(folder or home.assessment(dossier["release"]["id"])) / "report.html",
        mlflow_run=entry["mlflow_run"],
        records=dossier["release"]["records"],
        gates=tuple(dossier["verdict"]["gates"]),
        record=_record(home, entry),
    )


def _now() -> datetime:
    return datetime.now(UTC)
