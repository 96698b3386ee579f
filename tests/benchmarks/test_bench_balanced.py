"""Information loss of balanced entropy c-means beside MDAV, over lam, and its growth in time and memory.

Run ``python tests/benchmarks/test_bench_balanced.py`` for the curves alone, as printed in the documentation.
"""

import math
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from statsmodels.datasets import randhie

from anoncore.kernels.fuzzy.balanced import (
    balanced_entropy_c_means,
    balanced_sizes,
    initial_centers,
    recommended_lambda,
    round_dependently,
)

K = 5
SIZES = (5_000, 20_000, 100_000)
STIFFNESSES = (1, 2, 4, 8, 16, 32, 64, 256)


def standardised(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def survey(n_records=2_000):
    x = randhie.load_pandas().data.select_dtypes("number").to_numpy(float)
    return standardised(x[np.random.default_rng(0).permutation(len(x))[:n_records]])


def heavy_tailed(n_records=2_000, columns=8):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n_records, columns)) @ rng.standard_normal((columns, columns))
    return standardised(x / np.sqrt(rng.chisquare(3, size=(n_records, 1)) / 3))


def correlated(n_records, columns=10):
    rng = np.random.default_rng(0)
    return standardised(rng.standard_normal((n_records, columns)) @ rng.standard_normal((columns, columns)))


def mdav(x, k):
    """Labels of maximum distance to average vector (Domingo-Ferrer & Mateo-Sanz 2002), plain numpy."""
    left, labels, group = np.arange(len(x)), np.full(len(x), -1), 0

    def far(p):
        return x[left[((x[left] - p) ** 2).sum(axis=1).argmax()]]

    def take(p):
        nonlocal left, group
        near = np.argpartition(((x[left] - p) ** 2).sum(axis=1), k - 1)[:k]
        labels[left[near]] = group
        left, group = np.delete(left, near), group + 1

    while len(left) >= 3 * k:
        r = far(x[left].mean(axis=0))
        s = far(r)
        take(r)
        take(s)
    if len(left) >= 2 * k:
        take(far(x[left].mean(axis=0)))
    labels[left] = group
    return labels


def group_means(x, labels):
    sums = np.zeros((labels.max() + 1, x.shape[1]))
    np.add.at(sums, labels, x)
    return sums / np.bincount(labels)[:, None]


def loss(x, centers, labels):
    return 100 * ((x - centers[labels]) ** 2).sum() / ((x - x.mean(axis=0)) ** 2).sum()


def expected_loss(x, plan):
    """Mean of `loss` over all roundings."""
    rows = np.repeat(np.arange(len(x)), np.diff(plan.indptr))
    squares = ((x[rows] - plan.centers[plan.columns]) ** 2).sum(axis=1)
    return 100 * (plan.values @ squares) / ((x - x.mean(axis=0)) ** 2).sum()


def loss_curve(x, k=K, stiffnesses=STIFFNESSES):
    """Loss of balanced entropy c-means for several lam.

    Returns
    -------
    MDAV's loss in percent, and rows of (lam times the mean squared distance to the nearest starting centre,
    lam, expected loss, loss after rounding, worst posterior, median over records of the largest membership,
    sweeps, converged).
    """
    groups = mdav(x, k)
    sizes = balanced_sizes(len(x), k)
    start = initial_centers(x, sizes, rng=np.random.default_rng(1))
    recommended = recommended_lambda(x, start)
    rows = []
    for stiffness in stiffnesses:
        lam = stiffness / 16 * recommended
        plan = balanced_entropy_c_means(x, start, lam, sizes)
        labels = round_dependently(plan, sizes, rng=np.random.default_rng(2))
        largest = np.maximum.reduceat(plan.values, plan.indptr[:-1])
        rows.append(
            (
                stiffness,
                lam,
                expected_loss(x, plan),
                loss(x, plan.centers, labels),
                plan.worst_posterior,
                float(np.median(largest)),
                plan.sweeps,
                plan.converged,
            )
        )
    return loss(x, group_means(x, groups), groups), rows


def printed(name, x):
    theirs, rows = loss_curve(x)
    head = "lam s2      lam  expected  rounded  of MDAV's  worst posterior  largest membership  sweeps"
    lines = [f"{name}, {len(x)} x {x.shape[1]}, k = {K}; MDAV loses {theirs:.3f} %", head]
    for a, lam, expected, rounded, worst, largest, sweeps, converged in rows:
        end = "" if converged else " (stopped)"
        lines.append(
            f"{a:6d} {lam:8.3g} {expected:9.3f} {rounded:8.3f} {rounded / theirs:10.3f} {worst:16.6f} "
            f"{largest:19.3f} {sweeps:7d}{end}"
        )
    return theirs, rows, lines


@pytest.mark.parametrize(("name", "data"), [("randhie", survey), ("multivariate t, 3 df", heavy_tailed)])
def test_loss_over_lambda(name, data, show):
    theirs, rows, lines = printed(name, data())
    show(*lines)
    at_recommended = next(row for row in rows if row[0] == 16)
    assert at_recommended[3] <= 1.1 * theirs
    assert all(row[4] <= 1 / K + 1e-6 for row in rows)
    expected = [row[2] for row in rows]
    assert expected[0] > expected[-1]


def cluster(x, k=K):
    rng = np.random.default_rng(1)
    sizes = balanced_sizes(len(x), k)
    start = initial_centers(x, sizes, rng=rng)
    plan = balanced_entropy_c_means(x, start, recommended_lambda(x, start), sizes)
    return plan, round_dependently(plan, sizes, rng=rng)


def test_growth(show):
    cluster(correlated(2_000))  # compiles
    walls, processors, lines = [], [], []
    for n_records in SIZES:
        x = correlated(n_records)
        start, busy = time.perf_counter(), time.process_time()
        plan, labels = cluster(x)
        walls.append(time.perf_counter() - start)
        processors.append(time.process_time() - busy)
        lines.append(
            f"{n_records:7_d} records {walls[-1]:7.1f} s, processor {processors[-1]:6.1f} s, "
            f"{len(plan.values):9_d} entries, {plan.sweeps} sweeps, repaired {plan.repaired:.0e}, "
            f"dropped {plan.dropped:.0e}, loss {loss(x, plan.centers, labels):.2f} %"
        )
        assert (np.bincount(labels) == K).all()
        assert plan.worst_posterior <= 1 / K + 1e-6
    slope = float(np.polyfit(np.log(SIZES), np.log(processors), 1)[0])
    show(f"x 10 columns, k = {K}", *lines, f"growth exponent of processor time {slope:.2f}")
    assert slope < 1.8
    assert min(walls[-1], processors[-1]) < 600


PEAK = """
import resource, sys
sys.path.insert(0, {here!r})
from test_bench_balanced import cluster, correlated
cluster(correlated(2_000))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cluster(correlated({n}))
print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory(show):
    code = PEAK.format(here=os.path.dirname(os.path.abspath(__file__)), n=SIZES[-1])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, peak = (int(v) / 1024 for v in done.stdout.split())
    show(f"{SIZES[-1]:_} x 10, peak of the whole process {peak:.0f} MB ({before:.0f} MB at 2000 records)")
    assert math.isfinite(peak)
    assert peak < 2_000


if __name__ == "__main__":
    for title, table in (("randhie", survey()), ("multivariate t, 3 df", heavy_tailed())):
        sys.stdout.write("\n".join([*printed(title, table)[2], "", ""]))
