"""The record of every decision: appended, chained by hash, signed; never changed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tasks import keys
from tasks.faults import Fault, Refused, ReleaseError
from tasks.home import PRIVATE_FILE, Home, account, make_private, write_private

Event = Literal[
    "publishing",
    "published",
    "unchanged",
    "abandoned",
    "rejected",
    "awaiting",
    "approved",
    "expired",
    "withdrawing",
    "withdrawn",
    "person-added",
    "person-removed",
    "key-rotated",
    "resumed",
    "settled",
    "delivering",
    "delivered",
    "delivery failed",
    "recalled",
    "recall failed",
]
START = "0" * 64
BEHIND = "an append did not end: the ledger's head named the entry before the last one"
# What is entered beside the facts.
CHAIN = ("number", "time", "event", "previous", "digest", "signature")
# What a crash in the middle of an append leaves; the next append settles it.
CUT_SHORT = ("unfinished", "behind")


@dataclass(frozen=True)
class Finding:
    """What is not as it was left: a kind for scripts, where it is, and a sentence."""

    kind: str
    where: str
    sentence: str


def append(home: Home, event: Event, **facts: Any) -> dict[str, Any]:
    """Append one signed entry and return it.

    Each entry holds the digest of the one before it, and the signed head names the last, so that a
    changed, removed or reordered entry is found by `verify`. Facts are counts, digests, names and
    reasons; never data.

    Raises
    ------
    Fault
        When the ledger does not end with the entry that its head names: going on would hide the loss.
    """
    with locked(home):
        return _append(home, event, facts)


def settle(home: Home) -> bool:
    """Enter that a crash came between an entry and the head that names it; return whether it did.

    Raises
    ------
    Fault
        When the ledger does not end with the entry that its head names.
    """
    if not home.ledger.exists():
        return False
    with locked(home):
        known = entries(home)
        head = _head(home)
        if not known or (head is not None and head.get("number") == len(known)):
            return False
        key = _key(home)
        return len(_settled(home, known, key)) > len(known)


def resume(home: Home, *, by: str, reason: str) -> dict[str, Any]:
    """Go on with a ledger whose end was lost; the new entry says what the head told of it."""
    with locked(home):
        head = _head(home)
        lost = {"number": head.get("number"), "digest": head.get("digest")} if head else None
        return _append(home, "resumed", {"by": by, "reason": reason, "head": lost}, checked=False)


def entries(home: Home) -> list[dict[str, Any]]:
    """Return every entry, oldest first.

    What an append left that did not end is passed over: nobody was told of it. `verify` names it.

    Raises
    ------
    Fault
        When a line is not an entry.
    """
    whole, rest = _lines(home)
    lines = [line for line in whole if line.strip()]
    found = [entry for line in (*lines, rest) if (entry := _parsed(line)) is not None]
    if len(found) < len(lines) + (_parsed(rest) is not None):
        raise Fault("the ledger holds a line that is not an entry; restore it from a backup")
    return found


def find(home: Home, *events: Event, **facts: Any) -> list[dict[str, Any]]:
    """Return the entries of ``events`` whose facts equal those given, oldest first."""
    return [
        entry
        for entry in entries(home)
        if (not events or entry.get("event") in events) and all(entry.get(k) == v for k, v in facts.items())
    ]


def facts_of(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry's facts, without what chains and signs it."""
    return {k: v for k, v in entry.items() if k not in CHAIN}


def verify(home: Home, public: str | None = None) -> list[str]:
    """Return what is wrong with the ledger, one sentence per finding; empty when it can be trusted."""
    return [finding.sentence for finding in problems(home, public)]


def problems(home: Home, public: str | None = None) -> list[Finding]:
    """Return what is wrong with the ledger: changed, removed, reordered, cut off, signed by another.

    Parameters
    ----------
    public : the public key that should have signed last, as `public_key` gave it and as it was kept
        elsewhere; the home's own when not given, which whoever can write there can replace
    """
    whole, rest = _lines(home)
    lines = [line for line in whole if line.strip()]
    parsed = [_parsed(line) for line in (*lines, *([rest] if _parsed(rest) is not None else []))]
    known = [entry for entry in parsed if entry is not None]
    found = [
        Finding("unreadable", f"line {number}", f"line {number} of the ledger is not an entry")
        for number, entry in enumerate(parsed, start=1)
        if entry is None
    ]
    if rest and _parsed(rest) is None:
        sentence = "the last line is unfinished: an append did not end, and what it said is not on record"
        found.append(Finding("unfinished", f"line {len(lines) + 1}", sentence))
    found += _chain_problems(known)
    last, mismatch = _last_key(home, known, public)
    found += mismatch
    if last:
        signers, changes = _signers(known, last)
        found += changes + _signature_problems(known, signers)
        found += _head_problems(home, known, signers or [last])
    found += _form_problems([*whole, *([rest] if _parsed(rest) is not None else [])], found)
    return found + [
        Finding(
            "resumed",
            f"entry {entry.get('number')}",
            f"entry {entry.get('number')} says that what stood before it was lost, and why",
        )
        for entry in known
        if entry.get("event") == "resumed"
    ]


