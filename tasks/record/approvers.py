"""The people who may decide in a home: each with a key of their own, by which a decision is theirs.

The ledger holds who was added and removed; ``people.json`` shows the list, and is not read back.
"""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tasks.common import keys
from tasks.common.errors import Refused, visible
from tasks.common.home import Home, account, write_private
from tasks.record import ledger
from tasks.record.ledger_verification import CUT_SHORT

if TYPE_CHECKING:
    from tasks.policy.verdict import PolicySection

# What people decide to do.
Act = Literal["approve", "reject", "withdraw"]
ACTS: dict[str, Act] = {act: act for act in get_args(Act)}
MAX_NAME = 200


@dataclass(frozen=True)
class Person:
    """Somebody who may decide: the public half of their key, and the accounts that they run plans under."""

    name: str
    public_key: str
    accounts: tuple[str, ...] = ()
    added: str = ""

    @property
    def fingerprint(self) -> str:
        """By which the key is recognised."""
        return keys.fingerprint(self.public_key)


def listed(home: Home) -> tuple[Person, ...]:
    """Return the people of a home, in the order in which they were added; none at a desk of one person."""
    return people_of(ledger.find(home, "person-added", "person-removed"))


def people_of(entries: list[dict[str, Any]]) -> tuple[Person, ...]:
    """Return the people that entries of the ledger leave on the list."""
    found: dict[str, Person] = {}
    for entry in entries:
        name = str(entry.get("person"))
        if entry.get("event") == "person-added":
            accounts = tuple(str(a) for a in entry.get("accounts", ()))
            found[name] = Person(name, str(entry.get("public_key")), accounts, str(entry.get("time")))
        elif entry.get("event") == "person-removed":
            found.pop(name, None)
    return tuple(found.values())


def add(home: Home, name: str, public: Ed25519PublicKey, accounts: tuple[str, ...] = ()) -> Person:
    """Put a person on the list, or add accounts to one who is on it; enter it in the ledger.

    Raises
    ------
    Refused
        When the name or the key is another person's.
    """
    name = " ".join(name.split())
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise Refused(f"a name is 1 to {MAX_NAME} printable characters")
    with ledger.locked(home, "people.lock"):
        trusted(home)
        before = listed(home)
        key = keys.raw(public)
        for person in before:
            same_name, same_key = same(person.name, name), person.public_key == key
            if same_name and not (same_key and person.name == name):
                raise Refused(
                    f"{person.name} is on the list already, with another key; remove them first, so that the "
                    "ledger holds when the old key ceased to count"
                )
            if same_key and not same_name:
                raise Refused(f"this key is {person.name}'s; each person needs a key of their own")
            taken = sorted(set(accounts) & set(person.accounts))
            if taken and not same_name:
                raise Refused(f"the account {visible(taken[0])} is {person.name}'s")
        known = next((p.accounts for p in before if p.name == name), ())
        accounts = tuple(dict.fromkeys((*known, *accounts)))
        facts = {"by": account(), "person": name, "public_key": key, "accounts": list(accounts)}
        ledger.append(home, "person-added", **facts)
        return next(p for p in _show(home) if p.name == name)


def remove(home: Home, name: str) -> None:
    """Take a person off the list; what they have decided stays theirs, what waits needs somebody else.

    Raises
    ------
    Refused
        When nobody of that name is on it.
    """
    with ledger.locked(home, "people.lock"):
        trusted(home)
        person = find(home, name)
        facts = {"by": account(), "person": person.name, "public_key": person.public_key}
        ledger.append(home, "person-removed", **facts)
        _show(home)


def find(home: Home, name: str) -> Person:
    """Return the person of that name.

    Raises
    ------
    Refused
        When nobody of that name is on the list.
    """
    people = listed(home)
    for person in people:
        if person.name == " ".join(name.split()):
            return person
    who = ", ".join(p.name for p in people) or "nobody"
    raise Refused(f"{visible(name)} is not on the list of people who may decide here; on it: {who}")


def responsible(home: Home, account: str) -> Person | None:
    """Return the person who runs plans under an account, or is named so; None when nobody is known to."""
    return responsible_of(listed(home), account)


def responsible_of(on_list: Iterable[Person], account: str) -> Person | None:
    """Return the person of a list who runs plans under an account, or is named so."""
    for person in on_list:
        if account in person.accounts or same(person.name, account):
            return person
    return None


def same(one: str, other: str) -> bool:
    """Return whether two names are one, whatever their letters' case and spaces."""
    return folded(one) == folded(other)


def folded(name: str) -> str:
    """Return the form in which names are compared."""
    return _plain(name).casefold()


def statement(decision: Act, release: str, dossier_sha256: str, by: str, reason: str) -> bytes:
    """Return what a person signs: the decision, on what, by whom and why, in one form.

    White space counts once, since a form or a mail may break lines anew.
    """
    said = {
        "anonflow": "decision",
        "decision": decision,
        "release": release,
        "dossier": dossier_sha256,
        "by": _plain(by),
        "reason": _plain(reason),
    }
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode("ascii")


def sign(
    private_pem: Path,
    decision: Act,
    release: str,
    dossier_sha256: str,
    by: str,
    reason: str,
    password: bytes | None = None,
) -> str:
    """Return a person's signature under a decision, in base64.

    Raises
    ------
    Refused
        When the key is not there, or others can read it.
    """
    if not private_pem.is_file():
        raise Refused(f"there is no key {visible(private_pem.name)}")
    key = keys.read_private(private_pem, f"the key {visible(private_pem.name)}", password)
    said = statement(decision, release, dossier_sha256, by, reason)
    return base64.b64encode(key.sign(said)).decode()


def verify(
    home: Home,
    decision: Act,
    release: str,
    dossier_sha256: str,
    by: str,
    reason: str,
    signature: str | None,
) -> None:
    """Check that a decision is that of a person on the list.

    Raises
    ------
    Refused
        When the name is not on the list, or the signature is not that person's under this decision.
    """
    person = find(home, by)
    if not signature:
        raise Refused(
            f"this home has a list of people, so {decision} needs {person.name}'s signature: add --key "
            "PRIVATE.pem, or --signature with what anonflow sign prints for them"
        )
    said = statement(decision, release, dossier_sha256, person.name, reason)
    if not keys.holds_base64(keys.public_of(person.public_key), said, signature):
        raise Refused(
            f"this is not {person.name}'s signature under this decision: it was made with another key, or "
            "for another decision, release, dossier or reason"
        )


def ready(home: Home, policy: PolicySection) -> None:
    """Check before a run that what its policy asks of people can be met here.

    Raises
    ------
    Refused
        When the requester must not approve and there is no list to know people by, or the list lacks
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


def trusted(home: Home) -> None:
    """Refuse to rely on a ledger that is not in order.

    Raises
    ------
    Refused
        With the first finding.
    """
    passed_over = (*CUT_SHORT, "resumed")
    found = [f.sentence for f in ledger.problems(home) if f.kind not in passed_over]
    if found:
        raise Refused(f"the ledger is not in order, so nothing is decided: {found[0]}; see anonflow audit verify")


def shown(people: tuple[Person, ...]) -> list[dict[str, Any]]:
    """Return the list as ``people.json`` holds it."""
    return [asdict(p) | {"accounts": list(p.accounts), "fingerprint": p.fingerprint} for p in people]


def _show(home: Home) -> tuple[Person, ...]:
    """Write the list for readers and return it."""
    people = listed(home)
    write_private(home.people, (json.dumps(shown(people), indent=1, ensure_ascii=False) + "\n").encode())
    return people


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
