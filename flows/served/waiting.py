"""What the served flow must remember beyond its own process: who waits for whom, and which process works.

Small files of the home, written whole or not at all. The ledger is the truth about decisions; these only tie
a release to the Prefect run in which people see it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tasks.common.home import Home, make_private, write_private
from tasks.common.processes import is_running, process_start_time

T = TypeVar("T")


@dataclass(frozen=True)
class Waiting:
    """A candidate and the run in which people decide on it.

    Attributes
    ----------
    release, dossier, plan : what is decided on
    run, name : the Prefect run that waits
    until : when the wait ends, seconds since 1970
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
class Working:
    """A Prefect run and the process that carries it out."""

    run: str
    name: str
    plan: str
    pid: int
    started: str
    host: str
    attempts: int = 0

    @property
    def lives(self) -> bool:
        """Whether the process is there; of one on another machine nothing is known, and it is believed."""
        return self.host != socket.gethostname() or is_running(self.pid, self.started)


def waiting(home: Home) -> list[Waiting]:
    """Return every candidate that a run waits with."""
    return list(_read(_folder(home, "waiting"), Waiting))


def waiting_of(home: Home, *, run: str = "", release: str = "") -> Waiting | None:
    """Return the wait of a run, or of a release."""
    return next((w for w in waiting(home) if run == w.run or release == w.release), None)


def wait(home: Home, entry: Waiting) -> None:
    """Remember a wait, in place of what was known of the same release."""
    write_private(_folder(home, "waiting") / f"{entry.release}.json", json.dumps(asdict(entry)).encode())


def settled(home: Home, entry: Waiting) -> None:
    """Forget a wait that is over."""
    (_folder(home, "waiting") / f"{entry.release}.json").unlink(missing_ok=True)


def working(home: Home) -> list[Working]:
    """Return every run that has begun and not ended in order."""
    return list(_read(_folder(home, "served/runs"), Working))


def begin(home: Home, run: str, name: str, plan: str) -> None:
    """Remember that this process carries a run out."""
    path = _folder(home, "served/runs") / f"{run}.json"
    before = next(_read_one(path, Working), None)
    entry = Working(run, name, plan, os.getpid(), process_start_time(os.getpid()), socket.gethostname())
    write_private(path, json.dumps(asdict(replace(entry, attempts=before.attempts if before else 0))).encode())


def tried(home: Home, entry: Working) -> None:
    """Remember that a run that was cut short is taken up once more."""
    path = _folder(home, "served/runs") / f"{entry.run}.json"
    write_private(path, json.dumps(asdict(replace(entry, attempts=entry.attempts + 1))).encode())


def end(home: Home, run: str) -> None:
    """Forget a run that has ended in order, or waits without a process."""
    (_folder(home, "served/runs") / f"{run}.json").unlink(missing_ok=True)


def _folder(home: Home, name: str) -> Path:
    return make_private(home.path / name)


def _read(folder: Path, kind: type[T]) -> Iterator[T]:
    for path in sorted(folder.glob("*.json")):
        yield from _read_one(path, kind)


def _read_one(path: Path, kind: type[T]) -> Iterator[T]:
    try:
        stored: dict[str, Any] = json.loads(path.read_text())
        yield kind(**stored)
    except (OSError, ValueError, TypeError):
        return
