"""The record of decisions: nothing in it can be changed unseen, and nothing it took is lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tasks.common import keys
from tasks.common.errors import Fault, Refused
from tasks.common.home import Home, make_private, write_private
from tasks.record import ledger, ledger_store, signing
from tasks.record.entry import (
    START,
    KeyFacts,
    LedgerEntry,
    LossFacts,
    ReleaseFacts,
    SignedDecision,
    canonical,
    content_digest,
    entry_json,
    entry_line,
    parse_entry,
)
from tasks.record.ledger_verification import clock_problems, read_head
from tests.tasks.facts import enter, release_facts


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def sentences(home: Home) -> list[str]:
    return [finding.sentence for finding in ledger.problems(home)]


@pytest.fixture
def filled(home: Home) -> Home:
    for number in range(5):
        enter(home, "published", release=f"r{number}", gates={"distance": ("pass", "0.1")})
    return home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def lines(home: Home) -> list[str]:
    return home.ledger.read_text().splitlines(keepends=True)


def write(home: Home, content: list[str]) -> None:
    home.ledger.write_text("".join(content))


def test_an_empty_ledger_holds_nothing_and_is_in_order(home: Home) -> None:
    assert ledger.entries(home) == []
    assert ledger.find(home, ReleaseFacts, "published") == []
    assert ledger.problems(home) == []


def test_entries_come_back_in_order_and_verify(filled: Home) -> None:
    found = ledger.entries(filled)
    assert [entry.facts for entry in found] == [release_facts(release=f"r{i}") for i in range(5)]
    assert [entry.number for entry in found] == [1, 2, 3, 4, 5]
    assert found[0].previous == START
    assert all(b.previous == a.digest for a, b in pairwise(found))
    assert ledger.problems(filled) == []


def test_entries_are_found_by_kind_event_and_release(filled: Home) -> None:
    enter(filled, "awaiting", release="r1")
    rotated(filled)
    assert [e.event for e in ledger.of_release(filled, "r1")] == ["published", "awaiting"]
    assert len(ledger.find(filled, ReleaseFacts, "awaiting", "approved")) == 1
    assert ledger.of_release(filled, "r0", "awaiting") == []
    assert [e.event for e in ledger.find(filled, KeyFacts)] == ["key-rotated"]
    assert [(e.facts.release, e.event) for e in ledger.last_of_releases(filled)][:2] == [
        ("r0", "published"),
        ("r1", "awaiting"),
    ]


@pytest.mark.parametrize(
    "text", ["line\nend", "\u2028\u2029\x85\x0b\x0c\x1c", "größe 身長 \U0001f600", "\udc80 half", '"}{', ""]
)
def test_any_reason_is_kept_as_it_was_given(home: Home, text: str) -> None:
    decided = SignedDecision(approver=text, reason=text)
    enter(home, "approved", decided=decided)
    enter(home, "published", release="x")
    assert ledger.of_release(home, release_facts().release)[0].facts.decided == decided
    assert ledger.problems(home) == []
    assert home.ledger.read_bytes().count(b"\n") == 2


def resealed(entry: dict[str, Any], **changes: Any) -> str:
    """Return an entry as it is changed by someone who can compute digests and has no key."""
    changed = parse_entry(json.dumps(entry | changes).encode())
    assert changed is not None
    return entry_line(replace(changed, digest=content_digest(changed))).decode() + "\n"


def swapped(at: list[str]) -> list[str]:
    """Return the lines with the signatures of two entries exchanged."""
    one, other = json.loads(at[1]), json.loads(at[2])
    one["signature"], other["signature"] = other["signature"], one["signature"]
    return [at[0], *(canonical(form).decode() + "\n" for form in (one, other)), *at[3:]]


TAMPERING: dict[str, tuple[Callable[[list[str]], list[str]], str, str]] = {
    "changed": (lambda at: [*at[:2], at[2].replace("r2", "r9"), *at[3:]], "changed", "entry 3 was changed"),
    "time changed": (
        lambda at: [*at[:2], at[2].replace('"time":"2', '"time":"1'), *at[3:]],
        "changed",
        "entry 3 was changed",
    ),
    "removed": (lambda at: [*at[:2], *at[3:]], "removed", "entry 3 does not follow"),
    "first removed": (lambda at: at[1:], "removed", "entry 1 does not follow"),
    "last removed": (
        lambda at: at[:-1],
        "truncated",
        "the ledger ends with entry 4, and its head names entry 5",
    ),
    "two cut off": (
        lambda at: at[:-2],
        "truncated",
        "the ledger ends with entry 3, and its head names entry 5",
    ),
    "all removed": (lambda at: [], "truncated", "the ledger ends with entry 0, and its head names entry 5"),
    "reordered": (lambda at: [*at[:2], at[3], at[2], at[4]], "reordered", "entry 3 does not follow"),
    "last two reordered": (lambda at: [*at[:3], at[4], at[3]], "reordered", "entry 4 does not follow"),
    "doubled": (lambda at: [*at[:3], at[2], *at[3:]], "reordered", "entry 4 does not follow"),
    "renumbered": (
        lambda at: [*at[:2], at[3].replace('"number":4', '"number":3')],
        "changed",
        "entry 3 was changed",
    ),
    "signatures swapped": (swapped, "signature", "entry 2 is not signed by this home's key"),
    "field doubled": (
        lambda at: [*at[:2], at[2].replace('{"', '{"release":"r9","', 1), *at[3:]],
        "changed",
        "entry 3 is not written as it was entered",
    ),
    "spaces added": (
        lambda at: [*at[:2], at[2].replace(":", ": ", 1), *at[3:]],
        "changed",
        "entry 3 is not written as it was entered",
    ),
    "empty line added": (lambda at: [*at[:2], "\n", *at[2:]], "changed", "the ledger holds an empty line"),
    "line broken": (lambda at: [*at[:2], at[2][:50] + "\n", *at[3:]], "unreadable", "line 3 of the ledger"),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampering_is_found(filled: Home, how: str) -> None:
    change, kind, finding = TAMPERING[how]
    write(filled, change(lines(filled)))
    found = ledger.problems(filled)
    assert any(f.kind == kind and f.sentence.startswith(finding) for f in found), found


def test_an_entry_changed_with_a_new_digest_lacks_signature_and_place(filled: Home) -> None:
    at = lines(filled)
    write(filled, [*at[:2], resealed(json.loads(at[2]), release="r9"), *at[3:]])
    assert [(f.kind, f.where) for f in ledger.problems(filled)] == [
        ("chain", "entry 4"),
        ("signature", "entry 3"),
    ]


def test_the_same_data_are_the_same_file_or_the_same_records() -> None:
    facts = release_facts(data="d", records="r")
    assert facts.is_about("d", "another")
    assert facts.is_about("another", "r")
    assert not facts.is_about("another", "s")


# The head


def put_back(home: Home, number: int, kept: dict[int, bytes]) -> None:
    home.head.write_bytes(kept[number])


@pytest.fixture
def heads(home: Home) -> dict[int, bytes]:
    """The heads that stood after each of five entries."""
    kept = {}
    for number in range(1, 6):
        enter(home, "published", release=f"r{number - 1}")
        kept[number] = home.head.read_bytes()
    return kept


def test_the_head_names_the_last_entry_and_is_private(home: Home, heads: dict[int, bytes]) -> None:
    head = json.loads(heads[5])
    assert (head["number"], head["digest"]) == (5, ledger.entries(home)[-1].digest)
    assert mode(home.head) == 0o600


@pytest.mark.parametrize(("number", "kind"), [(1, "head"), (3, "head"), (4, "behind")])
def test_an_older_head_put_back_is_found(home: Home, heads: dict[int, bytes], number: int, kind: str) -> None:
    put_back(home, number, heads)
    assert [f.kind for f in ledger.problems(home)] == [kind]


@pytest.mark.parametrize("left", [4, 5])
def test_a_cut_behind_an_old_head_stops_everything(home: Home, heads: dict[int, bytes], left: int) -> None:
    """A crash leaves one entry without its head, never two: an old head cannot pass a cut off as a crash."""
    write(home, lines(home)[:left])
    put_back(home, 2, heads)
    for ask in (ledger.settle, lambda home: enter(home, "published"), rotated):
        with pytest.raises(Fault, match="an older head was put in its place; nothing is entered"):
            ask(home)
    assert [f.kind for f in ledger.problems(home)] == ["head"]


def test_a_head_that_is_gone_or_forged_is_found_and_nothing_is_entered(home: Home, heads: Any) -> None:
    head = json.loads(heads[4])
    for content in (
        None,
        b"x",
        b"[]",
        json.dumps(head | {"number": 3}).encode(),
        b'{"number": 0}',
        b'{"number": -1}',
    ):
        home.head.unlink(missing_ok=True)
        if content is not None:
            home.head.write_bytes(content)
        assert [f.kind for f in ledger.problems(home)] == ["head"], content
        with pytest.raises(Fault, match=r"nothing is entered\. Restore the ledger from a backup"):
            enter(home, "published")
    assert len(ledger.entries(home)) == 5


def test_an_append_after_a_cut_is_refused_so_that_the_trace_stays(filled: Home) -> None:
    write(filled, lines(filled)[:-1])
    with pytest.raises(Fault, match="its head names entry 5: it was cut off; nothing is entered"):
        enter(filled, "published")
    assert [f.kind for f in ledger.problems(filled)] == ["truncated"]


def test_a_loss_that_is_stated_stays_on_record(filled: Home) -> None:
    lost = ledger.entries(filled)[-1]
    write(filled, lines(filled)[:-1])
    entry = ledger.resume(filled, by="A. Smith", reason="the disk was replaced")
    assert (entry.facts.head.number, entry.facts.head.digest) == (5, lost.digest)
    assert enter(filled, "published").number == 6
    assert [(f.kind, f.where) for f in ledger.problems(filled)] == [("resumed", "entry 5")]


def test_a_crash_between_the_entry_and_its_head_is_settled_by_the_next(home: Home, heads: dict[int, bytes]) -> None:
    put_back(home, 4, heads)
    assert enter(home, "published").number == 7
    assert ledger.problems(home) == []


@pytest.mark.parametrize("settle", [ledger.settle, lambda home: enter(home, "published"), lambda home: rotated(home)])
def test_that_the_head_was_behind_is_entered(
    home: Home, heads: dict[int, bytes], settle: Callable[[Home], object]
) -> None:
    put_back(home, 4, heads)
    head = read_head(home)
    settle(home)
    (entry,) = ledger.find(home, LossFacts)
    assert (entry.number, entry.event, entry.facts.head) == (6, "settled", head)
    assert ledger.problems(home) == []
    assert not ledger.settle(home)


def test_ledger_and_head_put_back_together_are_not_found_here(home: Home, heads: dict[int, bytes]) -> None:
    """Why digests are kept elsewhere: see docs/how-to/audit.md."""
    write(home, lines(home)[:3])
    put_back(home, 3, heads)
    assert ledger.problems(home) == []


@pytest.mark.parametrize("field", ["digest", "signature", "previous", "number", "format", "reason"])
def test_an_entry_without_a_field_is_found(filled: Home, field: str) -> None:
    entry = json.loads(lines(filled)[2])
    del entry[field]
    write(filled, [*lines(filled)[:2], canonical(entry).decode() + "\n", *lines(filled)[3:]])
    assert ("unreadable", "line 3") in [(f.kind, f.where) for f in ledger.problems(filled)]


def test_a_forged_entry_with_a_right_digest_lacks_the_signature(filled: Home) -> None:
    for signature in ("00" * 64, "not hexadecimal"):
        forged = resealed(json.loads(lines(filled)[4]), release="forged", signature=signature)
        write(filled, [*lines(filled)[:4], forged])
        assert sentences(filled) == [
            "entry 5 is not signed by this home's key",
            "entry 5 is not the one that the ledger's head names",
        ]


@pytest.mark.parametrize("cut", [10, 200])
def test_truncation_in_the_middle_is_a_clear_fault(filled: Home, cut: int) -> None:
    content = lines(filled)
    write(filled, [*content[:2], content[2][:cut], "\n", *content[3:]])
    for ask in (ledger.entries, lambda home: enter(home, "published")):
        with pytest.raises(Fault, match="holds a line that is not an entry; restore it from a backup") as raised:
            ask(filled)
        assert raised.value.__context__ is None
    write(filled, [*content[:2], content[2][:cut], *content[3:]])
    with pytest.raises(Fault, match="not an entry"):
        ledger.entries(filled)


@pytest.mark.parametrize("line", ["5\n", "[]\n", "null\n", "\x00\xff\n", "[" * 100_000 + "\n"])
def test_a_line_of_another_form_is_a_clear_fault(filled: Home, line: str) -> None:
    write(filled, [*lines(filled), line])
    with pytest.raises(Fault, match="not an entry"):
        ledger.entries(filled)


def test_an_append_that_did_not_end_is_put_aside_and_the_chain_goes_on(filled: Home) -> None:
    whole, head = lines(filled), filled.head.read_bytes()
    enter(filled, "published", release="r5")
    remains = lines(filled)[5][:100]
    write(filled, [*whole, remains])
    filled.head.write_bytes(head)
    assert len(ledger.entries(filled)) == 5
    assert sentences(filled) == [
        "the last line is unfinished: an append did not end, and what it said is not on record"
    ]
    entry = enter(filled, "published", release="next")
    assert entry.number == 6
    assert lines(filled)[:5] == whole
    assert ledger.problems(filled) == []
    (aside,) = filled.path.glob("ledger.unfinished-*")
    assert aside.read_text() == remains
    assert mode(aside) == 0o600


def test_a_last_entry_that_lacks_only_its_line_end_counts(filled: Home) -> None:
    filled.ledger.write_bytes(filled.ledger.read_bytes().rstrip(b"\n"))
    assert len(ledger.entries(filled)) == 5
    assert ledger.problems(filled) == []
    assert enter(filled, "published").number == 6
    assert ledger.problems(filled) == []


def test_facts_that_cannot_be_written_leave_the_ledger_as_it_was(filled: Home) -> None:
    before = filled.ledger.read_bytes()
    with pytest.raises(TypeError):
        enter(filled, "published", release=object())
    with pytest.raises(TypeError, match="an entry resumed holds LossFacts, not ReleaseFacts"):
        enter(filled, "resumed")
    assert filled.ledger.read_bytes() == before


# Several processes


FORK = multiprocessing.get_context("fork")


def appending(home: Home, who: int, appends: int, start: Any, said: Any) -> None:
    start.wait()
    for number in range(appends):
        enter(home, "published", release=f"{who}-{number}", reason="x" * 3000)
    said.put(signing.public_key(home))


def together(home: Home, processes: int, appends: int) -> list[str]:
    """Run processes that all start at once; return the public key that each of them found."""
    start, said = FORK.Barrier(processes), FORK.Queue()
    children = [FORK.Process(target=appending, args=(home, who, appends, start, said)) for who in range(processes)]
    for child in children:
        child.start()
    keys = [said.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * processes
    return keys


def test_appends_of_several_processes_all_land_under_one_key(home: Home) -> None:
    keys = together(home, processes=4, appends=12)
    assert len(set(keys)) == 1
    assert {e.facts.subject for e in ledger.entries(home)} == {f"{p}-{n}" for p in range(4) for n in range(12)}
    assert ledger.problems(home) == []
    assert signing.public_key(home) == keys[0]


def test_two_that_find_no_key_at_once_make_one(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look at the key says "none", as it does to two processes that start together."""
    enter(home, "published")
    before = home.key.read_bytes()
    asked: list[Path] = []
    exists = Path.exists

    def late(path: Path) -> bool:
        if path == home.key and not asked:
            asked.append(path)
            return False
        return exists(path)

    monkeypatch.setattr(Path, "exists", late)
    enter(home, "published")
    assert asked
    assert home.key.read_bytes() == before
    assert ledger.problems(home) == []


