"""Xiang, Ferson, Ginzburg, Longpré, Mayorga, Kosheleva 2013, Data Anonymization that Leads to the Most
Accurate Estimates of Statistical Characteristics: Fuzzy-Motivated Approach.

The paper has no tables; its formulas are followed here step by step, as printed and as corrected.
"""

import numpy as np
import pytest
from scipy.stats import lognorm

from anoncore.kernels.boxes.partition import Limits, distinct_counts, partition
from anoncore.kernels.boxes.shapes import half_widths, sensitivities
from anoncore.kernels.boxes.weights import crisp_rule, objective, optimal_weights

# -- section II: half-widths with l-diversity


def half_widths_by_the_loop(a, density, k, diversity, epsilon, first, last):
    """Follow the loop over t from ``first`` to ``last`` for one record; None if no t qualifies."""
    n = len(a)
    order = np.argsort(-a * epsilon)
    a, epsilon = a[order], epsilon[order]
    candidates = []
    for t in range(first, last + 1):
        delta = 0.5 * diversity * epsilon
        if t < n:
            held = diversity**t * np.prod(epsilon[:t])
            c = 0.5 * (k * np.prod(a[t:]) / (density * held)) ** (1 / (n - t))
            if 2 * c / diversity < a[t] * epsilon[t]:
                continue
            delta[t:] = c / a[t:]
        elif density * np.prod(2 * delta) < k:
            continue
        candidates.append(((a * delta).sum(), tuple(delta[np.argsort(order)])))
    return np.array(min(candidates)[1]) if candidates else None


def draws(seed, count=300):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(1, 6))
        yield rng.lognormal(size=n), float(rng.lognormal()), int(rng.integers(2, 9)), rng.lognormal(-1, 1, n)


def test_half_widths_are_those_of_the_completed_loop():
    all_least = 0
    for a, density, k, epsilon in draws(0):
        expected = half_widths_by_the_loop(a, density, k, 2, epsilon, 0, len(a))
        found = half_widths(a[None], np.array([density]), k, 2, epsilon)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        all_least += np.array_equal(found, epsilon)
    assert all_least > 20


def test_the_loop_as_printed_finds_nothing_where_every_width_is_least():
    """No t below n qualifies there, and the formula for c_t has no value at t = n."""
    for a, density, k, epsilon in draws(1):
        found = half_widths(a[None], np.array([density]), k, 2, epsilon)[0]
        none = half_widths_by_the_loop(a, density, k, 2, epsilon, 0, len(a) - 1) is None
        assert none == (np.array_equal(found, epsilon) and density * np.prod(2 * epsilon) > k * (1 + 1e-12))


def test_a_width_of_l_epsilon_neither_ensures_nor_needs_l_distinct_values():
    box = np.zeros(3, dtype=int)
    wide = np.array([[0.0], [10.0], [10.4]])
    assert np.ptp(wide) >= 3 * 1.0
    assert distinct_counts(wide, box, 1.0)[0, 0] == 2
    narrow = np.array([[0.0], [1.0], [2.0]])
    assert np.ptp(narrow) < 3 * 1.0
    assert distinct_counts(narrow, box, 1.0)[0, 0] == 3


def test_the_cost_of_ideal_boxes_is_n_times_the_mean_of_c():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    a, density = sensitivities(x, [("covariance", 0, 1)], floor=0.0), rng.lognormal(size=500)
    c = 0.5 * np.sqrt(5 / density * a.prod(axis=1))
    assert (a * half_widths(a, density, 5)).sum(axis=1).mean() == pytest.approx(2 * c.mean())
    # A threshold on c is one on ρ / (|x_i − E_i|·|x_j − E_j|).
    ratio = density / np.abs(x - x.mean(axis=0)).prod(axis=1)
    np.testing.assert_array_equal(np.argsort(-c), np.argsort(ratio))


