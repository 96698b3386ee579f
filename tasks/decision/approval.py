"""What people decide: they approve or reject a candidate or withdraw a release, under their own name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tasks.common.errors import Refused, visible
from tasks.common.home import DOSSIER, Home, account
from tasks.decision.assessment_integrity import changed_pages, kept_dossier
from tasks.decision.conclude import end_withdrawal, expire, facts_of_wait, publish_approved, recover
from tasks.decision.outcomes import DECIDED, Awaited, Outcome, awaited, ended, mirror_entry, outcome_of
from tasks.publication.candidate import load_candidate
from tasks.record import approvers as people
from tasks.record import ledger


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
    signature : the person's, as `tasks.record.approvers.sign` returns it; needed where people are listed

    Raises
    ------
    Refused
        When no such candidate waits, it is not the one that was assessed, its time is over, or this
        person may not approve it.
    """
    with ledger.locked(home, ledger.DECIDING):
        waiting, said = _said(home, "approve", release_id, by, reason, dossier, signature)
        _check_may_approve(home, waiting, said["approver"])
        candidate = load_candidate(home, release_id)
        _check_pages(home, waiting)
        terms = waiting.terms
        earlier = [a for a in waiting.approvals if not people.same(a["approver"], said["approver"])]
        known = facts_of_wait(waiting) | said | {"count": len(earlier) + 1}
        entry = ledger.append(home, "approved", **known)
        if known["count"] < terms["approvers"]:
            told = f"{known['count']} of {terms['approvers']} approvals; another person must approve"
            return outcome_of(home, "awaiting", candidate.dossier, entry, None, told)
        return publish_approved(home, candidate, known, (*earlier, known))


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
    with ledger.locked(home, ledger.DECIDING):
        waiting, said = _said(home, "reject", release_id, by, reason, dossier, signature)
        entry = ledger.append(home, "rejected", **facts_of_wait(waiting) | said)
        shutil.rmtree(home.candidates / entry["release"], ignore_errors=True)
    return ended(home, "rejected", entry, f"rejected by {said['approver']}: {reason}")


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
    with ledger.locked(home, ledger.DECIDING):
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
        outcome = end_withdrawal(home, ledger.append(home, "withdrawing", **known | said))
    return outcome


def _said(
    home: Home,
    decision: people.Act,
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
        outcome = expire(home, waiting)
        mirror_entry(home, outcome.entry)
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
    decision: people.Act,
    entry: dict[str, Any],
    by: str,
    reason: str,
    signature: str | None,
) -> dict[str, Any]:
    """Return a person's decision as the ledger keeps it: whose key has signed it, or that none has."""
    if not by.strip() or not reason.strip():
        raise Refused("state who decides and why")
    by, reason = by.strip(), reason.strip()
    said = {"by": account(), "approver": by, "approval_reason": reason}
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


def _check_pages(home: Home, waiting: Awaited) -> None:
    """Refuse when what people have read is not what was assessed: report, figures, custodian's pages."""
    release = waiting.entry["release"]
    found = changed_pages(home, waiting.entry)
    if kept_dossier(home, release) != waiting.dossier:
        found.append(f"{DOSSIER} was changed since it was assessed")
    if found:
        raise Refused(
            f"{'; '.join(found)}, in assessments/{release}: what was read may not be what would be "
            f"published. Restore it from a backup or from candidates/{release} and read it anew, or reject it"
        )


def _check_may_approve(home: Home, waiting: Awaited, by: str) -> None:
    """Refuse an approval by somebody who may not give it, or who has given it already."""
    terms = waiting.terms
    if terms["names"] and not any(people.same(by, name) for name in terms["names"]):
        raise Refused(f"{visible(by)} may not approve this: the plan names {', '.join(terms['names'])}")
    if not terms["requester_may_approve"]:
        _check_is_another(home, str(waiting.entry.get("requester")), str(waiting.entry.get("by")), by)
    if not waiting.approved and any(people.same(by, a["approver"]) for a in waiting.approvals):
        raise Refused(f"{visible(by)} has approved this already; {terms['approvers']} different people must approve")


def _check_is_another(home: Home, requester: str, ran_as: str, by: str) -> None:
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
    runner = people.responsible(home, ran_as)
    if runner is not None and people.same(runner.name, by):
        raise Refused(
            f"{visible(by)} ran the plan (as {visible(ran_as)}), and the plan says that the requester may "
            "not approve it; whoever ran it for them may not either, so somebody else must"
        )
