"""Which parts of a home run, and whether they are healthy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from flows.served.child import _worker_app
from flows.served.health import problems
from flows.served.stack import Request, Stack, only_one
from flows.servers.layout import Layout, write_layout
from flows.servers.process import listen
from tasks.common.errors import Refused
from tasks.common.home import Home


def test_two_stacks_of_one_home_are_refused(home: Home) -> None:
    with only_one(home, ("worker",)):
        with (
            pytest.raises(Refused, match=f"already \\(process {os.getpid()}\\), with Worker"),
            only_one(home, ("prefect", "worker")),
        ):
            pass
        with only_one(home, ("prefect",)):
            pass


def test_what_does_not_run_is_not_healthy(home: Home) -> None:
    assert problems(home) == ["anonflow serve does not run in this home"]
    with listen() as sock, only_one(home, ("mlflow", "worker")):
        port = sock.getsockname()[1]
        sock.close()
        write_layout(home, lambda known: Layout(mlflow=f"http://127.0.0.1:{port}"))
        assert [p.split(";")[0] for p in problems(home)] == [
            "MLflow does not answer",
            "Worker does not answer",
        ]
        assert problems(home, ("prefect",)) == ["Prefect does not run in this home"]


def test_the_worker_answers_this_machine_and_no_other_name(
    home: Home, tracking: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with listen() as taken:
        port = taken.getsockname()[1]
    stack = Stack(home, Request(tmp_path, ("worker",), metrics_port=port, host="0.0.0.0"), print)
    assert stack.sockets["worker"].getsockname() == ("127.0.0.1", port)
    stack.stop()
    worker = TestClient(_worker_app(), base_url="http://127.0.0.1")
    assert worker.get("/metrics").status_code == 200
    for path in ("/", "/metrics"):
        assert worker.get(path, headers={"host": "attacker.example"}).status_code == 403
