"""Nearest neighbours against their targets and beside scikit-learn's brute force, in one run.

Run with ``python -m pytest tests/benchmarks/test_bench_neighbors.py -s``, about two minutes on free cores.
Timings are the best of up to three. On a machine that others keep busy the wall clock shows their work too;
there a target in seconds counts as met when the processor time per core is within it, and the table says so.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from anoncore.kernels.neighbors import nearest
from anoncore.risk import prediction_measures, sample_queries

COLUMNS = 28
CORES = len(os.sched_getaffinity(0))
TABLE: list[str] = []


@dataclass
class Timing:
    wall: float
    per_core: float

    def within(self, target: float) -> bool:
        shared = os.getloadavg()[0] > CORES + 1.0
        return self.wall <= target or (shared and self.per_core <= target)


def best(what: str, work: Callable[[], object], target: float = 0.0, attempts: int = 3) -> Timing:
    """Time the work until it meets the target, and add the best attempt to the table."""
    timings = []
    for _ in range(attempts):
        wall, busy = time.perf_counter(), time.process_time()
        work()
        timings.append(Timing(time.perf_counter() - wall, (time.process_time() - busy) / CORES))
        if timings[-1].wall <= target:
            break
    found = min(timings, key=lambda timing: timing.wall)
    aim = f"target {target:.1f} s" if target else ""
    TABLE.append(f"{what:<56}{found.wall:>8.2f}{found.per_core:>10.2f}   {aim}")
    return found


@pytest.fixture(scope="module", autouse=True)
def report():
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    load = os.getloadavg()[0]
    head = f"{'':<56}{'wall s':>8}{'cpu/core':>10}"
    tail = f"peak resident memory {peak:.2f} GB, {CORES} cores, load {load:.1f}"
    sys.stdout.write("\n" + "\n".join([head, *TABLE, tail]) + "\n")


def pair(rows: int, columns: int = COLUMNS) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(2, rows, columns))


def sklearn_brute(queries: np.ndarray, points: np.ndarray, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
    model = NearestNeighbors(n_neighbors=k, algorithm="brute", n_jobs=CORES)
    return model.fit(points).kneighbors(queries)


@pytest.mark.parametrize(("asked", "rows"), [(2000, 2000), (10_000, 10_000), (10_000, 100_000)])
def test_ratio_to_sklearn(asked: int, rows: int):
    queries, points = pair(rows)
    queries = queries[:asked]
    found: list[tuple[np.ndarray, np.ndarray]] = []
    nearest(queries[:600], points[:600], 5)  # what is compiled is loaded once per process
    theirs = best(f"scikit-learn brute force, {asked} in {rows}", lambda: found.append(sklearn_brute(queries, points)))
    ours = best("  nearest", lambda: found.append(nearest(queries, points, 5)))
    wall, cpu = ours.wall / theirs.wall, ours.per_core / theirs.per_core
    TABLE.append(f"  ratio to scikit-learn: wall {wall:.2f}, processor {cpu:.2f}")
    np.testing.assert_array_equal(found[-1][1], found[0][1])
    assert min(wall, cpu) <= 1.0


def test_measures_of_20_000():
    original, released = pair(20_000)
    ours = best("prediction measures, 20 000 × 28", lambda: prediction_measures(original, released), 1.5)
    best("  scikit-learn brute force, neighbours only", lambda: sklearn_brute(original, released))
    assert ours.within(1.5)


def test_100_000_no_slower_than_sklearn():
    queries, points = pair(100_000)
    found: list[tuple[np.ndarray, np.ndarray]] = []
    theirs = best("scikit-learn brute force, 100 000 × 28", lambda: found.append(sklearn_brute(queries, points)), 30.0)
    ours = best("  nearest", lambda: found.append(nearest(queries, points, 5)), theirs.wall)
    np.testing.assert_array_equal(found[-1][1], found[0][1])
    assert ours.wall <= theirs.wall


def test_groups_cost_less():
    queries, points = pair(50_000)
    plain = best("nearest, 50 000 × 28", lambda: nearest(queries, points, 5))
    groups = np.repeat(points[::5], 5, axis=0)
    grouped = best("  in groups of five identical records", lambda: nearest(queries, groups, 5))
    assert grouped.per_core <= plain.per_core


@pytest.mark.parametrize(
    ("columns", "sizes", "limit"),
    [(COLUMNS, (12_500, 25_000, 50_000), 2.2), (4, (25_000, 50_000, 100_000), 1.5)],
)
def test_growth(columns, sizes, limit):
    seconds = []
    for rows in sizes:
        queries, points = pair(rows, columns)
        run = best(f"nearest, {rows} × {columns}", lambda q=queries, p=points: nearest(q, p, 5))
        seconds.append(run.per_core)
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    TABLE.append(f"  growth exponent, {columns} columns: {exponent:.2f}, limit {limit}")
    assert exponent < limit


def test_sampled_million():
    rng = np.random.default_rng(0)
    original, released = rng.normal(size=(2, 1_000_000, COLUMNS))
    queries = sample_queries(len(original), epsilon=0.01, rng=rng)
    work = best(
        f"measures of {len(queries)} in 1 000 000 × 28, all released",
        lambda: prediction_measures(original, released, queries=queries),
        60.0,
    )
    assert work.within(60.0)
