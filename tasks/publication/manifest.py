"""The manifest of a published release: what it is, who approved it, and the SHA-256 of every file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tasks.common.digests import sha256_of
from tasks.common.errors import visible
from tasks.common.values import from_json, to_json
from tasks.publication.signed import PUBLIC_KEY, SignedFile, signature_of
from tasks.record.entry import Facts, LedgerEntry

MANIFEST = "manifest.json"
SIGNATURE = signature_of(MANIFEST)
FORMAT = 1


@dataclass(frozen=True)
class Approval:
    """The people who approved a release, and why."""

    by: str
    reason: str


@dataclass(frozen=True)
class LedgerReference:
    """An entry of the ledger: its number and its digest."""

    entry: int
    digest: str

    @classmethod
    def of(cls, entry: LedgerEntry[Facts]) -> LedgerReference:
        """Return the reference to an entry."""
        return cls(entry.number, entry.digest)


@dataclass(frozen=True)
class Manifest:
    """What is stated of a published release, to be signed.

    Parameters
    ----------
    release, name, version : its id, its plan's name, and its number among the releases of that plan
    plan, dossier : SHA-256 of the plan and of the dossier
    approved : absent where no person had to decide
    ledger : the entry that announced the publication, so that the ledger cannot lose it unseen
    files : SHA-256 of each file, by its name
    """

    release: str
    name: str
    version: int
    created: str
    plan: str
    dossier: str
    approved: Approval | None
    ledger: LedgerReference | None
    files: Mapping[str, str]

    def to_json(self) -> bytes:
        """Return the manifest as it is written and signed."""
        return (json.dumps({"format": FORMAT, **to_json(self)}, indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> Manifest:
        """Return a stored manifest.

        Raises
        ------
        ValueError
            When it is not one of this format.
        """
        stored = json.loads(content)
        if not isinstance(stored, dict) or stored.pop("format", None) != FORMAT:
            raise ValueError(f"{MANIFEST} is of another format")
        return from_json(cls, stored)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Return the manifest of a release's folder."""
        return cls.from_json((folder / MANIFEST).read_bytes())


@dataclass(frozen=True)
class Difference:
    """One deviation of a folder from its manifest."""

    kind: Literal["file changed", "file removed", "file added", "manifest"]
    sentence: str


def verify_release(folder: Path) -> list[Difference]:
    """Return what differs between a published folder and its manifest.

    The signature is checked against the public key beside it; whose key that is, a reader must know.
    """
    try:
        signed = SignedFile.read(folder, MANIFEST)
        files = Manifest.from_json(signed.content).files
    except FileNotFoundError as error:
        return [Difference("file removed", f"{Path(error.filename).name} is gone")]
    except ValueError:
        return [Difference("manifest", f"{MANIFEST} or its signature cannot be read")]
    differences = [] if signed.genuine else [Difference("manifest", f"{MANIFEST} is not what was signed")]
    for file, digest in files.items():
        if not (folder / file).is_file():
            differences.append(Difference("file removed", f"{file} is gone"))
        elif sha256_of(folder / file) != digest:
            differences.append(Difference("file changed", f"{file} was changed"))
    expected = {*files, MANIFEST, SIGNATURE, PUBLIC_KEY}
    added = [p.name for p in sorted(folder.iterdir()) if p.name not in expected]
    return differences + [Difference("file added", f"{visible(name)} was added") for name in added]
