import numpy as np
import pytest

from anoncore.kernels.k_means import k_means


def clusters(centres, size, seed=0):
    rng = np.random.default_rng(seed)
    return (np.array(centres)[:, None] + rng.normal(0, 0.1, (len(centres), size, 2))).reshape(-1, 2)


def test_well_separated_clusters_are_recovered():
    x = clusters([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], 40)
    np.testing.assert_array_equal(k_means(x, 3, least=2, rng=np.random.default_rng(1)), np.repeat([0, 1, 2], 40))


@pytest.mark.parametrize("least", [1, 30, 200])
def test_no_cluster_is_smaller_than_asked(least):
    x = np.random.default_rng(0).normal(size=(300, 3))
    labels = k_means(x, 10, least=least, rng=np.random.default_rng(1))
    assert np.bincount(labels).min() >= least
    assert labels[0] == 0


def test_small_clusters_are_joined_with_the_nearest():
    x = np.vstack([clusters([[0.0, 0.0], [9.0, 0.0]], 40), clusters([[8.0, 3.0]], 5)])
    labels = k_means(x, 3, least=10, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(labels, np.repeat([0, 1], [40, 45]))


def test_the_sum_of_squares_is_as_low_as_that_of_a_library():
    from sklearn.cluster import KMeans

    x = np.random.default_rng(3).normal(size=(500, 4))
    labels = k_means(x, 6, least=1, rng=np.random.default_rng(1))
    ours = sum(np.square(x[labels == g] - x[labels == g].mean(axis=0)).sum() for g in range(6))
    assert ours <= 1.02 * KMeans(6, n_init=4, random_state=0).fit(x).inertia_


def test_rounding_decides_nothing_on_a_symmetric_table():
    x = np.array(np.meshgrid(*[[-1.0, 1.0]] * 5)).reshape(5, -1).T
    first = k_means(x, 4, least=2, rng=np.random.default_rng(1))
    for seed in range(5):
        noisy = x * (1 + 1e-15 * np.random.default_rng(seed).normal(size=5))
        np.testing.assert_array_equal(k_means(noisy, 4, least=2, rng=np.random.default_rng(1)), first)


@pytest.mark.parametrize("x", [np.zeros((6, 2)), np.arange(4.0)[:, None]])
def test_as_many_clusters_as_records_and_identical_records(x):
    labels = k_means(x, 4, least=1, rng=np.random.default_rng(0))
    assert len(set(labels)) == len(np.unique(x, axis=0))