# The key


def test_the_key_is_made_once_and_private(home: Home) -> None:
    before = os.umask(0)
    try:
        signature = signing.sign(home, b"x")
    finally:
        os.umask(before)
    assert mode(home.key) == 0o600
    assert mode(home.key.parent) == 0o700
    assert signing.sign(home, b"x") == signature
    assert {p.name for p in home.key.parent.iterdir()} == {"ed25519.pem"}


def test_signatures_verify_with_the_public_key_alone(home: Home) -> None:
    signature, pem = signing.sign(home, b"content"), signing.public_key(home)
    serialization.load_pem_public_key(pem.encode()).verify(bytes.fromhex(signature), b"content")  # type: ignore[union-attr,call-arg]
    assert keys.verifies_hex(keys.public_of(pem), b"content", signature)
    assert not keys.verifies_hex(keys.public_of(pem), b"another", signature)
    assert not keys.verifies_hex(keys.public_of("no key"), b"content", signature)
    assert not keys.verifies_hex(keys.public_of(pem), b"content", "zz")


def test_a_key_that_is_none_is_a_clear_fault(home: Home) -> None:
    make_private(home.key.parent)
    write_private(home.key, b"CANARY")
    with pytest.raises(Fault, match=r"keys/ed25519.pem cannot be read; restore it from a backup") as raised:
        enter(home, "published")
    assert raised.value.__context__ is None
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(home.key, other)
    with pytest.raises(Fault, match="is not an Ed25519 key"):
        enter(home, "published")


