"""Carry out what policy or people decided: publish, keep for a person, reject; enter it in the ledger.

The ledger is the truth and MLflow's tags mirror it. A publication is announced in the ledger before the
files are put in place, so that a crash in between is seen and settled by the next run; a withdrawal too.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from tasks.common.digests import sha256_of
from tasks.common.errors import Refused
from tasks.common.home import Home, account
from tasks.common.run import Run
from tasks.decision.assessment_integrity import custodian_pages
from tasks.decision.outcomes import (
    DECIDED,
    Awaited,
    Outcome,
    Status,
    ended,
    mirror_entry,
    now,
    outcome_of,
    published_before,
    waiting_at,
)
from tasks.publication.candidate import Candidate, keep_candidate, load_candidate
from tasks.publication.manifest import MANIFEST, Approval, Manifest, verify_release
from tasks.publication.publish import publish
from tasks.publication.withdraw import move_aside
from tasks.record import approvers as people
from tasks.record import holdout_key as holdout
from tasks.record import ledger
from tasks.record.dossier import Dossier
from tasks.tracking import mlflow as track

# Why what policy lets pass is not published yet.
ASKED = "people were asked about the same release before, and have not decided yet"


def recover(home: Home) -> None:
    """Settle what a crash has cut short, and candidates whose time is over.

    Whole publications are entered, others given up, or carried out when people have approved them;
    withdrawals are ended.
    """
    late: list[Outcome] = []
    with ledger.locked(home, ledger.DECIDING):
        ledger.settle(home)
        last = {entry["release"]: entry for entry in ledger.entries(home) if entry.get("release")}
        for entry in last.values():
            if entry["event"] == "publishing":
                folder = home.releases / entry["name"] / entry["release"]
                whole = folder.is_dir() and not verify_release(folder)
                facts_ = ledger.facts_of(entry) | {"recovered": True} | (_files(folder) if whole else {})
                entry = ledger.append(home, "published" if whole else "abandoned", **facts_)
                if whole:
                    late.append(ended(home, "published", entry, entry["reason"], folder))
            elif entry["event"] == "withdrawing":
                late.append(end_withdrawal(home, entry))
            elif (waiting := waiting_at(home, entry)) and waiting.expired:
                late.append(expire(home, waiting))
            elif waiting and waiting.approved:
                late += _resumed(home, waiting)
    for outcome in late:
        mirror_entry(home, outcome.entry)


def conclude(run: Run, candidate: Candidate, mlflow_run: str) -> Outcome:
    """Do what the verdict says and enter it in the ledger."""
    dossier = candidate.dossier
    decision, release = dossier.verdict.decision, dossier.release.id
    known = facts(dossier, mlflow_run) | {"mlflow": _logged(mlflow_run)} | _kept(run.home, release)
    folder: Path | None = None
    with ledger.locked(run.home, ledger.DECIDING):
        others = published_before(run.home, known["plan"], known["data"], known.get("records"))
        if decision == "publish" and others > dossier.history.published:
            decision = "await"
        if decision == "publish" and _waits(run.home, release):
            decision, known = "await", known | {"reason": ASKED}
        gone = ledger.find(run.home, "withdrawn", release=release)
        if decision == "publish" and not gone:
            again = bool(ledger.find(run.home, "published", release=release))
            folder, entry = _publish(run.home, candidate, known, again=again)
            status: Status = "unchanged" if again else "published"
        else:
            status = "awaiting" if decision == "await" and not gone else "rejected"
            if status == "awaiting":
                keep_candidate(run.home, candidate)
                known |= {"approval": _terms(run.home, dossier)}
            if gone:
                known |= {"reason": f"identical to what was withdrawn on {gone[-1]['time'][:10]}"}
            entry = ledger.append(run.home, status, **known)
    return outcome_of(run.home, status, dossier, entry, folder)


def _waits(home: Home, release: str) -> bool:
    """Return whether people were asked about the same content, and have not decided yet."""
    told = ledger.find(home, release=release)
    return bool(told) and waiting_at(home, told[-1]) is not None


def facts(dossier: Dossier, mlflow_run: str) -> dict[str, Any]:
    """Return what the ledger keeps of a dossier."""
    run, source, verdict = dossier.run, dossier.source, dossier.verdict
    known = {
        "run": run.id,
        "by": account(),
        "requester": run.requester,
        "name": dossier.release.name,
        "release": dossier.release.id,
        "plan": dossier.plan.digest,
        "data": source.digest,
        "records": source.records_digest,
        "rebuild": run.rebuild or None,
        "dossier": dossier.digest,
        "candidate": dict(dossier.files),
        "decision": verdict.decision,
        "reason": verdict.reason,
        "individual_protection": f"none: {dossier.unprotected}" if dossier.unprotected else "required",
        "gates": {g.name: [g.verdict, g.figure] for g in verdict.gates},
        "mlflow_run": mlflow_run,
        "version": run.versions["anonflow"],
        "code": run.code,
    }
    absent = [name for name in ("records", "rebuild") if known[name] is None]
    return {name: fact for name, fact in known.items() if name not in absent}


def _kept(home: Home, release: str) -> dict[str, Any]:
    """Return digests of what stays in the home beside the candidate: pages, and who is held out."""
    kept: dict[str, Any] = {"custodian": custodian_pages(home, release)}
    held_out = holdout.digest(home)
    return kept | ({"holdout": held_out} if held_out else {})


def _logged(mlflow_run: str) -> dict[str, str]:
    """Return digests of what MLflow holds of a run, by which a later change is found."""
    return track.fingerprint(mlflow_run)


def _terms(home: Home, dossier: Dossier) -> dict[str, Any]:
    """Return who must approve a candidate and until when, to be entered and signed."""
    asked, days = dossier.approval, dossier.approval.within_days
    return {
        "approvers": asked.approvers,
        "names": list(asked.names),
        "requester_may_approve": asked.requester_may_approve,
        "runner_may_approve": asked.requester_may_approve,
        "expires": (now() + timedelta(days=days)).isoformat(timespec="seconds") if days else None,
        "signed": bool(people.listed(home)),
    }


def expire(home: Home, waiting: Awaited) -> Outcome:
    """Enter that the time to decide is over, and remove the candidate."""
    until = waiting.terms["expires"]
    entry = ledger.append(home, "expired", **facts_of_wait(waiting))
    shutil.rmtree(home.candidates / entry["release"], ignore_errors=True)
    reason = (
        f"{entry['release']} waited until {until}, and too few decided in time; it is removed. Run the plan "
        "again for a new one"
    )
    return ended(home, "expired", entry, reason)


def facts_of_wait(waiting: Awaited) -> dict[str, Any]:
    """Return what the ledger keeps of a candidate that waits, for the entry that follows."""
    return ledger.facts_of(waiting.entry) | {"by": account()}


def _resumed(home: Home, waiting: Awaited) -> list[Outcome]:
    """Publish what enough people have approved and a crash kept from being published."""
    try:
        candidate = load_candidate(home, waiting.entry["release"])
    except Refused:
        # Changed or gone: whoever asks for it is told so.
        return []
    last = waiting.approvals[-1]
    return [publish_approved(home, candidate, ledger.facts_of(last), waiting.approvals)]


def publish_approved(
    home: Home,
    candidate: Candidate,
    known: dict[str, Any],
    approvals: Sequence[dict[str, Any]],
) -> Outcome:
    """Publish a candidate whole; ``known`` is the last approval as the ledger keeps it."""
    kept = [{k: a.get(k) for k in DECIDED[:-1]} for a in approvals]
    target, entry = _publish(home, candidate, known | {"approvals": kept})
    shutil.rmtree(candidate.folder)
    by = "; ".join(f"{a['approver']} ({a['approval_reason']})" for a in approvals)
    told = f"approved by {by}; the policy had said: {entry['reason']}"
    return outcome_of(home, "published", candidate.dossier, entry, target, told)


def _publish(
    home: Home, candidate: Candidate, known: dict[str, Any], *, again: bool = False
) -> tuple[Path, dict[str, Any]]:
    """Announce, publish, confirm; what stands already is confirmed as unchanged."""
    announced = None if again else ledger.append(home, "publishing", **known)
    approvals = known.get("approvals", ())
    approval = Approval(
        by=", ".join(a["approver"] for a in approvals), reason="; ".join(a["approval_reason"] for a in approvals)
    )
    target = publish(home, candidate, approval if approvals else None, announced)
    entry = ledger.append(home, "unchanged" if again else "published", **known | _files(target))
    return target, entry


def _files(folder: Path) -> dict[str, Any]:
    """Return the digests of what was published, for the ledger."""
    return {"manifest": sha256_of(folder / MANIFEST), "files": dict(Manifest.read(folder).files)}


def end_withdrawal(home: Home, announced: dict[str, Any]) -> Outcome:
    """Put a notice in place of a release whose withdrawal the ledger has announced."""
    move_aside(home, announced)
    entry = ledger.append(home, "withdrawn", **ledger.facts_of(announced))
    reason = (
        f"withdrawn by {entry['approver']}: {entry['approval_reason']}; a notice stands in its place. Copies "
        "that others have taken cannot be called back: tell those who have them"
    )
    return ended(home, "withdrawn", entry, reason, home.withdrawn / entry["name"] / entry["release"])
