"""The three prediction measures: by hand, at the anchors, and where they could break."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.errors import AnonymizationError
from anoncore.risk import prediction_measures, sample_queries, sample_size, weighted_measures

LINE = np.array([[0.0], [1.0], [3.0]])


def test_by_hand():
    original = np.array([[0.0, 0.0]])
    released = np.array([[3.0, 4.0], [1.0, 1.0], [9.0, 9.0]])
    found = prediction_measures(original, released, 2)
    assert found.distance[0] == pytest.approx(1.0)  # √((1 + 1)/2)
    assert found.ambiguity[0] == pytest.approx(math.sqrt(2) / 5)
    assert found.uncertainty[0] == pytest.approx((1.0 + 2.25) / 2)  # of {3, 1} and {4, 1}, divisor 2
    assert (found.k, found.n_queries, found.n_released, found.n_original) == (2, 1, 3, 1)


def test_equal_weights_are_none():
    rows, points = np.random.default_rng(0).normal(size=(2, 60, 4))
    plain, weighed = prediction_measures(rows, points), weighted_measures(rows, points, similarity=np.full(4, 0.3))
    for name in ("distance", "ambiguity", "uncertainty"):
        np.testing.assert_allclose(getattr(weighed, name), getattr(plain, name), rtol=1e-12)


def test_weights_by_brute_force():
    rows, points = np.random.default_rng(1).normal(size=(2, 40, 3))
    points[:8, 0] = points[0, 0]  # alike in all that similarity sees, and not in what varies
    w, v = np.array([2.0, 0.0, 0.0]), np.array([0.0, 1.0, 3.0])
    found = weighted_measures(rows, points, 4, similarity=w, variation=v, queries=[3, 7])
    for at, row in enumerate(rows[[3, 7]]):
        far = np.sqrt((np.square(points - row) @ w) / w.sum())
        near = np.argsort(far, kind="stable")[:4]
        assert found.distance[at] == pytest.approx(far[near[0]])
        assert found.ambiguity[at] == pytest.approx(far[near[0]] / far[near[-1]])
        assert found.uncertainty[at] == pytest.approx((points[near].var(axis=0) @ v) / v.sum())


@pytest.mark.parametrize("weights", [[1, 1], [0, 0, 0], [1, -1, 1], [1, 1, math.nan]])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(AnonymizationError, match="similarity must hold 3 weights"):
        weighted_measures(np.eye(3), np.eye(3), 2, similarity=weights)


def test_leave_one_out_by_hand():
    found = prediction_measures(LINE, None, 2, leave_one_out=True)
    np.testing.assert_allclose(found.distance, [1, 1, 2])
    np.testing.assert_allclose(found.ambiguity, [1 / 3, 1 / 2, 2 / 3])
    np.testing.assert_allclose(found.uncertainty, [1, 2.25, 0.25])
    assert found.n_released == 2


def test_original_as_release_scores_worst():
    rng = np.random.default_rng(0)
    original, other = rng.normal(size=(2, 500, 12))
    found, independent = prediction_measures(original, original), prediction_measures(original, other)
    assert not found.distance.any()
    assert not found.ambiguity.any()
    assert (independent.distance > 0).all()


def test_independent_sample_scores_as_leave_one_out():
    rng = np.random.default_rng(1)
    original, other = rng.normal(size=(2, 3000, 6))
    found = prediction_measures(original, other)
    expected = prediction_measures(original, None, leave_one_out=True)
    for name in ("distance", "ambiguity", "uncertainty"):
        assert np.median(getattr(found, name)) == pytest.approx(np.median(getattr(expected, name)), rel=0.03)


def test_groups_of_identical_records_have_ambiguity_one_and_uncertainty_zero():
    rng = np.random.default_rng(2)
    original = rng.normal(size=(100, 12)) + 0.1
    found = prediction_measures(original, np.repeat(original[::5], 5, axis=0))
    np.testing.assert_array_equal(found.ambiguity, 1.0)
    np.testing.assert_array_equal(found.uncertainty, 0.0)


def test_zero_over_zero_is_one():
    found = prediction_measures(LINE, np.zeros((3, 1)), 3)
    np.testing.assert_array_equal(found.ambiguity, 1.0)
    assert found.distance[0] == 0.0


@pytest.mark.parametrize("columns", [2, 20])
def test_queries_choose_rows(columns):
    rng = np.random.default_rng(3)
    original, released = rng.normal(size=(2, 200, columns))
    rows = sample_queries(200, epsilon=0.15, delta=0.1, rng=rng)
    assert len(rows) == 67
    for options in ({"released": released}, {"released": None, "leave_one_out": True}):
        whole = prediction_measures(original, k=4, **options)
        part = prediction_measures(original, k=4, queries=rows, **options)
        for name in ("distance", "ambiguity", "uncertainty"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[rows])
        assert part.n_released == whole.n_released
        assert whole.cdf_error() == 0.0
        assert part.cdf_error(0.1) == pytest.approx(0.15, rel=0.01)


def test_sampled_distribution_is_within_its_bound():
    rng = np.random.default_rng(4)
    original, released = rng.normal(size=(2, 4000, 3))
    rows = sample_queries(4000, epsilon=0.04, delta=0.01, rng=rng)
    whole = np.sort(prediction_measures(original, released).distance)
    part = np.sort(prediction_measures(original, released, queries=rows).distance)
    gap = np.searchsorted(part, whole, side="right") / len(part) - np.arange(1, 4001) / 4000
    assert np.abs(gap).max() <= 0.04


def test_sample_size():
    assert sample_size() == 26492
    assert sample_size(0.05, 0.05) == 738
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(sample_queries(100, rng=rng), np.arange(100))
    drawn = sample_queries(100_000, rng=rng)
    assert len(np.unique(drawn)) == 26492
    assert not np.array_equal(drawn, sample_queries(100_000, rng=rng))


def test_input_and_result_are_safe():
    original = np.random.default_rng(6).normal(size=(20, 2))
    kept = original.copy()
    found = prediction_measures(original, original)
    np.testing.assert_array_equal(original, kept)
    with pytest.raises(ValueError, match="read-only"):
        found.distance[0] = 1.0
    assert "array" not in repr(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 1}, "k must be at least 2, got 1"),
        ({"k": 4}, "k must be at most 3, the number of neighbours there are, got 4"),
        ({"k": 3, "released": None, "leave_one_out": True}, "k must be at most 2"),
        ({"released": None}, "released must be a matrix, got None"),
        ({"leave_one_out": True, "released": LINE + 1}, "released must be None with leave_one_out"),
        ({"released": np.ones((3, 2))}, "released must have 1 columns"),
        ({"released": np.ones(3)}, "released must be a matrix"),
        ({"released": np.ones((0, 1))}, "released must be a matrix"),
        ({"original": [["a"], ["b"]]}, "original must be numeric"),
        ({"original": [[np.nan], [777.25]]}, "original must be finite, got 1 missing"),
        ({"queries": [3]}, "queries must be distinct row numbers from 0 to 2"),
        ({"queries": [0, 0]}, "queries must be distinct"),
        ({"queries": [0.5]}, "queries must be row numbers"),
    ],
)
def test_errors_name_the_mend_and_no_value(arguments, message):
    with pytest.raises(AnonymizationError, match=message) as caught:
        prediction_measures(**{"original": LINE, "released": LINE, "k": 2} | arguments)
    assert "777.25" not in str(caught.value)


@pytest.mark.parametrize(("epsilon", "delta", "name"), [(0, 0.1, "epsilon"), (0.1, 1, "delta")])
def test_sample_size_ranges(epsilon, delta, name):
    with pytest.raises(AnonymizationError, match=f"{name} must be between 0 and 1"):
        sample_size(epsilon, delta)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    size=st.integers(2, 40),
    columns=st.integers(1, 12),
    levels=st.integers(1, 5),
)
def test_always_defined(seed, size, columns, levels):
    rng = np.random.default_rng(seed)
    original, released = rng.integers(0, levels, size=(2, size, columns)).astype(float)
    found = prediction_measures(original, released, min(5, size))
    assert (found.distance >= 0).all()
    assert ((found.ambiguity >= 0) & (found.ambiguity <= 1)).all()
    assert (found.uncertainty >= 0).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), columns=st.sampled_from([3, 11]))
def test_permutation_and_translation_invariance(seed, columns):
    rng = np.random.default_rng(seed)
    original, released = rng.normal(size=(2, 60, columns))
    rows, others, order = rng.permutation(60), rng.permutation(60), rng.permutation(columns)
    found = prediction_measures(original, released)
    moved = prediction_measures(original[rows][:, order] + 7, released[others][:, order] + 7)
    for name in ("distance", "ambiguity", "uncertainty"):
        np.testing.assert_allclose(getattr(moved, name), getattr(found, name)[rows], rtol=1e-9)
