"""Two workers of one home, each in namespaces of its own as on two machines, and one ledger in PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flows.served.postgres import Postgres
from tasks.common.home import Home, make_private, write_private
from tasks.record import ledger
from tasks.record.entry import ReleaseFacts
from tasks.record.ledger_store import move
from tests.limits import UTILITY
from tests.served.conftest import PLAN, PROGRAM, clean_environment, people

pytestmark = [
    pytest.mark.platform,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="namespaces need root and unshare"),
]
# Names of the host, processes and network of its own; the file system is the storage that both share.
APART = ("unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child", "--net", "--ipc")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home whose ledger is in a PostgreSQL that both reach by its socket."""
    server = Postgres(Home.locate(tmp_path / "server"))
    server.start()
    home = Home.locate(tmp_path / "home")
    try:
        server.wait()
        write_private(make_private(home.path / "secrets") / "LEDGER", server.url("postgres").encode())
        move(home, "LEDGER")
        yield home
    finally:
        server.stop()


class Machine:
    """One of the workers, with a plan of its own."""

    def __init__(self, name: str, folder: Path, home: Home) -> None:
        self.name, self.folder, self.home = name, folder, home
        parts = {"approval": "person", "utility": UTILITY, "policy": "", "to": "", "schedule": ""}
        self.plan = folder / f"{name}.yaml"
        self.plan.write_text(PLAN.format(name=name, source=f"{{path: {name}.csv}}", **parts))
        people(len(name), 200).to_csv(folder / f"{name}.csv", index=False)

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Give a command on this machine."""
        command = [*APART, "sh", "-c", f'hostname {self.name} && exec "$@"', "sh", PROGRAM, *words]
        return subprocess.Popen(
            [*command, "--home", self.home.path],
            env=clean_environment() | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self) -> subprocess.Popen[str]:
        """Carry the plan out."""
        return self.start("run", self.plan, "--inline")

    def approve(self) -> subprocess.Popen[str]:
        """Approve what waits of the plan."""
        waits = [one for one in ledger.find(self.home, ReleaseFacts, "awaiting") if one.facts.name == self.name]
        return self.start("approve", waits[-1].facts.release, "--by", "Ann", "--reason", "read it")


def ended(process: subprocess.Popen[str], code: int) -> None:
    said, _ = process.communicate(timeout=480)
    assert process.returncode == code, said


def lose(process: subprocess.Popen[str]) -> None:
    """End a worker and all it has started, as when its machine is lost."""
    for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
        one.send_signal(signal.SIGKILL)
    process.wait(60)


def test_two_workers_release_into_one_ledger_and_one_of_them_is_lost(home: Home, tmp_path: Path) -> None:
    one, other = (Machine(name, tmp_path, home) for name in ("north", "southern"))
    for process in [one.run(), other.run()]:
        ended(process, 4)
    before = len(ledger.entries(home))
    lost = one.approve()
    while len(ledger.entries(home)) == before and lost.poll() is None:
        time.sleep(0.01)
    # Between the entries of its decision and of its publication.
    assert lost.poll() is None
    lose(lost)
    events = [entry.event for entry in ledger.find(home, ReleaseFacts) if entry.facts.name == "north"]
    assert events[:2] == ["awaiting", "approved"]
    assert ledger.problems(home) == []
    # Whoever runs next settles what the other has left.
    ended(other.run(), 4)
    published = [entry.facts.name for entry in ledger.find(home, ReleaseFacts, "published")]
    assert published == ["north"]
    # It was not measured together with what was published meanwhile.
    ended(other.approve(), 2)
    assert [entry.number for entry in ledger.entries(home)] == [*range(1, len(ledger.entries(home)) + 1)]
    assert not home.ledger.exists()
    ended(one.start("audit", "verify"), 0)
