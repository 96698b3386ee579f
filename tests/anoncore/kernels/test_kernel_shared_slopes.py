"""Slopes within leaves: what they restore, on whom they rest, and that the fit is the maximum of its likelihood."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from anoncore.kernels.donor_tree import LeafRule
from anoncore.kernels.shared_slopes import _PENALTY, centred, slope_within, tilted_shares, with_slopes

EVERY = LeafRule(5, 1.0)
USUAL = LeafRule(40, 0.05)


def weak(n=4000, p=6, q=3, seed=0):
    """Classes that follow every predictor weakly, and leaves that know nothing of them."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, p)).astype(np.float32)
    classes = (x @ draw.normal(scale=0.3, size=(p, q)) + draw.gumbel(size=(n, q))).argmax(axis=1)
    return x, classes, draw.integers(4, size=n)


def test_relations_with_each_predictor_are_those_of_the_source():
    x, classes, leaf = weak(n=20_000)
    tilted = tilted_shares(x, classes, leaf, None, USUAL)
    drawn = tilted.draw(x, leaf, np.random.default_rng(1))
    means = [np.array([x[held == c].mean(axis=0) for c in range(3)]) for held in (classes, drawn)]
    assert np.abs(means[0]).max() > 0.25
    np.testing.assert_allclose(*means, atol=0.04)


def test_the_fit_is_the_maximum_of_the_penalised_likelihood():
    x, classes, leaf = weak(n=900)
    weights = np.random.default_rng(2).uniform(0.3, 1.0, len(x))
    tilted = tilted_shares(x, classes, leaf, weights, EVERY)
    distances = np.empty(x.shape)
    for j in range(4):
        own = leaf == j
        distances[own] = x[own] - np.average(x[own], axis=0, weights=weights[own])
    distances /= np.sqrt(np.average(distances**2, axis=0, weights=weights))

    held = np.array([np.bincount(classes[leaf == j], weights=weights[leaf == j], minlength=3) for j in range(4)])
    own = (held / held.sum(axis=1, keepdims=True))[leaf] * weights[:, None]
    second, fourth = (distances**2).T @ own, (distances**4).T @ own
    penalty = _PENALTY * 6 + second * 5 / (second**2 / fourth - 5)

    def scores(flat):
        return np.column_stack([np.zeros(4), flat[:8].reshape(4, 2)])[leaf] + distances @ flat[8:].reshape(6, 3)

    def loss(flat):
        likelihood = log_softmax(scores(flat), axis=1)[np.arange(len(x)), classes]
        return (penalty * flat[8:].reshape(6, 3) ** 2).sum() / 2 - weights @ likelihood

    best = minimize(loss, np.zeros(26))
    logs = tilted.log_shares[:, 1:] - tilted.log_shares[:, :1]
    assert loss(np.concatenate([logs.ravel(), tilted.slopes.ravel()])) - best.fun < 0.1
    np.testing.assert_allclose(tilted.slopes, best.x[8:].reshape(6, 3), atol=0.02)
    [(_, _, shares)] = tilted.at(x, leaf)
    np.testing.assert_allclose(shares, softmax(scores(best.x), axis=1), atol=0.01)
    for j in range(4):
        np.testing.assert_allclose(weights[leaf == j] @ shares[leaf == j], held[j], rtol=0.01)


def test_chance_gives_few_predictors_a_slope_and_a_small_one():
    draw, sizes = np.random.default_rng(3), []
    for _ in range(200):
        x = draw.normal(size=(600, 12)).astype(np.float32)
        classes, leaf = draw.integers(4, size=600), draw.integers(5, size=600)
        tilted = tilted_shares(x, classes, leaf, None, USUAL)
        sizes += [] if tilted is None else list(np.abs(tilted.slopes).max(axis=1))
    assert 0.03 * 200 * 12 < len(sizes) < 0.07 * 200 * 12
    assert np.median(sizes) < 0.05  # two standard errors of a full slope are 0.16


@pytest.mark.parametrize("fit", ["classes", "numbers"])
def test_no_single_person_switches_a_slope_on(fit):
    """Of many tables near the border, one person moves a slope by little; fitted in full it would jump by 0.1."""
    moved, switched = [], 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        x, leaf = draw.normal(size=(400, 1)).astype(np.float32), np.zeros(400, dtype=np.intp)
        target = x[:, 0] * 0.1 + draw.normal(size=400)
        classes = (target > 0).astype(np.intp)

        def slope(rows, x=x, leaf=leaf, target=target, classes=classes):
            if fit == "numbers":
                left = target[rows] - target[rows].mean()
                return np.ptp(slope_within(x[rows], left, leaf[rows], None, USUAL)(np.float32([[0], [1]]), leaf[:2]))
            tilted = tilted_shares(x[rows], classes[rows], leaf[rows], None, USUAL)
            return 0.0 if tilted is None else float(np.ptp(tilted.slopes[0]))

        everybody = slope(np.arange(400))
        others = [slope(np.delete(np.arange(400), one)) for one in range(0, 400, 8)]
        switched += any((one == 0) != (everybody == 0) for one in others)
        moved.append(max(abs(one - everybody) for one in others))
    assert switched >= 3
    assert max(moved) < 0.06