def test_entries_of_another_key_are_found(filled: Home) -> None:
    write_private(filled.key, keys.new_private())
    found = sentences(filled)
    assert found[:5] == [f"entry {n} is not signed by this home's key" for n in range(1, 6)]
    assert "ledger.head is not signed by this home's key" in found


def test_a_key_that_is_gone_is_not_made_anew_under_a_ledger(filled: Home) -> None:
    filled.key.unlink()
    assert sentences(filled) == ["the signing key in keys/ed25519.pem is gone"]
    with pytest.raises(Fault, match=r"signing key in keys/ed25519\.pem is gone; restore it from a backup"):
        enter(filled, "published")
    assert not filled.key.exists()


@pytest.mark.parametrize("wide", [0o640, 0o604, 0o644, 0o666])
def test_a_key_that_others_can_read_is_refused_with_the_mend(filled: Home, wide: int) -> None:
    filled.key.chmod(wide)
    with pytest.raises(Refused, match="can be read by others; run chmod 600"):
        enter(filled, "published")
    assert [f.kind for f in ledger.problems(filled)] == ["key"]
    filled.key.chmod(0o600)
    assert ledger.problems(filled) == []


def test_the_key_can_lie_elsewhere(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANONFLOW_KEY", str(tmp_path / "vault" / "office.pem"))
    enter(home, "published", release="r")
    assert mode(tmp_path / "vault" / "office.pem") == 0o600
    assert not (home.path / "keys").exists()
    assert ledger.problems(home) == []
    monkeypatch.delenv("ANONFLOW_KEY")
    assert sentences(home) == ["the signing key in keys/ed25519.pem is gone"]


def test_a_replaced_key_and_ledger_are_found_with_the_public_key_that_was_kept(filled: Home) -> None:
    kept = signing.public_key(filled)
    assert ledger.problems(filled, kept) == []
    for path in (filled.ledger, filled.head, filled.key):
        path.unlink()
    enter(filled, "published", release="forged")
    assert ledger.problems(filled) == []
    assert {f.kind for f in ledger.problems(filled, kept)} == {"key", "signature", "head"}
    with pytest.raises(Refused, match="is no Ed25519 key"):
        ledger.problems(filled, "x")


# A new key


def rotated(home: Home) -> LedgerEntry[KeyFacts]:
    return ledger.rotate_key(home, by="A. Smith", reason="yearly")


def test_a_ledger_goes_on_under_new_keys(filled: Home) -> None:
    first, keyed = signing.public_key(filled), keys.keyed_digest(filled, "x")
    content, signature = b"a manifest", signing.sign(filled, b"a manifest")
    who = ledger.identity(filled)
    for number in range(3):
        entry = rotated(filled)
        assert entry.facts.new_key == ledger.public_keys(filled)[-1] != entry.facts.old_key
        enter(filled, "published", release=f"later {number}")
    assert signing.public_key(filled) != first
    assert ledger.problems(filled) == ledger.problems(filled, signing.public_key(filled)) == []
    assert len(ledger.public_keys(filled)) == 4
    assert keys.keyed_digest(filled, "x") == keyed
    assert ledger.identity(filled) == who
    assert keys.verifies_hex(keys.public_of(first), content, signature)
    assert {mode(p) for p in filled.key.parent.iterdir()} == {0o600}


def test_a_change_of_keys_that_a_crash_cut_short_is_ended(filled: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash() -> None:
        raise KeyboardInterrupt

    before = signing.public_key(filled)
    with monkeypatch.context() as patch:
        replace = os.replace
        patch.setattr(os, "replace", lambda old, new: crash() if new == filled.key else replace(old, new))
        with pytest.raises(KeyboardInterrupt):
            rotated(filled)
    assert ledger.find(filled, KeyFacts)
    assert signing.public_key(filled) != before
    assert ledger.problems(filled) == []
    enter(filled, "published")
    assert ledger.problems(filled) == []


def test_another_history_cannot_be_put_before_a_change_of_keys(filled: Home, tmp_path: Path) -> None:
    """Whoever writes files, and holds no key of ours, invents a past that ends with our key."""
    rotated(filled)
    last = enter(filled, "published", release="last")
    forger = Home.locate(tmp_path / "forger")
    for name in ("invented", "too"):
        enter(forger, "published", release=name)
    forged = ledger.rotate_key(forger, by="A. Smith", reason="yearly")
    ours = ledger.public_keys(filled)[-1]
    at = lines(forger)
    write(filled, [*at[:2], resealed(entry_json(forged), new_key=ours), entry_line(last).decode() + "\n"])
    found = ledger.problems(filled)
    assert ("key", "entry 3") in [(f.kind, f.where) for f in found]
    assert any(f.kind == "signature" for f in found)


def test_a_ledger_put_back_to_before_a_change_of_keys_is_found(filled: Home) -> None:
    before, head = filled.ledger.read_bytes(), filled.head.read_bytes()
    rotated(filled)
    filled.ledger.write_bytes(before)
    filled.head.write_bytes(head)
    assert {f.kind for f in ledger.problems(filled)} == {"signature", "head"}


def test_an_entry_that_is_dated_before_the_one_it_follows_is_found(filled: Home) -> None:
    first, second, *_ = ledger.entries(filled)
    for seconds, found in (("12:00:00", 0), ("11:59:10", 0), ("11:58:50", 1)):
        dated = [replace(first, time="2026-01-01T12:00:00+00:00"), replace(second, time=f"2026-01-01T{seconds}+00:00")]
        assert [finding.kind for finding in clock_problems(dated)] == ["clock"] * found
    assert list(clock_problems(ledger.entries(filled))) == []


def test_an_entry_that_comes_while_the_ledger_is_read_is_no_loss(filled: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ledger_store.Files.content

    def content(self: ledger_store.Files) -> bytes:
        read = given(self)
        monkeypatch.setattr(ledger_store.Files, "content", given)
        enter(filled, "published", release="meanwhile")
        return read

    monkeypatch.setattr(ledger_store.Files, "content", content)
    assert sentences(filled) == []
    assert len(ledger.entries(filled)) == 6
