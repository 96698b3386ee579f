"""A served home on a small disk, whose parts, network, clock and host name fail; what fails, and for how long."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from flows.served.settings import AT_ONCE
from flows.served.state import active_runs
from tasks.common.home import Home
from tests.served.clock import Clock
from tests.served.conftest import Served, until
from tests.served.receiver import Receiver

PARTS = ("postgres", "prefect", "mlflow", "worker")
# Seconds that an outage lasts, at least and at most.
OUTAGE = (10.0, 40.0)
# Hours by which the clock steps.
STEPS = (2.0, -2.0, 26.0, -0.2)


class Site(Served):
    """A stack with a mail server and a web server, beside which things go wrong; its home may lie on a small disk."""

    def __init__(self, folder: Path, rng: random.Random, at_once: int, disk: Path | None) -> None:
        super().__init__(folder)
        self.rng, self.at_once, self.disk, self.hosts = rng, at_once, disk, 0
        if disk is not None:
            self.home = Home.locate(disk / "home")
        self.receiver = Receiver()
        # Each run on one processor: with more they take them from each other.
        self.variables |= {AT_ONCE: str(at_once), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.clock = Clock(folder / "clock")
        self.variables |= self.clock.variables

    def faults(self) -> dict[str, Callable[[], None]]:
        """Return everything that can be made to fail here, by name; each ends when it is mended."""
        found: dict[str, Callable[[], None]] = {f"SIGKILL of {part}": partial(self.shoot, part) for part in PARTS}
        found |= {f"SIGKILL of a run, {number}": self.shoot_run for number in ("first", "second", "third")}
        found |= {f"{part} stands still": partial(self.hang, part) for part in ("prefect", "mlflow", "worker")}
        found |= {f"outage of {part}": partial(self.outage, part) for part in ("postgres", "mlflow")}
        found |= {
            "SIGKILL of serve": partial(self.restart, signal.SIGKILL, 0.0),
            "serve is stopped for a while": partial(self.restart, signal.SIGTERM, 15.0),
            "mail server refuses": self.refuse_mail,
            "web server refuses": self.refuse_posts,
        }
        if self.clock.variables:
            found["the clock steps"] = self.step
        if self.disk is not None:
            found["the disk is full"] = self.fill
        return found

    def shoot(self, part: str) -> None:
        with suppress(OSError):
            if (pid := self.pid(part)) > 0:
                os.kill(pid, signal.SIGKILL)

    def shoot_run(self) -> None:
        """End the process of a run under way, without a word."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if active := active_runs(self.home).all():
                time.sleep(self.rng.uniform(0, 8))
                with suppress(OSError):
                    os.kill(self.rng.choice(active).pid, signal.SIGKILL)
                return
            time.sleep(0.5)

    def hang(self, part: str) -> None:
        # While it waits to be started there is none; 0 would be this very process and all that it has started.
        if (pid := self.pid(part)) == 0:
            return
        with suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.rng.uniform(*OUTAGE))
            os.kill(pid, signal.SIGCONT)

    def outage(self, part: str) -> None:
        """End a part as often as it is started."""
        end = time.monotonic() + self.rng.uniform(*OUTAGE)
        while time.monotonic() < end:
            self.shoot(part)
            time.sleep(0.5)

    def restart(self, number: int, pause: float) -> None:
        """End everything, and start it after a pause on a host of another name."""
        assert self.process is not None
        pids = [self.pid(part) for part in PARTS]
        self.process.send_signal(number)
        self.process.wait(120)
        until(lambda: not any(psutil.pid_exists(pid) for pid in pids if pid), 180, lambda: str(pids))
        time.sleep(pause)
        self.hosts += 1
        self.start(host=f"host-{self.hosts}" if os.geteuid() == 0 else "")

    def fill(self) -> None:
        """Leave no free byte where the home is, and make room after a while."""
        assert self.disk is not None
        balloon = self.disk / "balloon"
        try:
            with balloon.open("wb") as file, suppress(OSError):
                while free := shutil.disk_usage(self.disk).free:
                    os.posix_fallocate(file.fileno(), balloon.stat().st_size, free)
            end = time.monotonic() + self.rng.uniform(*OUTAGE)
            with balloon.open("ab", buffering=0) as file:
                while time.monotonic() < end:
                    # What others have freed meanwhile is taken, too.
                    with suppress(OSError):
                        file.write(bytes(4096))
                    time.sleep(0.05)
        finally:
            balloon.unlink(missing_ok=True)

    def step(self) -> None:
        """Let the clock of all parts but PostgreSQL step, and step back."""
        self.clock.step(self.rng.choice(STEPS))
        time.sleep(self.rng.uniform(*OUTAGE))
        self.clock.step(0.0)

    def refuse_mail(self) -> None:
        self.mail.refuses = 3

    def refuse_posts(self) -> None:
        self.receiver.refuses = 3
