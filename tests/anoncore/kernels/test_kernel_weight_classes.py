from itertools import pairwise

import numpy as np
import pytest

from anoncore.kernels.weight_classes import weight_classes


def of(weights, count, least=1, units=None):
    units = np.arange(len(weights)) if units is None else units
    return weight_classes(np.asarray(weights, dtype=float), count, least=least, units=units)


@pytest.mark.parametrize("seed", range(20))
def test_classes_are_consecutive_whole_and_large_enough(seed):
    rng = np.random.default_rng(seed)
    weights, units = rng.integers(1, 2 + 3 * seed, 120), rng.integers(0, 60, 120)
    labels = of(weights, 7, 9, units)
    sets = [set(weights[labels == one]) for one in range(labels.max() + 1)]
    assert all(max(low) < min(high) for low, high in pairwise(sets))
    assert all(len(set(units[labels == one])) >= 9 for one in range(len(sets)))
    assert labels.max() < 7


def test_without_ties_classes_are_those_of_quantiles():
    weights = np.random.default_rng(0).permutation(103)
    np.testing.assert_array_equal(of(weights, 4), np.repeat(np.arange(4), [25, 26, 26, 26])[weights])


def test_units_are_counted_and_not_records():
    weights, units = np.repeat([1.0, 2.0, 3.0, 4.0], 10), np.repeat([0, 1, 2, 3], 10)
    assert set(of(weights, 4, 10)) == {0, 1, 2, 3}
    assert set(of(weights, 4, 2, units)) == {0, 1}
    assert set(of(weights, 4, 3, units)) == {0}


def test_too_few_units_or_equal_weights_are_one_class():
    assert set(of([1, 2, 3], 3, 5)) == {0}
    assert set(of([7, 7, 7, 7], 3)) == {0}
