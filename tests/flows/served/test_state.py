"""Records of pending decisions and of runs under way."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from flows.served.state import (
    SERVER,
    PendingDecision,
    active_runs,
    carried_out,
    end_stranded,
    is_carried_out,
    pending_decisions,
    pending_of_run,
    remove_run,
)
from tasks.common.home import Home


def entry(**facts: Any) -> PendingDecision:
    given = {"release": "r-1", "dossier": "d", "plan": "p", "run": "a", "name": "p · 1", "until": 0.0}
    return PendingDecision(**given | facts)


def test_a_pending_decision_is_returned_by_run_and_by_release_until_it_is_removed(home: Home) -> None:
    records = pending_decisions(home)
    records.put("r-1", entry())
    records.put("r-2", entry(release="r-2", run="b"))
    assert pending_of_run(home, "a") == entry() == records.get("r-1")
    records.remove("r-1")
    records.remove("r-1")
    assert pending_of_run(home, "a") is None
    assert [pending.run for pending in records.all()] == ["b"]
    assert stat.S_IMODE((home.path / "waiting" / "r-2.json").stat().st_mode) == 0o600


CARRIES_OUT = """
import sys, time
from pathlib import Path
from flows.served.state import carried_out
from tasks.common.home import Home
with carried_out(Home(Path(sys.argv[1])), "a", "p · 1", "p"):
    print("begun", flush=True)
    time.sleep(600)
"""


def test_a_run_is_carried_out_until_its_process_ends_whatever_its_host_is_called(home: Home) -> None:
    with subprocess.Popen([sys.executable, "-c", CARRIES_OUT, home.path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        (active,) = active_runs(home).all()
        assert (active.pid, active.host, active.attempts) == (process.pid, socket.gethostname(), 0)
        active_runs(home).put("a", replace(active, host="renamed", attempts=1))
        assert is_carried_out(home, "a")
        process.kill()
    assert not is_carried_out(home, "a")
    with carried_out(home, "a", "p · 1", "p"):
        assert is_carried_out(home, "a")
        (again,) = active_runs(home).all()
        assert (again.pid, again.attempts) == (os.getpid(), 1)
        remove_run(home, "a")
    assert list((home.path / "served" / "runs").iterdir()) == []


def test_files_that_cannot_be_read_are_passed_over(home: Home) -> None:
    pending_decisions(home).put("r-1", entry())
    (home.path / "waiting" / "r-0.json").write_text("{")
    assert [pending.release for pending in pending_decisions(home).all()] == ["r-1"]


def test_a_run_that_reports_to_a_server_that_is_no_more_is_ended(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER, "http://127.0.0.1:1/api")
    with subprocess.Popen([sys.executable, "-c", CARRIES_OUT, home.path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        assert end_stranded(home) == 0
        monkeypatch.setenv(SERVER, "http://127.0.0.1:2/api")
        assert end_stranded(home) == 1
        assert process.wait(60) == -signal.SIGKILL
    assert not is_carried_out(home, "a")
    assert [active.run for active in active_runs(home).all()] == ["a"]
