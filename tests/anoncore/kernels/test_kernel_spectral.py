import doctest
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.errors import InfeasibleError
from anoncore.kernels import spectral


def table(n_records, n_columns, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_records, n_columns)) @ rng.normal(size=(n_columns, n_columns)) + offset
    x.setflags(write=False)
    return x


def dependent_table(n_records, seed=0):
    """Continuous, binary, constant, duplicate and summed columns."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n_records))
    c = rng.choice([-1.0, 1.0], n_records)
    x = np.column_stack([a, b, a + b, c, c, np.full(n_records, 0.1), rng.exponential(size=n_records)])
    x.setflags(write=False)
    return x


def column_means(x):
    return np.array([math.fsum(column) / len(x) for column in x.T])


def assert_same_means(masked, x):
    scale = np.maximum(np.abs(column_means(x)), x.std(axis=0))
    np.testing.assert_array_less(np.abs(column_means(masked) - column_means(x)), 1e-13 * scale + 1e-300)


def assert_same_covariance(masked, x, tolerance=1e-12):
    sd = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    difference = np.cov(masked.T, bias=True) - np.cov(x.T, bias=True)
    assert np.abs(difference / np.outer(sd, sd)).max() <= tolerance


def test_examples_in_docstrings():
    assert doctest.testmod(spectral, extraglobs={"np": np}).failed == 0


# -- basis and scores


@pytest.mark.parametrize("shape", [(500, 6), (1, 3), (2, 5), (4, 9), (50, 1)])
@pytest.mark.parametrize("block_rows", [7, 32_768])
def test_basis_agrees_with_a_full_decomposition(shape, block_rows, monkeypatch):
    monkeypatch.setattr(spectral, "_BLOCK_ROWS", block_rows)
    x = table(*shape, offset=3.0)
    frame = spectral.basis(x)
    expected = np.zeros(shape[1])
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
    expected[: values.size] = values
    np.testing.assert_allclose(frame.center, x.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(frame.singular_values, expected, atol=1e-13 * max(1.0, values[0]))
    np.testing.assert_allclose(frame.loadings.T @ frame.loadings, np.eye(shape[1]), atol=1e-13)
    back = frame.center + spectral.principal_scores(x, frame) @ frame.loadings.T
    np.testing.assert_allclose(back, x, atol=1e-13 * np.abs(x).max())


def test_basis_of_dependent_columns_has_exact_null_axes():
    frame = spectral.basis(dependent_table(3000))
    assert (frame.singular_values[4:] < 1e-13 * frame.singular_values[0]).all()
    assert (frame.singular_values[:4] > 0.1 * frame.singular_values[0]).all()
    assert (np.diff(frame.singular_values) <= 0).all()


def test_basis_does_not_show_its_loadings():
    assert "0." not in repr(spectral.basis(table(50, 3)))


def test_signs_do_not_depend_on_the_decomposition():
    x = table(400, 5)
    frame, mirrored = spectral.basis(x), spectral.basis(-x)
    np.testing.assert_allclose(frame.loadings, mirrored.loadings, atol=1e-12)
    peaks = np.abs(frame.loadings).argmax(axis=0)
    assert (frame.loadings[peaks, np.arange(5)] > 0).all()


def test_memory_layout_does_not_matter():
    x = table(400, 5)
    rng = np.random.default_rng
    np.testing.assert_allclose(
        spectral.swap(np.asfortranarray(x), rng=rng(1)), spectral.swap(x, rng=rng(1)), atol=1e-12
    )
    frame = spectral.basis(x)
    np.testing.assert_array_equal(spectral.principal_scores(x, frame), spectral.principal_scores(x, frame, order="F"))


# -- swapping


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
    assert_same_means(spectral.swap(x, rng=np.random.default_rng(seed), jitter=jitter), x)


@pytest.mark.parametrize("options", [{}, {"jitter": 5}, {"exact_covariance": True}])
def test_swap_keeps_means_over_many_blocks(options):
    x = dependent_table(50_000) + np.array([1e6, 0, 1e6, 0, 0, 0, 0])
    assert_same_means(spectral.swap(x, rng=np.random.default_rng(1), **options), x)


def test_swap_permutes_every_score_column_on_its_own():
    x = table(1000, 4)
    frame = spectral.basis(x)
    before = spectral.principal_scores(x, frame)
    after = spectral.principal_scores(spectral.swap(x, rng=np.random.default_rng(1)), frame)
    np.testing.assert_allclose(np.sort(after, axis=0), np.sort(before, axis=0), atol=1e-12)
    came_from = [np.abs(before[:, j][:, None] - after[:, j]).argmin(axis=0) for j in range(4)]
    for j in range(4):
        assert (came_from[j] == np.arange(1000)).mean() < 0.01
        for other in range(j):
            assert (came_from[j] == came_from[other]).mean() < 0.01


def test_swap_permutations_are_uniform():
    x = np.array([[0.0], [1.0], [3.0]])
    rng = np.random.default_rng(1)
    drawn = [tuple(spectral.swap(x, rng=rng).ravel().round(9)) for _ in range(3000)]
    orders, frequency = np.unique(drawn, axis=0, return_counts=True)
    assert len(orders) == 6
    assert np.abs(frequency - 500).max() < 100


def test_swap_keeps_linear_relations():
    masked = spectral.swap(dependent_table(2000), rng=np.random.default_rng(1))
    np.testing.assert_allclose(masked[:, 0] + masked[:, 1], masked[:, 2], atol=1e-13)
    np.testing.assert_allclose(masked[:, 3], masked[:, 4], atol=1e-13)
    np.testing.assert_allclose(masked[:, 5], 0.1, rtol=1e-13)


def test_swap_keeps_covariances_in_expectation():
    x = table(20_000, 5)
    assert_same_covariance(spectral.swap(x, rng=np.random.default_rng(1)), x, tolerance=0.05)


@pytest.mark.parametrize("jitter", [None, 5])
@pytest.mark.parametrize(
    "x", [table(1000, 6), table(40_000, 3, offset=50.0), dependent_table(1000), table(60, 10, seed=3)]
)
def test_exact_covariance(x, jitter):
    masked = spectral.swap(x, rng=np.random.default_rng(1), exact_covariance=True, jitter=jitter)
    assert_same_covariance(masked, x)
    assert_same_means(masked, x)


def test_exact_covariance_with_fewer_records_than_columns():
    x = table(8, 12)
    masked = spectral.swap(x, rng=np.random.default_rng(1), exact_covariance=True)
    assert_same_covariance(masked, x, tolerance=1e-9)


def test_exact_covariance_refuses_collinear_scores():
    x = np.array([[-1.0, -1.1], [-1.0, 1.1], [1.0, -1.1], [1.0, 1.1]])
    refusals = []
    for seed in range(30):
        try:
            masked = spectral.swap(x, rng=np.random.default_rng(seed), exact_covariance=True)
        except InfeasibleError as error:
            refusals.append(str(error))
        else:
            assert_same_covariance(masked, x)
    assert 0 < len(refusals) < 30
    assert "4 records on 2 axes" in refusals[0]


def test_exact_covariance_of_constant_columns():
    x = np.full((7, 2), 0.1)
    np.testing.assert_array_equal(spectral.swap(x, rng=np.random.default_rng(1), exact_covariance=True), x)


def test_jitter_leaves_no_score_as_it_was():
    x = table(2000, 4)
    frame = spectral.basis(x)
    before = np.sort(spectral.principal_scores(x, frame), axis=0)
    for jitter, survivors in ((None, 1.0), (1, 0.0), (5, 0.0)):
        masked = spectral.swap(x, rng=np.random.default_rng(1), jitter=jitter)
        # The means were restored, so compare up to a shift.
        after = np.sort(spectral.principal_scores(masked, frame), axis=0)
        nearest = np.abs(after[:, None, 0] - before[None, :, 0]).min(axis=1)
        assert (nearest < 1e-9).mean() == pytest.approx(survivors, abs=0.002)


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    jitter=st.integers(1, 80),
    seed=st.integers(0, 9),
)
@settings(max_examples=100, deadline=None)
def test_jitter_stays_within_its_ranks(values, jitter, seed):
    column = np.array(values)
    moved = np.sort(spectral._jittered(column, jitter, np.random.default_rng(seed)))
    ordered, last = np.sort(column), len(column) - 1
    slack = 1e-9 * (1.0 + np.abs(column).max())
    rank = np.arange(len(column))
    assert (moved >= ordered[np.maximum(rank - jitter, 0)] - slack).all()
    assert (moved <= ordered[np.minimum(rank + jitter, last)] + slack).all()


def test_jitter_does_not_release_extremes():
    column = np.append(np.random.default_rng(0).normal(size=500), 50.0)
    tops = [spectral._jittered(column, 5, np.random.default_rng(seed)).max() for seed in range(200)]
    assert max(tops) < 50.0


@pytest.mark.parametrize("options", [{}, {"jitter": 3}, {"exact_covariance": True}, {"within": True}])
def test_swap_is_reproducible_from_its_seed(options):
    x = table(300, 4)
    options = {**options, "within": np.arange(300) % 3} if "within" in options else options
    first, again, other = (spectral.swap(x, rng=np.random.default_rng(s), **options) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.9


def test_swap_within_clusters_works_on_each_cluster_alone():
    labels = np.random.default_rng(0).choice([7, -2, 40], size=600)
    x = table(600, 3) + 100.0 * labels[:, None]
    masked = spectral.swap(x, rng=np.random.default_rng(1), within=labels, exact_covariance=True)
    for label in (7, -2, 40):
        assert_same_means(masked[labels == label], x[labels == label])
        assert_same_covariance(masked[labels == label], x[labels == label])
    masked = spectral.swap(x, rng=np.random.default_rng(1), within=labels)
    for label in (7, -2, 40):
        frame = spectral.basis(x[labels == label])
        before, after = (spectral.principal_scores(y[labels == label], frame) for y in (x, masked))
        np.testing.assert_allclose(np.sort(after, axis=0), np.sort(before, axis=0), atol=1e-9)


def test_swap_within_one_cluster_is_a_plain_swap():
    x = table(100, 3)
    whole = spectral.swap(x, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(spectral.swap(x, rng=np.random.default_rng(1), within=np.zeros(100, int)), whole)


# -- recursive histogram sanitization


def reference_groups(t, k, rows=None):
    """The paper's recursion as it stands, but for `< 2k`."""
    rows = np.arange(len(t)) if rows is None else rows
    if len(rows) < 2 * k:
        return [frozenset(rows.tolist())]
    widest = np.argmax(np.ptp(t[rows], axis=0))
    ordered = rows[np.argsort(t[rows, widest], kind="stable")]
    lower, upper = np.sort(ordered[: len(rows) // 2]), np.sort(ordered[len(rows) // 2 :])
    return reference_groups(t, k, lower) + reference_groups(t, k, upper)


def groups_of(labels):
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return {frozenset(part.tolist()) for part in parts}


@given(
    n_records=st.integers(1, 200),
    n_columns=st.integers(1, 5),
    k=st.integers(1, 9),
    levels=st.sampled_from([1, 2, 4, None]),
    seed=st.integers(0, 999),
)
@settings(max_examples=200, deadline=None)
def test_groups_are_those_of_the_recursion(n_records, n_columns, k, levels, seed):
    rng = np.random.default_rng(seed)
    t = rng.normal(size=(n_records, n_columns))
    if levels is not None:
        t = rng.integers(0, levels, t.shape).astype(float)
    expected = reference_groups(t, k)
    for cached, folded in ((8192, 1024), (20, 3)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spectral, "_CACHED_ROWS", cached)
            patch.setattr(spectral, "_FOLDED_ROWS", folded)
            labels = spectral.rhs_groups(t, k)
        assert groups_of(labels) == set(expected)
        np.testing.assert_array_equal(np.unique(labels), np.arange(len(expected)))


@given(n_records=st.integers(2, 5000), k=st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_group_sizes(n_records, k):
    sizes = np.bincount(spectral.rhs_groups(np.random.default_rng(0).normal(size=(n_records, 2)), k))
    if n_records < 2 * k:
        assert sizes.tolist() == [n_records]
    else:
        assert sizes.min() >= k
        assert sizes.max() <= 2 * k - 1


def test_groups_at_a_larger_size():
    t = table(50_000, 6)
    assert groups_of(spectral.rhs_groups(t, 5)) == set(reference_groups(t, 5))


@given(n_records=st.integers(1, 120), n_groups=st.integers(1, 10), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_means_and_medoids_agree_with_brute_force(n_records, n_groups, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, size=(n_records, 3)).astype(float)
    labels = np.unique(rng.integers(0, n_groups, n_records), return_inverse=True)[1]
    means, medoids = spectral.group_means(x, labels), spectral.group_medoids(x, labels)
    for label in range(labels.max() + 1):
        rows = np.flatnonzero(labels == label)
        np.testing.assert_allclose(means[label], x[rows].mean(axis=0), atol=1e-14)
        nearest = ((x[rows] - means[label]) ** 2).sum(axis=1)
        assert medoids[label] == rows[nearest.argmin()]


@pytest.mark.parametrize("k", [2, 5, 17])
def test_rhs_means(k):
    x = table(3000, 5, offset=10.0)
    masked, labels = spectral.rhs(x, k=k)
    assert_same_means(masked, x)
    assert np.unique(masked, axis=0, return_counts=True)[1].min() >= k
    # The group means of the scores, projected back, are the group means of the records.
    frame = spectral.basis(x)
    means = spectral.group_means(spectral.principal_scores(x, frame), labels)
    np.testing.assert_allclose((frame.center + means @ frame.loadings.T)[labels], masked, atol=1e-12)


def test_rhs_medoids_are_records_of_their_group():
    x = table(3000, 5)
    masked, labels = spectral.rhs(x, k=5, representative="medoid")
    medoids = spectral.group_medoids(x, labels)
    np.testing.assert_array_equal(masked, x[medoids][labels])
    np.testing.assert_array_equal(labels[medoids], np.arange(len(medoids)))
    scores = spectral.principal_scores(x, spectral.basis(x))
    np.testing.assert_array_equal(medoids, spectral.group_medoids(scores, labels))


def test_rhs_with_too_few_records_is_one_group():
    masked, labels = spectral.rhs(np.array([[1.0, 2.0], [3.0, 6.0]]), k=5)
    assert masked.tolist() == [[2.0, 4.0], [2.0, 4.0]]
    assert labels.tolist() == [0, 0]


# -- memory


@pytest.mark.parametrize(
    "mask",
    [
        lambda x: spectral.swap(x, rng=np.random.default_rng(1), jitter=5, exact_covariance=True),
        lambda x: spectral.swap(x, rng=np.random.default_rng(1), within=np.arange(len(x)) % 10),
        lambda x: spectral.rhs(x, k=5),
        lambda x: spectral.rhs(x, k=5, representative="medoid"),
    ],
)
def test_memory_stays_under_six_tables(mask):
    x = table(100_000, 28)
    tracemalloc.start()
    try:
        mask(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * x.nbytes