def test_a_predictor_that_few_units_hold_has_no_slope():
    x, classes, leaf = weak()
    x[:, 0] = 0
    x[np.flatnonzero(classes == 2)[:12], 0] = 1  # twelve people, all of one class
    chosen = tilted_shares(x, classes, leaf, None, USUAL).within.chosen
    assert 0 not in chosen
    assert len(chosen) >= 3
    assert 0 in tilted_shares(x, classes, leaf, None, LeafRule(2, 0.05)).within.chosen


def test_slopes_of_a_class_that_few_units_hold_are_zero():
    x, classes, leaf = weak()
    classes[:10] = 3
    x[:10, 1] += 2
    slopes = tilted_shares(x, classes, leaf, None, USUAL).slopes
    assert (slopes[:, 3] == 0).all()
    assert (slopes[:, :3] != 0).any()


def test_a_class_that_a_leaf_does_not_hold_stays_away_from_it():
    x, classes, leaf = weak()
    leaf = np.where(classes == 1, 0, leaf)
    drawn = tilted_shares(x, classes, leaf, None, USUAL).draw(x, leaf, np.random.default_rng(4))
    assert set(leaf[drawn == 1]) == {0}


@pytest.mark.parametrize("fit", ["classes", "numbers"])
def test_a_unit_of_two_records_counts_as_one_record(fit):
    x, classes, leaf = weak()
    twice = tuple(np.repeat(one, 2, axis=0) for one in (x, classes, leaf))
    half = np.full(len(twice[0]), 0.5)
    if fit == "classes":
        one, two = tilted_shares(x, classes, leaf, None, USUAL), tilted_shares(*twice, half, USUAL)
        np.testing.assert_allclose(one.slopes, two.slopes, atol=1e-6)
    else:
        one, two = (
            slope_within(a, b - b.mean(), c, w, USUAL)(x, leaf)
            for (a, b, c), w in (((x, classes * 1.0, leaf), None), ((twice[0], twice[1] * 1.0, twice[2]), half))
        )
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_numbers_follow_ridge_regression_within_leaves():
    x, _, leaf = weak()
    target = x @ np.linspace(-0.5, 0.5, 6) + np.random.default_rng(5).normal(size=len(x))
    distances, left = x.astype(float), target.copy()
    for j in range(4):
        own = leaf == j
        distances[own] -= distances[own].mean(axis=0)
        left[own] -= left[own].mean()
    distances /= distances.std(axis=0)
    effective = len(x) ** 2 / (distances**4).sum(axis=0)
    # What the ridge adds to each: for chance nothing at a level of 1, for few units 5 / (u − 5).
    system = distances.T @ distances + np.diag(_PENALTY * 6 + len(x) * 5 / (effective - 5))
    theirs = distances @ np.linalg.solve(system, distances.T @ left)
    np.testing.assert_allclose(slope_within(x, left, leaf, None, EVERY)(x, leaf), theirs, atol=1e-6)


def test_means_of_leaves_hide_no_slope():
    x, _, leaf = weak()
    target = 0.1 * x[:, 0] + np.random.default_rng(6).normal(size=len(x))
    found = [
        slope_within(x, centred(target + far * leaf, leaf, None), leaf, None, USUAL)(x[:50], leaf[:50])
        for far in (0.0, 10.0)
    ]
    assert np.std(found[0]) > 0.05
    np.testing.assert_allclose(*found, atol=1e-9)


def test_a_predictor_that_about_forty_units_hold_has_nearly_no_slope():
    """One person more or less decides whether it has one, so that it grows from 0."""
    draw, spans = np.random.default_rng(7), []
    for holders in (36, 39, 40, 42, 200):
        x, leaf = np.zeros((2000, 1), dtype=np.float32), np.zeros(2000, dtype=np.intp)
        x[:holders] = 1
        target = centred(2.0 * x[:, 0] + draw.normal(size=2000), leaf, None)
        spans.append(np.ptp(slope_within(x, target, leaf, None, USUAL)(np.float32([[0], [1]]), leaf[:2])))
    assert spans[0] == 0
    assert max(spans[1:4]) < 0.25
    assert spans[4] > 1.2


def test_constants_have_no_slope():
    x, classes, leaf = np.ones((400, 3), dtype=np.float32), np.arange(400) % 2, np.zeros(400, dtype=int)
    assert tilted_shares(x, classes, leaf, None, EVERY) is None
    assert (slope_within(x, classes - 0.5, leaf, None, EVERY)(x, leaf) == 0).all()


@pytest.mark.parametrize(
    ("n_predictors", "units", "expected"), [(20, 1000, 20), (21, 1000, 0), (50, 2049, 40), (3, 49, 0), (0, 900, 0)]
)
def test_slopes_are_those_of_the_first_predictors_where_there_are_units_for_them(n_predictors, units, expected):
    table = np.tile(np.arange(n_predictors, dtype=np.float32), (5, 1))
    np.testing.assert_array_equal(with_slopes(table, units), table[:, :expected])


def test_many_classes_have_no_slopes():
    x, _, leaf = weak()
    assert tilted_shares(x, np.arange(len(x)) % 65, leaf, None, USUAL) is None


def test_a_predictor_that_is_the_same_within_leaves_has_no_slope_and_warns_of_nothing():
    x, classes, leaf = weak(n=20_000)
    x[:, 2] = leaf
    score = x[:, 0] * 2.0 + np.random.default_rng(3).normal(size=len(x))
    with np.errstate(all="raise", under="ignore"):
        within = slope_within(x, centred(score, leaf, None), leaf, None, USUAL)
        tilted = tilted_shares(x, classes, leaf, None, USUAL)
    assert within is not None
    assert tilted is not None
