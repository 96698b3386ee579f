"""Speed and memory of the box kernels, beside a plain Mondrian, with growth over three sizes.

Every figure is the best of a few rounds: other work on the machine can only add time.
"""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from anoncore import Microdata, Schema, Variable, anonymize
from anoncore.kernels.boxes.partition import Diversity, Limits, partition
from anoncore.kernels.boxes.shapes import half_widths, local_radius, sensitivities
from anoncore.kernels.boxes.weights import optimal_weights
from anoncore.methods import OptimalBoxes, Statistic
from anoncore.risk import box_measures
from tests.benchmarks.timing import exponent, seconds

COLUMNS = 4
SIZES = (10_000, 100_000, 1_000_000)
STATISTICS = [("mean", 0, None), ("sd", 3, None), ("covariance", 1, 2)]


def records(n_records):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n_records, COLUMNS)) @ rng.standard_normal((COLUMNS, COLUMNS))
    return x, sensitivities(x, STATISTICS)


CUTS = {
    "k = 5": lambda x, a: partition(x, a, 5),
    "k = 5, l = 3": lambda x, a: partition(x, a, 5, diversity=Diversity(3, 0.1)),
    "k = 5, 20 strata": lambda x, a: partition(x, a, 5, strata=np.arange(len(x)) % 20),
    "k = 5, l = 3, whole numbers": lambda x, a: partition(np.rint(3 * x), a, 5, diversity=Diversity(3, 1.0)),
}


@pytest.mark.parametrize("name", CUTS)
def test_growth_of_a_partition(name, show):
    times = []
    for n_records in SIZES:
        x, a = records(n_records)
        times.append(seconds(lambda x=x, a=a: CUTS[name](x, a)))
    slope = exponent(SIZES, times)
    show(
        f"partition, {name}: " + ", ".join(f"{n:_} {t:.3f} s" for n, t in zip(SIZES, times, strict=True)),
        f"growth exponent {slope:.2f}   (target 60 s at the largest)",
    )
    assert times[-1] < 60
    assert slope < 1.3


def mondrian(x, k):
    """Plain numpy, cell by cell: halve the widest column at its median (LeFevre et al. 2006)."""
    label, done = np.empty(len(x), dtype=int), 0
    span, open_ = np.ptp(x, axis=0), [np.arange(len(x))]
    while open_:
        rows = open_.pop()
        for j in np.argsort(-np.ptp(x[rows], axis=0) / span):
            left = x[rows, j] <= np.median(x[rows, j])
            if min(left.sum(), (~left).sum()) >= k:
                open_ += [rows[left], rows[~left]]
                break
        else:
            label[rows], done = done, done + 1
    return label


def test_partition_beside_a_plain_mondrian(show):
    x, a = records(SIZES[1])
    ours, theirs = seconds(lambda: partition(x, a, 5)), seconds(lambda: mondrian(x, 5), rounds=1)
    show(
        f"100 000 x {COLUMNS}, k = 5, seconds",
        f"partition            {ours:6.2f}",
        f"numpy plain Mondrian {theirs:6.2f}   ({theirs / ours:.1f} times as long)",
    )
    assert ours < theirs


def test_shapes_and_weights(show):
    x, a = records(SIZES[-1])
    density = np.random.default_rng(1).lognormal(size=len(x))
    calls = {
        "sensitivities": lambda: sensitivities(x, STATISTICS),
        "half_widths, l = 3": lambda: half_widths(a, density, 5, 3, 0.1),
        "optimal_weights": lambda: optimal_weights(density, COLUMNS, 20.0),
    }
    lines = [f"{name:<24} {seconds(call, rounds=1):6.2f}" for name, call in calls.items()]
    small = seconds(lambda: local_radius(x[::10], a[::10], 5), rounds=1)
    show(f"1 000 000 x {COLUMNS}, seconds", *lines, f"{'local_radius, 100 000':<24} {small:6.2f}")


METHODS = {
    "k = 10": {},
    "k = 10, l = 3": {"l": 3},
    "k = 10, means": {"release": "means"},
}


@pytest.mark.parametrize("name", METHODS)
def test_growth_of_the_whole_method(name, show):
    """Partition, ranges for every record, claims, and the estimates for the report."""
    asked = (
        Statistic(statistic="mean", of=("x0",)),
        Statistic(statistic="sd", of=("x3",)),
        Statistic(statistic="covariance", of=("x1", "x2")),
    )
    params = OptimalBoxes(k=10, statistics=asked, **METHODS[name])
    times = []
    for n_records in SIZES:
        x = records(n_records)[0].round(3)
        names = [f"x{j}" for j in range(COLUMNS)]
        data = Microdata(pd.DataFrame(x, columns=names), Schema(Variable(n, "continuous") for n in names))

        def release(data=data):
            made = anonymize(data, params, rng=np.random.default_rng(0))
            assert all(check.holds for check in made.check())

        times.append(seconds(release, rounds=1 if n_records == SIZES[-1] else 2))
    slope = exponent(SIZES, times)
    show(
        f"optimal boxes, {name}: " + ", ".join(f"{n:_} {t:.2f} s" for n, t in zip(SIZES, times, strict=True)),
        f"growth exponent {slope:.2f}   (target 60 s at the largest)",
    )
    assert times[-1] < 60
    assert slope < 1.3


def test_locating_people_among_boxes(show):
    """What the assessment does with a sample of the records."""
    x, a = records(SIZES[-1])
    boxes = partition(x, a, 10, limits=Limits(x.min(axis=0) - 1.0, x.max(axis=0) + 1.0))
    people = x[:: len(x) // 10_000]
    time_ = seconds(lambda: box_measures(people, boxes.lower, boxes.upper, boxes.sizes), rounds=1)
    show(f"{len(people):_} people among {len(boxes.sizes):_} boxes of {COLUMNS} variables: {time_:.2f} s")


MEMORY = """
import re, sys
from pathlib import Path
import numpy as np
from anoncore.kernels.boxes.partition import Diversity, partition

def peak():
    # Not ru_maxrss: a child inherits its parent's.
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

x = np.empty((1_000_000, 4))
np.random.default_rng(0).standard_normal(out=x)
a = np.ones_like(x)
call = eval(sys.argv[1])
call(x[:1000].copy(), a[:1000].copy())  # what libraries allocate once
before = peak()
call(x, a)
print((peak() - before) / x.nbytes)
"""


@pytest.mark.parametrize(
    "call", ["lambda x, a: partition(x, a, 5)", "lambda x, a: partition(x, a, 5, diversity=Diversity(3, 0.1))"]
)
def test_memory(call, show):
    output = subprocess.run([sys.executable, "-c", MEMORY, call], capture_output=True, text=True, check=True)
    extra = float(output.stdout)
    show(
        f"{call.removeprefix('lambda x, a: ')}",
        f"   peak {extra:.2f} times the matrix, beside it (target 8)",
    )
    assert extra < 8