def test_the_cost_of_a_partition_is_the_half_range_of_a_mean():
    x = np.random.default_rng(0).random((2000, 2))
    found = partition(x, np.ones_like(x), 5, limits=Limits(0.0, 1.0))
    a = sensitivities(x, [("mean", 0, None)], floor=0.0)
    lower, upper = found.lower[found.label, 0].mean(), found.upper[found.label, 0].mean()
    cost = (a * found.half_widths(0.0, 1.0)[found.label]).sum(axis=1).mean()
    assert cost == pytest.approx((upper - lower) / 2)
    assert lower <= x[:, 0].mean() <= upper


# -- section III: weights


def printed_weights(c, n, A):
    """Equation 3 and the formula for K after it, with the λ that solves equation 2."""
    _, lam = optimal_weights(c, n, A)
    used = n * c < lam
    scale = 1.0 / (used.sum() * lam - c[used].sum())
    return np.where(used, scale * (lam - c), 0.0)


def test_weights_as_printed_lose_even_to_the_crisp_rule():
    rng = np.random.default_rng(0)
    losses = 0
    for _ in range(300):
        c, n, A = rng.lognormal(size=200), int(rng.integers(2, 6)), float(rng.uniform(1, 20))
        printed = printed_weights(c, n, A)
        assert printed.sum() == pytest.approx(1)
        weights, lam = optimal_weights(c, n, A)
        kept, _ = crisp_rule(c, n, A)
        crisp = objective(kept / kept.sum(), c, n, A)
        assert objective(weights, c, n, A) == pytest.approx(lam)
        assert lam <= crisp
        assert lam < objective(printed, c, n, A)
        losses += objective(printed, c, n, A) > crisp
    assert losses > 0


def test_weights_as_printed_are_right_for_one_column():
    c = np.random.default_rng(0).lognormal(size=50)
    np.testing.assert_allclose(printed_weights(c, 1, 3.0), optimal_weights(c, 1, 3.0)[0], atol=1e-12)


def iterate(c, n, A):
    """Follow the iteration for λ; None where the square root is not real."""
    lam = np.inf
    for _ in range(1000):
        kept = n * c[n * c < lam]
        inner = kept.sum() ** 2 - len(kept) * ((kept**2).sum() - A**2)
        if inner < 0:
            return None
        lam, before = (kept.sum() + np.sqrt(inner)) / len(kept), lam
        if lam == before:
            return lam
    return None


def test_the_printed_iteration_starts_from_a_square_root_that_is_not_real():
    rng = np.random.default_rng(0)
    for _ in range(300):
        c, n, A = rng.lognormal(size=1000), int(rng.integers(1, 5)), float(rng.uniform(0, 20))
        assert n**2 * len(c) * c.var() > A**2
        assert iterate(c, n, A) is None
        weights, lam = optimal_weights(c, n, A)
        assert objective(weights, c, n, A) == pytest.approx(lam)


def test_the_printed_iteration_agrees_where_it_converges():
    rng = np.random.default_rng(1)
    agreed = 0
    for _ in range(100):
        c, n = rng.lognormal(size=50), 2
        A = n * np.sqrt(len(c) * c.var()) * rng.uniform(0.9, 3)
        found = iterate(c, n, A)
        if n**2 * len(c) * c.var() * (1 - 1e-9) > A**2:
            assert found is None
        elif found is not None:
            assert found == pytest.approx(optimal_weights(c, n, A)[1])
            agreed += 1
    assert agreed > 50


def test_weights_bias_the_mean_by_more_than_they_claim():
    """The weights depend on the data: rare large values get none, and the mean moves far past the claim."""
    x = np.random.default_rng(0).lognormal(size=(20_000, 1))
    a = np.ones_like(x)
    density = len(x) * lognorm.pdf(x[:, 0], 1)
    c = half_widths(a, density, 5)[:, 0]
    weights, claimed = optimal_weights(c, 1, x.std())
    # Measured: 0.37 beside a claim of 0.016.
    assert abs(weights @ x[:, 0] - np.exp(0.5)) > 10 * claimed
