"""Marginal tables: beside brute force with pandas, with weights, and their expectation by simulation."""

import itertools
import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility import marginal_utility, marginals

SCHEMA = Schema(
    [
        Variable("x", "continuous"),
        Variable("count", "continuous"),
        Variable("g", "nominal", levels=("a", "b", "c")),
        Variable("o", "ordinal", levels=(1, 2, 3)),
        Variable("s", "binary", levels=(0, 1)),
    ]
)


def table(size, seed, *, gaps=True, shift=0.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=size) + shift
    frame = pd.DataFrame(
        {
            "x": np.where(gaps & (rng.random(size) < 0.1), np.nan, z),
            "count": rng.poisson(2, size).clip(max=6),
            "g": np.where(gaps & (rng.random(size) < 0.1), None, np.where(z > 0.4, "a", "b")),
            "o": rng.integers(1, 4, size),
            "s": (z + rng.normal(size=size) > 0).astype(int),
        }
    )
    return Microdata(frame, SCHEMA)


def brute(tables, names, weights):
    """Total variation of the tables of ``names``, counted in dicts."""
    known = tables[0].frame["x"].dropna()
    total = weights[0][known.index].sum()
    order = known.sort_values()
    share = weights[0][order.index].cumsum() / total
    cuts = sorted({float(order.to_numpy()[np.argmax(share >= k / 10 - 1e-12)]) for k in range(1, 10)})
    cells = []
    for data, w in zip(tables, weights, strict=True):
        counts = Counter()
        for i in range(len(data)):
            key = []
            for name in names:
                value = data.frame[name].iloc[i]
                if pd.isna(value):
                    key.append("gap")
                elif name == "x":
                    key.append(sum(value > cut for cut in cuts))
                else:
                    key.append(value)
            counts[tuple(key)] += w[i] / w.sum()
        cells.append(counts)
    return sum(abs(cells[0][c] - cells[1][c]) for c in cells[0] | cells[1]) / 2


@pytest.mark.parametrize(("size", "seed"), [(1, 0), (2, 1), (3, 2)])
@pytest.mark.parametrize("with_weights", [False, True])
def test_agrees_with_counting(size, seed, with_weights):
    a, b = table(120, seed), table(90, seed + 10)
    rng = np.random.default_rng(seed)
    w = [rng.gamma(2, size=len(t)) if with_weights else np.ones(len(t)) for t in (a, b)]
    found = marginal_utility(a, b, size=size, weights=w if with_weights else None)
    assert found.used == found.of == math.comb(5, size)
    assert found.tuples == tuple(itertools.combinations(SCHEMA.names, size))
    np.testing.assert_allclose(found.values, [brute((a, b), names, w) for names in found.tuples], atol=1e-12)
    assert found.largest == found.values.max()
    assert found.worst == found.tuples[found.values.argmax()]


def test_large_tables_are_counted_alike(monkeypatch):
    a, b = table(200, 0), table(150, 1)
    dense = marginal_utility(a, b, size=3)
    monkeypatch.setattr(marginals, "DENSE", 4)
    sparse = marginal_utility(a, b, size=3)
    np.testing.assert_allclose(sparse.values, dense.values, atol=1e-15)
    assert sparse.expected_mean == pytest.approx(dense.expected_mean)


def test_original_is_perfect_independent_as_expected_and_shift_is_worse():
    a, b, c, far = table(4000, 0), table(4000, 1), table(4000, 2), table(4000, 3, shift=0.5)
    same = marginal_utility(a, a, b)
    assert same.largest == same.mean == 0
    assert same.reference_mean > 0
    fresh = marginal_utility(a, c, b)
    assert fresh.mean == pytest.approx(fresh.reference_mean, rel=0.3)
    assert fresh.mean == pytest.approx(fresh.expected_mean, rel=0.3)
    moved = marginal_utility(a, far, b)
    assert moved.mean > 2 * moved.expected_mean
    assert moved.largest > 4 * moved.reference_at_worst
    assert "x" in moved.worst


def test_expectation_by_simulation():
    drawn = [marginal_utility(table(300, s), table(200, 1000 + s)) for s in range(40)]
    mean = np.mean([one.mean for one in drawn])
    assert np.mean([one.expected_mean for one in drawn]) == pytest.approx(mean, rel=0.08)


def test_monotone_in_noise():
    a = table(3000, 0, gaps=False)
    noise = np.random.default_rng(1).normal(size=3000)
    means = []
    for scale in (0, 0.1, 0.4, 1.5):
        frame = a.frame.copy()
        frame["x"] += scale * noise
        means.append(marginal_utility(a, Microdata(frame, SCHEMA)).mean)
    assert (np.diff(means) > 0).all()


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 40), size=st.integers(1, 4), limit=st.integers(1, 300))
def test_tables_are_spread_distinct_and_always_the_same(n, size, limit):
    found = list(marginals._tuples(n, size, limit))
    assert len(found) == len(set(found)) == min(limit, math.comb(n, size))
    assert all(list(one) == sorted(set(one)) and one[0] >= 0 and one[-1] < n for one in found)
    assert found == sorted(found)
    if math.comb(n, size) <= limit:
        assert found == list(itertools.combinations(range(n), size))


def test_sampled_tables_reach_every_variable():
    found = list(marginals._tuples(30, 3, 200))
    counts = np.bincount(np.ravel(found), minlength=30)
    assert counts.min() >= 8
    assert counts.max() <= 40


def test_columns_without_information_are_defined():
    frame = pd.DataFrame({"empty": [math.nan] * 4, "constant": [5.0] * 4, "g": ["a"] * 4})
    schema = Schema([Variable("empty", "continuous"), Variable("constant", "continuous"), Variable("g", "nominal")])
    a = Microdata(frame, schema)
    found = marginal_utility(a, a, a)
    assert (found.used, found.largest, found.expected_mean) == (3, 0, 0)
    other = frame.assign(constant=4.0)
    assert marginal_utility(a, Microdata(other, a.schema)).worst == ("empty", "constant")
    single = marginal_utility(a.select(["g"]), a.select(["g"]), a.select(["g"]))
    assert (single.used, single.mean, single.largest, single.worst, single.reference_mean) == (0, 0, 0, (), 0)
    gone = marginal_utility(a, a.select(["constant", "g"]))
    assert gone.left_out == ("empty",)


@pytest.mark.parametrize("options", [{"size": 0}, {"size": 5}, {"limit": 0}])
def test_errors(options):
    a = table(10, 0)
    with pytest.raises(AnonymizationError):
        marginal_utility(a, a, **options)
