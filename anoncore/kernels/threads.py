"""Threads over independent pieces of work, the BLAS library being kept to one thread meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Found = TypeVar("Found")

BLAS = threading.Lock()  # thread limits are global: two overlapping calls could restore them wrongly
_HERE = threading.local()  # whether this thread works within such limits


def available() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products of this process to one thread each, for small ones and for those made in threads.

    Products of tall matrices with few columns are slower in several threads, very much so where other
    processes hold the cores, and their last digits would depend on how many threads there are.
    """
    if getattr(_HERE, "limited", False):
        yield
        return
    with BLAS, _controller().limit(limits=1, user_api="blas"):
        _HERE.limited = True
        try:
            yield
        finally:
            _HERE.limited = False


def in_threads(work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
    """Yield the results of pieces of work in their order, each as computed by one BLAS thread.

    Parameters
    ----------
    work : called in threads; where it calls this function in turn, that works through its items one by one
    items : one per piece

    Examples
    --------
    >>> list(in_threads(abs, [-1, 2]))
    [1, 2]
    """
    pieces = list(items)
    alone = len(pieces) < 2 or getattr(_HERE, "limited", False)
    with one_blas_thread():
        if alone:
            yield from map(work, pieces)
            return
        yield from _pool(os.getpid()).map(work, pieces)


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process: starting them takes longer than many a small piece of work."""
    return ThreadPoolExecutor(available(), initializer=_limited)


def _limited() -> None:
    _HERE.limited = True


@cache
def _controller() -> Any:
    return ThreadpoolController()
