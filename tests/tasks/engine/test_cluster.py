"""Tasks on a cluster of two processes: as in one, whoever dies; nothing that Dask keeps or logs is readable."""

import ctypes
import importlib.util
import logging
import os
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import psutil
import pytest
from cryptography.exceptions import InvalidTag

from anoncore.errors import InfeasibleError
from tasks.common.errors import Fault, Refused
from tasks.common.home import Home, make_private
from tasks.engine.cluster import connection, executor, worker
from tasks.engine.cluster.access import access_of
from tasks.engine.cluster.executor import DaskCluster
from tasks.engine.cluster.sealing import Seal, wrapped
from tasks.engine.store import EncryptedStore, new_key
from tests.tasks.engine import partition_tasks as tasks

CANARY = 73_113_377.25
READABLE = (np.float64(CANARY).tobytes(), b"73113377", b"7.3113377", b"CANARY-7311")


def test_workers_keep_freed_memory() -> None:
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("the C library is another one")
    assert worker.keep_freed_memory()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[object]:
    with connection.started(2, folder / "dask") as client:
        yield client


@pytest.fixture(scope="module")
def store(folder: Path) -> EncryptedStore:
    store = EncryptedStore(make_private(folder / "columns"), new_key())
    for partition in range(4):
        store.write("x", partition, np.arange(10.0) + partition)
    store.write("canary", 0, np.full(10, CANARY))
    return store


@pytest.fixture(scope="module")
def cluster(client, store: EncryptedStore) -> Iterator[DaskCluster]:
    with DaskCluster(client, store) as cluster:
        yield cluster


def test_results_are_those_of_one_process_also_when_a_worker_dies(cluster: DaskCluster, tmp_path: Path) -> None:
    assert cluster.map(tasks.killed, range(4), [str(tmp_path)] * 4, [0, 1, 0, 0]) == [0, 1, 2, 3]
    cluster.client.wait_for_workers(2, timeout=60)
    # The worker that began later has got the key as well.
    pids = cluster.map(tasks.doubled, range(4), [0.5] * 4)
    assert len(set(pids)) == 2
    assert os.getpid() not in pids
    assert cluster.map(tasks.total, ["doubled"] * 4, range(4)) == [90.0 + 20 * p for p in range(4)]
    assert cluster.map(tasks.total, [], []) == []


def test_errors_come_back_by_kind_and_without_data(cluster: DaskCluster) -> None:
    with pytest.raises(InfeasibleError, match="k must be at most 4"):
        cluster.map(tasks.infeasible, [4])
    with pytest.raises(Fault, match="unexpected ValueError") as caught:
        cluster.map(tasks.quoting, ["canary"])
    assert "7311" not in "".join(traceback.format_exception(caught.value))


def kept_by_dask(dask_scheduler) -> bytes:
    """Return all that a scheduler holds of tasks and events."""
    held = [repr(dask_scheduler.get_events()), repr(dask_scheduler.get_logs(n=None))]
    held += [repr(computation.code) for computation in dask_scheduler.computations]
    specs = [pickle.dumps(state.run_spec) for state in dask_scheduler.tasks.values()]
    return " ".join(held).encode() + b" ".join(specs) + repr(list(dask_scheduler.tasks)).encode()


def held_by_worker(dask_worker) -> bytes:
    """Return what a worker holds of Dask's: results and logs."""
    return pickle.dumps(dict(dask_worker.data)) + repr([dask_worker.get_logs(n=None), dask_worker.state.log]).encode()


