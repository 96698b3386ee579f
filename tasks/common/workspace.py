"""The private folder of a run: it stores each artifact once, hands out references, and is wiped at the end."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata, Schema, Variable
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
    """A reference to an artifact in a workspace: where it is and what its content was."""

    path: Path
    sha256: str

    def _intact(self) -> Path:
        if sha256_of(self.path) != self.sha256:
            raise Fault(f"{self.path.name} in the workspace is not what was stored; nothing is released")
        return self.path


@dataclass(frozen=True)
class StoredTable(Stored):
    """A reference to a data frame in a workspace."""

    def load(self) -> pd.DataFrame:
        """Return the data frame, after checking that it is what was stored."""
        return pd.read_parquet(self._intact())


@dataclass(frozen=True)
class StoredMicrodata(Stored):
    """A reference to microdata in a workspace."""

    def load(self) -> Microdata:
        """Return the microdata, each record with its identity, after checking that they are what was stored."""
        frame = pd.read_parquet(self._intact())
        schema = Schema(Variable(**v) for v in json.loads(frame.attrs.pop("schema")))
        units = frame.pop(UNIT).to_numpy() if UNIT in frame else None
        return Microdata(frame.set_index(RECORD).rename_axis(None), schema, units)


@dataclass(frozen=True)
class StoredArrays(Stored):
    """A reference to named arrays in a workspace."""

    def load(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, after checking that they are what was stored."""
        with np.load(self._intact(), allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}


@dataclass(frozen=True)
class Workspace:
    """A private folder for the raw and half-finished data of one run."""

    folder: Path

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
        return Workspace(make_private(self.folder / name))

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

    def _once(self, name: str, write: Callable[[Path], object]) -> tuple[Path, str]:
        """Write an artifact whole; return its path and digest.

        A step that is tried again may store the same content again.

        Raises
        ------
        Fault
            When the artifact was stored before with another content.
        """
        path = self.folder / name
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
        return path, digest

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
