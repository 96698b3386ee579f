"""The approvers of a home: each with a key of their own, by which a decision is theirs.

The ledger holds who was added and removed; ``approvers.json`` shows the list, and is not read back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tasks.common import keys
from tasks.common.errors import Refused, visible
from tasks.common.home import Home, account, write_private
from tasks.common.values import to_json
from tasks.record import ledger
from tasks.record.decision import plain
from tasks.record.entry import ApproverFacts, Event, Facts, LedgerEntry

if TYPE_CHECKING:
    from tasks.policy.section import PolicySection

MAX_NAME = 200


@dataclass(frozen=True)
class Approver:
    """A person who may decide: the public half of their key, and the accounts under which they run plans."""

    name: str
    public_key: str
    accounts: tuple[str, ...] = ()
    added: str = ""

    @property
    def fingerprint(self) -> str:
        """Identifies the key in lists and messages."""
        return keys.fingerprint(self.public_key)


def listed(home: Home) -> tuple[Approver, ...]:
    """Return the approvers of a home, in the order in which they were added; none where names are taken as typed."""
    return listed_by(ledger.find(home, ApproverFacts))


def listed_by(known: Iterable[LedgerEntry[Facts]]) -> tuple[Approver, ...]:
    """Return the approvers that entries of the ledger leave on the list."""
    approvers: dict[str, Approver] = {}
    for entry in known:
        update(approvers, entry)
    return tuple(approvers.values())


def update(approvers: dict[str, Approver], entry: LedgerEntry[Facts]) -> None:
    """Add to a list, by name, or remove from it, whom an entry adds or removes."""
    facts = entry.facts
    if isinstance(facts, ApproverFacts):
        if entry.event == "approver-added":
            approvers[facts.approver] = Approver(facts.approver, facts.public_key, facts.accounts, entry.time)
        else:
            approvers.pop(facts.approver, None)


def add(home: Home, name: str, public: Ed25519PublicKey, accounts: tuple[str, ...] = ()) -> Approver:
    """Add an approver to the list, or accounts to one who is on it; enter it in the ledger.

    Raises
    ------
    Refused
        When the name or the key is another approver's.
    """
    name, key = " ".join(name.split()), keys.raw(public)
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise Refused(f"a name is 1 to {MAX_NAME} printable characters")
    with home.lock("approvers"):
        ledger.trusted(home)
        before = listed(home)
        for other in before:
            _check_distinct(other, Approver(name, key, accounts))
        held = next((p.accounts for p in before if p.name == name), ())
        accounts = tuple(dict.fromkeys((*held, *accounts)))
        _enter(home, "approver-added", Approver(name, key, accounts))
        return next(p for p in listed(home) if p.name == name)


def remove(home: Home, name: str) -> None:
    """Remove an approver from the list; their decisions stay, what waits needs another approver.

    Raises
    ------
    Refused
        When no approver has that name.
    """
    with home.lock("approvers"):
        ledger.trusted(home)
        _enter(home, "approver-removed", find(home, name))


def find(home: Home, name: str) -> Approver:
    """Return the approver of that name.

    Raises
    ------
    Refused
        When no approver has it.
    """
    approvers = listed(home)
    if (approver := named(approvers, name)) is None:
        raise Refused(not_listed(approvers, name))
    return approver


def named(approvers: Iterable[Approver], name: str) -> Approver | None:
    """Return the approver of exactly that name, whatever its spaces."""
    return next((p for p in approvers if p.name == " ".join(name.split())), None)


def not_listed(approvers: Iterable[Approver], name: str) -> str:
    """Return the message that a name is not on the list."""
    names = ", ".join(p.name for p in approvers) or "no one"
    return f"{visible(name)} is not on the list of people who may decide here; on it: {names}"


def responsible(approvers: Iterable[Approver], account: str) -> Approver | None:
    """Return the approver who runs plans under an account, or is named like it; None when it is none's."""
    return next((p for p in approvers if account in p.accounts or same(p.name, account)), None)


def same(one: str, other: str) -> bool:
    """Return whether two names are one, whatever their letters' case and spaces."""
    return folded(one) == folded(other)


def folded(name: str) -> str:
    """Return the form in which names are compared."""
    return plain(name).casefold()


def ready(home: Home, policy: PolicySection) -> None:
    """Check before a run that what its policy asks of approvers can be met here.

    Raises
    ------
    Refused
        When the requester must not approve and there is no list of approvers, or the list lacks
        those whom the policy names.
    """
    names = [p.name for p in listed(home)]
    if not names:
        if not policy.requester_may_approve:
            raise Refused(
                "policy: requester_may_approve: false needs a list of people with their keys, since typed "
                "names prove nothing; add them with anonflow people add"
            )
        return
    may = [n for n in names if not policy.approver_names or any(same(n, a) for a in policy.approver_names)]
    missing = [a for a in policy.approver_names if not any(same(n, a) for n in names)]
    if missing:
        raise Refused(
            f"policy: approver_names lists {', '.join(missing)}, not on this home's list of people; add them "
            "with anonflow people add"
        )
    if len(may) < policy.approvers:
        raise Refused(
            f"policy: approvers asks for {policy.approvers} people, and {len(may)} on this home's list may "
            "approve; add more with anonflow people add"
        )


def shown(approvers: Iterable[Approver]) -> list[dict[str, Any]]:
    """Return the list as ``approvers.json`` and scripts have it."""
    return [to_json(p) | {"accounts": list(p.accounts), "fingerprint": p.fingerprint} for p in approvers]


def _check_distinct(other: Approver, new: Approver) -> None:
    """Refuse a name, a key or an account that is another approver's."""
    same_name, same_key = same(other.name, new.name), other.public_key == new.public_key
    if same_name and not (same_key and other.name == new.name):
        raise Refused(
            f"{other.name} is on the list already, with another key; remove them first, so that the "
            "ledger holds when the old key ceased to count"
        )
    if same_key and not same_name:
        raise Refused(f"this key is {other.name}'s; each person needs a key of their own")
    taken = sorted(set(new.accounts) & set(other.accounts))
    if taken and not same_name:
        raise Refused(f"the account {visible(taken[0])} is {other.name}'s")


def _enter(home: Home, event: Event, approver: Approver) -> None:
    """Enter a change of the list, and write the list for readers."""
    accounts = approver.accounts if event == "approver-added" else ()
    facts = ApproverFacts(by=account(), approver=approver.name, public_key=approver.public_key, accounts=accounts)
    ledger.append(home, event, facts)
    write_private(home.approvers, (json.dumps(shown(listed(home)), indent=1, ensure_ascii=False) + "\n").encode())
