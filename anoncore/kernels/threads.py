"""Threads over independent pieces of work, the BLAS library being kept to one thread meanwhile."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any, Generic, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Found = TypeVar("Found")

BLAS = threading.Lock()  # thread limits are global: two overlapping calls could restore them wrongly
_HERE = threading.local()  # whether this thread works within such limits


def _after_fork() -> None:
    """Free the lock in a child where a thread that it does not have held it."""
    if BLAS.locked() and not getattr(_HERE, "limited", False):
        BLAS.release()


if hasattr(os, "register_at_fork"):  # not on every platform
    os.register_at_fork(after_in_child=_after_fork)


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

    The calling thread works, too, so that work may call this function in turn: who waits for others has nothing left to
    do, and idle threads help with the pieces of a piece. Where a piece fails no other is begun, and those that were
    begun end before the error is passed on; likewise where no more results are asked for.

    Parameters
    ----------
    work : called in threads
    items : one per piece; of pieces of different size the largest first

    Examples
    --------
    >>> list(in_threads(abs, [-1, 2]))
    [1, 2]
    """
    pieces = list(items)
    with one_blas_thread():
        helpers = min(available(), len(pieces)) - 1
        if helpers < 1:
            yield from map(work, pieces)
            return
        yield from _Shared(work, pieces).results(helpers)


class _Shared(Generic[Item, Found]):
    """Pieces of work that several threads take in turn."""

    def __init__(self, work: Callable[[Item], Found], pieces: list[Item]) -> None:
        self._work, self._pieces, self._left = work, pieces, deque(range(len(pieces)))
        self._found: dict[int, Found] = {}
        self._failed: dict[int, BaseException] = {}

    def results(self, helpers: int) -> Iterator[Found]:
        """Give the results in the order of the pieces, working on what is left until the next one is there."""
        others = [_pool(os.getpid()).submit(self._work_on) for _ in range(helpers)]
        try:
            for at in range(len(self._pieces)):
                while at not in self._found and self._take():
                    pass
                if at not in self._found:
                    _end(others)
                if at not in self._found:
                    raise self._failed.pop(min(self._failed))
                yield self._found.pop(at)
        finally:
            self._left.clear()
            _end(others)
            self._failed.clear()

    def _work_on(self) -> None:
        while self._take():
            pass

    def _take(self) -> bool:
        """Do the next piece; return whether there was one."""
        try:
            at = self._left.popleft()
        except IndexError:
            return False
        try:
            self._found[at] = self._work(self._pieces[at])
        except BaseException as error:
            self._failed[at] = error
            self._left.clear()
        return True


def _end(others: list[Future[None]]) -> None:
    """Wait for threads that found work; those that did not begin have nothing left to do."""
    wait([one for one in others if not one.cancel()])


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process: starting them takes longer than many a small piece of work."""
    return ThreadPoolExecutor(max(available() - 1, 1), initializer=_limited)


def _limited() -> None:
    _HERE.limited = True


@cache
def _controller() -> Any:
    return ThreadpoolController()
