"""People are told of runs that stop, runs that nothing runs and candidates that wait, where they want it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from flows.served.logs import logs
from flows.served.state import active_runs, pending_decisions
from tests.limits import NO_LOSS
from tests.served.receiver import Receiver

pytestmark = pytest.mark.platform


@pytest.fixture(scope="module")
def receiver(served: Any) -> Iterator[Receiver]:
    """A notification block that an operator has made in the page, and the alarms that have found it."""
    found = Receiver()
    made = found.block(served)

    def sends() -> bool:
        alarms = [a for a in served.api("/automations/filter", {}) if a["name"].startswith("anonflow: ")]
        return len(alarms) == 1 and all(a["actions"][0]["type"] == "send-notification" for a in alarms)

    # Without starting anything again.
    served.until(sends, 120, served.logs)
    yield found
    served.api(f"/block_documents/{made}", method="DELETE")
    found.server.shutdown()


def test_a_candidate_that_waits_is_told_and_told_again(served: Any, receiver: Receiver) -> None:
    served.plan("patient", seed=80, policy=", decide_within_days: 3")
    served.deployed("patient")
    run = served.run("patient")
    served.paused(run)
    entry = served.candidate(run)
    told = ("a release awaits a decision", entry.release)
    served.until(lambda: receiver.hears(*told, "Decide until", "What to do"), 40, lambda: str(receiver.heard))
    served.until(lambda: served.mailed(*told, f"flow-run/{run}") == 1, 40, lambda: str(served.mail.mails))
    assert entry.remind > time.time()
    pending_decisions(served.home).put(entry.release, replace(entry, remind=time.time() - 1))
    again = ("a release still awaits a decision", entry.release)
    served.until(lambda: receiver.hears(*again), 40, lambda: str(receiver.heard))
    # Once.
    assert served.candidate(run).remind == 0
    assert sum(again[0] in text for text in receiver.heard) == 1
    served.decide(run, dossier_sha256="0" * 64)
    told = ("a decision was not accepted", entry.release)
    served.until(lambda: receiver.hears(*told), 60, lambda: str(receiver.heard))


def test_a_killed_run_is_told_and_taken_up_again(served: Any, receiver: Receiver) -> None:
    served.plan("shot", seed=81)
    served.deployed("shot")
    run = served.run("shot")
    served.until(lambda: active_runs(served.home).get(run) is not None, 120, served.logs)
    os.kill(active_runs(served.home).get(run).pid, signal.SIGKILL)
    told = ("a run crashed and is resumed", "shot", "attempt 1 of 4")
    served.until(lambda: receiver.hears(*told), 60, lambda: str(receiver.heard))
    assert served.paused(run)["name"] == "Suspended"
    assert served.events("shot") == ["awaiting"]


def test_a_run_that_nothing_runs_is_told(served: Any, receiver: Receiver) -> None:
    served.plan("stalled", seed=82)
    served.deployed("stalled")
    worker = served.pid("worker")
    os.kill(worker, signal.SIGSTOP)
    try:
        run = served.run("stalled")
        told = ("a run is late", "prefect.flow-run.Late")
        served.until(lambda: receiver.hears(*told), 60, lambda: str(receiver.heard))
        assert served.state(run)["name"] == "Late"
    finally:
        os.kill(worker, signal.SIGCONT)
    served.paused(run)


def test_what_is_rejected_or_refused_is_not_green_and_is_mailed(served: Any) -> None:
    served.plan("harmful", seed=83, utility=NO_LOSS)
    served.plan("sourceless", seed=84)
    for plan in ("harmful", "sourceless"):
        served.deployed(plan)
    (served.plans / "sourceless.csv").unlink()
    rejected, refused = served.run("harmful"), served.run("sourceless")
    assert {key: served.ended(rejected)[key] for key in ("type", "name")} == {"type": "FAILED", "name": "Rejected"}
    assert {key: served.ended(refused)[key] for key in ("type", "name")} == {"type": "FAILED", "name": "Refused"}
    served.until(lambda: served.mailed("a release was rejected", "Plan: harmful", "What to do") == 1, 40, served.logs)
    served.until(lambda: served.mailed("a run was refused", "sourceless", refused) == 1, 40, served.logs)
    assert "Traceback" not in (logs(served.home) / "worker.log").read_text()
    (served.plans / "broken.yaml").write_text("anonflow: 1\n")
    served.until(lambda: served.mailed("a plan is refused", "broken.yaml") == 1, 60, served.logs)
    (served.plans / "broken.yaml").unlink()
    # While a plan cannot be read, no deployment is removed: other tests share the stack.
    (served.plans / "sourceless.yaml").unlink()
