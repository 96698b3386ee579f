"""The key with which a home signs its ledger, manifests and notices."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tasks.common import keys
from tasks.common.errors import Fault
from tasks.common.home import Home, make_private, write_private
from tasks.record.ledger_store import store_of


def sign(home: Home, content: bytes) -> str:
    """Return the Ed25519 signature of ``content``, in hexadecimal."""
    return signing_key(home).sign(content).hex()


def public_key(home: Home) -> str:
    """Return the public key that verifies this home's signatures, in PEM form."""
    return keys.pem(signing_key(home).public_key())


def signing_key(home: Home) -> Ed25519PrivateKey:
    """Return the signing key, made on first use, by one process alone.

    Raises
    ------
    Fault
        When it is gone though the ledger holds entries, or cannot be read.
    """
    if not home.key.exists() or next_key(home).exists():
        make_private(home.key.parent)
        with home.lock("key"):
            _make_or_replace(home)
    return keys.read_private(home.key, f"the signing key {key_name(home)}")


def key_name(home: Home) -> str:
    """Return how messages say where the signing key is."""
    return f"in {home.key.parent.name}/{home.key.name}"


def next_key(home: Home) -> Path:
    """Return where a new key lies until the ledger names it and it replaces the one in use."""
    return home.key.with_name(f"{home.key.name}.next")


def _make_or_replace(home: Home) -> None:
    """Make the first key, or put the next one in its place if a crash came after the ledger had named it."""
    entered = store_of(home).content()
    if not home.key.exists():
        if entered:
            raise Fault(f"the signing key {key_name(home)} is gone; restore it from a backup")
        write_private(home.key, keys.new_private())
    if next_key(home).exists():
        new = keys.read_private(next_key(home), "the new key").public_key()
        if keys.raw(new).encode() in entered:
            os.replace(next_key(home), home.key)
