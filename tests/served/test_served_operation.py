"""What an operator looks at, and what serve mends by itself: a part that hangs, a pool of another home."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from flows.servers.layout import prefect_auth, read_layout

pytestmark = pytest.mark.platform


def test_status_and_metrics_say_what_is_there(served: Any) -> None:
    served.plan("seen", seed=95)
    served.deployed("seen")
    run = served.run("seen")
    served.paused(run)
    release = served.candidate(run).release
    command = [served.program, "serve", "--status", "--json", "--home", served.home.path]
    found = json.loads(subprocess.run(command, capture_output=True, env=served.environment(), check=True).stdout)
    assert found["parts"] == {"PostgreSQL": "", "Prefect": "", "MLflow": "", "Worker": ""}
    assert found["schedules"]["seen"] == "on request"
    assert release in [one["release"] for one in found["waiting"]]
    layout = read_layout(served.home)
    assert layout is not None
    with urllib.request.urlopen(f"{layout.worker}/metrics", timeout=60) as answer:
        assert f'anonflow_waiting_seconds{{plan="seen",release="{release}"}}' in answer.read().decode()


def test_a_part_that_hangs_is_started_again(served: Any) -> None:
    before = served.pid("mlflow")
    os.kill(before, signal.SIGSTOP)
    served.until(lambda: served.pid("mlflow") not in (0, before), 240, served.said)
    assert "has not answered for" in served.said()
    served.until(lambda: served.mlflow("experiments/search?max_results=1") is not None, 120, served.logs)


def test_a_worker_of_another_home_is_refused(served: Any, tmp_path: Path) -> None:
    layout = read_layout(served.home)
    assert layout is not None
    other = tmp_path / "other"
    apart = served.environment() | {
        "PREFECT_API_URL": layout.api,
        "PREFECT_API_AUTH_STRING": prefect_auth(served.home),
        "MLFLOW_TRACKING_URI": layout.mlflow,
    }
    process = subprocess.Popen(
        [served.program, "serve", served.plans, "--only", "worker", "--home", other],
        env=apart,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        log = other / "logs" / "worker.log"
        served.until(lambda: log.exists() and "belongs to another home" in log.read_text(), 120, served.logs)
    finally:
        process.terminate()
        process.wait(240)
