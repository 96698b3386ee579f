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
from typing import Any, BinaryIO, Literal

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tasks.faults import Fault
from tasks.home import PRIVATE_FILE, Home, make_private, write_private

Event = Literal["publishing", "published", "unchanged", "abandoned", "rejected", "awaiting", "approved"]
START = "0" * 64


def append(home: Home, event: Event, **facts: Any) -> dict[str, Any]:
    """Append one signed entry and return it.

    Each entry holds the digest of the one before it, so that a changed, removed or reordered
    entry is found by `verify`. Facts are counts, digests, names and reasons; never data.
    """
    with locked(home):
        return _append(home, event, facts)


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


def verify(home: Home) -> list[str]:
    """Return what is wrong with the ledger, one sentence per finding; empty when it can be trusted.

    Whole entries that were cut off at the end leave no trace here; keep backups elsewhere.
    """
    found = []
    rest = _lines(home)[1]
    if rest and _parsed(rest) is None:
        found.append("the last line is unfinished: an append did not end, and what it said is not on record")
    public = _key(home).public_key()
    before = START
    for number, entry in enumerate(entries(home), start=1):
        body = {k: v for k, v in entry.items() if k not in ("digest", "signature")}
        if entry.get("previous") != before or entry.get("number") != number:
            found.append(f"entry {number} does not follow the one before it")
        if entry.get("digest") != _digest(body):
            found.append(f"entry {number} was changed")
        elif not _holds(public, str(entry["digest"]).encode(), str(entry.get("signature"))):
            found.append(f"entry {number} is not signed by this home's key")
        before = str(entry.get("digest"))
    return found


def sign(home: Home, content: bytes) -> str:
    """Return the Ed25519 signature of ``content``, in hexadecimal."""
    return _key(home).sign(content).hex()


def public_key(home: Home) -> str:
    """Return the public key that verifies this home's signatures, in PEM form."""
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return _key(home).public_key().public_bytes(encoding, form).decode()


def signed(public_pem: bytes, content: bytes, signature: str) -> bool:
    """Return whether ``signature``, as `sign` writes it, is that of ``content`` by the key in PEM form."""
    try:
        key = serialization.load_pem_public_key(public_pem)
    except (ValueError, UnsupportedAlgorithm):
        return False
    return isinstance(key, Ed25519PublicKey) and _holds(key, content, signature)


def _append(home: Home, event: Event, facts: dict[str, Any]) -> dict[str, Any]:
    known = entries(home)
    body = {
        "number": len(known) + 1,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "event": event,
        "previous": str(known[-1].get("digest")) if known else START,
    } | facts
    digest = _digest(body)
    entry = body | {"digest": digest, "signature": sign(home, digest.encode())}
    line = json.dumps(entry, sort_keys=True) + "\n"
    descriptor = os.open(home.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
    with os.fdopen(descriptor, "ab") as file:
        _finish_last_line(home, file)
        file.write(line.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    return entry


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


def _digest(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _holds(public: Ed25519PublicKey, content: bytes, signature: str) -> bool:
    try:
        public.verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _key(home: Home) -> Ed25519PrivateKey:
    """Return the signing key, made on first use, by one process alone."""
    if not home.key.exists():
        make_private(home.key.parent)
        with locked(home, "key.lock"):
            if not home.key.exists():
                write_private(home.key, _new_key())
    problem = ""
    try:
        key = serialization.load_pem_private_key(home.key.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        problem = "cannot be read"
    else:
        if isinstance(key, Ed25519PrivateKey):
            return key
        problem = "is not an Ed25519 key"
    raise Fault(f"the signing key in keys/{home.key.name} {problem}; restore it from a backup")


def _new_key() -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, form, serialization.NoEncryption()
    )


def keyed(home: Home, digest: str) -> str:
    """Return a digest that nobody can try guesses on who has not the home's key.

    The signature is deterministic, so the same digest has the same keyed one for as long as the key is kept.
    """
    return hashlib.sha256(sign(home, f"digest {digest}".encode()).encode()).hexdigest()


@contextmanager
def locked(home: Home, name: str = "ledger.lock") -> Iterator[None]:
    """Keep other processes of this home out."""
    descriptor = os.open(home.path / name, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
