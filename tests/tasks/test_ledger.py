"""The record of decisions: nothing in it can be changed unseen, and nothing it took is lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tasks import ledger
from tasks.faults import Fault
from tasks.home import Home, make_private, write_private


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


@pytest.fixture
def filled(home: Home) -> Home:
    for number in range(5):
        ledger.append(home, "published", release=f"r{number}", gates={"distance": ["pass", "0.1"]})
    return home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def lines(home: Home) -> list[str]:
    return home.ledger.read_text().splitlines(keepends=True)


def write(home: Home, content: list[str]) -> None:
    home.ledger.write_text("".join(content))


def test_an_empty_ledger_holds_nothing_and_is_in_order(home: Home) -> None:
    assert ledger.entries(home) == []
    assert ledger.find(home, "published") == []
    assert ledger.verify(home) == []


def test_entries_come_back_in_order_and_verify(filled: Home) -> None:
    found = ledger.entries(filled)
    assert [entry["release"] for entry in found] == [f"r{i}" for i in range(5)]
    assert [entry["number"] for entry in found] == [1, 2, 3, 4, 5]
    assert found[0]["previous"] == ledger.START
    assert all(b["previous"] == a["digest"] for a, b in pairwise(found))
    assert ledger.verify(filled) == []


def test_find_asks_for_events_and_facts(filled: Home) -> None:
    ledger.append(filled, "awaiting", release="r1")
    assert [e["event"] for e in ledger.find(filled, release="r1")] == ["published", "awaiting"]
    assert len(ledger.find(filled, "awaiting", "approved")) == 1
    assert ledger.find(filled, "awaiting", release="r0") == []
    assert ledger.find(filled, nothing="x") == []


@pytest.mark.parametrize(
    "text", ["line\nend", "\u2028\u2029\x85\x0b\x0c\x1c", "größe 身長 \U0001f600", "\udc80 half", '"}{', ""]
)
def test_any_reason_is_kept_as_it_was_given(home: Home, text: str) -> None:
    ledger.append(home, "approved", approval_reason=text)
    ledger.append(home, "published", release="x")
    assert ledger.entries(home)[0]["approval_reason"] == text
    assert ledger.verify(home) == []
    assert home.ledger.read_bytes().count(b"\n") == 2


TAMPERING: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "changed": (lambda at: [*at[:2], at[2].replace("r2", "r9"), *at[3:]], "entry 3 was changed"),
    "removed": (lambda at: [*at[:2], *at[3:]], "entry 3 does not follow"),
    "first removed": (lambda at: at[1:], "entry 1 does not follow"),
    "reordered": (lambda at: [*at[:2], at[3], at[2], at[4]], "entry 3 does not follow"),
    "doubled": (lambda at: [*at[:3], at[2], *at[3:]], "entry 4 does not follow"),
    "renumbered": (lambda at: [*at[:2], at[3].replace('"number": 4', '"number": 3')], "entry 3 was changed"),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampering_is_found(filled: Home, how: str) -> None:
    change, finding = TAMPERING[how]
    write(filled, change(lines(filled)))
    assert any(found.startswith(finding) for found in ledger.verify(filled))


@pytest.mark.parametrize("field", ["digest", "signature", "previous", "number"])
def test_an_entry_without_a_field_is_found_and_the_ledger_goes_on(filled: Home, field: str) -> None:
    entry = json.loads(lines(filled)[2])
    del entry[field]
    write(filled, [*lines(filled)[:2], json.dumps(entry) + "\n"])
    assert ledger.verify(filled)
    ledger.append(filled, "published", release="next")
    assert ledger.entries(filled)[-1]["release"] == "next"


def test_a_forged_entry_with_a_right_digest_lacks_the_signature(filled: Home) -> None:
    entry = {k: v for k, v in json.loads(lines(filled)[4]).items() if k not in ("digest", "signature")}
    entry |= {"release": "forged"}
    forged = entry | {"digest": ledger._digest(entry), "signature": "00" * 64}
    write(filled, [*lines(filled)[:4], json.dumps(forged, sort_keys=True) + "\n"])
    assert ledger.verify(filled) == ["entry 5 is not signed by this home's key"]
    forged["signature"] = "not hexadecimal"
    write(filled, [*lines(filled)[:4], json.dumps(forged, sort_keys=True) + "\n"])
    assert ledger.verify(filled) == ["entry 5 is not signed by this home's key"]


@pytest.mark.parametrize("cut", [10, 200])
def test_truncation_in_the_middle_is_a_clear_fault(filled: Home, cut: int) -> None:
    content = lines(filled)
    write(filled, [*content[:2], content[2][:cut], "\n", *content[3:]])
    for ask in (ledger.entries, ledger.verify, lambda home: ledger.append(home, "published")):
        with pytest.raises(
            Fault, match="holds a line that is not an entry; restore it from a backup"
        ) as raised:
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
    whole = lines(filled)
    remains = whole[4][:100]
    write(filled, [*whole[:4], remains])
    assert len(ledger.entries(filled)) == 4
    assert ledger.verify(filled) == [
        "the last line is unfinished: an append did not end, and what it said is not on record"
    ]
    entry = ledger.append(filled, "published", release="next")
    assert entry["number"] == 5
    assert lines(filled)[:4] == whole[:4]
    assert ledger.verify(filled) == []
    (aside,) = filled.path.glob("ledger.unfinished-*")
    assert aside.read_text() == remains
    assert mode(aside) == 0o600


def test_a_last_entry_that_lacks_only_its_line_end_counts(filled: Home) -> None:
    filled.ledger.write_bytes(filled.ledger.read_bytes().rstrip(b"\n"))
    assert len(ledger.entries(filled)) == 5
    assert ledger.verify(filled) == []
    assert ledger.append(filled, "published")["number"] == 6
    assert ledger.verify(filled) == []


def test_facts_that_cannot_be_written_leave_the_ledger_as_it_was(filled: Home) -> None:
    before = filled.ledger.read_bytes()
    with pytest.raises(TypeError):
        ledger.append(filled, "published", release=object())
    assert filled.ledger.read_bytes() == before


# Several processes


FORK = multiprocessing.get_context("fork")


def appending(home: Home, who: int, appends: int, start: Any, said: Any) -> None:
    start.wait()
    for number in range(appends):
        ledger.append(home, "published", release=f"{who}-{number}", reason="x" * 3000)
    said.put(ledger.public_key(home))


def together(home: Home, processes: int, appends: int) -> list[str]:
    """Run processes that all start at once; return the public key that each of them found."""
    start, said = FORK.Barrier(processes), FORK.Queue()
    children = [
        FORK.Process(target=appending, args=(home, who, appends, start, said)) for who in range(processes)
    ]
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
    assert {e["release"] for e in ledger.entries(home)} == {f"{p}-{n}" for p in range(4) for n in range(12)}
    assert ledger.verify(home) == []
    assert ledger.public_key(home) == keys[0]


def test_two_that_find_no_key_at_once_make_one(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look at the key says "none", as it does to two processes that start together."""
    ledger.append(home, "published")
    before = home.key.read_bytes()
    asked: list[Path] = []
    exists = Path.exists

    def late(path: Path) -> bool:
        if path == home.key and not asked:
            asked.append(path)
            return False
        return exists(path)

    monkeypatch.setattr(Path, "exists", late)
    ledger.append(home, "published")
    assert asked
    assert home.key.read_bytes() == before
    assert ledger.verify(home) == []


