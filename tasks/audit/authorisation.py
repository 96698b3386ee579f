"""Whether those who decided could decide, and whether as many approved as a candidate asked for.

It is read off the ledger alone: the terms that were entered with a candidate, the list of people as it was at
each time, and the signature that each of them made with a key which is not in the home.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.common import keys
from tasks.common.errors import visible
from tasks.decision.outcomes import Awaited
from tasks.record import approvers as people
from tasks.record.approvers import Person
from tasks.record.ledger_verification import Finding

DECISIONS: dict[str, people.Act] = {
    "rejected": "reject",
    "withdrawing": "withdraw",
    "withdrawn": "withdraw",
}
# What follows a decision and may come after its giver has left the list.
FOLLOWS = ("publishing", "published", "abandoned", "withdrawn")


def signs(person: Person, entry: dict[str, Any]) -> bool:
    """Return whether the decision that an entry tells bears this person's signature."""
    said = people.statement(
        DECISIONS.get(str(entry.get("event")), "approve"),
        str(entry.get("release")),
        str(entry.get("dossier")),
        person.name,
        str(entry.get("approval_reason")),
    )
    return keys.holds_base64(keys.public_of(person.public_key), said, entry.get("approver_signature"))


def theirs(before: list[dict[str, Any]], entry: dict[str, Any]) -> bool:
    """Return whether a decision was signed by whom it names.

    A decision itself needs a key that was on the list then; what follows from it may come after that key has
    left the list.
    """
    name = entry.get("approver")
    on_list = [p for p in people.people_of(before) if p.name == name]
    if entry.get("event") in FOLLOWS:
        added = [e for e in before if e.get("event") == "person-added" and e.get("person") == name]
        on_list = [person for e in added for person in people.people_of([e])]
    return any(signs(person, entry) for person in on_list)


def unwarranted(known: list[dict[str, Any]]) -> Iterator[Finding]:
    """Find what was published, rejected or withdrawn without the decisions that it needed."""
    so_far = _SoFar()
    for place, entry in enumerate(known, start=1):
        where = f"entry {entry.get('number', place)}"
        for sentence in so_far.take(entry):
            yield Finding("approval", where, f"{where} {sentence}")


@dataclass
class _SoFar:
    """What the entries up to one have brought: the list of people, what waits, and who has approved it."""

    roll: list[dict[str, Any]] = field(default_factory=list)
    waits: dict[str, Awaited] = field(default_factory=dict)
    announced: dict[str, int] = field(default_factory=dict)
    withdrawing: dict[str, dict[str, Any]] = field(default_factory=dict)

    def take(self, entry: dict[str, Any]) -> Iterator[str]:
        """Go on by one entry; give a sentence for each thing that is wrong with it."""
        event, release = str(entry.get("event")), str(entry.get("release"))
        if event in ("person-added", "person-removed"):
            self.roll.append(entry)
        elif event == "awaiting":
            self.waits[release] = Awaited(entry, ())
            self.announced.pop(release, None)
        elif event == "expired":
            self.waits.pop(release, None)
        elif event == "publishing":
            self.announced[release] = self._approvals(release)
        elif event in ("approved", "rejected", "withdrawing"):
            yield from self._decided(event, release, entry)
        elif event == "published":
            yield from self._published(release)
        elif event == "withdrawn":
            yield from self._withdrawn(release, entry)

    def _decided(self, event: str, release: str, entry: dict[str, Any]) -> Iterator[str]:
        waiting = self.waits.get(release)
        by_policy = event == "rejected" and "approver" not in entry
        if by_policy and waiting and entry.get("dossier") == waiting.dossier:
            yield f"rejects {visible(release)}, which waited for people, and names nobody who did"
        elif not by_policy and entry.get("identity") != "verified" and people.people_of(self.roll):
            yield (
                f"holds a decision of {visible(entry.get('approver'))} without a signature, and there was a "
                "list of people then"
            )
        if event == "approved" and waiting:
            self.waits[release] = Awaited(waiting.entry, (*waiting.approvals, *self._valid(waiting, entry)))
        elif event == "rejected":
            self.waits.pop(release, None)
        elif event == "withdrawing":
            self.withdrawing[release] = entry

    def _valid(self, waiting: Awaited, entry: dict[str, Any]) -> list[dict[str, Any]]:
        """Return an approval that counts, by the terms and by the list as it is."""
        on_list = people.people_of(self.roll)
        terms, by = waiting.terms, str(entry.get("approver"))
        if entry.get("dossier") != waiting.dossier:
            return []
        if on_list or terms["signed"]:
            person = next((p for p in on_list if p.name == by), None)
            if person is None or not signs(person, entry):
                return []
        if terms["names"] and not any(people.same(by, name) for name in terms["names"]):
            return []
        return [entry] if may_approve(on_list, waiting, by) else []

    def _approvals(self, release: str) -> int:
        """Count the people who have approved and are on the list still."""
        if release not in self.waits:
            return 0
        on_list = {(p.name, p.fingerprint) for p in people.people_of(self.roll)}
        given = self.waits[release].approvals
        counted = [a for a in given if not on_list or (a.get("approver"), a.get("approver_key")) in on_list]
        return len({people.folded(str(a.get("approver"))) for a in counted})

    def _published(self, release: str) -> Iterator[str]:
        count = self.announced.pop(release, self._approvals(release))
        waiting = self.waits.pop(release, None)
        if waiting and count < int(waiting.terms["approvers"]):
            yield (
                f"publishes {visible(release)}, which waited for people, with {count} of the "
                f"{waiting.terms['approvers']} approvals that were asked for"
            )

    def _withdrawn(self, release: str, entry: dict[str, Any]) -> Iterator[str]:
        announced = self.withdrawing.pop(release, None)
        if announced is None or any(
            announced.get(k) != entry.get(k) for k in ("approver", "approval_reason", "dossier")
        ):
            yield f"withdraws {visible(release)}, and nobody has decided so"


def may_approve(on_list: Sequence[Person], waiting: Awaited, by: str) -> bool:
    """Return whether somebody may approve though the plan keeps those from it who asked for the release."""
    terms = waiting.terms
    if terms["requester_may_approve"]:
        return True
    asked = people.responsible_of(on_list, str(waiting.entry.get("requester")))
    ran = people.responsible_of(on_list, str(waiting.entry.get("by")))
    if asked is None or people.same(asked.name, by):
        return False
    # Entered since who ran the plan counts beside who asked for it.
    return terms.get("runner_may_approve", True) or ran is None or not people.same(ran.name, by)
