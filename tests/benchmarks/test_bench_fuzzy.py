"""Speed and memory of fuzzy c-means beside scikit-fuzzy's cmeans, with growth over three sizes.

Both start from the same memberships and make the same number of updates. Processor time over all threads is
printed beside the wall clock, because other work on the machine may keep all cores busy.
"""

import math
import subprocess
import sys
import time

import numpy as np
import pytest

from anoncore.kernels.fuzzy.blocks import Law
from anoncore.kernels.fuzzy.c_means import Settings, certify, draw, fuzzy_c_means, memberships, seed_centers

COLUMNS = 10
K = 5


def independent(n, seed=0):
    """Ten independent columns: nothing can be left out."""
    return np.random.default_rng(seed).standard_normal((n, COLUMNS))


def three_factors(n, seed=0):
    """Ten columns that share three factors, as survey variables do."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3)) @ np.random.default_rng(99).standard_normal((3, COLUMNS))
    x = x / x.std(axis=0) + 0.1 * rng.standard_normal((n, COLUMNS))
    return x / x.std(axis=0)


def timed(function):
    wall, processor = time.perf_counter(), time.process_time()
    result = function()
    return result, time.perf_counter() - wall, time.process_time() - processor


@pytest.mark.parametrize(("n", "sweeps", "times"), [(2000, 100, 5), (8000, 20, 10)])
@pytest.mark.parametrize("m", [1.15, 2.0])
def test_beside_scikit_fuzzy(n, sweeps, times, m, show):
    cmeans = pytest.importorskip("skfuzzy.cluster").cmeans
    x = independent(n)
    start = seed_centers(x, n // K, rng=np.random.default_rng(1))
    # cmeans begins with an update of the centres from the memberships: ours of the same start.
    init = memberships(x, start, Law.fcm(m)).T
    theirs, their_wall, their_processor = timed(lambda: cmeans(x.T, n // K, m, 0.0, sweeps, init=init))
    ours, wall, processor = min(
        (
            timed(lambda: fuzzy_c_means(x, start, Law.fcm(m), settings=Settings(tolerance=0, sweeps=sweeps)))
            for _ in range(3)
        ),
        key=lambda run: run[1],
    )
    assert theirs[5] == ours.sweeps == sweeps
    # Their last objective belongs to the memberships before the last update: evaluate their centres anew.
    reached = fuzzy_c_means(x, theirs[0], Law.fcm(m), settings=Settings(nearest=0, sweeps=0)).objective
    difference = ours.objective / reached - 1
    show(
        f"{n} x {COLUMNS}, c = {n // K}, m = {m}, {sweeps} sweeps: seconds on the wall (processor)",
        f"scikit-fuzzy {their_wall:7.2f} ({their_processor:.2f})",
        f"ours         {wall:7.2f} ({processor:.2f}), {their_wall / wall:.1f} times faster (target {times})",
        f"objectives differ by {difference:.1e}",
    )
    assert abs(difference) < 1e-6
    assert their_wall / wall > times


def two_columns(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 2))


@pytest.mark.parametrize(
    ("make", "sizes", "sweeps", "limit"),
    [
        (two_columns, (25_000, 50_000, 100_000), 10, 1.4),
        (three_factors, (5000, 10_000, 20_000), 60, 2.0),
        (independent, (5000, 10_000, 20_000), 10, 2.2),
    ],
)
def test_growth(make, sizes, sweeps, limit, show):
    times, shares, alls = [], [], []
    for n in sizes:
        x = make(n)
        start = seed_centers(x, n // K, rng=np.random.default_rng(1))
        found, _, processor = timed(
            lambda x=x, v=start: fuzzy_c_means(x, v, Law.fcm(1.15), settings=Settings(tolerance=0, sweeps=sweeps))
        )
        times.append(processor)
        shares.append(found.listed)
        alls.append(n * (n // K) * (sweeps + 1))
    slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    show(
        f"{make.__name__}, c = N/{K}, m = 1.15, {sweeps} sweeps, processor seconds: "
        + ", ".join(f"{n:_} {t:.1f}" for n, t in zip(sizes, times, strict=True)),
        "looked up in lists: " + ", ".join(f"{share:.2f}" for share in shares),
        "ns per pair: " + ", ".join(f"{1e9 * t / a:.2f}" for t, a in zip(times, alls, strict=True)),
        f"growth exponent {slope:.2f}",
    )
    assert slope < limit


@pytest.mark.parametrize("make", [two_columns, independent])
def test_hundred_thousand_records(make, show):
    n, sweeps = 100_000, 3
    x = make(n)
    start, seeding, _ = timed(lambda: seed_centers(x, n // K, rng=np.random.default_rng(1)))
    found, wall, processor = timed(
        lambda: fuzzy_c_means(x, start, Law.fcm(1.15), settings=Settings(tolerance=0, sweeps=sweeps))
    )
    certificate, certifying, _ = timed(
        lambda: certify(x, found.centers, k=K, first=Law.fcm(1.15), second=Law.fcm(1.15))
    )
    drawing = timed(lambda: draw(x, found.centers, Law.fcm(1.15), rng=np.random.default_rng(2)))[1]
    show(
        f"{make.__name__}, {n} records, c = {n // K}, m = 1.15, seconds",
        f"seed_centers {seeding:.1f}, certify {certifying:.0f}, draw {drawing:.0f}",
        f"{sweeps} sweeps {wall:.0f} (processor {processor:.0f}): {wall / (sweeps + 1):.1f} a sweep",
        f"distinct centres {certificate.distinct}, share above 1/k {certificate.share_above:.2f}",
    )
    assert seeding < 30
    assert math.isfinite(found.objective)


MEMORY = """
import re, sys
from pathlib import Path
import numpy as np
from anoncore.kernels.fuzzy.blocks import Law
from anoncore.kernels.fuzzy.c_means import Settings, certify, draw, fuzzy_c_means, seed_centers

def peak():
    # Not ru_maxrss: a child inherits its parent's.
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def go(n, c):
    x = np.random.default_rng(0).standard_normal((n, 3)) @ np.random.default_rng(1).standard_normal((3, 10))
    v = seed_centers(x, c, rng=np.random.default_rng(0))
    found = fuzzy_c_means(x, v, Law.fcm(1.15), settings=Settings(tolerance=0, sweeps=int(sys.argv[3])))
    certify(x, found.centers, k=5, first=Law.fcm(1.15), second=Law.fcm(1.15))
    draw(x, found.centers, Law.fcm(1.15), rng=np.random.default_rng(0))

go(2000, 100)
before = peak()
go(int(sys.argv[1]), int(sys.argv[2]))
print((peak() - before) / 2**20)
"""


def test_memory(show):
    sizes = (8000, 1600), (16_000, 3200), (32_000, 6400)
    extra = []
    for n, c in sizes:
        command = [sys.executable, "-c", MEMORY, str(n), str(c), "12"]
        extra.append(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    matrices = [8 * n * c / 2**20 for n, c in sizes]
    show(
        *(
            f"{n} x {COLUMNS}, c = {c}: {e:.0f} MB beside the start; an N x c matrix has {matrix:.0f} MB"
            for (n, c), e, matrix in zip(sizes, extra, matrices, strict=True)
        )
    )
    assert extra[-1] < 300
    assert extra[-1] / extra[0] < 6
