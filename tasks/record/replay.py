"""Replay the ledger: who could decide at each entry, what waited, and which decisions were not authorised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tasks.common.errors import visible
from tasks.record.approval_rule import (
    WaitingCandidate,
    approval_objection,
    is_signed_by,
    list_objection,
    signature_objection,
)
from tasks.record.approvers import Approver, folded, update
from tasks.record.decision import Act, Decision
from tasks.record.entry import Event, Facts, LedgerEntry, ReleaseFacts, SignedDecision
from tasks.record.ledger_verification import Finding

ACT_OF: dict[Event, Act] = {"rejected": "reject", "withdrawing": "withdraw", "withdrawn": "withdraw"}
# Entries that repeat a decision, which may come after its approver has left the list.
REPEATING = ("publishing", "published", "abandoned", "withdrawn")


def unauthorised(known: Iterable[LedgerEntry[Facts]]) -> Iterator[Finding]:
    """Find what was published, rejected or withdrawn without the decisions that it needed."""
    replay = LedgerReplay()
    for entry in known:
        for sentence in replay.take(entry):
            where = f"entry {entry.number}"
            yield Finding("approval", where, f"{where} {sentence}")


@dataclass
class LedgerReplay:
    """The state to which the entries up to one lead.

    Attributes
    ----------
    approvers : the approvers on the list, by name
    former : everyone who ever was on it
    waiting : the candidates that wait for approvers, by release
    announced : how many approvals counted when a publication was announced, by release
    withdrawing : the announcement of each withdrawal that is under way, by release
    """

    approvers: dict[str, Approver] = field(default_factory=dict)
    former: list[Approver] = field(default_factory=list)
    waiting: dict[str, WaitingCandidate] = field(default_factory=dict)
    announced: dict[str, int] = field(default_factory=dict)
    withdrawing: dict[str, ReleaseFacts] = field(default_factory=dict)

    @classmethod
    def of(cls, known: Iterable[LedgerEntry[Facts]]) -> LedgerReplay:
        """Return the state after these entries."""
        replay = cls()
        for entry in known:
            list(replay.take(entry))
        return replay

    def take(self, entry: LedgerEntry[Facts]) -> Iterator[str]:
        """Go on by one entry; give a sentence for each thing in it that was not authorised."""
        update(self.approvers, entry)
        if entry.event == "approver-added":
            self.former.append(self.approvers[entry.facts.subject])
        facts = entry.facts
        if isinstance(facts, ReleaseFacts):
            if not self.signed_by_approver(entry.event, facts):
                yield f"is said to be {visible(facts.actor)}'s, and their key did not sign it"
            yield from self._take(entry.event, facts)

    def candidate(self, release: str) -> WaitingCandidate | None:
        """Return the candidate that waits, with one approval of each approver who is on the list still."""
        waiting = self.waiting.get(release)
        if waiting is None:
            return None
        on_list = {(p.name, p.fingerprint) for p in self.approvers.values()}
        counted: dict[str, SignedDecision] = {}
        for approval in waiting.approvals:
            if not on_list or (approval.approver, approval.key) in on_list:
                counted.setdefault(folded(approval.approver), approval)
        return WaitingCandidate(waiting.facts, tuple(counted.values()))

    def signed_by_approver(self, event: Event, facts: ReleaseFacts) -> bool:
        """Return whether the signature that an entry holds, if any, is that of the approver whom it names.

        A decision itself needs a key that was on the list then; an entry that repeats it may come after that key has
        left the list.
        """
        if facts.decided is None or not facts.decided.signature:
            return True
        decision = _decision(event, facts, facts.decided)
        on_list = self.former if event in REPEATING else self.approvers.values()
        return any(p.name == decision.by and is_signed_by(p, decision) for p in on_list)

    def _take(self, event: Event, facts: ReleaseFacts) -> Iterator[str]:
        release = facts.release
        match event:
            case "awaiting":
                self.waiting[release] = WaitingCandidate(facts)
                self.announced.pop(release, None)
            case "approved" | "rejected" | "withdrawing":
                yield from self._decided(event, facts)
            case "expired" | "superseded":
                self.waiting.pop(release, None)
            case "publishing":
                self.announced[release] = self._count(release)
            case "published":
                yield from self._published(release)
            case "withdrawn":
                announced = self.withdrawing.pop(release, None)
                if announced is None or (announced.decided, announced.dossier) != (facts.decided, facts.dossier):
                    yield f"withdraws {visible(release)}, which no one has decided"

    def _decided(self, event: Event, facts: ReleaseFacts) -> Iterator[str]:
        waiting = self.waiting.get(facts.release)
        by_policy = event == "rejected" and facts.decided is None
        if by_policy and waiting and facts.dossier == waiting.facts.dossier:
            yield f"rejects {visible(facts.release)}, which waited for approvers, and names none who did"
        elif not by_policy and self.approvers and not (facts.decided and facts.decided.signature):
            yield f"holds a decision of {visible(facts.actor)} without a signature, and there was a list of people then"
        if event == "rejected":
            self.waiting.pop(facts.release, None)
        elif event == "withdrawing":
            self.withdrawing[facts.release] = facts
        elif waiting and facts.decided and self._counts(waiting, facts, facts.decided):
            self.waiting[facts.release] = WaitingCandidate(waiting.facts, (*waiting.approvals, facts.decided))

    def _counts(self, waiting: WaitingCandidate, facts: ReleaseFacts, decided: SignedDecision) -> bool:
        approvers = tuple(self.approvers.values())
        return facts.dossier == waiting.facts.dossier and not (
            list_objection(approvers, waiting)
            or signature_objection(approvers, _decision("approved", facts, decided))
            or approval_objection(approvers, waiting, decided.approver)
        )

    def _count(self, release: str) -> int:
        candidate = self.candidate(release)
        return len(candidate.approvals) if candidate else 0

    def _published(self, release: str) -> Iterator[str]:
        count = self.announced.pop(release, self._count(release))
        waiting = self.waiting.pop(release, None)
        if waiting and count < waiting.terms.approvers:
            yield (
                f"publishes {visible(release)}, which waited for approvers, with {count} of the "
                f"{waiting.terms.approvers} approvals that were asked for"
            )


def _decision(event: Event, facts: ReleaseFacts, decided: SignedDecision) -> Decision:
    return Decision(
        act=ACT_OF.get(event, "approve"),
        release=facts.release,
        by=decided.approver,
        reason=decided.reason,
        dossier=facts.dossier,
        signature=decided.signature,
    )
