"""The folder that holds all state, and how files get into it: for the owner alone.

Standard library only, so that a command knows its home before anything heavy is imported.
"""

from __future__ import annotations

import os
import pwd
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, overload

from tasks.common.errors import Refused, visible
from tasks.common.locks import is_held, locked

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
DOSSIER = "dossier.json"
# The arrangement of files in a home; a home of another one is refused.
FORMAT = "1"


@dataclass(frozen=True)
class Inside:
    """A file or folder of a home, by its path in the home."""

    place: str

    @overload
    def __get__(self, home: None, kind: type[Home]) -> Inside: ...
    @overload
    def __get__(self, home: Home, kind: type[Home]) -> Path: ...
    def __get__(self, home: Home | None, kind: type[Home]) -> Inside | Path:
        """Return where it is in ``home``."""
        return self if home is None else home.path / self.place


@dataclass(frozen=True)
class Home:
    """The folder that holds all state: ``ANONFLOW_HOME``, by default ``.anonflow`` here.

    Attributes
    ----------
    format : the number of the format of its files
    workspaces : raw and half-finished data of runs that are under way
    candidates : releases that wait for approvers
    releases, withdrawn : published releases, and those that were withdrawn
    members : keyed digests of the units of candidates and releases
    exchange : digests of the units of other homes' releases
    ledger : the signed record of everything that was decided
    head : the signed name of the ledger's last entry, so that entries cut off are missed
    ledger_place : which database holds ledger and head in place of these files, where one does
    timestamps : time stamps of the ledger by authorities outside
    approvers : the list of approvers, as the ledger has it, for readers
    digest_key : the secret behind keyed digests, which stays the same in every run
    holdout_key : the secret that decides which records are held out, which stays the same in every run
    """

    path: Path
    format = Inside("format")
    workspaces = Inside("workspace")
    candidates = Inside("candidates")
    releases = Inside("releases")
    withdrawn = Inside("withdrawn")
    members = Inside("members")
    exchange = Inside("exchange")
    ledger = Inside("ledger.jsonl")
    head = Inside("ledger.head")
    ledger_place = Inside("ledger.place")
    timestamps = Inside("timestamps")
    approvers = Inside("approvers.json")
    digest_key = Inside("keys/digests")
    holdout_key = Inside("keys/holdout")

    @classmethod
    def locate(cls, given: str | Path | None = None) -> Home:
        """Return the home, created private when it is not there yet.

        Raises
        ------
        Refused
            When its files are of a format that this version cannot use.
        """
        home = cls.named(given)
        make_private(home.path)
        if not home._is_there:
            write_first(home.format, FORMAT.encode())
        held = home.format.read_bytes()[:100].decode("ascii", "replace").strip() if home.format.exists() else "none"
        if held != FORMAT:
            raise Refused(
                f"the home {visible(home.path)} has format {visible(held)}, and this version of anonflow uses format "
                f"{FORMAT}; use the version that made it, or another home (--home or ANONFLOW_HOME)"
            )
        return home

    @classmethod
    def existing(cls, given: str | Path | None = None) -> Home:
        """Return a home that is there, for a command that makes none.

        Raises
        ------
        Refused
            When there is none, and nothing is written: an empty home in a mistyped place would pass every check.
        """
        home = cls.named(given)
        if not home._is_there:
            raise Refused(
                f"there is no home in {visible(home.path)}: name its folder by --home or ANONFLOW_HOME; anonflow demo "
                "and anonflow run make one"
            )
        return cls.locate(given)

    @property
    def _is_there(self) -> bool:
        return self.format.exists() or self.ledger.exists()

    @classmethod
    def named(cls, given: str | Path | None = None) -> Home:
        """Return the home, which may not be there, for a command that writes nothing into it."""
        return cls(Path(given or os.environ.get("ANONFLOW_HOME") or ".anonflow").absolute())

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Let one process at a time do what the lock of this name is for; the others wait."""
        return locked(self.path / f"{name}.lock")

    def lock_of_runs(self, plan: str) -> Path:
        """Return the file that a run of this plan holds locked until it ends."""
        return self.path / "locks" / f"{plan}.lock"

    def plans_under_way(self) -> frozenset[str]:
        """Return the plans of which a run is under way."""
        return frozenset(path.stem for path in (self.path / "locks").glob("*.lock") if is_held(path))

    def files_of(self, name: str, release: str) -> Path:
        """Return where the files of a published release are, also of one that was withdrawn."""
        moved = self.withdrawn / name / release
        return moved if moved.is_dir() else self.releases / name / release

    def members_of(self, release: str) -> Path:
        """Return where the keyed digests of a release's units are kept."""
        return self.members / f"{release}.npz"

    def exchange_of(self, office: str) -> Path:
        """Return where the digests of another home's units are kept."""
        return self.exchange / f"{office}.json"

    def assessment(self, release: str) -> Path:
        """Return where report and dossier of a candidate are kept, also of a rejected one."""
        return self.path / "assessments" / release

    def comparison(self, run: str) -> Path:
        """Return where the picture and the figures of compared settings are kept."""
        return self.path / "comparisons" / run

    def game(self, plan: str) -> Path:
        """Return where the last in/out game of a plan is kept."""
        return self.path / "games" / f"{plan}.json"

    def tuning(self, plan: str) -> Path:
        """Return where the trials of the last search for settings of a plan are kept."""
        return self.path / "tunings" / f"{plan}.json"

    @property
    def key(self) -> Path:
        """The key that signs the ledger and the manifests: ``ANONFLOW_KEY``, else in the home."""
        return Path(os.environ.get("ANONFLOW_KEY") or self.path / "keys" / "ed25519.pem").absolute()

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
        raise Refused(f"{path.name} should be a folder, but is a file") from None
    return path


def write_private(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file for the owner alone, whole or not at all: a content, or what a function writes."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            content(file) if callable(content) else file.write(content)
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
