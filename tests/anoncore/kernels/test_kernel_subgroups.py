"""Subgroups and confidence intervals from boxes, beside brute force and simulation."""

from itertools import product

import numpy as np
import pytest

from anoncore.kernels.boxes.confidence import confidence_interval
from anoncore.kernels.boxes.subgroups import mean_of_some


def test_the_range_of_a_subgroups_mean_is_that_of_every_composition():
    draw = np.random.default_rng(3)
    for _ in range(20):
        lower = draw.integers(-5, 5, 4).astype(float)
        upper = lower + draw.integers(0, 4, 4)
        most = draw.integers(1, 4, 4)
        least = most * (draw.random(4) < 0.4)
        ends = [
            (counts @ lower / counts.sum(), counts @ upper / counts.sum())
            for counts in map(np.array, product(*(range(a, b + 1) for a, b in zip(least, most, strict=True))))
            if counts.sum()
        ]
        found = mean_of_some(lower, upper, least.astype(float), most.astype(float))
        assert found.guaranteed == pytest.approx((min(low for low, _ in ends), max(high for _, high in ends)))
        assert found.guaranteed[0] <= found.value <= found.guaranteed[1]


@pytest.mark.parametrize(("statistic", "true"), [("mean", 1.0), ("median", np.log(2)), ("upper_quartile", np.log(4))])
def test_nested_intervals_cover_what_they_claim(statistic, true):
    draw, levels = np.random.default_rng(4), (0.5, 0.9, 0.99)
    inside = np.zeros(3)
    for _ in range(400):
        lower = np.floor(draw.exponential(size=60) * 4) / 4
        found = [confidence_interval(statistic, lower, lower + 0.25, np.ones(60, dtype=int), q) for q in levels]
        assert found[2][0] <= found[1][0] <= found[0][0]
        assert found[0][1] <= found[1][1] <= found[2][1]
        inside += [low <= true <= high for low, high in found]
    assert (inside / 400 >= np.array(levels) - 0.02).all()
