"""Carry out what the policy or approvers decide: publish, keep for approvers, reject; enter it in the ledger.

The ledger is the truth and MLflow's tags mirror it. A publication is announced in the ledger before the
files are put in place, so that a crash in between is seen and settled by the next run; a withdrawal too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tasks.common.digests import sha256_of
from tasks.common.errors import Refused
from tasks.common.home import Home, account
from tasks.common.run import Run
from tasks.decision.assessment_integrity import custodian_pages
from tasks.decision.outcomes import (
    Entry,
    Outcome,
    Status,
    ended,
    has_expired,
    mirror_entry,
    now,
    outcome_of,
    overtaken_by,
    published_before,
    published_since,
    waiting_after,
)
from tasks.policy.gates.unit_changes import NAME as CHANGE
from tasks.publication.candidate import Candidate, keep_candidate, load_candidate
from tasks.publication.manifest import MANIFEST, Approval, Manifest, verify_release
from tasks.publication.publish import publish
from tasks.publication.withdraw import move_aside
from tasks.record import approvers, attempts, ledger
from tasks.record.approval_rule import APPROVAL, WaitingCandidate
from tasks.record.dossier import Dossier
from tasks.record.entry import ReleaseFacts, SignedDecision, Terms
from tasks.record.members import Members
from tasks.record.secret_keys import fingerprints
from tasks.tracking import mlflow as track

# Why what the policy lets pass is not published yet.
ASKED = "people were asked about the same release before, and have not decided yet"
OTHERS = "who started the run may not publish alone; an approver must decide"


def recover(home: Home) -> None:
    """Settle what a crash has cut short, and candidates whose time is over.

    Whole publications are entered, others given up, or carried out when enough have approved them;
    withdrawals are ended.
    """
    with home.lock("decide"):
        ledger.settle(home)
        # What is published already comes first: what was approved and not yet published may be overtaken by it.
        open_ = sorted(ledger.last_of_releases(home), key=lambda entry: entry.event != "publishing")
        settled = [outcome.entry for entry in open_ if (outcome := _settle(home, entry))]
        settled += supersede_older(home)
    for entry in settled:
        mirror_entry(home, entry)


def _settle(home: Home, entry: Entry) -> Outcome | None:
    """Settle the release whose last entry this is; None when there is nothing to mirror."""
    if entry.event == "publishing":
        folder = home.releases / entry.facts.name / entry.facts.release
        facts = replace(entry.facts, recovered=True)
        if folder.is_dir() and not verify_release(folder):
            published = ledger.append(home, "published", _with_files(facts, folder))
            return ended(home, "published", published, facts.reason, folder)
        ledger.append(home, "abandoned", facts)
        return None
    if entry.event == "withdrawing":
        return end_withdrawal(home, entry)
    waiting = waiting_after(home, entry)
    if waiting and has_expired(waiting):
        return expire(home, waiting)
    return _resume(home, waiting) if waiting and waiting.approved else None


def conclude(run: Run, candidate: Candidate, mlflow_run: str, members: Members | None = None) -> Outcome:
    """Do what the verdict says and enter it in the ledger.

    Parameters
    ----------
    members : the units behind the candidate, with which those of later ones are compared

    Raises
    ------
    Refused
        When a release was published meanwhile that the candidate should have been measured with.
    """
    with run.home.lock("decide"):
        outcome = _concluded(run, candidate, mlflow_run, members)
        superseded = _supersede(run.home, [outcome.entry]) if outcome.status in ("awaiting", "published") else []
    for entry in superseded:
        mirror_entry(run.home, entry)
    if not superseded:
        return outcome
    gone = ", ".join(entry.facts.release for entry in superseded)
    return replace(outcome, reason=f"{outcome.reason}; it takes the place of {gone}, which waited and is removed")


def _concluded(run: Run, candidate: Candidate, mlflow_run: str, units: Members | None) -> Outcome:
    home, dossier = run.home, candidate.dossier
    facts = release_facts(home, dossier, mlflow_run)
    gone = ledger.of_release(home, facts.release, "withdrawn")
    if gone:
        facts = replace(facts, reason=f"identical to what was withdrawn on {gone[-1].time[:10]}")
        return outcome_of(home, "rejected", dossier, ledger.append(home, "rejected", facts), None)
    if facts.verdict != "reject":
        _check_series(home, candidate, facts, units)
    others = published_before(home, facts.plan, facts.data, facts.records)
    meanwhile = others > dossier.history.published or _rejected_since(home, dossier, units)
    decision = "await" if meanwhile and facts.verdict == "publish" else facts.verdict
    if decision == "publish" and _waits(home, facts.release):
        decision, facts = "await", replace(facts, reason=ASKED)
    again = bool(ledger.of_release(home, facts.release, "published"))
    if decision == "publish" and not again and os.environ.get(APPROVAL) == "person":
        decision, facts = "await", replace(facts, reason=OTHERS)
    if units is not None and (decision != "reject" or attempts.counts(facts)):
        units.keep(home, facts.release)
    if decision == "publish":
        folder, entry = _publish(home, candidate, facts, again=again)
        return outcome_of(home, "unchanged" if again else "published", dossier, entry, folder)
    status: Status = "awaiting" if decision == "await" else "rejected"
    if status == "awaiting":
        keep_candidate(home, candidate)
        facts = replace(facts, terms=_terms(home, dossier))
    return outcome_of(home, status, dossier, ledger.append(home, status, facts), None)


def _check_series(home: Home, candidate: Candidate, facts: ReleaseFacts, units: Members | None) -> None:
    """Refuse a candidate that was not measured with every release that is published by now."""
    series = candidate.dossier.assessment.series
    if series and (newer := published_since(home, facts, units, candidate.folder, series, series.as_of)):
        raise Refused(
            f"{newer} was published while this run was under way, and the candidate was not measured with it; run the "
            "plan again"
        )


def _rejected_since(home: Home, dossier: Dossier, units: Members | None) -> bool:
    """Return whether another attempt by the same masking was rejected while this run was under way."""
    series = dossier.assessment.series
    if series is None or units is None:
        return False
    return attempts.rejected_attempts(home, dossier.plan.masking, units) > series.rejected


def _waits(home: Home, release: str) -> bool:
    """Return whether approvers were asked about the same content, and have not decided yet."""
    about = ledger.of_release(home, release)
    return bool(about) and waiting_after(home, about[-1]) is not None


def release_facts(home: Home, dossier: Dossier, mlflow_run: str) -> ReleaseFacts:
    """Return what is entered of a candidate: its dossier's facts, and digests of the files stored with it."""
    run, source, verdict = dossier.run, dossier.source, dossier.verdict
    return ReleaseFacts(
        by=account(),
        run=run.id,
        requester=run.requester,
        name=dossier.release.name,
        release=dossier.release.id,
        plan=dossier.plan.digest,
        data=source.digest,
        records=source.records_digest,
        rebuild=run.rebuild,
        open_risk=any(
            g.verdict in ("fail", "inconclusive") and g.topic == "Risk" and g.name != CHANGE for g in verdict.gates
        ),
        dossier=dossier.digest,
        masking=dossier.plan.masking,
        candidate=dossier.files,
        verdict=verdict.decision,
        reason=verdict.reason,
        unprotected=dossier.unprotected,
        gates={g.name: (g.verdict, g.figure) for g in verdict.gates},
        mlflow_run=mlflow_run,
        mlflow=track.fingerprint(mlflow_run),
        version=run.versions["anonflow"],
        code=run.code,
        custodian=custodian_pages(home, dossier.release.id),
        keys=fingerprints(home),
    )


