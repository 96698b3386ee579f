"""A worker on a machine of its own: it shares the home, and runs plans by the command line beside the served worker."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
from contextlib import suppress

import psutil

from tasks.common.errors import ExitCode
from tests.served.soak.site import Site

# Host name and processes of its own; home and network are those that both machines share.
APART = ("unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child", "--ipc")
AVAILABLE = os.geteuid() == 0 and shutil.which("unshare") is not None
# Seconds between two runs, and those after which some are lost.
PAUSE, LOST_AFTER = (10.0, 40.0), (2.0, 20.0)
LOST_SHARE = 0.25
# Seconds that one run may take beside all that fails.
RUN_TIMEOUT = 400.0


class SecondWorker(threading.Thread):
    """Runs one plan after another until it is stopped; some of the runs are lost with their machine.

    Attributes
    ----------
    ends : how each run ended: the meaning of its exit code, or that it was lost
    problems : runs that ended in no stated way
    """

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(daemon=True)
        self.site, self.rng = site, random.Random(seed)
        self.ends, self.problems = list[str](), list[str]()
        self.stopped = threading.Event()

    def run(self) -> None:
        """Run plans until stopped."""
        while not self.stopped.wait(self.rng.uniform(*PAUSE)):
            plans = sorted(self.site.plans.glob("*.yaml"))
            try:
                self.release(str(self.rng.choice(plans)))
            except Exception as error:
                self.problems.append(f"the second worker: {type(error).__name__}: {error}")

    def stop(self) -> None:
        """End after the run under way."""
        self.stopped.set()
        self.join()

    def release(self, plan: str) -> None:
        """Run one plan, and say how it ended."""
        command = [*APART, "sh", "-c", 'hostname second && exec "$@"', "sh", self.site.program, "run", plan, "--inline"]
        environment = self.site.environment() | self.site.variables
        lost = self.rng.random() < LOST_SHARE
        with subprocess.Popen(
            [*command, "--home", self.site.home.path], env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        ) as process:  # fmt: skip
            try:
                written, _ = process.communicate(timeout=self.rng.uniform(*LOST_AFTER) if lost else RUN_TIMEOUT)
            except subprocess.TimeoutExpired:
                _kill(process.pid)
                written, _ = process.communicate()
                self.ends.append("Lost with its machine")
                if not lost:
                    self.problems.append(
                        f"a run of the second worker took more than {RUN_TIMEOUT:.0f} s: {written[-400:]}"
                    )
                return
        if process.returncode not in set(ExitCode) or "Traceback" in written or not written.strip():
            self.problems.append(f"the second worker ended with {process.returncode}: {written[-400:]}")
            return
        code = ExitCode(process.returncode)
        # Its steps, and then the message.
        why = f": {' '.join(written.rpartition('Fault')[2].split())[:120]}" if code == ExitCode.FAULT else ""
        self.ends.append(code.name.capitalize() + why)


def _kill(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in [*process.children(recursive=True), process]:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
