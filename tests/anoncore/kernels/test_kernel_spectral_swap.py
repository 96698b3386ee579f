import math
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.errors import InfeasibleError
from anoncore.kernels import spectral_swap
from anoncore.kernels.independent_axes import independent_axes
from anoncore.kernels.principal_axes import basis, principal_scores
from anoncore.kernels.score_basis import score_basis
from anoncore.kernels.smoothed_values import without_extremes
from anoncore.kernels.spectral_swap import in_clusters, swap
from tests.anoncore.tables import dependent_table, table

INDEPENDENT = partial(score_basis, axes="independent")


def column_means(x):
    return np.array([math.fsum(column) / len(x) for column in x.T])


def assert_same_means(masked, x):
    scale = np.maximum(np.abs(column_means(x)), x.std(axis=0))
    np.testing.assert_array_less(np.abs(column_means(masked) - column_means(x)), 1e-13 * scale + 1e-300)


def assert_same_covariance(masked, x, tolerance=1e-12):
    # The computed spread of a constant column is rounding.
    varies = x.std(axis=0) > 1e-12 * np.abs(x).max(axis=0)
    sd = np.where(varies, x.std(axis=0), 1.0)
    assert (np.ptp(masked[:, ~varies], axis=0) <= 1e-12 * np.abs(x[:, ~varies]).max(axis=0, initial=0.0)).all()
    difference = np.cov(masked.T, bias=True) - np.cov(x.T, bias=True)
    assert np.abs(difference / np.outer(sd, sd)).max() <= tolerance


def test_memory_layout_does_not_matter():
    x = table(400, 5)
    rng = np.random.default_rng
    np.testing.assert_allclose(swap(np.asfortranarray(x), rng=rng(1)), swap(x, rng=rng(1)), atol=1e-12)


@given(
    n_records=st.integers(1, 300),
    n_columns=st.integers(1, 8),
    offset=st.sampled_from([0.0, -1.0, 2000.0, 1e9]),
    jitter=st.sampled_from([None, 1, 5]),
    seed=st.integers(0, 99),
)
@settings(max_examples=100, deadline=None)
def test_swap_keeps_means(n_records, n_columns, offset, jitter, seed):
    x = table(n_records, n_columns, seed, offset)
    assert_same_means(swap(x, rng=np.random.default_rng(seed), jitter=jitter), x)


def test_independent_components_give_the_distribution_back_that_principal_axes_lose():
    """Two exponential variables, mixed: along the principal axes the corner at 0 is filled."""
    s = np.random.default_rng(3).exponential(size=(4000, 2))
    mixing = np.array([[2.0, 0.5], [0.3, 1.0]])
    beyond = []
    for one in (swap, partial(swap, basis_of=INDEPENDENT)):
        masked = one(s @ mixing, rng=np.random.default_rng(1), jitter="auto")
        assert_same_means(masked, s @ mixing)
        beyond.append(((masked @ np.linalg.inv(mixing)) < -0.1).any(axis=1).mean())
        exact = one(s @ mixing, rng=np.random.default_rng(1), exact_covariance=True)
        assert_same_covariance(exact, s @ mixing)
    assert beyond[0] > 0.1
    assert beyond[1] < 0.1 * beyond[0]


def test_independent_components_come_back_with_null_axes():
    x = table(300, 3) @ np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    frame, back = independent_axes(x, basis(x))
    np.testing.assert_allclose(principal_scores(x, frame) @ back, x - frame.center, atol=1e-9)
    masked = swap(x, basis_of=INDEPENDENT, rng=np.random.default_rng(1))
    np.testing.assert_allclose(masked[:, 3], masked[:, :3].sum(axis=1), atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"jitter": 5}, {"exact_covariance": True}])
def test_swap_keeps_means_over_many_blocks(options):
    x = dependent_table(50_000) + np.array([1e6, 0, 1e6, 0, 0, 0, 0])
    assert_same_means(swap(x, rng=np.random.default_rng(1), **options), x)