def test_no_canary_is_in_what_dask_holds_logs_or_writes(
    cluster: DaskCluster, folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[bytes] = []

    def look(progress: object) -> None:
        # The results are still held by the workers, and the calls by the scheduler.
        seen.append(cluster.client.run_on_scheduler(kept_by_dask))
        seen.extend(cluster.client.run(held_by_worker).values())

    with caplog.at_level(logging.DEBUG), DaskCluster(cluster.client, cluster.store, look) as watched:
        windows = watched.map(tasks.told, [0] * 3, [CANARY] * 3, ["CANARY-7311"] * 3)
        with pytest.raises(Fault):
            watched.map(tasks.quoting, ["canary"])
        key = watched.store.key
    assert [window.tolist() for window in windows] == [[CANARY] * 3] * 3
    # Two looks, when both workers have carried out one call, and when all are done.
    assert len(seen) == 6
    assert any(b"anonflow-" in held for held in seen)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 5
    everything = [*seen, caplog.text.encode(), *map(str.encode, capfd.readouterr()), *(p.read_bytes() for p in files)]
    for readable in (*READABLE, key, key.hex().encode(), repr(key).encode()):
        assert not any(readable in one for one in everything)


def test_workers_forget_the_key_of_a_run_that_has_ended(client, store: EncryptedStore) -> None:
    with DaskCluster(client, store) as cluster:
        assert all(cluster.run in held for held in client.run(tasks.keys_held).values())
    assert not any(cluster.run in held for held in client.run(tasks.keys_held).values())


def test_the_cluster_listens_on_this_machine_alone_and_speaks_tls(client) -> None:
    assert client.scheduler.address.startswith("tls://127.0.0.1:")
    own = psutil.Process()
    listening = [c.laddr.ip for p in (own, *own.children(True)) for c in p.net_connections() if c.status == "LISTEN"]
    assert set(listening) == {"127.0.0.1"}


def test_a_worker_with_other_versions_is_refused(
    client, store: EncryptedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "versions", lambda: (*worker.versions()[:-1], "distributed 1.0"))
    with pytest.raises(Fault, match=r"has distributed 20\d\d.*, and here it is distributed 1\.0; install the same"):
        DaskCluster(client, store).__enter__()


def test_workers_with_other_sources_or_another_arithmetic_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    own = worker.versions()
    assert [one.split()[0] for one in own[2:4]] == ["sources", "arithmetic"]
    monkeypatch.setattr(worker.Path, "read_bytes", lambda path: b"OUTERMOST = 1")
    monkeypatch.setattr(worker.np, "sin", lambda angles: np.cos(angles))
    other = worker.versions.__wrapped__()
    assert [a == b for a, b in zip(own, other, strict=True)] == [True, True, False, False] + [True] * (len(own) - 4)


def test_a_store_that_a_worker_cannot_use_is_reported(tmp_path: Path) -> None:
    key = new_key()
    public = worker.introduce().public
    problem = worker.accept("run", str(tmp_path / "elsewhere"), wrapped(key, public, "run"))
    assert "no chunk of column probe" in problem
    EncryptedStore(tmp_path, key).write(worker.PROBE, 0, np.zeros(1))
    # A key that was meant for another run.
    assert worker.accept("other", str(tmp_path), wrapped(key, public, "run"))
    assert worker.accept("run", str(tmp_path), wrapped(key, public, "run")) == ""
    assert worker._Here.keys.keys() == {"run"}
    worker.forget("run")
    assert not worker._Here.keys


def test_calls_and_answers_are_of_one_task_and_direction() -> None:
    seal = Seal(new_key())
    message = seal.close(b"content", "call", "a-0")
    assert seal.open(message, "call", "a-0") == b"content"
    for direction, name in (("answer", "a-0"), ("call", "a-1")):
        with pytest.raises(InvalidTag):
            seal.open(message, direction, name)  # type: ignore[arg-type]
    with pytest.raises(InvalidTag):
        Seal(new_key()).open(message, "call", "a-0")


PEM = "-----BEGIN CERTIFICATE-----\\nQ0FOQVJZ\\n-----END CERTIFICATE-----\\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("tls://scheduler:8786", "must be YAML with the keys address, ca, certificate, key"),
        ("{address: [", "must be YAML"),
        (f'{{address: "tcp://s:1", ca: "{PEM}", certificate: "{PEM}", key: "{PEM}"}}', "must begin with tls://"),
        (f'{{address: "tls://s:1", ca: "{PEM}", certificate: /etc/tls, key: "{PEM}"}}', "must be PEM texts"),
    ],
)
def test_access_of_another_form_is_refused_without_showing_it(
    content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFICE_CLUSTER", content)
    with pytest.raises(Refused, match=message) as caught:
        access_of("OFFICE_CLUSTER", Home(tmp_path))
    assert "Q0FO" not in str(caught.value)
    monkeypatch.setenv("OFFICE_CLUSTER", f'{{address: "tls://s:1", ca: "{PEM}", certificate: "{PEM}", key: "{PEM}"}}')
    access = access_of("OFFICE_CLUSTER", Home(tmp_path))
    assert (access.address, "Q0FO" in repr(access)) == ("tls://s:1", False)


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"needs the extra cluster: pip install 'anonflow\[cluster\]'"):  # noqa: SIM117
        with connection.started(1, tmp_path):
            pass


def test_a_worker_that_dies_while_the_cluster_starts_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import distributed

    begun, real = [], distributed.LocalCluster

    def once_killed(*given: object, **options: object) -> object:
        begun.append(options)
        if len(begun) < 2:
            raise RuntimeError("Nanny failed to start.")
        return real(*given, **options)

    monkeypatch.setattr(distributed, "LocalCluster", once_killed)
    with connection.started(1, tmp_path / "dask") as client:
        assert len(client.scheduler_info()["workers"]) == 1
    monkeypatch.setattr(distributed, "LocalCluster", Mock(side_effect=RuntimeError))
    with pytest.raises(Fault, match="could not be started"), connection.started(1, tmp_path / "dask"):
        pass
