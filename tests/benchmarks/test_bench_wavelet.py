"""Speed and memory of redistribution and inversion, beside a dense program, with growth over three sizes.

Every figure is the best of a few rounds: other work on the machine can only add time.
"""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import linprog

from anoncore.errors import InfeasibleError
from anoncore.kernels.wavelet import decompose, reconstruction_matrix
from anoncore.kernels.wavelet.inversion import audit
from anoncore.kernels.wavelet.redistribution import Goals, redistribute
from tests.benchmarks.timing import exponent, seconds

SIZES = (256, 1024, 4096)
PAPER = np.array([19, 12, 153, 71, 13, 79, 7, 33, 16, 270, 812, 135, 241, 14, 60, 4337])


def areas(m, seed=0):
    """Counts of very unequal areas; the five largest are to be capped at a third."""
    q = np.random.default_rng(seed).lognormal(4, 1.2, m).astype(int)
    return q, Goals(caps={int(i): int(q[i]) // 3 for i in np.argsort(q)[-5:]})


def dense_largest_share(q, goals):
    """The first program alone, as a textbook writes it: dense rows over (a, β)."""
    R = np.column_stack([reconstruction_matrix(len(q), "db2", 2), decompose(q, "db2", 2).detail])
    at = list(goals.caps)
    rows, limits = np.vstack([-R, R[at]]), np.concatenate([np.zeros(len(q)), list(goals.caps.values())])
    cost = np.zeros(R.shape[1])
    cost[-1] = -1.0
    bounds = [(None, None)] * (R.shape[1] - 1) + [(0, 1)]
    return linprog(cost, rows, limits, R.sum(axis=0)[None], [q.sum()], bounds).x[-1]


def test_the_papers_signal(show):
    goals = Goals(caps={15: 305})
    target = redistribute(PAPER, goals).target
    ours = seconds(lambda: redistribute(PAPER, goals), 5)
    checked = seconds(lambda: audit(PAPER, target, goals), 5)
    show(f"16 areas: redistribute {1000 * ours:.0f} ms, audit {1000 * checked:.0f} ms   (target 100 ms each)")
    assert ours < 0.1
    assert checked < 0.1


def test_growth_of_redistribution(show):
    times = [seconds(lambda p=p: redistribute(*p)) for p in map(areas, SIZES)]
    slope = exponent(SIZES, times)
    show(
        "redistribute: " + ", ".join(f"{m} areas {t:.2f} s" for m, t in zip(SIZES, times, strict=True)),
        f"growth exponent {slope:.2f}",
    )
    assert slope < 2.2
    assert times[-1] < 30


def test_beside_a_dense_program(show):
    q, goals = areas(1024)
    ours, theirs = seconds(lambda: redistribute(q, goals)), seconds(lambda: dense_largest_share(q, goals))
    assert redistribute(q, goals).beta == pytest.approx(dense_largest_share(q, goals), abs=1e-6)
    show(
        f"1024 areas, seconds: redistribute, both programs {ours:.3f}",
        f"dense rows, first program only {theirs:.3f} ({theirs / ours:.1f} times as long)",
    )


def test_audit_of_many_areas(show):
    q, goals = areas(1024)
    target = redistribute(q, goals).target
    taken = seconds(lambda: audit(q, target, goals), 1)
    show(f"audit, 1024 areas, 5 hidden: {taken:.2f} s   (target 20 s)")
    assert taken < 20


def test_naming_a_conflict_among_many(show):
    q, _ = areas(1024)
    goals = Goals(caps={300: 10}, raises={300: 11}, protected=tuple(range(500, 900)))

    def refused():
        with pytest.raises(InfeasibleError, match="cap of 300, raise of 300;"):
            redistribute(q, goals)

    taken = seconds(refused, 1)
    show(f"1024 areas, 402 goals of which 2 contradict each other: {taken:.2f} s   (target 5 s)")
    assert taken < 5


def test_memory(show):
    q, goals = areas(SIZES[-1])
    tracemalloc.start()
    redistribute(q, goals)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    show(f"{SIZES[-1]} areas: peak {peak / 2**20:.1f} MiB in Python, {peak / len(q):.0f} bytes per area")
    assert peak < 20_000 * len(q)
