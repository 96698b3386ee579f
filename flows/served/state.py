"""State of served runs beyond their own process: candidates that await a decision, and runs under way.

Small files of the home, written whole or not at all. The ledger is the truth about decisions; these only tie
a release to the Prefect run in which people see it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tasks.common.home import Home, make_private, write_private
from tasks.common.processes import is_running, process_start_time
from tasks.common.values import from_json, to_json

T = TypeVar("T")
_PENDING, _ACTIVE = "waiting", "served/runs"


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


@dataclass(frozen=True)
class ActiveRun:
    """A Prefect run and the process that carries it out.

    Attributes
    ----------
    pid, started, host : the process
    attempts : how often the run was started again
    """

    run: str
    name: str
    plan: str
    pid: int
    started: str
    host: str
    attempts: int = 0

    @property
    def is_running(self) -> bool:
        """Whether the process is there; on another machine it cannot be looked for, and is taken to be there."""
        return self.host != socket.gethostname() or is_running(self.pid, self.started)


def pending_decisions(home: Home) -> list[PendingDecision]:
    """Return every candidate that a run waits with."""
    return list(_read(_folder(home, _PENDING), PendingDecision))


def pending_decision(home: Home, *, run: str = "", release: str = "") -> PendingDecision | None:
    """Return the pending decision of a run, or of a release."""
    return next((p for p in pending_decisions(home) if run == p.run or release == p.release), None)


def store_pending(home: Home, pending: PendingDecision) -> None:
    """Store a pending decision, in place of what was stored for the same release."""
    _write(_folder(home, _PENDING) / f"{pending.release}.json", pending)


def remove_pending(home: Home, pending: PendingDecision) -> None:
    """Remove a pending decision once the wait is over."""
    (_folder(home, _PENDING) / f"{pending.release}.json").unlink(missing_ok=True)


def active_runs(home: Home) -> list[ActiveRun]:
    """Return every run that has begun and not ended in order."""
    return list(_read(_folder(home, _ACTIVE), ActiveRun))


def begin_run(home: Home, run: str, name: str, plan: str) -> None:
    """Record that this process carries a run out."""
    path, pid = _folder(home, _ACTIVE) / f"{run}.json", os.getpid()
    before = next(_read_one(path, ActiveRun), None)
    attempts = before.attempts if before else 0
    _write(path, ActiveRun(run, name, plan, pid, process_start_time(pid), socket.gethostname(), attempts))


def count_attempt(home: Home, active: ActiveRun) -> None:
    """Record that an interrupted run is started once more."""
    _write(_folder(home, _ACTIVE) / f"{active.run}.json", replace(active, attempts=active.attempts + 1))


def end_run(home: Home, run: str) -> None:
    """Remove a run that has ended in order, or waits without a process."""
    (_folder(home, _ACTIVE) / f"{run}.json").unlink(missing_ok=True)


def _folder(home: Home, name: str) -> Path:
    return make_private(home.path / name)


def _write(path: Path, value: PendingDecision | ActiveRun) -> None:
    write_private(path, json.dumps(to_json(value)).encode())


def _read(folder: Path, kind: type[T]) -> Iterator[T]:
    for path in sorted(folder.glob("*.json")):
        yield from _read_one(path, kind)


def _read_one(path: Path, kind: type[T]) -> Iterator[T]:
    try:
        yield from_json(kind, json.loads(path.read_text()))
    except (OSError, ValueError):
        return
