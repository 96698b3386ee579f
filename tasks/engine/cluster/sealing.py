"""What travels to workers and back is encrypted for them, beside TLS: nothing that Dask logs or keeps is readable."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Literal

from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE = 12
Direction = Literal["call", "answer"]
# RFC 9180.
HPKE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


@dataclass(frozen=True)
class Seal:
    """Encrypts calls and answers of one run by AES-256-GCM, with keys derived from that of its store.

    Parameters
    ----------
    key : of the store
    """

    key: bytes = field(repr=False)

    def close(self, content: bytes, direction: Direction, name: str) -> bytes:
        """Return a message encrypted; ``name`` is that of its task."""
        nonce = secrets.token_bytes(NONCE)
        return nonce + self._cipher(direction).encrypt(nonce, content, name.encode())

    def open(self, sealed: bytes, direction: Direction, name: str) -> bytes:
        """Return a message; InvalidTag where it is another than the one that was sent for this task."""
        return self._cipher(direction).decrypt(sealed[:NONCE], sealed[NONCE:], name.encode())

    def _cipher(self, direction: Direction) -> AESGCM:
        return AESGCM(hmac.digest(self.key, f"messages {direction}".encode(), "sha256"))


def wrapped(key: bytes, public: bytes, run: str) -> bytes:
    """Return a store's key encrypted for the process that has the private key to ``public``."""
    return HPKE.encrypt(key, X25519PublicKey.from_public_bytes(public), run.encode())


def unwrapped(sealed: bytes, private: X25519PrivateKey, run: str) -> bytes:
    """Return a store's key."""
    return HPKE.decrypt(sealed, private, run.encode())
