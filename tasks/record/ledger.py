"""The record of every decision: appended, chained by hash, signed; never changed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tasks.common import keys
from tasks.common.errors import Fault, Refused, ReleaseError
from tasks.common.home import PRIVATE_FILE, Home, account, make_private, write_private
from tasks.record.ledger_verification import (
    CHAIN,
    CUT_SHORT,
    START,
    Finding,
    acceptance,
    chain_problems,
    entry_digest,
    entry_line,
    form_problems,
    head_content,
    head_problems,
    parsed_line,
    read_head,
    signature_problems,
    signers_of,
)

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
# Locks of a home: nobody else decides, nobody else puts files of releases in place.
DECIDING, PUBLISHING = "decide.lock", "publish.lock"
BEHIND = "an append did not end: the ledger's head named the entry before the last one"


def append(home: Home, event: Event, **facts: Any) -> dict[str, Any]:
    """Append one signed entry and return it.

    Each entry holds the digest of the one before it, and the signed head names the last, so that a
    changed, removed or reordered entry is found by `problems`. Facts are counts, digests, names and
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
        head = read_head(home)
        if not known or (head is not None and head.get("number") == len(known)):
            return False
        key = _key(home)
        return len(_settled(home, known, key)) > len(known)


def resume(home: Home, *, by: str, reason: str) -> dict[str, Any]:
    """Go on with a ledger whose end was lost; the new entry says what the head told of it."""
    with locked(home):
        head = read_head(home)
        lost = {"number": head.get("number"), "digest": head.get("digest")} if head else None
        return _append(home, "resumed", {"by": by, "reason": reason, "head": lost}, checked=False)


def entries(home: Home) -> list[dict[str, Any]]:
    """Return every entry, oldest first.

    What an append left that did not end is passed over: nobody was told of it. `problems` names it.

    Raises
    ------
    Fault
        When a line is not an entry.
    """
    whole, rest = _lines(home)
    lines = [line for line in whole if line.strip()]
    found = [entry for line in (*lines, rest) if (entry := parsed_line(line)) is not None]
    if len(found) < len(lines) + (parsed_line(rest) is not None):
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


def problems(home: Home, public: str | None = None) -> list[Finding]:
    """Return what is wrong with the ledger: changed, removed, reordered, cut off, signed by another.

    Parameters
    ----------
    public : the public key that should have signed last, as `public_key` gave it and as it was kept
        elsewhere; the home's own when not given, which whoever can write there can replace
    """
    whole, rest = _lines(home)
    lines = [line for line in whole if line.strip()]
    parsed = [parsed_line(line) for line in (*lines, *([rest] if parsed_line(rest) is not None else []))]
    known = [entry for entry in parsed if entry is not None]
    found = [
        Finding("unreadable", f"line {number}", f"line {number} of the ledger is not an entry")
        for number, entry in enumerate(parsed, start=1)
        if entry is None
    ]
    if rest and parsed_line(rest) is None:
        sentence = "the last line is unfinished: an append did not end, and what it said is not on record"
        found.append(Finding("unfinished", f"line {len(lines) + 1}", sentence))
    found += chain_problems(known)
    last, mismatch = _last_key(home, known, public)
    found += mismatch
    if last:
        signers, changes = signers_of(known, last)
        found += changes + signature_problems(known, signers)
        found += head_problems(home, known, signers or [last])
    found += form_problems([*whole, *([rest] if parsed_line(rest) is not None else [])], found)
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
        accepted = new.sign(acceptance(named, known[-1].get("digest") if known else START)).hex()
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
    digest = entry_digest(body)
    entry = body | {"digest": digest, "signature": key.sign(digest.encode()).hex()}
    line = entry_line(entry) + b"\n"
    if not known and read_head(home) is None:
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
    head = read_head(home) or {}
    facts = {"by": account(), "reason": BEHIND, "head": {k: head.get(k) for k in ("number", "digest")}}
    return [*known, _append(home, "settled", facts, checked=False)]


def _is_behind(home: Home, known: list[dict[str, Any]], public: str) -> bool:
    """Return whether the head lacks the last entry; refuse to go on after others were cut off."""
    found = head_problems(home, known, signers_of(known, public)[0] or [public])
    cut = [f for f in found if f.kind not in CUT_SHORT]
    if cut:
        raise Fault(
            f"{cut[0].sentence}; nothing is entered. Restore the ledger from a backup, or state the loss "
            "with anonflow audit resume"
        )
    return any(f.kind == "behind" for f in found)


def _write_head(home: Home, entry: dict[str, Any], key: Ed25519PrivateKey) -> None:
    head = {"number": entry["number"], "digest": entry["digest"]}
    signature = key.sign(head_content(head)).hex()
    write_private(home.head, (json.dumps(head | {"signature": signature}) + "\n").encode())


def _finish_last_line(home: Home, file: BinaryIO) -> None:
    """Complete an entry that lacks its line end; put aside what is not an entry, the remains of a crash."""
    rest = _lines(home)[1]
    if not rest:
        return
    if parsed_line(rest) is not None:
        file.write(b"\n")
        return
    write_private(home.ledger.with_suffix(f".unfinished-{secrets.token_hex(4)}"), rest)
    file.truncate(home.ledger.stat().st_size - len(rest))


def _lines(home: Home) -> tuple[list[bytes], bytes]:
    """Return the ledger's lines, and what follows the last line end."""
    content = home.ledger.read_bytes() if home.ledger.exists() else b""
    *whole, rest = content.split(b"\n")
    return whole, rest


# Keys


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
