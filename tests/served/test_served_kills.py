"""Parts are killed without a word, while people are awaited and while a release is published.

Whatever dies: a release is not published or whole, an approval is not lost, the ledger is in order. Each
part in turn dies in `long`.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

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
