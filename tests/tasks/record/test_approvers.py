"""Who may decide: names with keys, a signature under every decision, and the list itself on record."""

from __future__ import annotations

import base64
import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tasks.common import keys
from tasks.common.errors import Fault, Refused
from tasks.common.home import write_private
from tasks.policy.section import PolicySection
from tasks.record import approvers, ledger
from tasks.record.approval_rule import signature_objection
from tasks.record.decision import Decision, sign
from tasks.record.entry import ApproverFacts, content_digest, entry_line

SAID = Decision(
    act="approve", release="office-0123456789ab", dossier="d" * 64, by="Ann Smith", reason="read the report"
)


def verify(office: Any, decision: Decision, signature: str) -> None:
    if objection := signature_objection(approvers.listed(office.home), replace(decision, signature=signature)):
        raise Refused(objection)


def public(path: Path) -> Any:
    return keys.read_private(path, "key").public_key()


def test_the_list_comes_from_the_ledger_and_is_shown_in_a_private_file(office: Any) -> None:
    office.person("Ann Smith", "asmith")
    office.person("Bob")
    assert [(p.name, p.accounts) for p in approvers.listed(office.home)] == [
        ("Ann Smith", ("asmith",)),
        ("Bob", ()),
    ]
    shown = json.loads(office.home.approvers.read_text())
    assert [p["name"] for p in shown] == ["Ann Smith", "Bob"]
    assert stat.S_IMODE(office.home.approvers.stat().st_mode) == 0o600
    entries = ledger.find(office.home, ApproverFacts, "approver-added")
    assert [e.facts.approver for e in entries] == ["Ann Smith", "Bob"]
    assert entries[0].facts.public_key == keys.raw(public(office.base / "Ann Smith.pem"))
    approvers.remove(office.home, "Ann Smith")
    assert [p.name for p in approvers.listed(office.home)] == ["Bob"]
    assert ledger.find(office.home, ApproverFacts, "approver-removed")[0].facts.approver == "Ann Smith"
    assert "PRIVATE" not in office.home.ledger.read_text() + office.home.approvers.read_text()


def test_a_name_written_into_the_file_may_not_decide(office: Any) -> None:
    office.person("Ann")
    forged = keys.raw(Ed25519PrivateKey.generate().public_key())
    office.home.approvers.write_text(json.dumps([{"name": "Eve", "public_key": forged}]))
    with pytest.raises(Refused, match="Eve is not on the list of people who may decide here; on it: Ann"):
        approvers.find(office.home, "Eve")
    office.home.approvers.unlink()
    assert [p.name for p in approvers.listed(office.home)] == ["Ann"]


def test_a_name_written_into_the_ledger_stops_every_decision(office: Any) -> None:
    office.person("Ann")
    release, dossier = office.waiting()
    last = ledger.entries(office.home)[-1]
    key = keys.raw(Ed25519PrivateKey.generate().public_key())
    facts = ApproverFacts(by="Ann", approver="Eve", public_key=key)
    forged = replace(last, number=last.number + 1, previous=last.digest, event="approver-added", facts=facts)
    forged = replace(forged, digest=content_digest(forged))
    with office.home.ledger.open("ab") as file:
        file.write(entry_line(forged) + b"\n")
    with pytest.raises(Refused, match="the ledger is not in order, so nothing is decided: entry 3 is not signed"):
        office.settle("approve", release, dossier, "Ann")


def test_one_name_one_key(office: Any) -> None:
    ann = office.person("Ann Smith", "asmith")
    other = Ed25519PrivateKey.generate().public_key()
    for name in ("Ann Smith", "ann  smith", "ANN SMITH"):
        with pytest.raises(Refused, match="on the list already, with another key"):
            approvers.add(office.home, name, other)
    with pytest.raises(Refused, match="this key is Ann Smith's"):
        approvers.add(office.home, "Bob", public(ann))
    with pytest.raises(Refused, match="the account asmith is Ann Smith's"):
        approvers.add(office.home, "Bob", other, ("asmith",))
    for name in ("", "  ", "x" * 201, "a\x1b[2Jb"):
        with pytest.raises(Refused, match="printable characters"):
            approvers.add(office.home, name, other)
    assert approvers.add(office.home, "Ann Smith", public(ann), ("nightly",)).accounts == ("asmith", "nightly")
    with pytest.raises(Refused, match="not on the list"):
        approvers.remove(office.home, "Bob")