def sign(home: Home, content: bytes) -> str:
    """Return the Ed25519 signature of ``content``, in hexadecimal."""
    return _key(home).sign(content).hex()


def public_key(home: Home) -> str:
    """Return the public key that verifies this home's signatures, in PEM form."""
    return keys.pem(_key(home).public_key())


def public_keys(home: Home) -> list[str]:
    """Return every public key that has signed here, oldest first, in base64; the last is in use."""
    changes = find(home, "key-rotated")
    return [*(str(entry.get("old_key")) for entry in changes), keys.raw(_key(home).public_key())]


def identity(home: Home) -> str:
    """Return by which text this home is told from others: the fingerprint of its first key."""
    return keys.fingerprint(public_keys(home)[0])


def signed(public_pem: bytes, content: bytes, signature: str) -> bool:
    """Return whether ``signature``, as `sign` writes it, is that of ``content`` by the key in PEM form."""
    return keys.holds_hex(keys.public_of(public_pem.decode("ascii", "replace")), content, signature)


def rotate_key(home: Home, *, by: str, reason: str) -> dict[str, Any]:
    """Sign with a new key from now on; return the entry, the last that the old key signs.

    The entry names both keys, and the new one signs it too, so that nobody without the new key can put
    a history of their own before it. Digests that depend on the first key keep depending on it.
    """
    with locked(home):
        old = _key(home)
        if not home.digest_key.exists():
            make_private(home.digest_key.parent)
            write_private(home.digest_key, home.key.read_bytes())
        write_private(_next(home), keys.new_private())
        new = keys.read_private(_next(home), "the new key")
        known = _settled(home, entries(home), old)
        named = {
            "old_key": keys.raw(old.public_key()),
            "new_key": keys.raw(new.public_key()),
        }
        accepted = new.sign(_acceptance(named, known[-1].get("digest") if known else START)).hex()
        facts = {"by": by, "reason": reason} | named | {"accepted": accepted}
        entry = _append(home, "key-rotated", facts)
        os.replace(_next(home), home.key)
    return entry


def keyed(home: Home, digest: str) -> str:
    """Return a digest that nobody can try guesses on who has not the home's key.

    The signature is deterministic, so the same digest has the same keyed one, also after the signing key
    was changed.
    """
    key = keys.read_private(home.digest_key, "keys/digests.pem") if home.digest_key.exists() else _key(home)
    return hashlib.sha256(key.sign(f"digest {digest}".encode()).hex().encode()).hexdigest()


