"""What an auditor finds: every change to the ledger, the list, the releases and the figures, by its kind."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tasks.audit import verification as audit
from tasks.common import keys
from tasks.common.errors import Refused
from tasks.common.home import Home, make_private, write_private
from tasks.decision import conclude
from tasks.publication.candidate import load_candidate
from tasks.publication.publish import publish
from tasks.publication.withdraw import move_aside
from tasks.record import approvers, ledger, ledger_store, signing
from tasks.record.decision import Decision, sign
from tasks.record.entry import Head, LedgerEntry, ReleaseFacts, SignedDecision
from tests.tasks.facts import enter


@pytest.fixture
def filled(office: Any) -> Any:
    """A home with people, a release, a withdrawn one, a waiting one and a rejected one."""
    office.person("Ann")
    office.person("Bob")
    office.out = office.published("out", custodian="<p>counts before")
    office.gone = office.published("gone", data="3" * 64)
    office.settle("withdraw", office.gone.release, office.gone.entry.facts.dossier, "Ann")
    release, dossier = office.waiting("no", data="4" * 64)
    office.settle("reject", release, dossier, "Bob")
    office.waits = office.waiting("waits", data="5" * 64)[0]
    assert audit.verify(office.home, mlflow=False) == []
    return office


def found(home: Home, **given: Any) -> set[str]:
    return {f.kind for f in audit.verify(home, mlflow=False, **given)}


def spoil(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b" ")


def unlock(path: Path) -> Path:
    path.parent.chmod(0o700)
    return path


def resigned(folder: Path) -> None:
    """Change a file and sign a new manifest with another key, put beside it."""
    spoil(folder / "data.csv")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["data.csv"] = hashlib.sha256((folder / "data.csv").read_bytes()).hexdigest()
    content = json.dumps(manifest).encode()
    key = Ed25519PrivateKey.generate()
    (folder / "manifest.json").write_bytes(content)
    (folder / "manifest.json.sig").write_text(key.sign(content).hex())
    (folder / "public-key.pem").write_text(keys.pem(key.public_key()))


def cut(office: Any, entries: int) -> None:
    lines = office.home.ledger.read_text().splitlines(keepends=True)
    office.home.ledger.write_text("".join(lines[:entries]))


def head(office: Any, entry: LedgerEntry[Any]) -> None:
    """Sign that an entry is the last."""
    last = Head(number=entry.number, digest=entry.digest)
    ledger_store.store_of(office.home).put_head(ledger._signed(last, signing.signing_key(office.home)))


def put_back(office: Any, entries: int) -> None:
    """Put ledger and head back to an older state together, as from a backup."""
    cut(office, entries)
    head(office, ledger.entries(office.home)[-1])


def cut_behind(office: Any) -> None:
    """Cut entries off, and put back a head that is older still."""
    known = ledger.entries(office.home)
    cut(office, -2)
    head(office, known[2])


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def awaiting(office: Any, **more: Any) -> ReleaseFacts:
    """What was entered of the candidate that waits."""
    return replace(ledger.of_release(office.home, office.waits, "awaiting")[-1].facts, **more)


def as_published(office: Any, **more: Any) -> None:
    """Publish what waits as someone with the home's key, and no approver's, can: without an approval."""
    candidate = load_candidate(office.home, office.waits)
    facts = awaiting(office, **more)
    announced = ledger.append(office.home, "publishing", facts)
    place = publish(office.home, candidate, None, announced)
    ledger.append(office.home, "published", conclude._with_files(facts, place))
    shutil.rmtree(candidate.folder)


def approved(office: Any, **decided: Any) -> None:
    """Enter an approval of what waits with the home's key alone, and publish."""
    decision = SignedDecision(**{"approver": "Ann", "reason": "read"} | decided)
    ledger.append(office.home, "approved", awaiting(office, decided=decision))
    as_published(office, decided=decision)


def rejected(office: Any) -> None:
    """Reject what waits with the home's key alone, as if the policy had."""
    ledger.append(office.home, "rejected", awaiting(office))
    shutil.rmtree(office.home.candidates / office.waits)


def withdrawn(office: Any, *events: Any) -> None:
    """Withdraw a release with the home's key alone."""
    facts = replace(office.out.entry.facts, decided=SignedDecision(approver="Ann", reason="read"))
    announced = [ledger.append(office.home, event, facts) for event in events]
    move_aside(office.home, announced[0])


