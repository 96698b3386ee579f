"""Ratios, slopes and quantiles of boxed values: gradients beside differences, ranges beside a general optimiser."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, brentq, minimize
from scipy.stats import norm

from anoncore.kernels.boxes.derived import QUANTILES, estimate, quantile
from anoncore.kernels.boxes.shapes import sensitivities

PAIRS = {
    "ratio": lambda y, x: y.mean() / x.mean(),
    "slope": lambda y, x: np.polyfit(x, y, 1)[0],
}


def table(seed, n=60):
    rng = np.random.default_rng(seed)
    x = rng.lognormal(size=n)
    return np.column_stack([2 * x + rng.normal(size=n), x])


@pytest.mark.parametrize("name", PAIRS)
def test_sensitivities_of_pairs_are_the_gradient(name):
    values = table(0)
    gradient = approx_fprime(values.ravel(), lambda v: PAIRS[name](*v.reshape(values.shape).T), 1e-7)
    expected = len(values) * np.abs(gradient.reshape(values.shape))
    np.testing.assert_allclose(sensitivities(values, [(name, 0, 1)], floor=0.0), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", QUANTILES)
def test_sensitivities_of_a_quantile_are_the_gradient_of_the_smoothed_one(name):
    x = table(1)[:, [0]]
    width = 0.9 * x.std() * len(x) ** -0.2
    at = quantile(x[:, 0], np.full(len(x), 1 / len(x)), QUANTILES[name])
    share = norm.cdf((at - x[:, 0]) / width).mean()

    def smoothed(v):
        return brentq(lambda q: norm.cdf((q - v) / width).mean() - share, -50, 50, xtol=1e-13)

    expected = len(x) * approx_fprime(x[:, 0], smoothed, 1e-5)
    np.testing.assert_allclose(sensitivities(x, [(name, 0, None)], floor=0.0)[:, 0], expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PAIRS)
def test_the_guaranteed_range_of_a_pair_encloses_what_an_optimiser_reaches(name, seed):
    values = table(seed, 24)
    rng = np.random.default_rng(seed)
    lower, upper = values - rng.uniform(0, 0.1, values.shape), values + rng.uniform(0, 0.1, values.shape)
    found = estimate(name, lower, upper, np.ones(24, dtype=int))
    bounds = list(zip(lower.ravel(), upper.ravel(), strict=True))
    reached = [
        sign * minimize(lambda v, s=sign: s * PAIRS[name](*v.reshape(-1, 2).T), values.ravel(), bounds=bounds).fun
        for sign in (1, -1)
    ]
    low, high = found.guaranteed
    assert low <= reached[0] + 1e-6
    assert reached[1] <= high + 1e-6
    if name == "ratio":
        assert (low, high) == pytest.approx(reached, abs=1e-5)
    else:
        assert high - low <= 2.5 * (reached[1] - reached[0])
    # To first order the range is the optimum's, but for what is of second order.
    assert found.linearised == pytest.approx(reached, rel=0.02)


@pytest.mark.parametrize("name", QUANTILES)
def test_the_range_of_a_quantile_is_reached_at_the_faces(name):
    values = table(3)[:, [0]]
    lower, upper = values - 0.3, values + 0.2
    found = estimate(name, lower, upper, np.ones(len(values), dtype=int))
    low, value, high = (np.quantile(v, QUANTILES[name], method="inverted_cdf") for v in (lower, values - 0.05, upper))
    assert (*found.guaranteed, found.value) == pytest.approx((low, high, value))
    assert found.linearised == pytest.approx((value - 0.25, value + 0.25))


def test_weights_count_as_records():
    lower, upper = table(4, 9), table(4, 9) + 0.5
    for name in (*PAIRS, *QUANTILES):
        once = estimate(name, np.repeat(lower, 3, axis=0), np.repeat(upper, 3, axis=0), np.ones(27, dtype=int))
        weighted = estimate(name, lower, upper, np.ones(9, dtype=int), np.full(9, 3.0))
        assert weighted.guaranteed == pytest.approx(once.guaranteed, rel=1e-6)
        assert weighted.value == pytest.approx(once.value)


def test_nothing_is_certain_where_a_divisor_may_be_0():
    found = estimate("ratio", np.array([[1.0, -1.0]]), np.array([[2.0, 1.0]]), np.array([4]))
    assert found.guaranteed == (-np.inf, np.inf)
    assert "nothing is certain" in found.note
