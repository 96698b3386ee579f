import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.stats import norm

from anoncore.kernels.ranks import (
    cut_by_counts,
    interpolate_quantiles,
    match_ranks,
    normal_scores,
)

columns = npst.arrays(np.float64, st.integers(1, 60), elements=st.integers(-5, 5).map(float))
tables = npst.arrays(
    np.float64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=st.integers(-5, 5).map(float)
)


def frozen(values):
    values = np.array(values, dtype=float)
    values.setflags(write=False)
    return values


# -- normal scores


def test_normal_scores_of_distinct_values():
    x = np.random.default_rng(0).normal(size=101)
    expected = norm.ppf((np.argsort(np.argsort(x)) + 0.5) / 101)
    np.testing.assert_allclose(normal_scores(x), expected, atol=1e-12)


@given(tables)
def test_normal_scores_are_a_function_of_the_value(x):
    found = normal_scores(x)
    assert np.isfinite(found).all()
    for values, scores in zip(x.T, found.T, strict=True):
        order = np.argsort(values)
        rises = np.diff(values[order]) > 0
        np.testing.assert_array_equal(np.diff(scores[order]) > 0, rises)
        assert (np.diff(scores[order])[~rises] == 0).all()


@given(columns)
def test_normal_scores_are_symmetric(x):
    np.testing.assert_allclose(normal_scores(-x), -normal_scores(x), atol=1e-12)


# -- equal ranks


@given(st.data())
def test_match_ranks_keeps_marginals_and_order(data):
    original = data.draw(columns)
    masked = data.draw(npst.arrays(np.float64, original.shape, elements=st.floats(-9, 9).map(lambda v: round(v, 8))))
    released = match_ranks(masked, original)
    np.testing.assert_array_equal(np.sort(released), np.sort(original))
    assert (np.diff(released[np.lexsort((released, masked))]) >= 0).all()


def test_match_ranks_of_the_original_is_the_original():
    x = frozen(np.random.default_rng(0).integers(0, 9, 50))
    np.testing.assert_array_equal(match_ranks(x, x), x)


# -- cuts


@given(columns, st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_cut_meets_counts_in_order(scores, weights):
    shares = np.array(weights, dtype=float) + 1e-9
    counts = np.diff(np.rint(np.append(0.0, shares.cumsum() / shares.sum()) * len(scores)).astype(int), prepend=0)
    counts = counts[1:]
    levels = cut_by_counts(scores, counts)
    assert np.bincount(levels, minlength=len(counts)).tolist() == counts.tolist()
    for level in range(len(counts) - 1):
        below, above = scores[levels <= level], scores[levels > level]
        assert not below.size or not above.size or below.max() <= above.min()


def test_cut_breaks_ties_by_order():
    assert cut_by_counts(frozen(np.zeros(1000)), np.array([400, 600])).tolist() == [0] * 400 + [1] * 600


def test_cut_of_nothing():
    assert cut_by_counts(np.empty(0), np.zeros(3, dtype=int)).tolist() == []


# -- back from normal scores


@given(columns)
@settings(max_examples=50)
def test_known_scores_get_their_own_values(values):
    scores = normal_scores(values)
    np.testing.assert_array_equal(interpolate_quantiles(scores, scores, values), values)


@given(columns, npst.arrays(np.float64, 30, elements=st.floats(-6, 6)))
def test_interpolation_is_monotone_and_clamped(values, scores):
    found = interpolate_quantiles(np.sort(scores), normal_scores(values), values)
    assert (np.diff(found) >= -1e-12).all()
    assert found.min() >= values.min()
    assert found.max() <= values.max()


def test_interpolation_is_linear_between_neighbours():
    found = interpolate_quantiles(frozen([0.25, -5, 5]), frozen([1, 0, -1]), frozen([8, 4, 0]))
    assert found.tolist() == [5.0, 0.0, 8.0]


def test_columns_are_scored_on_their_own():
    x = frozen(np.random.default_rng(0).normal(size=(30, 3)))
    np.testing.assert_array_equal(normal_scores(x), np.column_stack([normal_scores(column) for column in x.T]))
