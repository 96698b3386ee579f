"""The propensity score: beside statsmodels, its null by simulation and permutation, and its extremes."""

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.errors import AnonymizationError
from anoncore.utility import _stacked, propensity_utility, tree_propensity


def oracle(a, b, w=None):
    """Mean squared error of statsmodels' probabilities; w scaled to mean 1 on each side."""
    rows = sm.add_constant(np.concatenate([a, b]))
    labels = np.repeat([0.0, 1.0], [len(a), len(b)])
    w = np.ones(len(rows)) if w is None else w
    fit = sm.GLM(labels, rows, family=sm.families.Binomial(), freq_weights=w).fit(tol=1e-12)
    return float(w @ (fit.fittedvalues - len(b) / len(rows)) ** 2 / len(rows))


@pytest.mark.parametrize("sizes", [(300, 300), (200, 500)])
def test_agrees_with_statsmodels(sizes):
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(4, 4))
    a, b = rng.normal(size=(sizes[0], 4)) @ mix, rng.normal(0.3, 1.5, size=(sizes[1], 4)) @ mix + 1000
    a += 1000
    assert propensity_utility(a, b).pmse == pytest.approx(oracle(a, b), rel=1e-3)
    squares = propensity_utility(a, b, interactions=100)
    z = [(s - 1000) / 2 for s in (a, b)]
    rows, columns = np.triu_indices(4)
    wide = [np.hstack([s, s[:, rows] * s[:, columns]]) for s in z]
    assert squares.parameters == 14
    assert squares.pmse == pytest.approx(oracle(*wide), rel=1e-3)
    assert squares.pmse > propensity_utility(a, b).pmse


def test_agrees_with_statsmodels_weighted():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(200, 3)), rng.normal(0.2, 1, size=(300, 3))
    u, v = rng.gamma(2, size=200), rng.gamma(2, size=300)
    w = np.concatenate([u / u.mean(), v / v.mean()])
    assert propensity_utility(a, b, weights=u, other_weights=v).pmse == pytest.approx(oracle(a, b, w), rel=1e-3)


@pytest.mark.parametrize("released", [400, 200, 800])
@pytest.mark.parametrize("weighted", [False, True])
def test_null_of_a_release_drawn_from_the_original(released, weighted):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6))
    w = rng.gamma(4, size=400) if weighted else None
    found = []
    for _ in range(250):
        at = rng.integers(0, 400, released)
        found.append(propensity_utility(x, x[at], weights=w, other_weights=None if w is None else w[at]))
    values = np.array([one.pmse for one in found])
    expected = np.mean([one.expected for one in found])
    assert values.mean() == pytest.approx(expected, rel=0.12)
    assert values.std() == pytest.approx(np.mean([one.deviation for one in found]), rel=0.25)
    if not weighted:
        c, k = released / (400 + released), 7
        assert expected == pytest.approx((k - 1) * (1 - c) ** 2 * c / (400 + released))
        assert found[0].deviation == pytest.approx(np.sqrt(2 * (k - 1)) * (1 - c) ** 2 * c / (400 + released))


@pytest.mark.parametrize("released", [300, 600])
def test_null_of_an_independent_sample_by_permutation(released):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(300 + released, 5)) ** 3
    found = []
    for _ in range(250):
        rng.shuffle(rows)
        found.append(propensity_utility(rows[:300], rows[300:]))
    values = np.array([one.pmse for one in found])
    assert values.mean() == pytest.approx(found[0].expected_independent, rel=0.12)
    assert values.std() == pytest.approx(found[0].deviation_independent, rel=0.25)
    assert found[0].expected == pytest.approx(found[0].expected_independent * (1 - found[0].share_released))


def test_original_is_told_from_itself_not_at_all():
    x = np.random.default_rng(4).normal(size=(500, 8))
    found = propensity_utility(x, x[::-1], interactions=40)
    assert (found.pmse, found.ratio, found.share_of_maximum) == (0, 0, 0)
    w = np.random.default_rng(4).gamma(2, size=500)
    assert propensity_utility(x, x, weights=w, other_weights=w).pmse == 0


def test_monotone_in_shift_and_in_noise():
    rng = np.random.default_rng(5)
    x, noise = rng.normal(size=(2, 2000, 4))
    moved = [propensity_utility(x, x + s).pmse for s in (0, 0.1, 0.5, 2, 20)]
    assert (np.diff(moved) > 0).all()
    noisy = [propensity_utility(x, x + s * noise, interactions=20).pmse for s in (0, 0.3, 1, 3)]
    assert (np.diff(noisy) > 0).all()


