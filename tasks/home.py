"""The folder that holds all state, and how files get into it: for the owner alone.

Standard library only, so that a command knows its home before anything heavy is imported.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tasks.faults import Refused

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600


@dataclass(frozen=True)
class Home:
    """The folder that holds all state: ``ANONFLOW_HOME``, by default ``.anonflow`` here."""

    path: Path

    @classmethod
    def locate(cls, given: str | Path | None = None) -> Home:
        """Return the home, created private when it is not there yet."""
        home = cls(Path(given or os.environ.get("ANONFLOW_HOME") or ".anonflow").absolute())
        make_private(home.path)
        return home

    @property
    def workspaces(self) -> Path:
        """Raw and half-finished data of runs that are under way."""
        return self.path / "workspace"

    @property
    def candidates(self) -> Path:
        """Releases that wait for a person."""
        return self.path / "candidates"

    @property
    def releases(self) -> Path:
        """Published releases."""
        return self.path / "releases"

    def assessment(self, release: str) -> Path:
        """Where report and dossier of a candidate are kept, also of a rejected one."""
        return self.path / "assessments" / release

    @property
    def ledger(self) -> Path:
        """The signed record of everything that was decided."""
        return self.path / "ledger.jsonl"

    @property
    def key(self) -> Path:
        """The key that signs the ledger and the manifests."""
        return self.path / "keys" / "ed25519.pem"


def make_private(path: Path) -> Path:
    """Create a folder, and its missing parents, for the owner alone."""
    if not path.parent.exists():
        make_private(path.parent)
    try:
        path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    except FileExistsError:
        raise Refused(f"{path.name} should be a folder, and a file stands in its place") from None
    return path


def write_private(path: Path, content: bytes) -> None:
    """Write a file for the owner alone, whole or not at all."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


class private_umask:
    """Files created inside are for the owner alone, whatever the caller's umask."""

    def __enter__(self) -> None:
        self._before = os.umask(0o077)

    def __exit__(self, *_: object) -> Literal[False]:
        os.umask(self._before)
        return False
