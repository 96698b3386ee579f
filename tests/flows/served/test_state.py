"""Records of pending decisions and of runs under way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import Any

from flows.served.state import (
    ActiveRun,
    PendingDecision,
    active_runs,
    begin_run,
    count_attempt,
    end_run,
    pending_decision,
    pending_decisions,
    remove_pending,
    store_pending,
)
from tasks.common.home import Home


def entry(**facts: Any) -> PendingDecision:
    known = {"release": "r-1", "dossier": "d", "plan": "p", "run": "a", "name": "p · 1", "until": 0.0}
    return PendingDecision(**known | facts)


def test_a_wait_is_found_by_its_run_and_by_its_release_until_it_is_settled(home: Home) -> None:
    store_pending(home, entry())
    store_pending(home, entry(release="r-2", run="b"))
    found = pending_decision(home, run="a")
    assert found == entry() == pending_decision(home, release="r-1")
    remove_pending(home, entry())
    assert pending_decision(home, run="a") is None
    assert [w.run for w in pending_decisions(home)] == ["b"]
    assert stat.S_IMODE((home.path / "waiting" / "r-2.json").stat().st_mode) == 0o600


def test_a_run_lives_as_long_as_its_process(home: Home) -> None:
    begin_run(home, "a", "p · 1", "p")
    (found,) = active_runs(home)
    assert found.is_running
    assert found.pid == os.getpid()
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    assert not ActiveRun("a", "n", "p", int(gone.stdout), "1", found.host).is_running
    assert ActiveRun("a", "n", "p", int(gone.stdout), "1", "elsewhere").is_running


def test_how_often_a_run_was_taken_up_is_kept_when_it_begins_again(home: Home) -> None:
    begin_run(home, "a", "p · 1", "p")
    count_attempt(home, active_runs(home)[0])
    begin_run(home, "a", "p · 1", "p")
    assert active_runs(home)[0].attempts == 1
    end_run(home, "a")
    end_run(home, "a")
    assert active_runs(home) == []


def test_what_cannot_be_read_is_passed_over(home: Home) -> None:
    store_pending(home, entry())
    (home.path / "waiting" / "r-0.json").write_text("{")
    assert [w.release for w in pending_decisions(home)] == ["r-1"]