@pytest.mark.parametrize("released", [50, 500])
def test_perfect_separation_has_the_largest_value(released):
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(200, 3)), rng.normal([100, 0, 0], 1, size=(released, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = propensity_utility(a, b)
    c = released / (200 + released)
    assert found.pmse == pytest.approx(c * (1 - c), rel=1e-3)
    assert found.share_of_maximum == pytest.approx(1, rel=1e-3)


def test_constant_and_dependent_columns_are_dropped():
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=(300, 2)), rng.normal(0.3, 1, size=(300, 2))

    def widened(s):
        return np.column_stack([s, s.sum(axis=1), np.full(len(s), 0.1), s[:, 0] * 1e6 - 5, s[:, 0] > 0, s[:, 0] <= 0])

    found = propensity_utility(widened(a), widened(b))
    assert (found.parameters, found.dropped) == (3, 4)
    plain = [np.column_stack([s, s[:, 0] > 0]) for s in (a, b)]
    assert found.pmse == pytest.approx(propensity_utility(*plain).pmse, rel=1e-4)
    nothing = propensity_utility(np.full((5, 2), 0.1), np.full((4, 2), 0.1))
    assert (nothing.pmse, nothing.expected, nothing.ratio, nothing.standardised) == (0, 0, 1, 0)
    balanced = np.tile([[-1.0], [1.0]], (30, 1)) * 0.3 + 0.1
    assert propensity_utility(balanced, balanced[:30], interactions=5).parameters == 1
    told = propensity_utility(np.zeros((50, 1)), np.ones((50, 1)))
    assert told.share_of_maximum == pytest.approx(1, abs=1e-3)


def test_blocks_and_kept_designs_agree(monkeypatch):
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(700, 5)), rng.normal(0.1, 1.2, size=(600, 5))
    whole = propensity_utility(a, b, interactions=6)
    monkeypatch.setattr(_stacked, "CELLS", 800)
    monkeypatch.setattr(_stacked, "KEPT", 0)
    assert propensity_utility(a, b, interactions=6).pmse == pytest.approx(whole.pmse, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), rows=st.integers(1, 12), columns=st.integers(1, 4), spread=st.integers(1, 3))
def test_always_defined(seed, rows, columns, spread):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, spread, size=(2, rows, columns)).astype(float)
    found = propensity_utility(a, b[: rng.integers(1, rows + 1)], interactions=3)
    assert 0 <= found.share_of_maximum <= 1
    assert np.isfinite([found.pmse, found.expected, found.deviation, found.standardised]).all()
    assert found.ratio is not None


def test_tree():
    rng = np.random.default_rng(9)
    x, noise = rng.normal(size=(2, 1500, 4))
    assert tree_propensity(x, x, rng=np.random.default_rng(0)).pmse == 0
    fresh = [tree_propensity(*rng.normal(size=(2, 600, 4)), rng=rng, permutations=5) for _ in range(12)]
    assert np.mean([one.pmse / one.expected_independent for one in fresh]) == pytest.approx(1, rel=0.2)
    # What no line tells, a tree does.
    ring = np.where(rng.random((1500, 4)) < 0.5, -1.0, 1.0) * 2 + 0.1 * noise
    bent = tree_propensity(x, ring, rng=rng)
    assert bent.share_of_maximum > 0.8
    assert propensity_utility(x, ring).share_of_maximum < 0.05
    once, again = (tree_propensity(x, ring, rng=np.random.default_rng(1), records=500) for _ in range(2))
    assert once == again
    assert once.meaning != propensity_utility(x, ring).meaning


@pytest.mark.parametrize(
    "call",
    [
        lambda x: propensity_utility(x, x[:, :1]),
        lambda x: propensity_utility(x, x, interactions=-1),
        lambda x: propensity_utility(x, x, weights=-np.ones(len(x))),
        lambda x: propensity_utility(np.full_like(x, np.nan), x),
        lambda x: tree_propensity(x, x, rng=np.random.default_rng(0), permutations=1),
    ],
)
def test_errors(call):
    with pytest.raises(AnonymizationError):
        call(np.arange(10.0).reshape(5, 2))
