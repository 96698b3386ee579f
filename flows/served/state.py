"""State of served runs beyond their own process: candidates that await a decision, and runs under way.

Small files of the home, written whole or not at all. The ledger is the truth about decisions; these only tie a
release to the Prefect run in which people see it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from tasks.common.home import Home, make_private, write_private
from tasks.common.locks import is_held, locked
from tasks.common.values import from_json, to_json

T = TypeVar("T")
SERVER = "PREFECT_API_URL"


@dataclass(frozen=True)
class PendingDecision:
    """A candidate and the run in which people decide on it.

    Attributes
    ----------
    release, dossier, plan : what is decided on
    run, name : the Prefect run that waits
    until : when the wait ends, seconds since 1970; 0 for no end
    remind : when people are reminded, seconds since 1970; 0 once they were
    asked : how many forms were shown before this one
    refused : why the last decision was not accepted
    """

    release: str
    dossier: str
    plan: str
    run: str
    name: str
    until: float
    remind: float = 0.0
    asked: int = 0
    refused: str = ""

    @property
    def deadline(self) -> str:
        """When the wait ends, for people; empty where it does not."""
        return f"{datetime.fromtimestamp(self.until, UTC):%Y-%m-%d %H:%M} UTC" if self.until else ""


@dataclass(frozen=True)
class ActiveRun:
    """A Prefect run that has begun and not ended in order, after ``attempts`` others.

    ``pid`` and ``host`` say where it was carried out; whether it still is, its lock shows (`is_carried_out`).
    ``server`` is the Prefect that it reports to.
    """

    run: str
    name: str
    plan: str
    pid: int
    host: str
    attempts: int = 0
    server: str = ""


class Records(Generic[T]):
    """Values of one type in a folder of the home, a file each; files that are no such value are passed over."""

    def __init__(self, folder: Path, kind: type[T]) -> None:
        self.folder, self.kind = make_private(folder), kind

    def all(self) -> list[T]:
        """Return every value, by name."""
        values = (self.get(path.stem) for path in sorted(self.folder.glob("*.json")))
        return [value for value in values if value is not None]

    def get(self, name: str) -> T | None:
        """Return the value of a name; None where there is none."""
        try:
            return from_json(self.kind, json.loads(self._path(name).read_text()))
        except (OSError, ValueError):
            return None

    def put(self, name: str, value: T) -> None:
        """Store a value in place of the one of that name."""
        write_private(self._path(name), json.dumps(to_json(value)).encode())

    def remove(self, name: str) -> None:
        """Remove the value of a name, if there is one."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def pending_decisions(home: Home) -> Records[PendingDecision]:
    """Return the candidates that runs wait with, by release."""
    return Records(home.path / "waiting", PendingDecision)


def active_runs(home: Home) -> Records[ActiveRun]:
    """Return the runs that have begun and not ended in order, by run."""
    return Records(home.path / "served" / "runs", ActiveRun)


def pending_of_run(home: Home, run: str) -> PendingDecision | None:
    """Return the decision that a run waits for."""
    return next((pending for pending in pending_decisions(home).all() if pending.run == run), None)


@contextmanager
def carried_out(home: Home, run: str, name: str, plan: str) -> Iterator[None]:
    """Record that this process carries a run out, and hold the run's lock; wait while another process holds it.

    Claim: who carries a run out is seen by the lock alone, which the system releases when the process ends, however it
    ends. A home that was moved, or whose container was made anew under another name, has no run that is held.
    """
    make_private(home.path / "served" / "runs")
    with locked(_lock_of(home, run)):
        before = active_runs(home).get(run)
        attempts = before.attempts if before else 0
        about = ActiveRun(run, name, plan, os.getpid(), socket.gethostname(), attempts, os.environ.get(SERVER, ""))
        active_runs(home).put(run, about)
        yield


def is_carried_out(home: Home, run: str) -> bool:
    """Return whether a process carries a run out."""
    return is_held(_lock_of(home, run))


def end_stranded(home: Home) -> int:
    """End processes of this machine that report to another Prefect than ours, which is no more; return how many.

    They are runs whose worker was killed before the whole stack was: they would wait for their server, hold their runs
    and block their plans. They are resumed like all whose process has ended.
    """
    here, ours = socket.gethostname(), os.environ.get(SERVER, "")
    stranded = [
        active
        for active in active_runs(home).all()
        if active.host == here and active.server != ours and is_carried_out(home, active.run)
    ]
    for active in stranded:
        with suppress(ProcessLookupError):
            os.kill(active.pid, signal.SIGKILL)
    return len(stranded)


def remove_run(home: Home, run: str) -> None:
    """Remove the record of a run that has ended, or waits for people."""
    active_runs(home).remove(run)
    _lock_of(home, run).unlink(missing_ok=True)


def _lock_of(home: Home, run: str) -> Path:
    return home.path / "served" / "runs" / f"{run}.lock"
