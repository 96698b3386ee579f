"""Decisions of approvers: they approve or reject a candidate or withdraw a release, under their own name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tasks.common.errors import Refused, visible
from tasks.common.home import DOSSIER, Home, account
from tasks.decision.assessment_integrity import changed_pages, stored_dossier_digest
from tasks.decision.conclude import end_withdrawal, expire, publish_approved, recover, remove_candidate, supersede_older
from tasks.decision.outcomes import (
    Outcome,
    ended,
    has_expired,
    mirror_entry,
    outcome_of,
    overtaken_by,
    waiting_candidate,
)
from tasks.publication.candidate import load_candidate
from tasks.record import approvers, ledger
from tasks.record.approval_rule import (
    WaitingCandidate,
    approval_objection,
    list_objection,
    signature_objection,
)
from tasks.record.decision import Decision
from tasks.record.entry import NOBODY, ReleaseFacts, SignedDecision


def decide(home: Home, decision: Decision) -> Outcome:
    """Carry out a decision: approve or reject a candidate that waits, or withdraw a published release.

    A candidate is published when enough have approved it. A rejected one is removed, even when it was changed
    meanwhile. The files of a withdrawn release are kept apart, and a signed notice stays in their place; copies that
    others have taken cannot be called back, and it still counts as published when another of the same data is
    considered.

    Raises
    ------
    Refused
        When no such candidate waits, it is not the one that was assessed, its time is over, another release of the
        same plan, data or units was published since it was made, no such release is published, or this approver may not
        decide so.
    """
    decision = replace(
        decision,
        by=decision.by.strip(),
        reason=decision.reason.strip(),
        dossier=decision.dossier.strip().lower(),
        signature="".join(decision.signature.split()),
    )
    if not decision.by or not decision.reason:
        raise Refused("state who decides and why")
    if approvers.same(decision.by, NOBODY):
        raise Refused(f"{NOBODY!r} stands for decisions without a person; state your own name")
    with home.lock("decide"):
        ledger.trusted(home)
        # Files that a crash left in place without their entry are published: a candidate may be overtaken by them.
        cut_short = any(entry.event == "publishing" for entry in ledger.last_of_releases(home))
    if cut_short or decision.act == "withdraw":
        recover(home)
    with home.lock("decide"):
        ledger.trusted(home)
        if decision.act == "withdraw":
            return _withdraw(home, decision)
        for entry in supersede_older(home):
            mirror_entry(home, entry)
        waiting = _waiting(home, decision)
        decided = _signed(home, replace(decision, dossier=waiting.facts.dossier))
        return (_approve if decision.act == "approve" else _reject)(home, waiting, decided)


def _approve(home: Home, waiting: WaitingCandidate, decided: SignedDecision) -> Outcome:
    if objection := approval_objection(approvers.listed(home), waiting, decided.approver):
        raise Refused(objection)
    others = tuple(a for a in waiting.approvals if not approvers.same(a.approver, decided.approver))
    required = waiting.terms.approvers
    if len(others) < len(waiting.approvals) and not waiting.approved:
        raise Refused(
            f"{visible(decided.approver)} has approved this already; {required} different people must approve"
        )
    candidate = load_candidate(home, waiting.facts.release)
    _check_pages(home, waiting.facts)
    if newer := overtaken_by(home, waiting):
        raise _expired(home, waiting, newer)
    waiting = replace(waiting, approvals=(*others, decided))
    entry = ledger.append(home, "approved", replace(waiting.facts, by=account(), decided=decided))
    if waiting.approved:
        return publish_approved(home, candidate, waiting)
    reason = f"{len(waiting.approvals)} of {required} approvals; another person must approve"
    return outcome_of(home, "awaiting", candidate.dossier, entry, None, reason)


def _reject(home: Home, waiting: WaitingCandidate, decided: SignedDecision) -> Outcome:
    entry = ledger.append(home, "rejected", replace(waiting.facts, by=account(), decided=decided))
    remove_candidate(home, waiting.facts.release)
    return ended(home, "rejected", entry, f"rejected by {decided.approver}: {decided.reason}")


def _withdraw(home: Home, decision: Decision) -> Outcome:
    events = ledger.of_release(home, decision.release, "published", "withdrawn")
    if not events:
        raise Refused(f"no release {visible(Path(decision.release).name)!r} is published; see anonflow list")
    last = events[-1]
    if last.event == "withdrawn":
        raise Refused(f"{decision.release} is withdrawn already, since {last.time}")
    if decision.dossier not in ("", last.facts.dossier):
        raise Refused(f"the dossier that was named is not the one of {decision.release}")
    decided = _signed(home, replace(decision, dossier=last.facts.dossier))
    facts = replace(last.facts, by=account(), decided=decided, approvals=())
    return end_withdrawal(home, ledger.append(home, "withdrawing", facts))


def _waiting(home: Home, decision: Decision) -> WaitingCandidate:
    """Return the candidate that a decision is about, which can still be decided on."""
    waiting = waiting_candidate(home, decision.release)
    if has_expired(waiting):
        raise _expired(home, waiting)
    if decision.dossier not in ("", waiting.facts.dossier):
        raise Refused(
            f"the dossier that was named is not the one that was assessed for {decision.release}; read the report "
            "of the candidate that waits, and decide again"
        )
    if objection := list_objection(approvers.listed(home), waiting):
        raise Refused(objection)
    return waiting


def _expired(home: Home, waiting: WaitingCandidate, newer: str = "") -> Refused:
    """Remove a candidate that can no longer be decided on; return why."""
    outcome = expire(home, waiting, newer)
    mirror_entry(home, outcome.entry)
    return Refused(outcome.reason)


def _signed(home: Home, decision: Decision) -> SignedDecision:
    """Return a decision as it is entered: with the key that has signed it, or none where no approvers are listed."""
    on_list = approvers.listed(home)
    if objection := signature_objection(on_list, decision):
        raise Refused(objection)
    approver = approvers.named(on_list, decision.by)
    if approver is None:
        return SignedDecision(approver=decision.by, reason=decision.reason)
    return SignedDecision(
        approver=approver.name, reason=decision.reason, key=approver.fingerprint, signature=decision.signature
    )


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
