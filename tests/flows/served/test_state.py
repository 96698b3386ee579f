"""Records of pending decisions and of runs under way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from typing import Any

from flows.served.state import ActiveRun, PendingDecision, active_runs, begin_run, pending_decisions, pending_of_run
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


def test_a_run_is_running_as_long_as_its_process(home: Home) -> None:
    begin_run(home, "a", "p · 1", "p")
    (active,) = active_runs(home).all()
    assert active.is_running
    assert active.pid == os.getpid()
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    assert not ActiveRun("a", "n", "p", int(gone.stdout), "1", active.host).is_running
    assert ActiveRun("a", "n", "p", int(gone.stdout), "1", "elsewhere").is_running


def test_the_number_of_attempts_is_kept_when_a_run_begins_again(home: Home) -> None:
    begin_run(home, "a", "p · 1", "p")
    (active,) = active_runs(home).all()
    active_runs(home).put("a", replace(active, attempts=1))
    begin_run(home, "a", "p · 1", "p")
    (active,) = active_runs(home).all()
    assert active.attempts == 1


def test_files_that_cannot_be_read_are_passed_over(home: Home) -> None:
    pending_decisions(home).put("r-1", entry())
    (home.path / "waiting" / "r-0.json").write_text("{")
    assert [pending.release for pending in pending_decisions(home).all()] == ["r-1"]
