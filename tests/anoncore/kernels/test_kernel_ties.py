import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from anoncore.kernels.ties import first_largest, order_with_ties, snapped

tables = npst.arrays(
    np.float64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=st.integers(-4, 4).map(float)
)


@given(tables, st.integers(0, 99))
def test_rounding_errors_change_nothing(x, seed):
    rng = np.random.default_rng(seed)
    noisy = x / 3 * (1 + 1e-15 * rng.normal(size=x.shape))
    groups = rng.integers(0, 3, len(x))
    np.testing.assert_array_equal(order_with_ties(noisy[:, 0]), np.argsort(x[:, 0], kind="stable"))
    np.testing.assert_array_equal(order_with_ties(noisy[:, 0], groups), np.lexsort((x[:, 0], groups)))
    np.testing.assert_array_equal(first_largest(noisy), x.argmax(axis=1))
    np.testing.assert_allclose(snapped(noisy), x / 3, atol=2e-9)
    np.testing.assert_array_equal(snapped(noisy), snapped(x / 3))


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_values_that_differ_are_kept_apart(scale):
    values = np.random.default_rng(0).normal(size=1000) * scale
    np.testing.assert_array_equal(order_with_ties(values), np.argsort(values))
    assert first_largest(values[None]) == values.argmax()
    np.testing.assert_allclose(snapped(values[:, None])[:, 0], values, atol=1e-9 * scale)


def test_a_largest_value_just_below_a_power_of_two_is_snapped_like_the_power():
    x = np.array([[1 / 3], [1.0]])
    np.testing.assert_array_equal(snapped(x * (1 - 1e-15)), snapped(x))


def test_nothing_and_zeros():
    assert order_with_ties(np.zeros(0)).tolist() == []
    assert order_with_ties(np.zeros(3)).tolist() == [0, 1, 2]
    assert snapped(np.zeros((2, 1))).tolist() == [[0.0], [0.0]]
    assert snapped(np.zeros((0, 2))).shape == (0, 2)