@contextmanager
def locked(home: Home, name: str = "ledger.lock") -> Iterator[None]:
    """Keep other processes of this home out."""
    descriptor = os.open(home.path / name, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# Appending


def _append(home: Home, event: Event, facts: dict[str, Any], *, checked: bool = True) -> dict[str, Any]:
    known = entries(home)
    key = _key(home)
    if checked:
        known = _settled(home, known, key)
    body = {
        "number": len(known) + 1,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "event": event,
        "previous": str(known[-1].get("digest")) if known else START,
    } | facts
    digest = _digest(body)
    entry = body | {"digest": digest, "signature": key.sign(digest.encode()).hex()}
    line = _line(entry) + b"\n"
    if not known and _head(home) is None:
        # So that a first append that does not end does not look like a head that was removed.
        _write_head(home, {"number": 0, "digest": START}, key)
    descriptor = os.open(home.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
    with os.fdopen(descriptor, "ab") as file:
        _finish_last_line(home, file)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    _write_head(home, entry, key)
    return entry


def _settled(home: Home, known: list[dict[str, Any]], key: Ed25519PrivateKey) -> list[dict[str, Any]]:
    """Return the entries, and one more where the head was behind: that it was must not be forgotten."""
    if not _is_behind(home, known, keys.raw(key.public_key())):
        return known
    head = _head(home) or {}
    facts = {"by": account(), "reason": BEHIND, "head": {k: head.get(k) for k in ("number", "digest")}}
    return [*known, _append(home, "settled", facts, checked=False)]


def _is_behind(home: Home, known: list[dict[str, Any]], public: str) -> bool:
    """Return whether the head lacks the last entry; refuse to go on after others were cut off."""
    found = _head_problems(home, known, _signers(known, public)[0] or [public])
    cut = [f for f in found if f.kind not in CUT_SHORT]
    if cut:
        raise Fault(
            f"{cut[0].sentence}; nothing is entered. Restore the ledger from a backup, or state the loss "
            "with anonflow audit resume"
        )
    return any(f.kind == "behind" for f in found)


def _write_head(home: Home, entry: dict[str, Any], key: Ed25519PrivateKey) -> None:
    head = {"number": entry["number"], "digest": entry["digest"]}
    signature = key.sign(_head_content(head)).hex()
    write_private(home.head, (json.dumps(head | {"signature": signature}) + "\n").encode())


def _finish_last_line(home: Home, file: BinaryIO) -> None:
    """Complete an entry that lacks its line end; put aside what is not an entry, the remains of a crash."""
    rest = _lines(home)[1]
    if not rest:
        return
    if _parsed(rest) is not None:
        file.write(b"\n")
        return
    write_private(home.ledger.with_suffix(f".unfinished-{secrets.token_hex(4)}"), rest)
    file.truncate(home.ledger.stat().st_size - len(rest))


def _lines(home: Home) -> tuple[list[bytes], bytes]:
    """Return the ledger's lines, and what follows the last line end."""
    content = home.ledger.read_bytes() if home.ledger.exists() else b""
    *whole, rest = content.split(b"\n")
    return whole, rest


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _line(entry: dict[str, Any]) -> bytes:
    """Return how an entry is written: in one form only, so that no other text reads as the same entry."""
    return json.dumps(entry, sort_keys=True).encode("ascii")


def _digest(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# Verifying


def _chain_problems(known: list[dict[str, Any]]) -> list[Finding]:
    """Return which entries do not follow the one before them, and which are not what they were."""
    numbers = {entry.get("number") for entry in known}
    found = []
    before, number_before = START, 0
    for place, entry in enumerate(known, start=1):
        number = entry.get("number")
        number = number if isinstance(number, int) else place
        where = f"entry {place}"
        if entry.get("previous") != before or entry.get("number") != number_before + 1:
            lost = any(n not in numbers for n in range(number_before + 1, number))
            kind = "removed" if lost else "reordered" if number != number_before + 1 else "chain"
            why = {"removed": ": entries were removed", "reordered": ": the order was changed"}.get(kind, "")
            found.append(Finding(kind, where, f"{where} does not follow the one before it{why}"))
        if entry.get("digest") != _digest({k: v for k, v in entry.items() if k not in CHAIN[-2:]}):
            found.append(Finding("changed", where, f"{where} was changed"))
        before, number_before = str(entry.get("digest")), number
    return found


def _form_problems(lines: Sequence[bytes], found: Sequence[Finding]) -> list[Finding]:
    """Return which lines read as their entry and are not what was written: spaces, order, doubled keys."""
    known = {f.where for f in found if f.kind in ("changed", "unreadable")}
    changed, place = [], 0
    for line in lines:
        if not line.strip():
            changed.append(
                Finding("changed", "ledger", "the ledger holds an empty line, which nobody enters")
            )
            continue
        place += 1
        where, entry = f"entry {place}", _parsed(line)
        if entry is not None and where not in known and line != _line(entry):
            changed.append(Finding("changed", where, f"{where} is not written as it was entered"))
    return changed


def _last_key(home: Home, known: list[dict[str, Any]], public: str | None) -> tuple[str, list[Finding]]:
    """Return the public key to trust, and what is wrong with the home's own; none when there is none."""
    own, found = "", []
    if not home.key.exists() and known:
        found.append(Finding("key", "keys", f"the signing key {_named(home)} is gone"))
    elif public is None or os.access(home.key, os.R_OK):
        try:
            own = keys.raw(_key(home).public_key())
        except ReleaseError as error:
            found.append(Finding("key", "keys", str(error)))
    if public is None:
        return own, found
    given = keys.public_of(public)
    if given is None:
        raise Refused("the public key that was given is no Ed25519 key, in PEM form or as base64")
    if own and own != keys.raw(given):
        sentence = "this home's key is not the one that was kept elsewhere: it was changed, or replaced"
        found.append(Finding("key", "keys", sentence))
    return keys.raw(given), found


def _signers(known: list[dict[str, Any]], last: str) -> tuple[list[str], list[Finding]]:
    """Return who should have signed each entry, going back from the key that is trusted.

    A change of keys counts when the new key has accepted it: who holds none of ours cannot put another
    history before it.
    """
    changes = [(place, e) for place, e in enumerate(known) if e.get("event") == "key-rotated"]
    signers, found = [last] * len(known), []
    key = last
    for place, entry in reversed(changes):
        where = f"entry {place + 1}"
        new = keys.public_of(str(entry.get("new_key")))
        agreed = keys.holds_hex(new, _acceptance(entry, entry.get("previous")), entry.get("accepted"))
        if entry.get("new_key") != key or not agreed:
            sentence = f"{where} names a new key that is not the one which signs after it"
            found.append(Finding("key", where, sentence))
            break
        key = str(entry.get("old_key"))
        signers[: place + 1] = [key] * (place + 1)
    return signers, found


def _signature_problems(known: list[dict[str, Any]], signers: Sequence[str]) -> list[Finding]:
    public = {text: keys.public_of(text) for text in set(signers)}
    return [
        Finding("signature", f"entry {place}", f"entry {place} is not signed by this home's key")
        for place, (entry, signer) in enumerate(zip(known, signers, strict=True), start=1)
        if not keys.holds_hex(public[signer], str(entry.get("digest")).encode(), entry.get("signature"))
    ]


def _head(home: Home) -> dict[str, Any] | None:
    return _parsed(home.head.read_bytes()) if home.head.exists() else None


def _head_content(head: dict[str, Any]) -> bytes:
    return f"anonflow head {head.get('number')} {head.get('digest')}".encode()


def _head_problems(home: Home, known: list[dict[str, Any]], signers: Sequence[str]) -> list[Finding]:
    head = _head(home)
    where = home.head.name
    if head is None:
        gone = "is gone" if not home.head.exists() else "cannot be read"
        sentence = f"{where}, which names the last entry, {gone}: whether entries were cut off is not known"
        return [Finding("head", where, sentence)] if known or home.head.exists() else []
    number = head.get("number")
    if not isinstance(number, int) or number > len(known):
        sentence = (
            f"the ledger ends with entry {len(known)}, and its head names entry {number}: it was cut off"
        )
        return [Finding("truncated", where, sentence)]
    signer = keys.public_of(signers[max(number, 1) - 1]) if number >= 0 else None
    if not keys.holds_hex(signer, _head_content(head), head.get("signature")):
        return [Finding("head", where, f"{where} is not signed by this home's key")]
    if head.get("digest") != (known[number - 1].get("digest") if number else START):
        return [Finding("truncated", where, f"entry {number} is not the one that the ledger's head names")]
    if number < len(known):
        ends = f"the ledger's head names entry {number}, and the ledger ends with entry {len(known)}"
        if number < len(known) - 1:
            return [Finding("head", where, f"{ends}: an older head was put in its place")]
        sentence = f"{ends}: an append did not end, or an older head was put in its place"
        return [Finding("behind", where, sentence)]
    return []


# Keys


def _acceptance(named: dict[str, Any], previous: object) -> bytes:
    return f"anonflow key {named.get('old_key')} {named.get('new_key')} {previous}".encode()


def _named(home: Home) -> str:
    return f"in {home.key.parent.name}/{home.key.name}"


def _key(home: Home) -> Ed25519PrivateKey:
    """Return the signing key, made on first use, by one process alone."""
    if not home.key.exists():
        make_private(home.key.parent)
        with locked(home, "key.lock"):
            if not home.key.exists():
                _make_first_key(home)
    if _next(home).exists():
        _end_rotation(home)
    return keys.read_private(home.key, f"the signing key {_named(home)}")


def _make_first_key(home: Home) -> None:
    if home.ledger.exists() and home.ledger.stat().st_size:
        raise Fault(f"the signing key {_named(home)} is gone; restore it from a backup")
    write_private(home.key, keys.new_private())


def _next(home: Home) -> Path:
    return home.key.with_name(f"{home.key.name}.next")


def _end_rotation(home: Home) -> None:
    """Put a new key in its place that the ledger names already; a crash came between."""
    with locked(home, "key.lock"):
        changes = find(home, "key-rotated")
        if not (changes and _next(home).exists()):
            return
        new = keys.read_private(_next(home), "the new key")
        if changes[-1].get("new_key") == keys.raw(new.public_key()):
            os.replace(_next(home), home.key)
