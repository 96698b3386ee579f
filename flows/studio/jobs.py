"""Long work: a command of anonflow in a process of its own, with its progress, its result, and an end on demand."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.servers.process import ROOT, open_log
from tasks.common.errors import Refused
from tasks.common.home import Home, make_private
from tasks.common.locks import is_held, locked
from tasks.record.approval_rule import APPROVAL

# What a process begins with: the command line, from the files that this process runs.
COMMAND = "from flows.cli import main; main()"
ENDINGS = {0: "done", 1: "failed", 2: "refused", 3: "rejected", 4: "awaiting"}
# How much ended work is shown.
MOST_ENDED = 100
# Ended by a signal, as the command line says it, or before it could.
ENDINGS |= dict.fromkeys((130, 143, -signal.SIGINT, -signal.SIGTERM), "cancelled")


@dataclass(frozen=True, eq=False)
class Job:
    """One command under way or ended.

    Parameters
    ----------
    id : part of its address
    kind : plan, run, compare, tune, or a decision
    subject : the plan's file or the release that it is about
    by : who has started it; empty where there are no logins
    """

    id: str
    kind: str
    subject: str
    by: str
    folder: Path = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)
    begun: float

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    @property
    def status(self) -> str:
        """How it is, in a word."""
        return "running" if self.is_running else ENDINGS.get(self.process.returncode, "failed")

    @property
    def steps(self) -> list[tuple[str, float | None]]:
        """The steps so far, each with its seconds; none for the one that is under way."""
        path, steps = self.folder / "progress", dict[str, float | None]()
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            label, seconds = json.loads(line)
            steps[label] = seconds
        return list(steps.items())

    @property
    def result(self) -> Any:
        """What the command printed as JSON; None where it did not."""
        try:
            return json.loads((self.folder / "out").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    @property
    def message(self) -> str:
        """Why it did not come to its end, in words; empty otherwise."""
        if self.status not in ("failed", "refused"):
            return ""
        result = self.result
        stated = result.get("message") if isinstance(result, dict) else None
        return str(stated or (self.folder / "err").read_text(encoding="utf-8", errors="replace")).strip()

    def cancel(self) -> None:
        """End it: a search judges what it has, anything else wipes its workspace and stops."""
        if self.is_running:
            self.process.send_signal(signal.SIGINT if self.kind == "tune" else signal.SIGTERM)


class Jobs:
    """The jobs of one start of the server; what they left is removed with it, or at the next start after a crash."""

    def __init__(self, home: Home) -> None:
        self.home, studio = home, make_private(home.path / "studio")
        for old in studio.glob("jobs-*.lock"):
            if not is_held(old):
                shutil.rmtree(old.with_suffix(""), ignore_errors=True)
                old.unlink(missing_ok=True)
        self.folder = studio / f"jobs-{secrets.token_hex(4)}"
        self._alive = ExitStack()
        self._alive.enter_context(locked(self.folder.with_suffix(".lock")))
        make_private(self.folder)
        self._jobs, self._lock = dict[str, Job](), threading.Lock()

    def start(self, kind: str, subject: str, arguments: Sequence[str], by: str = "", *, alone: bool = True) -> Job:
        """Start a command with ``--json``; one of a kind and subject at a time.

        Parameters
        ----------
        alone : whether a run may publish what its plan's policy passes, without an approver
        """
        with self._lock:
            if any(job.is_running and (job.kind, job.subject) == (kind, subject) for job in self._jobs.values()):
                raise Refused("This is under way already; see Work under way on the first page.")
            ended = [job for job in self._jobs.values() if not job.is_running]
            for job in ended[: max(0, len(ended) - MOST_ENDED)]:
                shutil.rmtree(self._jobs.pop(job.id).folder, ignore_errors=True)
            id_ = secrets.token_hex(8)
            folder = make_private(self.folder / id_)
            environment = _environment(self.home, folder, by, alone=alone)
            with open_log(folder / "out") as out, open_log(folder / "err") as err:
                process = subprocess.Popen(  # noqa: S603
                    [sys.executable, "-P", "-c", COMMAND, kind, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=environment,
                    # A folder of plans may hold settings of Prefect, which it looks for where it runs.
                    cwd=self.home.path,
                    start_new_session=True,
                    umask=0o077,
                )
            self._jobs[id_] = Job(id_, kind, subject, by, folder, process, time.time())
            return self._jobs[id_]

    def find(self, id_: str) -> Job:
        """Return a job; raises `Refused` when there is none."""
        if id_ not in self._jobs:
            raise Refused("There is no such work since the server was started; its outcome is in the record.")
        return self._jobs[id_]

    def all(self) -> list[Job]:
        """Return every job, the newest first."""
        with self._lock:
            return sorted(self._jobs.values(), key=lambda job: -job.begun)

    def stop(self) -> None:
        """End what is under way, and remove what jobs have printed."""
        for job in self._jobs.values():
            if job.is_running:
                job.process.terminate()
        for job in self._jobs.values():
            try:
                job.process.wait(30)
            except subprocess.TimeoutExpired:
                job.process.kill()
                job.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.with_suffix(".lock").unlink(missing_ok=True)
        self._alive.close()


def _environment(home: Home, folder: Path, by: str, *, alone: bool) -> Mapping[str, str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    own = {"PYTHONPATH": path, "ANONFLOW_HOME": str(home.path), "ANONFLOW_PROGRESS": str(folder / "progress")}
    own |= ({"ANONFLOW_REQUESTER": by} if by else {}) | ({} if alone else {APPROVAL: "person"})
    return dict(os.environ) | own
