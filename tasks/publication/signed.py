"""Signed files: a file in a folder, with its signature and the public key next to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.common import keys
from tasks.common.home import Home, write_private
from tasks.record import signing

PUBLIC_KEY = "public-key.pem"


def signature_of(name: str) -> str:
    """Return the name of the file that holds a file's signature."""
    return f"{name}.sig"


@dataclass(frozen=True)
class SignedFile:
    """A file's content, its signature, and the public key that is said to verify it."""

    content: bytes
    signature: str
    public_key: str

    @classmethod
    def read(cls, folder: Path, name: str) -> SignedFile:
        """Return a signed file.

        Raises
        ------
        OSError, ValueError
            When a part of it is missing or cannot be read.
        """
        signature = (folder / signature_of(name)).read_text(encoding="ascii")
        return cls((folder / name).read_bytes(), signature, (folder / PUBLIC_KEY).read_text(encoding="ascii"))

    @property
    def genuine(self) -> bool:
        """Whether the signature is that of the content by the key beside it; whose key that is, a reader must know."""
        return keys.verifies_hex(keys.public_of(self.public_key), self.content, self.signature)


def write_signed(home: Home, folder: Path, name: str, content: bytes) -> None:
    """Write a file, its signature by the home's key, and the public key."""
    write_private(folder / name, content)
    write_private(folder / signature_of(name), signing.sign(home, content).encode())
    write_private(folder / PUBLIC_KEY, signing.public_key(home).encode())
