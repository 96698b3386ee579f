"""Interval disclosure against all pairs of records."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import interval_disclosure

SCHEMA = Schema([Variable("x", "continuous"), Variable("same", "continuous"), Variable("g", "nominal")])


def data(x: np.ndarray) -> Microdata:
    return Microdata(pd.DataFrame({"x": x, "same": 1.0, "g": "a"}), SCHEMA)


def test_shares_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=80)
    y = x + rng.normal(0, 0.06, 80)
    x[:5], y[3:9] = np.nan, np.nan
    own = rng.permutation(80)
    own[-4:] = -1
    (found,) = interval_disclosure(data(x), data(y), own)
    near = np.abs(x[:, None] - y[None]) <= 0.05 * np.nanstd(x)
    pairs = [(i, j) for i, j in enumerate(own) if j >= 0 and np.isfinite(x[i] + y[j])]
    assert found.name == "x"
    assert found.within.n == len(pairs)
    assert found.within.value == np.mean([near[pair] for pair in pairs])
    assert found.chance == pytest.approx(near[[i for i, _ in pairs]][:, np.isfinite(y)].mean())


def test_the_original_is_disclosed_and_a_shuffled_release_is_not() -> None:
    x = np.random.default_rng(2).normal(size=2000)
    (kept,) = interval_disclosure(data(x), data(x), np.arange(2000))
    (shuffled,) = interval_disclosure(data(x), data(x), np.random.default_rng(3).permutation(2000))
    assert kept.excess == 1.0
    (zeros,) = interval_disclosure(data(np.where(x > 1.3, x, 0)), data(np.zeros(2000)), np.arange(2000))
    assert zeros.within.n == (x > 1.3).sum()
    assert zeros.within.value == 0.0
    assert abs(shuffled.excess) < 0.02
    with pytest.raises(AnonymizationError, match="width must be above 0"):
        interval_disclosure(data(x), data(x), np.arange(2000), width=0)
