"""One run: its identity, its private workspace and its random streams."""

from __future__ import annotations

import resource
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from anoncore.partitions.store import Executor
from tasks.common.errors import Busy
from tasks.common.home import Home, make_private
from tasks.common.locks import locked
from tasks.common.randomness import RandomStreams, SeedSection
from tasks.common.workspace import Workspace


@dataclass(frozen=True)
class Run:
    """One run in a home. Holds no data and no seed.

    Parameters
    ----------
    executor : carries out tasks on tables in partitions; None where tables are in memory
    """

    id: str
    home: Home
    workspace: Workspace
    streams: RandomStreams
    executor: Executor | None = None

    @classmethod
    def start(cls, home: Home, seed: SeedSection) -> Run:
        """Create a workspace and draw the run's entropy into it."""
        run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        workspace = Workspace.create(home, run_id)
        try:
            return cls(run_id, home, workspace, RandomStreams.draw(workspace.folder, seed, home))
        except BaseException:
            workspace.wipe()
            raise

    @classmethod
    @contextmanager
    def opened(cls, home: Home, seed: SeedSection) -> Iterator[Run]:
        """Give a new run; its workspace takes all temporary files of this process, and is wiped after."""
        # No copy of the memory, which holds records, is left behind when the process crashes.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        run = cls.start(home, seed)
        try:
            with run.workspace.temporary_files():
                yield run
        finally:
            run.workspace.wipe()

    def bound_to(self, data_digest: str) -> Run:
        """Return this run with the random streams that belong to these data."""
        return replace(self, streams=self.streams.bound_to(data_digest))

    def branch(self, name: str, stream: str) -> Run:
        """Return a run inside this one, with a workspace and random streams of its own."""
        workspace = self.workspace.branch(name)
        return Run(f"{self.id}-{name}", self.home, workspace, self.streams.branch(workspace.folder, stream))

    def rng(self, stream: str) -> np.random.Generator:
        """Return the generator of a named random stream; the same stream draws the same again."""
        return self.streams.generator(stream)


@contextmanager
def exclusive_run(home: Home, plan: str) -> Iterator[None]:
    """Let no other run of the same plan start in this home before this one has ended.

    Raises
    ------
    Busy
        When one is under way.
    """
    path = home.lock_of_runs(plan)
    make_private(path.parent)
    message = f"another run of the plan {plan} is under way in this home; wait until it has ended"
    with locked(path, busy=lambda holder: Busy(message)):
        yield
