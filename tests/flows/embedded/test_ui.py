import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

SERVE = """
import sys
from pathlib import Path
from flows.embedded.ui import serve_uis
serve_uis(Path(sys.argv[1]), prefect_port=int(sys.argv[2]), mlflow_port=0, open_browser=False)
"""

TRACK = """
import sys
from flows import embedded
embedded.apply(sys.argv[1])
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=embedded.tracking_ready(sys.argv[1]))
run = client.create_run(client.create_experiment("census"), run_name="spring")
client.log_text(run.info.run_id, "counts", "report.txt")
"""


def started(home: Path, port: int = 0) -> subprocess.Popen:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "_MLFLOW_"))}
    return subprocess.Popen(
        [sys.executable, "-c", SERVE, str(home), str(port)], env=clean, stdout=subprocess.PIPE, text=True
    )


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid: int, seconds: float = 15.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


class Browser:
    """Keeps cookies and follows nothing."""

    def __init__(self, address: str) -> None:
        self.address, self.cookie = urlsplit(address), ""

    def get(self, path: str, body: dict | None = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.address.port or 0, timeout=30)
        sent = {"Content-Type": "application/json", "Cookie": self.cookie} | headers
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, sent)
        answer = connection.getresponse()
        self.cookie = answer.headers.get("Set-Cookie", self.cookie).split(";")[0]
        return answer

    def log_in(self) -> http.client.HTTPResponse:
        return self.get(f"{self.address.path}?{self.address.query}")


@pytest.mark.platform
def test_both_histories_are_shown_to_the_owner_only(tmp_path):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "_MLFLOW_"))}
    subprocess.run([sys.executable, "-c", TRACK, str(tmp_path)], env=clean, check=True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = taken.getsockname()[1]
        process = started(tmp_path, wanted)
        assert process.stdout
        try:
            assert process.stdout.readline().startswith(f"Port {wanted} is taken: Prefect is on")
            addresses = dict(process.stdout.readline().split() for _ in range(2))
            pids = children(process.pid)
            commands = "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)

            prefect, mlflow = Browser(addresses["Prefect"]), Browser(addresses["MLflow"])
            for browser in (prefect, mlflow):
                assert browser.get("/").status == 403
                assert browser.address.query.split("=")[1] not in commands

            assert prefect.log_in().status == 303
            page = prefect.get("/")
            assert b"Prefect" in page.read()
            assert "default-src 'self'" in page.headers["Content-Security-Policy"]
            settings = json.load(prefect.get("/ui-settings"))
            assert settings["api_url"] == "/api"
            assert settings["available_uis"] == ["v1"]
            assert json.load(prefect.get("/api/flow_runs/filter", {"limit": 1})) == []
            assert prefect.get("/", Origin="http://127.0.0.1:1").status == 403

            assert mlflow.log_in().status == 303
            assert b"machine_learning" in mlflow.get("/").read()
            found = json.load(mlflow.get("/ajax-api/2.0/mlflow/experiments/search", {"max_results": 9}))
            census = next(e for e in found["experiments"] if e["name"] == "census")
            query = {"experiment_ids": [census["experiment_id"]]}
            (run,) = json.load(mlflow.get("/ajax-api/2.0/mlflow/runs/search", query))["runs"]
            report = mlflow.get(f"/get-artifact?path=report.txt&run_uuid={run['info']['run_id']}")
            assert report.read() == b"counts"
            assert mlflow.get("/ajax-api/3.0/mlflow/assistant/config").status == 404

            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert len(pids) == 2
            assert all(gone(pid) for pid in pids)
        finally:
            process.kill()
            process.wait()


@pytest.mark.platform
def test_nothing_stays_behind_when_it_is_killed(tmp_path):
    process = started(tmp_path)
    end = time.monotonic() + 20
    while len(pids := children(process.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)
