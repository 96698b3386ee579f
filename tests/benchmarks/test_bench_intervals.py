"""Speed of estimates from boxes, their growth, and how wide they are beside plain interval arithmetic.

Times are the best of a few rounds, processor time where others keep the machine busy and it is less.
"""

import math

import numpy as np
import pandas as pd
import pytest

from anoncore.boxes.reader import read_boxes
from anoncore.kernels.boxes import intervals
from tests.benchmarks.timing import seconds

STATISTICS = ("mean", "variance", "sd", "covariance", "correlation")
SIZES = (10_000, 100_000, 1_000_000)  # boxes


def boxes(number, records=10, slope=0.6):
    """Faces of a partition as median cuts in both variables make it, without the cuts."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((number, 2))
    centre = np.column_stack([z[:, 0], slope * z[:, 0] + math.sqrt(1 - slope**2) * z[:, 1]])
    half = 2.0 / math.sqrt(number) * np.exp(rng.normal(0, 0.5, (number, 2)) + (z**2).sum(axis=1)[:, None] / 8)
    return centre - half, centre + half, rng.integers(records, 2 * records, number)


def asked(statistic, *faces):
    return [f[:, : 2 if statistic in ("covariance", "correlation") else 1] for f in faces]


def test_a_million_records_in_a_hundred_thousand_boxes(show):
    lower, upper, _ = boxes(100_000)
    codes = np.random.default_rng(1).permutation(np.repeat(np.arange(100_000), 10))
    frame = pd.DataFrame({"box": codes, "weight": 1e-6})
    for j, v in enumerate("xy"):
        frame[f"{v}_lo"], frame[f"{v}_hi"] = lower[codes, j], upper[codes, j]
    reading = seconds(lambda: read_boxes(frame), rounds=1)
    table = read_boxes(frame)
    times = {}
    for statistic in STATISTICS:
        names = "xy" if statistic in ("covariance", "correlation") else "x"
        times[statistic] = seconds(lambda s=statistic, n=names: table.estimate(s, *n), rounds=2)
        times[f"weighted {statistic}"] = seconds(
            lambda s=statistic, n=names: table.estimate(s, *n, weights=True), rounds=1
        )
    show(
        "1 000 000 records in 100 000 boxes, seconds (target 1 each)",
        f"reading and checking {reading:.2f}",
        *(f"{name:<22} {taken:.2f}" for name, taken in times.items()),
    )
    assert max(times.values()) < 1.5


@pytest.mark.parametrize("statistic", STATISTICS)
def test_growth(statistic, show):
    times = []
    for number in SIZES:
        lower, upper, counts = boxes(number)
        faces = asked(statistic, lower, upper)
        times.append(seconds(lambda f=faces, c=counts, s=statistic: intervals.estimate(s, *f, c), rounds=2))
    slope = float(np.polyfit(np.log(SIZES), np.log(times), 1)[0])
    show(
        f"{statistic}: " + ", ".join(f"{n:_} boxes {t:.3f} s" for n, t in zip(SIZES, times, strict=True)),
        f"growth exponent {slope:.2f}",
    )
    assert slope < 1.4


@pytest.mark.parametrize("slope", [0.0, 0.6, 0.95])
def test_width_beside_plain_interval_arithmetic(slope, show):
    lines = []
    for number in (100, 10_000):
        lower, upper, counts = boxes(number, slope=slope)
        for statistic in STATISTICS:
            faces = asked(statistic, lower, upper)
            found, outer = (
                intervals.estimate(statistic, *faces, counts),
                intervals.plain(statistic, *faces, counts),
            )
            widths = [np.diff(r)[0] for r in (found.linearised, found.guaranteed, outer)]
            lines.append(f"{number:>6} {statistic:<12}" + "".join(f"{w:10.4f}" for w in widths))
            assert widths[1] <= widths[2] * (1 + 1e-9)
    show(f"correlation {slope}: boxes, statistic, widths to first order, guaranteed, plain", *lines)
