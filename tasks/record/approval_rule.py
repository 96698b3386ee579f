"""The rule by which a decision counts: who may decide, with which signature, and how many must.

It is asked when a decision is made, and again when an audit replays the ledger.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from tasks.common import keys
from tasks.common.errors import visible
from tasks.record.approvers import Approver, named, not_listed, responsible, same
from tasks.record.decision import Decision
from tasks.record.entry import ReleaseFacts, SignedDecision, Terms

# The environment says "person" where who has started a run may not publish alone, whatever their plan says.
APPROVAL = "ANONFLOW_APPROVAL"


@dataclass(frozen=True)
class WaitingCandidate:
    """A candidate that waits for approvers: what was entered of it, and the approvals that count so far."""

    facts: ReleaseFacts
    approvals: tuple[SignedDecision, ...] = ()

    @property
    def terms(self) -> Terms:
        """Who must approve it and until when."""
        return self.facts.terms or Terms()

    @property
    def approved(self) -> bool:
        """Whether enough have approved; the publication was cut short then."""
        return len(self.approvals) >= self.terms.approvers

    def has_expired(self, now: datetime) -> bool:
        """Return whether the time to decide is over and too few have approved."""
        until = self.terms.expires
        return bool(until) and not self.approved and now > datetime.fromisoformat(until)


def signature_objection(approvers: Collection[Approver], decision: Decision) -> str:
    """Return why a decision is not that of an approver on the list; empty when it is, or there is no list."""
    if not approvers:
        return ""
    if (approver := named(approvers, decision.by)) is None:
        return not_listed(approvers, decision.by)
    if not decision.signature:
        return (
            f"this home has a list of people, so {decision.act} needs {approver.name}'s signature: add --key "
            "PRIVATE.pem, or --signature with what anonflow sign prints for them"
        )
    if not is_signed_by(approver, decision):
        return (
            f"this is not {approver.name}'s signature under this decision: it was made with another key, or "
            "for another decision, release, dossier or reason"
        )
    return ""


def list_objection(approvers: Collection[Approver], candidate: WaitingCandidate) -> str:
    """Return that the list is empty, where it was not when the candidate was made."""
    if approvers or not candidate.terms.signed:
        return ""
    return (
        "this candidate was made when there was a list of people who may decide, and the list is empty; "
        "add them again with anonflow people add"
    )


def approval_objection(approvers: Collection[Approver], candidate: WaitingCandidate, by: str) -> str:
    """Return why the terms of a candidate do not let an approver approve it; empty when they do."""
    terms, facts = candidate.terms, candidate.facts
    if terms.names and not any(same(by, name) for name in terms.names):
        return f"{visible(by)} may not approve this: the plan names {', '.join(terms.names)}"
    if terms.requester_may_approve:
        return ""
    if not approvers:
        return (
            "the plan says that the requester may not approve, which needs a list of people with their keys; "
            "add them with anonflow people add"
        )
    requester, runner = responsible(approvers, facts.requester), responsible(approvers, facts.by)
    if requester is None:
        return (
            f"the plan says that the requester may not approve, and no one on the list is known to run plans "
            f"as {visible(facts.requester)}; say who does: anonflow people account NAME {visible(facts.requester)}"
        )
    if same(requester.name, by):
        return (
            f"{visible(by)} asked for this release (as {visible(facts.requester)}), and the plan says that the "
            "requester may not approve it; another approver must"
        )
    if runner is not None and same(runner.name, by):
        return (
            f"{visible(by)} ran the plan (as {visible(facts.by)}), and the plan says that the requester may "
            "not approve it, nor who ran it for them; another approver must"
        )
    return ""


def is_signed_by(approver: Approver, decision: Decision) -> bool:
    """Return whether a decision bears the approver's signature."""
    return keys.verifies_base64(keys.public_of(approver.public_key), decision.statement, decision.signature)
