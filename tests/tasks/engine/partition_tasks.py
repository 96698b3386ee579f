"""Tasks that processes of the tests import."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from anoncore.errors import InfeasibleError
from anoncore.partitions.store import ColumnStore
from tasks.engine.cluster import worker


def total(store: ColumnStore, column: str, partition: int) -> float:
    return float(store.read(column, partition).sum())


def doubled(store: ColumnStore, partition: int, pause: float) -> int:
    """Write a chunk that follows from another, slowly for the first."""
    time.sleep(pause)
    store.write("doubled", partition, 2 * store.read("x", partition))
    return os.getpid()


def killed(store: ColumnStore, partition: int, marks: str, times: int) -> int:
    """Be killed a number of times, then succeed."""
    before = len(list(Path(marks).glob(f"{partition}-*")))
    if before < times:
        Path(marks, f"{partition}-{before}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return partition


def quoting(store: ColumnStore, column: str) -> None:
    """Fail with data in the text of an error, and in that of its cause."""
    value = store.read(column, 0)[0]
    try:
        raise KeyError(str(value))
    except KeyError as error:
        raise ValueError(f"odd value {value}") from error


def infeasible(store: ColumnStore, limit: int) -> None:
    raise InfeasibleError(f"k must be at most {limit}")


def replacing(store: ColumnStore, partition: int) -> None:
    """Write over what was read: carried out again, this would not do the same."""
    store.write("x", partition, 2 * store.read("x", partition))


def unanswerable(store: ColumnStore, partition: int) -> object:
    return lambda: partition


def told(store: ColumnStore, partition: int, value: float, name: str) -> np.ndarray:
    """Write masked values, and return some as a window of order statistics does; arguments are values, too."""
    values = store.read("canary", partition)
    store.write(f"masked/{name}", partition, values[::-1] + 0 * value)
    return values[:3]


def keys_held() -> list[str]:
    """Return the runs whose key a worker has."""
    return list(worker._Here.keys)
