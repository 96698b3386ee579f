"""Where a run keeps what it works on: private, and wiped at the end."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, model_validator

from anoncore.microdata import Microdata, Schema, Variable
from tasks.common.errors import Busy, Refused
from tasks.common.home import Home, make_private, private_umask, write_private
from tasks.common.locks import locked
from tasks.common.processes import is_running, process_start_time

MAX_SEED_DIGITS = 1000
OPENING_SECONDS = 60


class Section(BaseModel):
    """A part of the plan, owned by the task that reads it. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=False)


class SeedSection(Section):
    """Where randomness comes from. The seed can undo the masking, so it is never written to any file.

    Parameters
    ----------
    secret : An environment variable that holds a whole number, for releases that must be reproducible. It also
        determines who is held out: a changed number holds out other people.
    public : A published seed, for demonstrations on public data only.
    data_are_public : Must be stated with ``public``.

    Notes
    -----
    Without this section the operating system supplies the seed, which is kept only while the run lasts.
    """

    secret: str | None = None
    public: int | None = Field(default=None, ge=0)
    data_are_public: bool = False

    @model_validator(mode="after")
    def _public_seed_for_public_data(self) -> SeedSection:
        if self.public is not None and self.secret is not None:
            raise ValueError("give secret or public, not both")
        if self.public is not None and not self.data_are_public:
            raise ValueError(
                "a public seed lets anyone undo the masking; state data_are_public: true, or remove the seed"
            )
        return self