def _terms(home: Home, dossier: Dossier) -> Terms:
    """Return who must approve a candidate and until when, to be entered and signed."""
    asked, days = dossier.approval, dossier.approval.within_days
    return Terms(
        approvers=asked.approvers,
        names=asked.names,
        requester_may_approve=asked.requester_may_approve,
        expires=(now() + timedelta(days=days)).isoformat(timespec="seconds") if days else "",
        signed=bool(approvers.listed(home)),
    )


def expire(home: Home, waiting: WaitingCandidate, newer: str = "") -> Outcome:
    """Enter that the time to decide is over, or that a ``newer`` release was published; remove the candidate."""
    release = waiting.facts.release
    entry = ledger.append(home, "expired", replace(waiting.facts, by=account()))
    remove_candidate(home, release)
    why = f"waited until {waiting.terms.expires}, and too few decided in time"
    if newer:
        why = f"was made before {newer} was published, and was not measured together with it"
    return ended(home, "expired", entry, f"{release} {why}; it is removed. Run the plan again for a new one")


def supersede_older(home: Home) -> list[Entry]:
    """Enter that the newest candidate of each plan takes the place of those that wait, where a crash prevented it."""
    return _supersede(home, ledger.find(home, ReleaseFacts, "awaiting"))


def _supersede(home: Home, newest: Iterable[Entry]) -> list[Entry]:
    """Enter that newer candidates or releases of plans take the place of those that wait, and remove these.

    They were measured without it; and who could choose among several draws would publish the best of them.
    """
    newer = {entry.facts.name: entry.facts.release for entry in newest}
    waiting = [w for one in ledger.last_of_releases(home) if (w := waiting_after(home, one)) is not None]
    superseded = []
    for old in (w.facts for w in waiting):
        if (by := newer.get(old.name, old.release)) != old.release:
            facts = replace(old, by=account(), superseded_by=by)
            superseded.append(ledger.append(home, "superseded", facts))
            remove_candidate(home, old.release)
    return superseded