def notice(office: Any, sign: Callable[[bytes], str], pem: str = "", **said: Any) -> None:
    """Write another notice in place of the one of a withdrawal, and sign it."""
    folder = office.gone.folder
    content = json.dumps(json.loads((folder / "WITHDRAWN.json").read_bytes()) | said).encode()
    (folder / "WITHDRAWN.json").write_bytes(content)
    (folder / "WITHDRAWN.json.sig").write_text(sign(content))
    if pem:
        (folder / "public-key.pem").write_text(pem)


def stray(path: Path) -> None:
    make_private(path.parent)
    path.write_text("name,income")


FORGER = Ed25519PrivateKey.generate()
NEVER_LISTED = SignedDecision(approver="Nobody", reason="fine", signature="A" * 88)


TAMPERING: dict[str, tuple[Callable[[Any], object], set[str]]] = {
    "a verdict changed": (lambda o: edit(o.home.ledger, "every gate passed", "no gate failed"), {"changed"}),
    "the last entry removed": (lambda o: cut(o, -1), {"truncated", "unknown candidate"}),
    "ledger and head put back": (lambda o: put_back(o, 2), {"unknown release", "unknown candidate"}),
    "ledger put back to the announcement": (lambda o: put_back(o, 3), {"cut short", "unknown release"}),
    "head removed": (lambda o: o.home.head.unlink(), {"head"}),
    "a published file changed": (lambda o: spoil(o.out.folder / "data.csv"), {"file changed"}),
    "a published file removed": (lambda o: (o.out.folder / "codebook.json").unlink(), {"file removed"}),
    "a published file added": (lambda o: (o.out.folder / "more.csv").write_text("x"), {"file added"}),
    "a manifest changed": (lambda o: spoil(o.out.folder / "manifest.json"), {"manifest"}),
    "a release signed anew": (lambda o: resigned(o.out.folder), {"manifest", "foreign key"}),
    "a release removed": (lambda o: shutil.rmtree(o.out.folder), {"release missing"}),
    "a release slipped in": (
        lambda o: shutil.copytree(o.out.folder, o.out.folder.with_name("office-000000000000")),
        {"unknown release"},
    ),
    "a withdrawn file changed": (
        lambda o: spoil(o.home.withdrawn / "office" / o.gone.release / "data.csv"),
        {"file changed"},
    ),
    "a withdrawn release put back": (
        lambda o: (
            shutil.rmtree(o.gone.folder),
            unlock(o.home.withdrawn / "office" / o.gone.release / "x"),
            shutil.move(o.home.withdrawn / "office" / o.gone.release, o.gone.folder),
        ),
        {"notice", "release missing"},
    ),
    "a notice changed": (lambda o: edit(o.gone.folder / "WITHDRAWN.json", "read", "fine"), {"notice"}),
    "a notice removed": (lambda o: shutil.rmtree(o.gone.folder), {"notice"}),
    "a candidate changed": (
        lambda o: spoil(o.home.candidates / o.waits / "data.csv"),
        {"candidate changed"},
    ),
    "a candidate removed": (lambda o: shutil.rmtree(o.home.candidates / o.waits), {"candidate missing"}),
    "a candidate slipped in": (
        lambda o: shutil.copytree(o.home.candidates / o.waits, o.home.candidates / "office-000000000000"),
        {"unknown candidate"},
    ),
    "figures changed": (
        lambda o: edit(o.home.assessment(o.out.release) / "dossier.json", '"records": 1', '"records": 2'),
        {"assessment"},
    ),
    "figures removed": (
        lambda o: (o.home.assessment(o.out.release) / "dossier.json").unlink(),
        {"assessment"},
    ),
    "the list that is shown changed": (lambda o: edit(o.home.approvers, "Ann", "Eve"), {"approvers"}),
    "the list that is shown removed": (lambda o: o.home.approvers.unlink(), {"approvers"}),
    "the key removed": (lambda o: o.home.key.unlink(), {"key"}),
    "the key opened to others": (lambda o: o.home.key.chmod(0o644), {"key"}),
    "the key replaced": (lambda o: write_private(o.home.key, keys.new_private()), {"signature", "head"}),
    "a line broken": (lambda o: edit(o.home.ledger, '{"', "{"), {"unreadable"}),
    "a field of an entry doubled": (
        lambda o: edit(o.home.ledger, '{"', '{"approver":"Eve","'),
        {"changed"},
    ),
    "ledger cut off behind an old head": (
        lambda o: cut_behind(o),
        {"head"},
    ),
    "published without an approval": (lambda o: as_published(o), {"approval"}),
    "published with an approval by a name that was never listed": (
        lambda o: as_published(o, decided=NEVER_LISTED),
        {"approval"},
    ),
    "an approval without a signature": (lambda o: approved(o), {"approval"}),
    "an approval with an invented signature": (
        lambda o: approved(o, signature="A" * 88),
        {"approval"},
    ),
    "rejected by nobody": (lambda o: rejected(o), {"approval"}),
    "withdrawn without a signature": (lambda o: withdrawn(o, "withdrawing", "withdrawn"), {"approval"}),
    "withdrawn by nobody": (lambda o: withdrawn(o, "withdrawn"), {"approval"}),
    "a notice signed by another": (
        lambda o: notice(o, lambda c: FORGER.sign(c).hex(), keys.pem(FORGER.public_key())),
        {"notice"},
    ),
    "a notice that says another reason": (
        lambda o: notice(o, lambda c: signing.sign(o.home, c), reason="keep using it"),
        {"notice"},
    ),
    "a notice of another day": (
        lambda o: notice(o, lambda c: signing.sign(o.home, c), withdrawn="1999-01-01"),
        {"notice"},
    ),
    "a report changed": (lambda o: spoil(o.home.assessment(o.out.release) / "report.html"), {"assessment"}),
    "a report of what waits changed": (
        lambda o: spoil(o.home.assessment(o.waits) / "report.html"),
        {"assessment"},
    ),
    "a report removed": (
        lambda o: (o.home.assessment(o.out.release) / "report.html").unlink(),
        {"assessment"},
    ),
    "a page of the custodian changed": (
        lambda o: spoil(o.home.assessment(o.out.release) / "custodian-step1.html"),
        {"assessment"},
    ),
    "a file put beside a report": (
        lambda o: stray(o.home.assessment(o.out.release) / "custodian-step2.html"),
        {"assessment"},
    ),
    "a file put among the releases": (lambda o: stray(o.home.releases / "extra.csv"), {"unknown release"}),
    "a file hidden among the releases": (
        lambda o: stray(o.home.releases / "office" / ".hidden" / "people.csv"),
        {"unknown release"},
    ),
    "a file hidden among the candidates": (
        lambda o: stray(o.home.candidates / ".hidden" / "people.csv"),
        {"unknown candidate"},
    ),
    "the key of who is held out replaced": (
        lambda o: write_private(o.home.holdout_key, b"f" * 64),
        {"secret key"},
    ),
    "the key of who is held out removed": (lambda o: o.home.holdout_key.unlink(), {"secret key"}),
    "the key of digests replaced": (lambda o: write_private(o.home.digest_key, b"f" * 64), {"secret key"}),
    "the key of digests removed": (lambda o: o.home.digest_key.unlink(), {"secret key"}),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampering_is_found_by_its_kind(filled: Any, how: str) -> None:
    change, kinds = TAMPERING[how]
    change(filled)
    seen = found(filled.home)
    assert kinds <= seen, seen
    if len(kinds) == 1 and "file" in next(iter(kinds)):
        assert seen == kinds


def test_findings_name_the_place_and_no_data(filled: Any) -> None:
    spoil(filled.out.folder / "data.csv")
    (finding,) = audit.verify(filled.home, mlflow=False)
    assert finding.where == f"releases/office/{filled.out.release}"
    assert finding.sentence == f"{finding.where}: data.csv was changed"


def test_verifying_changes_nothing(filled: Any) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        files = [p for p in filled.home.path.rglob("*") if p.is_file()]
        return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}

    before = state()
    audit.verify(filled.home, mlflow=False)
    assert state() == before