@dataclass(frozen=True)
class Run:
    """One run of a plan: its identity and its private folder. Holds no data and no seed."""

    id: str
    folder: Path
    home: Home

    @classmethod
    def start(cls, home: Home, seed: SeedSection) -> Run:
        """Open a new workspace and draw the run's entropy into it."""
        entropy = _entropy(seed)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        run_id = f"{stamp}-{secrets.token_hex(3)}"
        folder = make_private(home.workspaces / run_id)
        run = cls(run_id, folder, home)
        write_private(folder / "owner", f"{os.getpid()} {process_start_time(os.getpid())}".encode())
        write_private(folder / "entropy", str(entropy).encode())
        stated = seed.public is not None or seed.secret is not None
        kept = (str(entropy) if stated else home.holdout_secret()).encode()
        write_private(folder / "lasting", hashlib.sha256(b"lasting " + kept).hexdigest()[:16].encode())
        return run

    def branch(self, name: str, stream: str, shared: Iterable[str]) -> Run:
        """Open a workspace inside this one: the files named, a stream of its own, and nothing else."""
        folder = make_private(self.folder / name)
        for file in shared:
            if (self.folder / file).exists():
                (folder / file).symlink_to(self.folder / file)
        entropy = int.from_bytes(self.rng(f"branch {stream}").bytes(32))
        write_private(folder / "entropy", str(entropy).encode())
        return Run(f"{self.id}-{name}", folder, self.home)

    def rng(self, stream: str) -> np.random.Generator:
        """Return the generator of a named stream; the same stream draws the same again in this run."""
        key = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8])
        bound = self.folder / "bound"
        entropy = int((bound if bound.exists() else self.folder / "entropy").read_text())
        return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(key,)))

    def lasting(self) -> str:
        """Return a key of 16 characters, the same in every run of this home, or of this stated seed."""
        return (self.folder / "lasting").read_text()

    def bind(self, data_digest: str) -> None:
        """Mix the data's digest into the entropy, so that a fixed secret never masks two tables alike.

        A step that is tried again binds again, to the same effect.
        """
        mixed = hashlib.sha256(f"{(self.folder / 'entropy').read_text()}|{data_digest}".encode())
        write_private(self.folder / "bound", str(int.from_bytes(mixed.digest())).encode())

    def save(self, name: str, data: Microdata) -> None:
        """Store microdata in the workspace."""
        path = self.folder / f"{name}.parquet"
        frame = data.frame.rename_axis("__record__").reset_index()
        with private_umask():
            frame.to_parquet(path, index=False)
        self.write_json(f"{name}.schema", [asdict(v) for v in data.schema])

    def load(self, name: str) -> Microdata:
        """Return microdata stored in the workspace, each record with its identity."""
        schema = Schema(Variable(**v) for v in self.read_json(f"{name}.schema"))
        frame = pd.read_parquet(self.folder / f"{name}.parquet").set_index("__record__")
        return Microdata(frame.rename_axis(None), schema)

    def has(self, name: str) -> bool:
        """Whether microdata of that name are stored in the workspace."""
        return (self.folder / f"{name}.parquet").exists()

    def write_json(self, name: str, value: Any) -> None:
        """Store a small result in the workspace."""
        write_private(self.folder / f"{name}.json", json.dumps(value, default=jsonable).encode())

    def read_json(self, name: str) -> Any:
        """Return a small result stored in the workspace."""
        return json.loads((self.folder / f"{name}.json").read_text())

    def save_arrays(self, name: str, **arrays: np.ndarray) -> None:
        """Store arrays in the workspace."""
        with private_umask():
            np.savez(self.folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]

    def load_arrays(self, name: str) -> dict[str, np.ndarray]:
        """Return arrays stored in the workspace."""
        with np.load(self.folder / f"{name}.npz", allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}

    @classmethod
    @contextmanager
    def opened(cls, home: Home, seed: SeedSection) -> Iterator[Run]:
        """Give a new run; its workspace takes all temporary files of this process, and is wiped after."""
        run = cls.start(home, seed)
        try:
            with run.temporary_files():
                yield run
        finally:
            run.wipe()

    @contextmanager
    def temporary_files(self) -> Iterator[None]:
        """Let temporary files of this process, whoever makes them, lie here and be wiped with the rest."""
        before = tempfile.tempdir
        tempfile.tempdir = str(make_private(self.folder / "temporary"))
        try:
            yield
        finally:
            tempfile.tempdir = before

    def wipe(self) -> None:
        """Remove the workspace and everything in it."""
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def exclusive_run(home: Home, plan: str) -> Iterator[None]:
    """Let no other run of the same plan start in this home before this one has ended.

    Raises
    ------
    Busy
        When one is under way.
    """
    path = make_private(home.path / "locks") / f"{plan}.lock"
    message = f"another run of the plan {plan} is under way in this home; wait until it has ended"
    with locked(path, busy=lambda holder: Busy(message)):
        yield


def wipe_abandoned(home: Home) -> int:
    """Remove workspaces whose process is gone; return how many there were."""
    gone = abandoned(home)
    for folder in gone:
        shutil.rmtree(folder, ignore_errors=True)
    return len(gone)


def abandoned(home: Home) -> list[Path]:
    """Return the workspaces whose process is gone."""
    return [folder for folder in home.workspaces.glob("*/") if not _in_use(folder)]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=jsonable)
    return hashlib.sha256(text.encode()).hexdigest()


def _entropy(seed: SeedSection) -> int:
    if seed.public is not None:
        return seed.public
    if seed.secret is None:
        return secrets.randbits(256)
    text = os.environ.get(seed.secret, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_SEED_DIGITS):
        raise Refused(
            f"seed: the environment variable {seed.secret} must hold a whole number of at most "
            f"{MAX_SEED_DIGITS} digits, and does not"
        )
    return int(text)


def _in_use(folder: Path) -> bool:
    """Return whether the process that opened a workspace lives; one without an owner may be opening."""
    owner = folder / "owner"
    try:
        if not owner.exists():
            return time.time() - folder.stat().st_mtime < OPENING_SECONDS
        pid, _, started = owner.read_text().partition(" ")
        return is_running(int(pid), started)
    except (OSError, ValueError):
        return False


def jsonable(value: Any) -> Any:
    """Return the JSON form of what `json` does not know; also the canonical form that is hashed."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