@pytest.mark.parametrize("form", ["pem", "base64"])
def test_a_public_key_is_read_in_both_forms(office: Any, form: str) -> None:
    key = public(office.person("Ann"))
    file = office.base / "public"
    file.write_text(keys.pem(key) if form == "pem" else keys.raw(key) + "\n")
    assert keys.raw(keys.read_public(file)) == keys.raw(key)


def test_what_is_no_public_key_is_refused(office: Any) -> None:
    private = office.person("Ann")
    with pytest.raises(Refused, match="holds a private key; give the public one"):
        keys.read_public(private)
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = other.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    file = office.base / "other"
    for content in (pem, b"", b"\xff", b"AAAA", b"-----BEGIN PUBLIC KEY-----\nx\n", b"=" * 44):
        file.write_bytes(content)
        with pytest.raises(Refused, match="holds no Ed25519 public key"):
            keys.read_public(file)


def test_a_signature_is_one_approvers_under_one_decision(office: Any) -> None:
    ann, bob = office.person("Ann Smith"), office.person("Bob")
    signature = sign(ann, SAID)
    verify(office, SAID, signature)
    assert len(base64.b64decode(signature)) == 64
    others = (
        {"act": "reject"},
        {"release": "office-000000000000"},
        {"dossier": "e" * 64},
        {"by": "Bob"},
        {"reason": "did not read it"},
    )
    for other in others:
        with pytest.raises(Refused, match=r"this is not .*'s signature under this decision"):
            verify(office, replace(SAID, **other), signature)
    for wrong in (sign(bob, SAID), "", "zz", "A" * 88, signature[:-4]):
        with pytest.raises(Refused, match="signature"):
            verify(office, SAID, wrong)
    eve = replace(SAID, by="Eve")
    with pytest.raises(Refused, match="Eve is not on the list"):
        verify(office, eve, sign(bob, eve))


def test_lines_that_a_form_breaks_anew_do_not_matter(office: Any) -> None:
    ann = office.person("Ann Smith")
    signature = sign(ann, replace(SAID, reason="read the report\nand the figures é"))
    broken = f" {signature[:40]}\r\n{signature[40:]} "
    verify(office, replace(SAID, reason="read  the report\r\n and the figures e\u0301"), broken)


def test_a_private_key_that_others_can_read_does_not_sign(office: Any) -> None:
    ann = office.person("Ann Smith")
    ann.chmod(0o644)
    with pytest.raises(Refused, match=r"the key Ann Smith\.pem can be read by others; run chmod 600"):
        sign(ann, SAID)
    with pytest.raises(Refused, match=r"there is no key nobody\.pem"):
        sign(office.base / "nobody.pem", SAID)


def test_a_private_key_with_a_password(office: Any) -> None:
    key = Ed25519PrivateKey.generate()
    sealed = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    path = office.base / "sealed.pem"
    write_private(path, sealed)
    approvers.add(office.home, "Ann Smith", key.public_key())
    verify(office, SAID, sign(path, SAID, b"secret"))
    with pytest.raises(Fault, match=r"sealed\.pem cannot be read"):
        sign(path, SAID)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"requester_may_approve": False}, None),
        ({"approvers": 2}, None),
        ({"approvers": 3}, "asks for 3 people, and 2 on this home's list may approve"),
        ({"approver_names": ("ann", "Bob")}, None),
        ({"approver_names": ("Ann", "Eve")}, "approver_names lists Eve, not on this home's list"),
    ],
)
def test_what_a_policy_asks_of_people_is_checked_before_a_run(office: Any, policy: Any, message: str | None) -> None:
    office.person("Ann")
    office.person("Bob")
    if message is None:
        approvers.ready(office.home, PolicySection(**policy))
        return
    with pytest.raises(Refused, match=message):
        approvers.ready(office.home, PolicySection(**policy))


def test_without_a_list_the_requester_cannot_be_kept_from_approving(office: Any) -> None:
    approvers.ready(office.home, PolicySection(approvers=2))
    with pytest.raises(Refused, match="requester_may_approve: false needs a list of people"):
        approvers.ready(office.home, PolicySection(requester_may_approve=False))


@pytest.mark.parametrize(
    "policy",
    [
        {"approvers": 0},
        {"approvers": 6},
        {"approver_names": ("a", "A")},
        {"approver_names": (" ",)},
        {"approvers": 2, "approver_names": ("a",)},
        {"decide_within_days": 0},
        {"decide_within_days": float("inf")},
    ],
)
def test_a_policy_that_nobody_can_meet_is_refused(policy: Any) -> None:
    with pytest.raises(ValueError, match=r"approver|decide_within_days"):
        PolicySection(**policy)
