"""The folder that holds all state, and how files get into it: for the owner alone.

Standard library only, so that a command knows its home before anything heavy is imported.
"""

from __future__ import annotations

import os
import pwd
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tasks.common.errors import Refused, visible

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
DOSSIER = "dossier.json"
# The arrangement of files in a home; a home of another one is refused.
FORMAT = "1"


@dataclass(frozen=True)
class Home:
    """The folder that holds all state: ``ANONFLOW_HOME``, by default ``.anonflow`` here."""

    path: Path

    @classmethod
    def locate(cls, given: str | Path | None = None) -> Home:
        """Return the home, created private when it is not there yet.

        Raises
        ------
        Refused
            When its files are of a format that this version cannot use.
        """
        home = cls(Path(given or os.environ.get("ANONFLOW_HOME") or ".anonflow").absolute())
        make_private(home.path)
        home._check_format()
        return home

    def _check_format(self) -> None:
        if not self.format.exists() and not self.ledger.exists():
            write_first(self.format, FORMAT.encode())
        held = self.format.read_bytes()[:100].decode("ascii", "replace").strip() if self.format.exists() else "none"
        if held != FORMAT:
            raise Refused(
                f"the home {visible(self.path)} has format {visible(held)}, and this version of anonflow uses format "
                f"{FORMAT}; use the version that made it, or another home (--home or ANONFLOW_HOME)"
            )

    @property
    def format(self) -> Path:
        """The number of the format of the files in this home."""
        return self.path / "format"

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

    def files_of(self, name: str, release: str) -> Path:
        """Where the files of a published release are, also of one that was withdrawn."""
        moved = self.withdrawn / name / release
        return moved if moved.is_dir() else self.releases / name / release

    def assessment(self, release: str) -> Path:
        """Where report and dossier of a candidate are kept, also of a rejected one."""
        return self.path / "assessments" / release

    def comparison(self, run: str) -> Path:
        """Where the picture and the figures of compared settings are kept."""
        return self.path / "comparisons" / run

    @property
    def ledger(self) -> Path:
        """The signed record of everything that was decided."""
        return self.path / "ledger.jsonl"

    @property
    def withdrawn(self) -> Path:
        """Releases that were published and withdrawn."""
        return self.path / "withdrawn"

    @property
    def head(self) -> Path:
        """Which entry of the ledger is the last, signed, so that entries cut off are missed."""
        return self.path / "ledger.head"

    @property
    def approvers(self) -> Path:
        """The list of approvers, as the ledger has it: for reading."""
        return self.path / "approvers.json"

    @property
    def key(self) -> Path:
        """The key that signs the ledger and the manifests: ``ANONFLOW_KEY``, else in the home."""
        return Path(os.environ.get("ANONFLOW_KEY") or self.path / "keys" / "ed25519.pem").absolute()

    @property
    def digest_key(self) -> Path:
        """The secret behind keyed digests, which stays the same in every run."""
        return self.path / "keys" / "digests"

    @property
    def holdout_key(self) -> Path:
        """The secret that decides which records are held out, which stays the same in every run."""
        return self.path / "keys" / "holdout"

    def digest_secret(self) -> bytes:
        """Return the secret behind keyed digests, drawn on first use."""
        return _drawn_once(self.digest_key)

    def holdout_secret(self) -> bytes:
        """Return the secret that decides which records are held out, drawn on first use."""
        return _drawn_once(self.holdout_key)


def _drawn_once(path: Path) -> bytes:
    if not path.exists():
        make_private(path.parent)
        write_first(path, secrets.token_hex(32).encode())
    return path.read_bytes()


def account() -> str:
    """Return the account of this process, as the system has it: its environment can say anything."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


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


def sync(path: Path) -> None:
    """Have the system write a file, or a folder's list of files, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_first(path: Path, content: bytes) -> None:
    """Write a file for the owner alone unless another process has been first."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    write_private(beside, content)
    try:
        os.link(beside, path)
    except FileExistsError:
        pass
    finally:
        beside.unlink()


class private_umask:
    """Files created inside are for the owner alone, whatever the caller's umask."""

    def __enter__(self) -> None:
        self._before = os.umask(0o077)

    def __exit__(self, *_: object) -> Literal[False]:
        os.umask(self._before)
        return False
