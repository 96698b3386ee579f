"""A scheduler and workers of an office, started by the commands of deploy/, with certificates made as documented."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from tasks.common.errors import Fault
from tasks.common.home import Home, make_private
from tasks.engine.cluster import connection
from tasks.engine.cluster.access import access_of
from tasks.engine.cluster.connection import connected
from tasks.engine.cluster.executor import DaskCluster
from tasks.engine.store import EncryptedStore, new_key
from tests.tasks.engine import partition_tasks as tasks

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICES = yaml.safe_load((DEPLOY / "compose.cluster.yaml").read_text())["services"]


def made(folder: Path, address: str) -> Path:
    folder.mkdir()
    subprocess.run([DEPLOY / "cluster/make-certificates", address], cwd=folder, check=True, capture_output=True)
    return folder


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Path]:
    """Run the services of the compose file as processes; give the folder of the certificates."""
    address = f"tls://127.0.0.1:{free_port()}"
    certificates = made(tmp_path / "certificates", address)
    given = {"cluster_ca": "ca.pem", "cluster_certificate": "cluster.pem", "cluster_key": "cluster.key"}
    running = []
    for name in ("scheduler", "cluster-worker"):
        command = [
            part.replace("tls://scheduler:8786", address).replace("${ANONFLOW_CLUSTER_PROCESSES:-2}", "2")
            for part in SERVICES[name]["command"]
        ]
        command = [
            str(certificates / given[part.rsplit("/")[-1]]) if part.startswith("/run/") else part for part in command
        ]
        command = [address.rsplit(":")[-1] if part == "8786" else part for part in command]
        settings = {k: v for k, v in SERVICES[name]["environment"].items() if k.startswith("DASK_")}
        settings["DASK_TEMPORARY_DIRECTORY"] = str(tmp_path)
        with open(tmp_path / f"{name}.log", "wb") as log:
            environment = {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(sys.path)}
            running.append(
                subprocess.Popen([sys.executable, "-m", "dask", *command], env=environment, stdout=log, stderr=log)
            )
        time.sleep(1)
    yield certificates
    for process in running:
        process.terminate()
    for process in running:
        process.wait(60)


def test_a_plan_enters_an_office_s_cluster_with_its_secret_and_no_other(
    office: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(office))
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 20)
    access = access_of("OFFICE_CLUSTER", Home(tmp_path))
    store = EncryptedStore(make_private(tmp_path / "columns"), new_key())
    for partition in range(3):
        store.write("x", partition, np.full(4, 73_113_377.25 + partition))
    with connected(access) as client, DaskCluster(client, store) as cluster:
        assert cluster.map(tasks.total, ["x"] * 3, range(3)) == [4 * (73_113_377.25 + p) for p in range(3)]
        with pytest.raises(Fault, match="unexpected ValueError"):
            cluster.map(tasks.quoting, ["x"])
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"distributed.worker" in written
    assert b"73113377" not in written
    assert store.key.hex().encode() not in written
    stranger = made(tmp_path / "other", access.address)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(stranger))
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 5)
    with pytest.raises(Fault, match="does not answer at tls"), connected(access_of("OFFICE_CLUSTER", Home(tmp_path))):
        pass