def test_an_approval_that_the_homes_own_key_invents_is_found(office: Any) -> None:
    """Whoever has the home's key, and not Ann's, enters an approval in her name."""
    office.person("Ann")
    release, dossier = office.waiting()
    office.waits = release
    decided = SignedDecision(approver="Ann", reason="fine", signature="A" * 88)
    ledger.append(office.home, "approved", awaiting(office, decided=decided))
    assert ledger.problems(office.home) == []
    assert found(office.home) == {"approval"}
    assert dossier


def test_one_approval_of_two_and_one_by_the_requester_do_not_make_a_publication(office: Any) -> None:
    """Whoever has the home's key publishes on signatures that are real and do not suffice."""
    office.person("Ann")
    office.person("Bob", "runner")
    for more, name in (({"approvers": 2}, "Ann"), ({"names": ["Bob"]}, "Ann")):
        office.waits, dossier = office.waiting(name + str(more), **more, data=str(len(more)) * 64)
        forged_by_others(office, dossier, name)
        assert found(office.home) == {"approval"}
        put_back(office, 2)
        shutil.rmtree(office.home.releases)
        shutil.rmtree(office.home.path / "assessments")
    office.waits, dossier = office.waiting(requester_may_approve=False)
    forged_by_others(office, dossier, "Bob")
    assert found(office.home) == {"approval"}


