"""Make, read, show and use keys: Ed25519 pairs for signatures, one secret per home for keyed digests."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tasks.common.errors import Fault, Refused, visible
from tasks.common.home import Home

RAW_BYTES = 32
GROUP_AND_OTHERS = 0o077


def new_private() -> bytes:
    """Return a new private key, in PEM form."""
    form = serialization.PrivateFormat.PKCS8
    return Ed25519PrivateKey.generate().private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def read_private(path: Path, name: str, password: bytes | None = None) -> Ed25519PrivateKey:
    """Return the private key in a file that its owner alone can read.

    Parameters
    ----------
    name : what the key is called in messages, such as "the signing key in keys/ed25519.pem"

    Raises
    ------
    Refused
        When others can read the file.
    Fault
        When it holds no Ed25519 key.
    """
    if stat.S_IMODE(path.stat().st_mode) & GROUP_AND_OTHERS:
        raise Refused(
            f"{name} can be read by others; run chmod 600 on it, and replace the key if it may have been read"
        )
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        problem = "cannot be read"
    else:
        if isinstance(key, Ed25519PrivateKey):
            return key
        problem = "is not an Ed25519 key"
    raise Fault(f"{name} {problem}; restore it from a backup")


def pem(public: Ed25519PublicKey) -> str:
    """Return a public key in PEM form."""
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return public.public_bytes(encoding, form).decode()


def raw(public: Ed25519PublicKey) -> str:
    """Return a public key as the 44 characters of its base64."""
    return base64.b64encode(public.public_bytes_raw()).decode()


def public_of(text: str) -> Ed25519PublicKey | None:
    """Return the public key that a text holds, in PEM form or as base64; None when it holds none."""
    try:
        if "BEGIN" in text:
            key = serialization.load_pem_public_key(text.strip().encode("ascii", "replace"))
            return key if isinstance(key, Ed25519PublicKey) else None
        content = base64.b64decode(text.strip(), validate=True)
        return Ed25519PublicKey.from_public_bytes(content) if len(content) == RAW_BYTES else None
    except (ValueError, UnsupportedAlgorithm, binascii.Error):
        return None


def read_public(path: Path) -> Ed25519PublicKey:
    """Return the public key in a file.

    Raises
    ------
    Refused
        When it cannot be read, or holds a private key or none.
    """
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, ValueError):
        text = ""
    if "PRIVATE" in text:
        raise Refused(
            f"{visible(path.name)} holds a private key; give the public one, and keep the private one with "
            "the person alone"
        )
    if (key := public_of(text)) is None:
        raise Refused(f"{visible(path.name)} holds no Ed25519 public key, in PEM form or as base64")
    return key


def fingerprint(public: str) -> str:
    """Return 16 characters by which a public key, as `raw` writes it, is recognised."""
    return hashlib.sha256(public.encode()).hexdigest()[:16]


def verifies_hex(public: Ed25519PublicKey | None, content: bytes, signature: str) -> bool:
    """Return whether a signature in hexadecimal is that of ``content``; without a key it is not."""
    try:
        return _verifies(public, content, bytes.fromhex(signature))
    except ValueError:
        return False


def verifies_base64(public: Ed25519PublicKey | None, content: bytes, signature: str) -> bool:
    """Return whether a signature in base64, in one line or several, is that of ``content``; without a key it is not."""
    try:
        return _verifies(public, content, base64.b64decode("".join(signature.split()), validate=True))
    except (ValueError, binascii.Error):
        return False


def keyed_digest(home: Home, content: str) -> str:
    """Return a digest of ``content`` that does not let anyone without the home's digest key test guesses.

    HMAC-SHA256, with a key of its own that stays when the signing key is changed: the same content has the same digest.
    """
    return hmac.new(home.digest_secret(), content.encode(), hashlib.sha256).hexdigest()


def secret_fingerprint(path: Path) -> str | None:
    """Return what recognises a secret file and reveals nothing of it; None when there is none."""
    return hmac.new(path.read_bytes(), b"fingerprint", hashlib.sha256).hexdigest() if path.is_file() else None


def _verifies(public: Ed25519PublicKey | None, content: bytes, signature: bytes) -> bool:
    try:
        if public is not None:
            public.verify(signature, content)
    except InvalidSignature:
        return False
    return public is not None
