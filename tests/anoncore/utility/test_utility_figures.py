"""The four utility figures: by hand, beside numpy and scipy, and for constant columns."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from anoncore.errors import AnonymizationError
from anoncore.utility import compare_utility, utility_figures

NAMES = ("mean", "variance", "correlation", "rank_correlation")


def test_by_hand():
    original = np.array([[0.0, 0.0], [2.0, 1.0], [4.0, 2.0]])
    other = np.array([[1.0, 2.0], [3.0, 1.0], [5.0, 0.0]])
    found = utility_figures(original, other)
    np.testing.assert_allclose(found.mean.values, [1 / np.sqrt(8 / 3), 0])
    np.testing.assert_allclose(found.variance.values, [0, 0], atol=1e-15)
    assert found.correlation.median == pytest.approx(2.0)
    np.testing.assert_allclose(found.rank_correlation.values, [2, 2])
    assert found.mean.median == pytest.approx(found.mean.largest / 2)
    assert (found.n_original, found.n_other) == (3, 3)


def test_agrees_with_numpy_and_scipy():
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(6, 6))
    original, other = rng.normal(size=(400, 6)) @ mix + 1e6, np.round(rng.normal(size=(300, 6)) @ mix) + 1e6
    found = utility_figures(original, other)
    np.testing.assert_allclose(found.mean.values, np.abs(original.mean(0) - other.mean(0)) / original.std(0), rtol=1e-7)
    np.testing.assert_allclose(found.variance.values, np.abs(other.var(0) / original.var(0) - 1), rtol=1e-7)
    pairs = np.triu_indices(6, 1)
    pearson = np.abs(np.corrcoef(original.T) - np.corrcoef(other.T))[pairs]
    ranks = np.abs(spearmanr(original).statistic - spearmanr(other).statistic)[pairs]
    assert found.correlation.median == pytest.approx(np.median(pearson))
    assert found.correlation.largest == pytest.approx(pearson.max())
    assert found.rank_correlation.median == pytest.approx(np.median(ranks))
    assert found.rank_correlation.values.max() == pytest.approx(ranks.max())


def test_row_blocks_add_up(monkeypatch):
    original, other = np.random.default_rng(1).normal(size=(2, 1000, 4))
    whole = utility_figures(original, other)
    monkeypatch.setattr("anoncore.utility.figures._ROWS", 64)
    blocks = utility_figures(original, other)
    for one, two in zip(whole.figures, blocks.figures, strict=True):
        np.testing.assert_allclose(one.values, two.values, atol=1e-13)


def test_original_is_perfect_and_sufficient():
    original, reference = np.random.default_rng(2).normal(size=(2, 200, 5))
    found = compare_utility(original, original, reference)
    assert found.sufficient
    for part in found.figures:
        assert part.released_largest == 0.0
        assert part.reference_median > 0.0
        assert part.sufficient_median
        assert part.sufficient_largest
    worse = compare_utility(original, original * 3 + 1, original)
    assert [part.sufficient_median for part in worse.figures] == [False, False, True, True]
    assert not worse.sufficient
    assert worse.figures[1].released_largest == pytest.approx(8.0)
    assert tuple(part.name for part in worse.figures) == NAMES


def test_independent_samples_are_alike():
    original, reference, other = np.random.default_rng(3).normal(size=(3, 5000, 8))
    found = compare_utility(original, other, reference)
    for part in found.figures:
        assert part.released_median < 0.05
        assert part.reference_median < 0.05


def test_constant_columns_are_defined_and_silent():
    rng = np.random.default_rng(4)
    varied = rng.normal(size=(50, 1))
    constant = np.full((50, 1), 0.1)
    original = np.hstack([varied, constant, constant])
    other = np.hstack([constant, constant + 2, varied])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same, moved = utility_figures(original, original), utility_figures(original, other)
    for figure in same.figures:
        np.testing.assert_array_equal(figure.values, 0.0)
    assert moved.mean.values[1] == pytest.approx(2.0)
    assert moved.variance.values[:2] == pytest.approx([1.0, 0.0])
    assert moved.variance.values[2] == pytest.approx(varied.var())
    np.testing.assert_array_equal(moved.correlation.values, 0.0)
    np.testing.assert_array_equal(moved.rank_correlation.values, 0.0)


@pytest.mark.parametrize("rows", [1, 2])
def test_smallest_tables(rows):
    original, other = np.random.default_rng(5).normal(size=(2, rows, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = utility_figures(original, other)
    assert all(np.isfinite(figure.values).all() for figure in found.figures)
    single = utility_figures(original[:, :1], other[:, :1])
    assert (single.correlation.median, single.correlation.largest) == (0.0, 0.0)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), rows=st.integers(1, 20), columns=st.integers(1, 5), levels=st.integers(1, 4))
def test_always_defined_and_permutation_invariant(seed, rows, columns, levels):
    rng = np.random.default_rng(seed)
    original, other = rng.integers(0, levels, size=(2, rows, columns)).astype(float)
    found = utility_figures(original, other)
    order = rng.permutation(columns)
    moved = utility_figures(rng.permutation(original)[:, order], rng.permutation(other)[:, order])
    for one, two in zip(found.figures, moved.figures, strict=True):
        assert np.isfinite(one.values).all()
        np.testing.assert_allclose(one.values[order], two.values, atol=1e-9)
        assert 0 <= one.median <= one.largest
    assert found.correlation.largest <= 2.0


def test_results_are_read_only_and_input_untouched():
    original = np.random.default_rng(6).normal(size=(30, 3))
    kept = original.copy()
    found = utility_figures(original, original + 1)
    np.testing.assert_array_equal(original, kept)
    with pytest.raises(ValueError, match="read-only"):
        found.mean.values[0] = 0.0


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (np.ones((3, 1)), "other must have 2 columns as original has, got 1"),
        (np.ones(3), "other must be a matrix"),
        (np.array([[np.nan, 1.0]]), "other must be finite, got 1"),
        ([["a", "b"]], "other must be numeric"),
    ],
)
def test_errors(other, message):
    with pytest.raises(AnonymizationError, match=message):
        utility_figures(np.ones((3, 2)), other)
