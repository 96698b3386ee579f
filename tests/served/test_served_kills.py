"""Parts are killed without a word, while people are awaited and while a release is published.

Whatever dies: a release is not published or whole, an approval is not lost, the ledger is in order. Each
part in turn dies in `long`.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from flows.served.state import is_carried_out

pytestmark = pytest.mark.platform

PARTS = ("worker", "prefect", "mlflow", "postgres")


def test_a_run_that_dies_while_it_publishes_ends_whole(served: Any) -> None:
    served.killed_while_publishing("run", seed=23)


def test_a_killed_serve_leaves_nothing_running_and_another_goes_on(served: Any) -> None:
    served.plan("outage", seed=40)
    served.deployed("outage")
    run = served.run("outage")
    served.paused(run)
    pids = [served.pid(part) for part in PARTS]
    os.kill(served.process.pid, signal.SIGKILL)
    served.process.wait()
    served.until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), 60, lambda: str(pids))
    served.start()
    served.approve(run)
    assert served.ended(run, 180)["name"] == "Published"
    served.check_whole("outage")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can rename a host")
def test_a_run_is_taken_up_by_a_host_of_another_name(served: Any) -> None:
    served.plan("moved", seed=41)
    served.deployed("moved")
    with served.held("decide.lock"):
        run = served.run("moved")
        served.until(lambda: is_carried_out(served.home, run), 120, served.logs)
        os.kill(served.process.pid, signal.SIGKILL)
        served.process.wait()
        served.until(lambda: not is_carried_out(served.home, run), 60, served.logs)
    served.start(host="another-host")
    assert served.paused(run, 60)["name"] == "Suspended"
    assert served.events("moved") == ["awaiting"]
