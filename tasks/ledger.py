"""The record of every decision: appended, chained by hash, signed; never changed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tasks.faults import Fault
from tasks.workspace import PRIVATE_FILE, Home, make_private, write_private

Event = Literal["published", "unchanged", "rejected", "awaiting", "approved"]
START = "0" * 64


def append(home: Home, event: Event, **facts: Any) -> dict[str, Any]:
    """Append one signed entry and return it.

    Each entry holds the digest of the one before it, so that a changed, removed or reordered
    entry is found by `verify`. Facts are counts, digests, names and reasons; never data.
    """
    with _locked(home):
        return _append(home, event, facts)


def entries(home: Home) -> list[dict[str, Any]]:
    """Return every entry, oldest first."""
    if not home.ledger.exists():
        return []
    lines = home.ledger.read_text(encoding="utf-8").splitlines()
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except json.JSONDecodeError:
        damaged = "the ledger holds a line that is not an entry; restore it from a backup"
    raise Fault(damaged)


def find(home: Home, *events: Event, **facts: Any) -> list[dict[str, Any]]:
    """Return the entries of ``events`` whose facts equal those given, oldest first."""
    return [
        entry
        for entry in entries(home)
        if (not events or entry["event"] in events) and all(entry.get(k) == v for k, v in facts.items())
    ]


def verify(home: Home) -> list[str]:
    """Return what is wrong with the ledger, one sentence per finding; empty when it can be trusted."""
    found = []
    public = _key(home).public_key()
    before = START
    for number, entry in enumerate(entries(home), start=1):
        body = {k: v for k, v in entry.items() if k not in ("digest", "signature")}
        if entry.get("previous") != before or entry.get("number") != number:
            found.append(f"entry {number} does not follow the one before it")
        if entry.get("digest") != _digest(body):
            found.append(f"entry {number} was changed")
        elif not _signed(public, entry):
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


def _append(home: Home, event: Event, facts: dict[str, Any]) -> dict[str, Any]:
    known = entries(home)
    body = {
        "number": len(known) + 1,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "event": event,
        "previous": known[-1]["digest"] if known else START,
    } | facts
    digest = _digest(body)
    entry = body | {"digest": digest, "signature": sign(home, digest.encode())}
    line = json.dumps(entry, ensure_ascii=False, sort_keys=True) + "\n"
    descriptor = os.open(home.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
    with os.fdopen(descriptor, "ab") as file:
        file.write(line.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())
    return entry


def _digest(body: dict[str, Any]) -> str:
    text = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _signed(public: Ed25519PublicKey, entry: dict[str, Any]) -> bool:
    try:
        public.verify(bytes.fromhex(str(entry.get("signature", ""))), str(entry["digest"]).encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _key(home: Home) -> Ed25519PrivateKey:
    """Return the signing key, made on first use."""
    if not home.key.exists():
        make_private(home.key.parent)
        pem = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        write_private(home.key, pem)
    key = serialization.load_pem_private_key(home.key.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise Fault("the signing key in keys/ed25519.pem is not an Ed25519 key; restore it from a backup")
    return key


@contextmanager
def _locked(home: Home) -> Iterator[None]:
    with (home.path / "ledger.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