def forged_by_others(office: Any, dossier: str, name: str) -> None:
    decision = Decision(act="approve", release=office.waits, dossier=dossier, by=name, reason="read")
    signature = sign(office.base / f"{name}.pem", decision)
    approved(office, approver=name, key=approvers.find(office.home, name).fingerprint, signature=signature)


def test_a_decision_stays_its_givers_after_they_have_left(office: Any) -> None:
    office.person("Ann")
    office.person("Bob")
    release, dossier = office.waiting()
    office.settle("approve", release, dossier, "Ann")
    approvers.remove(office.home, "Ann")
    office.person("Ann")
    last = ledger.of_release(office.home, release, "published")[-1].facts
    ledger.append(office.home, "published", replace(last, recovered=True))
    assert found(office.home) == set()
    ledger.append(office.home, "published", replace(last, decided=replace(last.decided, reason="another")))
    assert found(office.home) == {"approval"}


def test_what_a_publication_puts_together_meanwhile_is_no_finding(office: Any) -> None:
    office.published()
    beside = office.home.releases / "office" / ".office-000000000000"
    stray(beside / "data.csv")
    assert found(office.home) == {"unknown release"}
    enter(office.home, "publishing", release="office-000000000000")
    assert "unknown release" not in found(office.home)


def test_an_anchor_kept_elsewhere_finds_what_was_put_back(filled: Any) -> None:
    kept = audit.last_entry(filled.home).digest
    assert found(filled.home, anchor=kept) == set()
    ledger.append(filled.home, "unchanged", filled.out.entry.facts)
    assert found(filled.home, anchor=kept.upper() + "\n") == set()
    put_back(filled, -2)
    assert "anchor" in found(filled.home, anchor=kept)


def test_a_home_that_was_made_anew_is_found_with_the_public_key(filled: Any) -> None:
    kept = signing.public_key(filled.home)
    for path in (filled.home.ledger, filled.home.head, filled.home.key):
        path.unlink()
    ledger.append(filled.home, "unchanged", filled.out.entry.facts)
    assert {"key", "signature"} <= found(filled.home, public_key=kept)


def test_releases_of_older_keys_are_still_in_order(filled: Any) -> None:
    ledger.rotate_key(filled.home, by="x", reason="yearly")
    later = filled.published("later", data="6" * 64)
    assert found(filled.home) == set()
    first, second = (r.folder / "public-key.pem" for r in (filled.out, later))
    assert first.read_text() != second.read_text()


def test_an_empty_home_has_nothing_to_find_and_nothing_to_anchor(office: Any) -> None:
    assert found(office.home) == set()
    with pytest.raises(Refused, match="nothing to anchor"):
        audit.last_entry(office.home)


def test_an_exported_ledger_verifies_by_what_it_says(filled: Any, tmp_path: Path) -> None:
    ledger.rotate_key(filled.home, by="x", reason="yearly")
    filled.published("later", data="6" * 64)
    target = tmp_path / "for auditors.jsonl"
    count = audit.export(filled.home, target)
    first, *entries = map(json.loads, target.read_text().splitlines())
    assert first["entries"] == count == len(entries)
    public = [Ed25519PublicKey.from_public_bytes(__import__("base64").b64decode(k)) for k in first["public_keys"]]
    key, before = public.pop(0), "0" * 64
    for entry in entries:
        body = {k: v for k, v in entry.items() if k not in ("digest", "signature")}
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() == entry["digest"]
        assert entry["previous"] == before
        key.verify(bytes.fromhex(entry["signature"]), entry["digest"].encode())
        before = entry["digest"]
        key = public.pop(0) if entry["event"] == "key-rotated" else key
    assert before == first["head"]
    with pytest.raises(InvalidSignature):
        key.verify(bytes.fromhex(entries[0]["signature"]), entries[0]["digest"].encode())
    with pytest.raises(Refused, match="exists already"):
        audit.export(filled.home, target)
    assert "PRIVATE" not in target.read_text()
