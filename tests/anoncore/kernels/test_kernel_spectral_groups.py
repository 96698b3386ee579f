import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.kernels import spectral_groups
from anoncore.kernels.groups import group_means, group_medoids
from anoncore.kernels.principal_axes import basis, principal_scores
from anoncore.kernels.spectral_groups import halved_groups


def table(n_records, n_columns, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_records, n_columns)) @ rng.normal(size=(n_columns, n_columns)) + offset
    x.setflags(write=False)
    return x


def column_means(x):
    return np.array([math.fsum(column) / len(x) for column in x.T])


def assert_same_means(masked, x):
    scale = np.maximum(np.abs(column_means(x)), x.std(axis=0))
    np.testing.assert_array_less(np.abs(column_means(masked) - column_means(x)), 1e-13 * scale + 1e-300)


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
            patch.setattr(spectral_groups, "_CACHED_ROWS", cached)
            patch.setattr(spectral_groups, "_FOLDED_ROWS", folded)
            labels = halved_groups(t, k)
        assert groups_of(labels) == set(expected)
        np.testing.assert_array_equal(np.unique(labels), np.arange(len(expected)))


@given(n_records=st.integers(2, 5000), k=st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_group_sizes(n_records, k):
    sizes = np.bincount(halved_groups(np.random.default_rng(0).normal(size=(n_records, 2)), k))
    if n_records < 2 * k:
        assert sizes.tolist() == [n_records]
    else:
        assert sizes.min() >= k
        assert sizes.max() <= 2 * k - 1


def test_groups_at_a_larger_size():
    t = table(50_000, 6)
    assert groups_of(halved_groups(t, 5)) == set(reference_groups(t, 5))


@given(n_records=st.integers(1, 120), n_groups=st.integers(1, 10), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_means_and_medoids_agree_with_brute_force(n_records, n_groups, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, size=(n_records, 3)).astype(float)
    labels = np.unique(rng.integers(0, n_groups, n_records), return_inverse=True)[1]
    means, medoids = group_means(x, labels), group_medoids(x, labels)
    for label in range(labels.max() + 1):
        rows = np.flatnonzero(labels == label)
        np.testing.assert_allclose(means[label], x[rows].mean(axis=0), atol=1e-14)
        nearest = ((x[rows] - means[label]) ** 2).sum(axis=1)
        assert medoids[label] == rows[np.flatnonzero(nearest <= nearest.min() + 1e-12)[0]]


@pytest.mark.parametrize("k", [2, 5, 17])
def test_spectral_groups_means(k):
    x = table(3000, 5, offset=10.0)
    labels = spectral_groups.spectral_groups(x, k)
    masked = group_means(x, labels)[labels]
    assert_same_means(masked, x)
    assert np.unique(masked, axis=0, return_counts=True)[1].min() >= k
    # The group means of the scores, projected back, are the group means of the records.
    frame = basis(x)
    means = group_means(principal_scores(x, frame), labels)
    np.testing.assert_allclose((frame.center + means @ frame.loadings.T)[labels], masked, atol=1e-12)


def test_spectral_groups_medoids_are_records_of_their_group():
    x = table(3000, 5)
    labels = spectral_groups.spectral_groups(x, 5)
    medoids = group_medoids(x, labels)
    np.testing.assert_array_equal(labels[medoids], np.arange(len(medoids)))
    scores = principal_scores(x, basis(x))
    np.testing.assert_array_equal(medoids, group_medoids(scores, labels))


def test_spectral_groups_with_too_few_records_is_one_group():
    x = np.array([[1.0, 2.0], [3.0, 6.0]])
    labels = spectral_groups.spectral_groups(x, 5)
    assert labels.tolist() == [0, 0]
    assert group_means(x, labels)[labels].tolist() == [[2.0, 4.0], [2.0, 4.0]]


def test_rounding_decides_no_group():
    rng = np.random.default_rng(0)
    t = rng.integers(0, 3, (400, 3)) @ rng.normal(size=(3, 3))
    noisy = t + 1e-15 * rng.normal(size=t.shape)
    np.testing.assert_array_equal(halved_groups(noisy, 5), halved_groups(t, 5))
    x = rng.integers(0, 2, (400, 2)).astype(float)
    np.testing.assert_array_equal(
        group_medoids(x + 1e-15 * rng.normal(size=x.shape), np.arange(400) // 2), group_medoids(x, np.arange(400) // 2)
    )


@pytest.mark.parametrize("representative", [group_means, lambda x, labels: x[group_medoids(x, labels)]])
def test_memory_stays_under_six_tables(representative):
    x = table(100_000, 28)
    tracemalloc.start()
    try:
        labels = spectral_groups.spectral_groups(x, 5)
        representative(x, labels)[labels]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * x.nbytes


def test_emphasis_is_a_power_of_the_axes_lengths():
    x = table(300, 4) * np.array([9.0, 3.0, 1.0, 0.2])
    t = principal_scores(x, basis(x))
    for power, scaled in ((1.0, t), (0.0, t / t.std(axis=0)), (2.0, t * t.std(axis=0))):
        found = groups_of(spectral_groups.spectral_groups(x, 5, power))
        assert found == set(reference_groups(scaled, 5))
    null = np.column_stack([x, x[:, 0]])
    assert groups_of(spectral_groups.spectral_groups(null, 5, 0.0)) == set(
        reference_groups(*[principal_scores(null, basis(null))[:, :4] / basis(null).singular_values[:4]], 5)
    )