# The key


def test_the_key_is_made_once_and_private(home: Home) -> None:
    before = os.umask(0)
    try:
        signature = ledger.sign(home, b"x")
    finally:
        os.umask(before)
    assert mode(home.key) == 0o600
    assert mode(home.key.parent) == 0o700
    assert ledger.sign(home, b"x") == signature
    assert {p.name for p in home.key.parent.iterdir()} == {"ed25519.pem"}


def test_signatures_verify_with_the_public_key_alone(home: Home) -> None:
    signature, pem = ledger.sign(home, b"content"), ledger.public_key(home).encode()
    serialization.load_pem_public_key(pem).verify(bytes.fromhex(signature), b"content")  # type: ignore[union-attr,call-arg]
    assert ledger.signed(pem, b"content", signature)
    assert not ledger.signed(pem, b"another", signature)
    assert not ledger.signed(b"no key", b"content", signature)
    assert not ledger.signed(pem, b"content", "zz")


def test_a_key_that_is_none_is_a_clear_fault(home: Home) -> None:
    make_private(home.key.parent)
    write_private(home.key, b"CANARY")
    with pytest.raises(Fault, match=r"keys/ed25519.pem cannot be read; restore it from a backup") as raised:
        ledger.append(home, "published")
    assert raised.value.__context__ is None
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(home.key, other)
    with pytest.raises(Fault, match="is not an Ed25519 key"):
        ledger.append(home, "published")


def test_entries_of_another_key_are_found(filled: Home) -> None:
    filled.key.unlink()
    assert ledger.verify(filled) == [f"entry {n} is not signed by this home's key" for n in range(1, 6)]
