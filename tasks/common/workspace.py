"""The private folder of a run: it stores each artifact once, hands out references, and is wiped at the end."""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import pandas as pd

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import ColumnStore
from tasks.common.digests import jsonable, sha256_of
from tasks.common.errors import Fault
from tasks.common.home import Home, make_private, private_umask
from tasks.common.locks import is_held, locked

OPENING_SECONDS = 60
OWNER = "owner"
RECORD, UNIT = "__record__", "__unit__"
# The locks of this process's workspaces: the system releases them when it ends, on whatever host or in whatever
# container, and other processes see that.
_owned: dict[Path, ExitStack] = {}


@dataclass(frozen=True)
class Stored:
    """A reference to an artifact in a workspace: where it is and what its content was.

    Parameters
    ----------
    vault : where its content is kept encrypted; None where it is a file
    """

    path: Path
    sha256: str
    vault: ColumnStore | None = field(default=None, repr=False, compare=False)

    def _intact(self) -> Path | BinaryIO:
        if self.vault is not None:
            content = self.vault.read(str(self.path), 0).tobytes()
            intact = hashlib.sha256(content).hexdigest() == self.sha256
        else:
            intact = sha256_of(self.path) == self.sha256
        if not intact:
            raise Fault(f"{self.path.name} in the workspace is not what was stored; nothing is released")
        return self.path if self.vault is None else io.BytesIO(content)


@dataclass(frozen=True)
class StoredTable(Stored):
    """A reference to a data frame in a workspace."""

    def load(self) -> pd.DataFrame:
        """Return the data frame, after checking that it is what was stored."""
        return pd.read_parquet(self._intact())


class StoredRecords(Protocol):
    """A reference to microdata, in memory or in partitions."""

    def load(self) -> Microdata:
        """Return all records; of microdata in partitions this is refused."""

    def parts(self) -> Iterator[Microdata]:
        """Yield the records, a partition at a time; microdata in memory are one partition."""


@dataclass(frozen=True)
class StoredMicrodata(Stored):
    """A reference to microdata in a workspace."""

    def load(self) -> Microdata:
        """Return the microdata, each record with its identity, after checking that they are what was stored."""
        frame = pd.read_parquet(self._intact())
        schema = Schema(Variable(**v) for v in json.loads(frame.attrs.pop("schema")))
        units = frame.pop(UNIT).to_numpy() if UNIT in frame else None
        return Microdata(frame.set_index(RECORD).rename_axis(None), schema, units)

    def parts(self) -> Iterator[Microdata]:
        """Yield the microdata, which are one partition."""
        yield self.load()


@dataclass(frozen=True)
class StoredArrays(Stored):
    """A reference to named arrays in a workspace."""

    def load(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, after checking that they are what was stored."""
        with np.load(self._intact(), allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}


@dataclass(frozen=True)
class Workspace:
    """A private folder for the raw and half-finished data of one run.

    Parameters
    ----------
    vault : keeps artifacts encrypted in place of files; None where they are files of the folder
    """

    folder: Path
    vault: ColumnStore | None = field(default=None, repr=False, compare=False)

    @classmethod
    def create(cls, home: Home, name: str) -> Workspace:
        """Create a workspace in a home, which belongs to this process until it is wiped or the process ends."""
        opening, workspace = make_private(home.workspaces / f".{name}"), cls(home.workspaces / name)
        owned = _owned[workspace.folder] = ExitStack()
        owned.enter_context(locked(opening / OWNER))
        opening.rename(workspace.folder)
        return workspace

    def branch(self, name: str) -> Workspace:
        """Create a workspace inside this one."""
        return Workspace(make_private(self.folder / name), self.vault)

    def store(self, name: str, data: Microdata) -> StoredMicrodata:
        """Store microdata; as for every artifact, see `_once`."""
        frame = data.frame.rename_axis(RECORD).reset_index()
        if data.units is not None:
            frame.insert(0, UNIT, data.units)
        frame.attrs["schema"] = json.dumps([asdict(v) for v in data.schema], default=jsonable)
        return StoredMicrodata(*self._once(f"{name}.parquet", lambda path: frame.to_parquet(path, index=False)))

    def store_table(self, name: str, frame: pd.DataFrame) -> StoredTable:
        """Store a data frame with its index."""
        return StoredTable(*self._once(f"{name}.parquet", frame.to_parquet))

    def store_arrays(self, name: str, **arrays: np.ndarray) -> StoredArrays:
        """Store named arrays."""
        return StoredArrays(*self._once(f"{name}.npz", lambda path: np.savez(path, **arrays)))  # type: ignore[arg-type]

    def _once(self, name: str, write: Callable[[Any], object]) -> tuple[Path, str, ColumnStore | None]:
        """Write an artifact whole; return its path and digest.

        A step that is tried again may store the same content again.

        Raises
        ------
        Fault
            When the artifact was stored before with another content.
        """
        path = self.folder / name
        if self.vault is not None:
            return path, self._once_in_vault(path, write), self.vault
        beside = path.with_name(f"{secrets.token_hex(4)}-{name}")
        try:
            with private_umask():
                write(beside)
            digest = sha256_of(beside)
            try:
                os.link(beside, path)
            except FileExistsError:
                if sha256_of(path) != digest:
                    raise Fault(f"{name} is in the workspace already; every artifact is stored once") from None
        finally:
            beside.unlink(missing_ok=True)
        return path, digest, None

    def _once_in_vault(self, path: Path, write: Callable[[Any], object]) -> str:
        """Keep an artifact encrypted; return the digest of its content."""
        assert self.vault is not None
        content = io.BytesIO()
        write(content)
        digest = hashlib.sha256(content.getbuffer()).hexdigest()
        try:
            before = hashlib.sha256(self.vault.read(str(path), 0).tobytes()).hexdigest()
        except AnonymizationError:
            before = digest
            self.vault.write(str(path), 0, np.frombuffer(content.getbuffer(), dtype=np.uint8))
        if before != digest:
            raise Fault(f"{path.name} is in the workspace already; every artifact is stored once")
        return digest

    @contextmanager
    def temporary_files(self) -> Iterator[None]:
        """Let all temporary files of this process lie here, so that they are wiped with the rest."""
        before = tempfile.tempdir
        tempfile.tempdir = str(make_private(self.folder / "temporary"))
        try:
            yield
        finally:
            tempfile.tempdir = before

    def wipe(self) -> None:
        """Remove the workspace and everything in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        _owned.pop(self.folder, ExitStack()).close()


def wipe_abandoned(home: Home) -> int:
    """Remove workspaces whose process is gone; return how many there were."""
    folders = abandoned(home)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return len(folders)


def abandoned(home: Home) -> list[Path]:
    """Return the workspaces whose process is gone."""
    return [folder for folder in home.workspaces.glob("*/") if not _in_use(folder)]


def _in_use(folder: Path) -> bool:
    """Return whether the process that created a workspace lives, or may still be creating it."""
    if is_held(folder / OWNER):
        return True
    try:
        return folder.name.startswith(".") and time.time() - folder.stat().st_mtime < OPENING_SECONDS
    except FileNotFoundError:
        return True
