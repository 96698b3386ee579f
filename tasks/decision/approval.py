"""Decisions of approvers: they approve or reject a candidate or withdraw a release, under their own name."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.common.errors import Refused, visible
from tasks.common.home import DOSSIER, Home, account
from tasks.decision.assessment_integrity import changed_pages, stored_dossier_digest
from tasks.decision.conclude import end_withdrawal, expire, publish_approved, recover
from tasks.decision.outcomes import Outcome, ended, has_expired, mirror_entry, outcome_of, waiting_candidate
from tasks.publication.candidate import load_candidate
from tasks.record import approvers as people
from tasks.record import ledger
from tasks.record.approval_rule import (
    WaitingCandidate,
    approval_objection,
    list_objection,
    signature_objection,
)
from tasks.record.decision import Act, Decision
from tasks.record.entry import ReleaseFacts, SignedDecision


@dataclass(frozen=True, kw_only=True)
class Request:
    """A decision that an approver asks to be carried out.

    Attributes
    ----------
    release : the candidate or release that it is about
    by, reason : who decides, and why
    dossier : the digest of the dossier that was read, when it is known
    signature : as `tasks.record.decision.sign` returns it; needed where the home has a list of approvers
    """

    release: str
    by: str
    reason: str
    dossier: str | None = None
    signature: str | None = None

    def names_other_dossier(self, digest: str) -> bool:
        """Return whether the approver has read another dossier than this one."""
        return self.dossier is not None and self.dossier.strip().lower() != digest


def approve(home: Home, request: Request) -> Outcome:
    """Approve a candidate that waits for approvers, and publish it when enough have approved.

    Raises
    ------
    Refused
        When no such candidate waits, it is not the one that was assessed, its time is over, or this
        approver may not approve it.
    """
    with ledger.deciding(home):
        waiting, decided = _decided(home, "approve", request)
        approvers = people.listed(home)
        if objection := approval_objection(approvers, waiting, decided.approver):
            raise Refused(objection)
        others = tuple(a for a in waiting.approvals if not people.same(a.approver, decided.approver))
        if len(others) < len(waiting.approvals) and not waiting.approved:
            raise Refused(
                f"{visible(decided.approver)} has approved this already; {waiting.terms.approvers} different people "
                "must approve"
            )
        candidate = load_candidate(home, request.release)
        _check_pages(home, waiting.facts)
        waiting = replace(waiting, approvals=(*others, decided))
        entry = ledger.append(home, "approved", replace(waiting.facts, by=account(), decided=decided))
        if waiting.approved:
            return publish_approved(home, candidate, waiting)
        reason = f"{len(waiting.approvals)} of {waiting.terms.approvers} approvals; another person must approve"
        return outcome_of(home, "awaiting", candidate.dossier, entry, None, reason)


def reject(home: Home, request: Request) -> Outcome:
    """Reject a candidate that waits for approvers; it is removed, even when it was changed meanwhile.

    Raises
    ------
    Refused
        When no such candidate waits, its time is over, or this approver may not decide.
    """
    with ledger.deciding(home):
        waiting, decided = _decided(home, "reject", request)
        entry = ledger.append(home, "rejected", replace(waiting.facts, by=account(), decided=decided))
        shutil.rmtree(home.candidates / request.release, ignore_errors=True)
    return ended(home, "rejected", entry, f"rejected by {decided.approver}: {decided.reason}")


def withdraw(home: Home, request: Request) -> Outcome:
    """Withdraw a published release: its files are kept apart, and a signed notice stays in their place.

    Copies that others have taken cannot be called back. The release still counts as published when
    another of the same data is considered.

    Raises
    ------
    Refused
        When it was never published, is withdrawn already, or this approver may not decide.
    """
    recover(home)
    with ledger.deciding(home):
        ledger.trusted(home)
        events = ledger.of_release(home, request.release, "published", "withdrawn")
        if not events:
            raise Refused(f"no release {visible(Path(request.release).name)!r} is published; see anonflow list")
        last = events[-1]
        if last.event == "withdrawn":
            raise Refused(f"{request.release} is withdrawn already, since {last.time}")
        if request.names_other_dossier(last.facts.dossier):
            raise Refused(f"the dossier that was named is not the one of {request.release}")
        decided = _signed(home, "withdraw", last.facts, request)
        facts = replace(last.facts, by=account(), decided=decided, approvals=())
        return end_withdrawal(home, ledger.append(home, "withdrawing", facts))


def _decided(home: Home, act: Act, request: Request) -> tuple[WaitingCandidate, SignedDecision]:
    """Return the candidate that a decision is about, and the decision as it is entered, checked."""
    ledger.trusted(home)
    waiting = waiting_candidate(home, request.release)
    if has_expired(waiting):
        outcome = expire(home, waiting)
        mirror_entry(home, outcome.entry)
        raise Refused(outcome.reason)
    if request.names_other_dossier(waiting.facts.dossier):
        raise Refused(
            f"the dossier that was named is not the one that was assessed for {request.release}; read the report "
            "of the candidate that waits, and decide again"
        )
    if objection := list_objection(people.listed(home), waiting):
        raise Refused(objection)
    return waiting, _signed(home, act, waiting.facts, request)


def _signed(home: Home, act: Act, facts: ReleaseFacts, request: Request) -> SignedDecision:
    """Return a decision as it is entered: with the key that has signed it, or none where no approvers are listed."""
    by, reason = request.by.strip(), request.reason.strip()
    if not by or not reason:
        raise Refused("state who decides and why")
    approvers, signature = people.listed(home), "".join((request.signature or "").split())
    decision = Decision(decision=act, release=facts.release, dossier=facts.dossier, by=by, reason=reason)
    if objection := signature_objection(approvers, decision, signature):
        raise Refused(objection)
    approver = people.named(approvers, by)
    if approver is None:
        return SignedDecision(approver=by, reason=reason)
    return SignedDecision(approver=approver.name, reason=reason, key=approver.fingerprint, signature=signature)


def _check_pages(home: Home, facts: ReleaseFacts) -> None:
    """Refuse when what approvers have read is not what was assessed: report, figures, custodian's pages."""
    changed = changed_pages(home, facts)
    if stored_dossier_digest(home, facts.release) != facts.dossier:
        changed.append(f"{DOSSIER} was changed since it was assessed")
    if changed:
        raise Refused(
            f"{'; '.join(changed)}, in assessments/{facts.release}: what was read may not be what would be "
            f"published. Restore it from a backup or from candidates/{facts.release} and read it anew, or reject it"
        )