def test_swap_permutes_every_score_column_on_its_own():
    x = table(1000, 4)
    frame = basis(x)
    before = principal_scores(x, frame)
    after = principal_scores(swap(x, rng=np.random.default_rng(1)), frame)
    np.testing.assert_allclose(np.sort(after, axis=0), np.sort(before, axis=0), atol=1e-12)
    came_from = [np.abs(before[:, j][:, None] - after[:, j]).argmin(axis=0) for j in range(4)]
    for j in range(4):
        assert (came_from[j] == np.arange(1000)).mean() < 0.01
        for other in range(j):
            assert (came_from[j] == came_from[other]).mean() < 0.01


def test_swap_permutations_are_uniform():
    x = np.array([[0.0], [1.0], [3.0]])
    rng = np.random.default_rng(1)
    drawn = [tuple(swap(x, rng=rng).ravel().round(9)) for _ in range(3000)]
    orders, frequency = np.unique(drawn, axis=0, return_counts=True)
    assert len(orders) == 6
    assert np.abs(frequency - 500).max() < 100


def test_swap_keeps_linear_relations():
    masked = swap(dependent_table(2000), rng=np.random.default_rng(1))
    np.testing.assert_allclose(masked[:, 0] + masked[:, 1], masked[:, 2], atol=1e-13)
    np.testing.assert_allclose(masked[:, 3], masked[:, 4], atol=1e-13)
    np.testing.assert_allclose(masked[:, 5], 0.1, rtol=1e-13)


def test_swap_keeps_covariances_in_expectation():
    x = table(20_000, 5)
    assert_same_covariance(swap(x, rng=np.random.default_rng(1)), x, tolerance=0.05)


@pytest.mark.parametrize("jitter", [None, 5])
@pytest.mark.parametrize(
    "x", [table(1000, 6), table(40_000, 3, offset=50.0), dependent_table(1000), table(60, 10, seed=3)]
)
def test_exact_covariance(x, jitter):
    masked = swap(x, rng=np.random.default_rng(1), exact_covariance=True, jitter=jitter)
    assert_same_covariance(masked, x)
    assert_same_means(masked, x)


def test_exact_covariance_with_fewer_records_than_columns():
    x = table(8, 12)
    masked = swap(x, rng=np.random.default_rng(1), exact_covariance=True)
    assert_same_covariance(masked, x, tolerance=1e-9)


def test_exact_covariance_refuses_collinear_scores():
    x = np.array([[-1.0, -1.1], [-1.0, 1.1], [1.0, -1.1], [1.0, 1.1]])
    refusals = []
    for seed in range(30):
        try:
            masked = swap(x, rng=np.random.default_rng(seed), exact_covariance=True)
        except InfeasibleError as error:
            refusals.append(str(error))
        else:
            assert_same_covariance(masked, x)
    assert 0 < len(refusals) < 30
    assert "4 records on 2 axes" in refusals[0]


def test_exact_covariance_of_constant_columns():
    x = np.full((7, 2), 0.1)
    np.testing.assert_array_equal(swap(x, rng=np.random.default_rng(1), exact_covariance=True), x)


def test_jitter_leaves_no_score_as_it_was():
    x = table(2000, 4)
    frame = basis(x)
    before = np.sort(principal_scores(x, frame), axis=0)
    for jitter, survivors in ((None, 1.0), (1, 0.0), (5, 0.0)):
        masked = swap(x, rng=np.random.default_rng(1), jitter=jitter)
        # The means were restored, so compare up to a shift.
        after = np.sort(principal_scores(masked, frame), axis=0)
        nearest = np.abs(after[:, None, 0] - before[None, :, 0]).min(axis=1)
        assert (nearest < 1e-9).mean() == pytest.approx(survivors, abs=0.002)


