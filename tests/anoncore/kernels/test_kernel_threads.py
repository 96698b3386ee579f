"""Threads: results in order, faults passed on, BLAS limits in place and restored."""

from __future__ import annotations

import os
import signal
from threading import Event, Thread
from time import sleep

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from anoncore.kernels.threads import in_threads, one_blas_thread


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_results_come_in_the_order_of_the_items() -> None:
    assert list(in_threads(lambda n: n * n, range(200))) == [n * n for n in range(200)]
    assert list(in_threads(abs, [])) == []


def test_limits_hold_inside_and_are_restored() -> None:
    before = blas_threads()
    with one_blas_thread():
        assert blas_threads() == {1}
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert all(found == {1} for found in in_threads(lambda _: blas_threads(), range(4)))
    assert blas_threads() == before


def test_a_fault_is_passed_on_and_limits_are_restored() -> None:
    before = blas_threads()
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda n: 1 / n, [1, 0, 2]))
    assert blas_threads() == before
    with pytest.raises(ValueError, match="stop"), one_blas_thread():
        raise ValueError("stop")
    assert blas_threads() == before


def test_work_may_use_threads_in_turn() -> None:
    def inner(n: int) -> float:
        with one_blas_thread():
            return float(sum(in_threads(lambda m: n * m, range(3))))

    assert list(in_threads(inner, range(5))) == [3.0 * n for n in range(5)]


def test_work_that_uses_threads_deeper_than_there_are_threads_ends() -> None:
    def inner(depth: int) -> int:
        return 1 if depth == 0 else sum(in_threads(inner, [depth - 1] * 4))

    found: list[int] = []
    caller = Thread(target=lambda: found.append(inner(5)), daemon=True)
    caller.start()
    caller.join(timeout=60)
    assert found == [4**5]


def test_nothing_runs_on_when_an_error_is_passed_on() -> None:
    begun: list[int] = []
    ended: list[int] = []

    def work(n: int) -> None:
        begun.append(n)
        if n == 1:
            raise ValueError("stop")
        sleep(0.05)
        ended.append(n)

    with pytest.raises(ValueError, match="stop"):
        list(in_threads(work, range(100)))
    assert sorted(ended) == sorted(set(begun) - {1})
    assert len(begun) < 100


def test_two_callers_wait_for_each_other() -> None:
    found: dict[int, list[float]] = {}

    def caller(seed: int) -> None:
        rows = np.random.default_rng(seed).normal(size=(8, 50, 20))
        found[seed] = list(in_threads(lambda part: float((part.T @ part).sum()), rows))

    callers = [Thread(target=caller, args=(seed,)) for seed in range(4)]
    for one in callers:
        one.start()
    for one in callers:
        one.join(timeout=30)
    assert sorted(found) == [0, 1, 2, 3]
    assert {len(one) for one in found.values()} == {8}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this platform")
def test_a_fork_beside_work_in_threads_can_work_itself() -> None:
    begun, go_on = Event(), Event()

    def hold() -> None:
        with one_blas_thread():
            begun.set()
            go_on.wait(30)

    other = Thread(target=hold)
    other.start()
    begun.wait(30)
    child = os.fork()
    if child == 0:
        os._exit(int(list(in_threads(abs, [-1, -2])) != [1, 2]))
    ended = (0, 0)
    for _ in range(300):
        ended = os.waitpid(child, os.WNOHANG)
        if ended[0]:
            break
        sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    go_on.set()
    other.join(30)
    assert ended == (child, 0)
