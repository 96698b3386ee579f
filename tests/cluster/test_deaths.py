"""Workers are killed at random moments, and the scheduler is lost."""

import threading
from pathlib import Path

import numpy as np
import pytest

from anoncore.partitions.store import Serial
from tasks.common.errors import Fault
from tasks.common.home import make_private
from tasks.engine.cluster.connection import started
from tasks.engine.cluster.executor import DaskCluster
from tasks.engine.local import LocalPool
from tasks.engine.store import EncryptedStore, new_key
from tests.deaths import kill_one_worker
from tests.tasks.engine import partition_tasks as tasks

KILLS, PARTITIONS = 20, 12


def filled(folder: Path) -> EncryptedStore:
    store = EncryptedStore(make_private(folder / "columns"), new_key())
    for partition in range(PARTITIONS):
        store.write("x", partition, np.arange(1000.0) + partition)
    return store


def carried_out(executor: Serial | LocalPool | DaskCluster) -> list[float]:
    executor.map(tasks.doubled, range(PARTITIONS), [0.2] * PARTITIONS)
    return executor.map(tasks.total, ["doubled"] * PARTITIONS, range(PARTITIONS))


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_workers_that_are_killed_at_random_moments_change_nothing(engine: str, tmp_path: Path) -> None:
    store = filled(tmp_path)
    expected = carried_out(Serial(store))
    moments = np.random.default_rng(1).uniform(0, 3, KILLS)
    with started(2, tmp_path / "dask") as client:
        for moment in moments:
            # Dask does not replace a worker that is killed before it has begun.
            client.wait_for_workers(2, timeout=120)
            killer = threading.Thread(target=kill_one_worker, args=(moment,))
            with LocalPool(store, 2) if engine == "local" else DaskCluster(client, store) as executor:
                killer.start()
                assert carried_out(executor) == expected
            killer.join()


def test_a_scheduler_that_is_lost_ends_the_step(tmp_path: Path) -> None:
    store = filled(tmp_path)

    def lose(progress: object) -> None:
        client.cluster.sync(client.cluster.scheduler.close)

    with (
        started(2, tmp_path / "dask") as client,
        pytest.raises(Fault, match="connection to the scheduler of the cluster was lost"),
        DaskCluster(client, store, lose) as cluster,
    ):
        cluster.map(tasks.doubled, range(3), [0.0, 30.0, 30.0])