def remove_candidate(home: Home, release: str) -> None:
    """Remove a candidate that will not be published, and the digests of its units unless it counts as an attempt."""
    shutil.rmtree(home.candidates / release, ignore_errors=True)
    last = ledger.of_release(home, release)[-1]
    if not attempts.is_attempt(last) and not ledger.of_release(home, release, "published"):
        home.members_of(release).unlink(missing_ok=True)


def _resume(home: Home, waiting: WaitingCandidate) -> Outcome | None:
    """Publish what enough have approved and a crash kept from being published."""
    try:
        candidate = load_candidate(home, waiting.facts.release)
        if newer := overtaken_by(home, waiting):
            return expire(home, waiting, newer)
    except Refused:
        # Changed or gone: a later decision about it is refused for that reason.
        return None
    return publish_approved(home, candidate, waiting)


def publish_approved(home: Home, candidate: Candidate, waiting: WaitingCandidate) -> Outcome:
    """Publish a candidate that enough have approved."""
    facts = replace(waiting.facts, by=account(), decided=waiting.approvals[-1], approvals=waiting.approvals)
    target, entry = _publish(home, candidate, facts)
    shutil.rmtree(candidate.folder)
    by = "; ".join(f"{a.approver} ({a.reason})" for a in waiting.approvals)
    reason = f"approved by {by}; the policy had said: {facts.reason}"
    return outcome_of(home, "published", candidate.dossier, entry, target, reason)


def _publish(home: Home, candidate: Candidate, facts: ReleaseFacts, *, again: bool = False) -> tuple[Path, Entry]:
    """Announce, publish, confirm; an identical release is confirmed as unchanged."""
    announced = None if again else ledger.append(home, "publishing", facts)
    target = publish(home, candidate, _summary(facts.approvals), announced)
    return target, ledger.append(home, "unchanged" if again else "published", _with_files(facts, target))


def _summary(approvals: tuple[SignedDecision, ...]) -> Approval | None:
    """Return who approved and why, as a manifest says it."""
    if not approvals:
        return None
    return Approval(by="; ".join(a.approver for a in approvals), reason="; ".join(a.reason for a in approvals))


def _with_files(facts: ReleaseFacts, folder: Path) -> ReleaseFacts:
    """Return the facts with the digests of what was published."""
    return replace(facts, manifest=sha256_of(folder / MANIFEST), files=Manifest.read(folder).files)


def end_withdrawal(home: Home, announced: Entry) -> Outcome:
    """Put a notice in place of a release whose withdrawal the ledger has announced."""
    move_aside(home, announced)
    facts = announced.facts
    entry = ledger.append(home, "withdrawn", facts)
    why = f"{facts.actor}: {facts.decided.reason}" if facts.decided else facts.actor
    reason = (
        f"withdrawn by {why}; a notice takes its place. Copies "
        "that others have taken cannot be called back: inform those who have them"
    )
    return ended(home, "withdrawn", entry, reason, home.withdrawn / facts.name / facts.release)