@given(
    values=st.lists(st.integers(-1000, 1000), min_size=1, max_size=60),
    jitter=st.integers(1, 80),
    seed=st.integers(0, 9),
)
@settings(max_examples=50, deadline=None)
def test_jitter_keeps_mean_and_spread(values, jitter, seed):
    column = np.array(values, dtype=float)
    moved = spectral_swap.jittered(column, jitter, np.random.default_rng(seed))
    column = without_extremes(np.sort(column))
    assert moved.mean() == pytest.approx(column.mean(), abs=1e-9)
    # Where an average over all ranks is left, there is nothing to stretch.
    assert moved.std() == pytest.approx(column.std(), abs=1e-6) or jitter >= len(values) // 2


def test_recommended_jitter_depends_on_records_and_axes():
    x = table(800, 2)
    chosen, stated = (swap(x, rng=np.random.default_rng(1), jitter=j) for j in ("auto", 29))
    np.testing.assert_array_equal(chosen, stated)


def test_jitter_does_not_release_extremes():
    column = np.append(np.random.default_rng(0).normal(size=500), 50.0)
    tops = [spectral_swap.jittered(column, 5, np.random.default_rng(seed)).max() for seed in range(200)]
    assert max(tops) < 50.0


@pytest.mark.parametrize("options", [{}, {"jitter": 3}, {"exact_covariance": True}, {"basis_of": INDEPENDENT}])
def test_swap_is_reproducible_from_its_seed(options):
    x = table(300, 4)
    first, again, other = (swap(x, rng=np.random.default_rng(s), **options) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.9


def test_swap_within_clusters_works_on_each_cluster_alone():
    labels = np.random.default_rng(0).choice([7, -2, 40], size=600)
    x = table(600, 3) + 100.0 * labels[:, None]
    masked = in_clusters(x, labels, partial(swap, rng=np.random.default_rng(1), exact_covariance=True))
    for label in (7, -2, 40):
        assert_same_means(masked[labels == label], x[labels == label])
        assert_same_covariance(masked[labels == label], x[labels == label])
    masked = in_clusters(x, labels, partial(swap, rng=np.random.default_rng(1)))
    for label in (7, -2, 40):
        frame = basis(x[labels == label])
        before, after = (principal_scores(y[labels == label], frame) for y in (x, masked))
        np.testing.assert_allclose(np.sort(after, axis=0), np.sort(before, axis=0), atol=1e-9)


def test_swap_within_one_cluster_is_a_plain_swap():
    x = table(100, 3)
    whole = swap(x, rng=np.random.default_rng(1))
    one = in_clusters(x, np.zeros(100, int), partial(swap, rng=np.random.default_rng(1)))
    np.testing.assert_array_equal(one, whole)


def test_records_are_the_same_in_place():
    frame = score_basis(table(400, 5))
    moved = frame.scores[::-1].copy(order="F")
    mean = moved.mean(axis=0)
    expected = frame.records(moved, mean=mean)
    assert frame.records(moved, mean=mean, in_place=True) is moved
    np.testing.assert_array_equal(moved, expected)


@pytest.mark.parametrize(("clusters", "tables"), [(1, 1.75), (10, 6)])
def test_memory_stays_under_some_tables(clusters, tables):
    x = table(100_000, 28)
    mask = partial(swap, rng=np.random.default_rng(1), jitter=5, exact_covariance=True)
    tracemalloc.start()
    try:
        mask(x) if clusters == 1 else in_clusters(x, np.arange(len(x)) % clusters, mask)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < tables * x.nbytes


def test_axes_left_out_leave_the_nearest_table_of_the_others():
    x = table(400, 5) * np.array([5.0, 3.0, 1.0, 0.3, 0.1])
    left = score_basis(x, leading=0.95)
    u, d, v = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    kept = np.searchsorted(np.cumsum(d**2) / (d**2).sum(), 0.95) + 1
    assert len(left.live) == kept < 5
    np.testing.assert_allclose(left.records(left.scores), x.mean(axis=0) + (u * d)[:, :kept] @ v[:kept], atol=1e-9)
    masked = swap(x, rng=np.random.default_rng(1), basis_of=partial(score_basis, leading=0.95), jitter="auto")
    assert np.linalg.matrix_rank(masked - masked.mean(axis=0), tol=1e-8) == kept
    assert_same_means(masked, x)
