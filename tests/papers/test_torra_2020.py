"""Torra 2020, Fuzzy clustering-based microaggregation to achieve probabilistic k-anonymity.

The full title goes on: for data with constraints. Figures are those printed in Tables 1, 3 and 4. No
fuzzifier reproduces the unconstrained centroids of Table 3, so they are input here, not expectation.
"""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from anoncore.kernels.fuzzy.blocks import Law
from anoncore.kernels.fuzzy.c_means import Settings, certify, fuzzy_c_means, memberships, seed_centers
from anoncore.kernels.projection import project
from tests.papers.clusters_page import CONSTRAINED, ORIGINAL, TABLE_1, TABLE_4, UNCONSTRAINED, A, onto_the_edit


@pytest.mark.parametrize("noise", [0.5, 1.0, 1.5])
def test_table_3_is_one_projection_of_itself(noise):
    found = onto_the_edit(np.array(UNCONSTRAINED[noise]))
    assert np.abs(found - CONSTRAINED[noise]).max() < 8.4e-6
    assert np.abs(found @ A.T).max() < 1e-9


@pytest.mark.parametrize("noise", [0.5, 1.0, 1.5])
def test_table_4_is_the_distance_on_table_3(noise):
    for centres, printed in zip((UNCONSTRAINED[noise], CONSTRAINED[noise]), TABLE_4[noise], strict=True):
        np.testing.assert_allclose(np.linalg.norm(ORIGINAL - centres, axis=1), printed, atol=1.2e-5)


@pytest.mark.parametrize("noise", [0.5, 1.0, 1.5])
def test_projection_never_leads_away_from_what_is_feasible(noise):
    """Section 4 observes it for the original centroids; it holds for every point that keeps the edit."""
    rng = np.random.default_rng(0)
    feasible = onto_the_edit(np.vstack([ORIGINAL, rng.normal(100, 80, (200, 3))]))
    before, after = (
        cdist(feasible, UNCONSTRAINED[noise]),
        cdist(feasible, onto_the_edit(UNCONSTRAINED[noise])),
    )
    assert (after <= before + 1e-9).all()


@pytest.mark.parametrize("law", [Law.fcm(1.1), Law.fcm(2.0), Law.efcm(0.002), Law.efcm(0.1)])
def test_propositions_5_and_7_edits_kept_by_the_data_change_nothing(law):
    """Table 1 is given to two decimals, and its rows keep the edit to a hundredth: so do its centres."""
    start = TABLE_1[[0, 2, 6, 7]] + 1.0
    assert 0 < np.abs(TABLE_1 @ A.T).max() < 0.0101
    exact, settings = onto_the_edit(TABLE_1), Settings(tolerance=0, sweeps=30)
    plain, constrained = (
        fuzzy_c_means(exact, onto_the_edit(start), law, constrain=edit, settings=settings)
        for edit in (None, onto_the_edit)
    )
    np.testing.assert_allclose(constrained.centers, plain.centers, atol=1e-9)
    assert np.abs(constrained.centers @ A.T).max() < 1e-9
    plain, constrained = (
        fuzzy_c_means(TABLE_1, start, law, constrain=edit, settings=settings) for edit in (None, onto_the_edit)
    )
    np.testing.assert_allclose(constrained.centers, plain.centers, atol=0.02)
    assert np.abs(constrained.centers @ A.T).max() < 1e-9


def test_proposition_4_matches_equation_5():
    rng = np.random.default_rng(1)
    x = TABLE_1 + 1.5 * rng.standard_normal(TABLE_1.shape)
    start = onto_the_edit(x[[0, 2, 6, 7]] + 1.0)
    raised = memberships(x, start, Law.fcm(1.5)) ** 1.5
    alpha, mass = A[0], raised.sum(axis=0)[:, None]
    expected = (raised.T @ x - np.outer(raised.T @ (x @ alpha), alpha) / (alpha @ alpha)) / mass
    found = fuzzy_c_means(x, start, Law.fcm(1.5), constrain=onto_the_edit, settings=Settings(tolerance=0, sweeps=1))
    np.testing.assert_allclose(found.centers, expected, atol=1e-9)


def lloyd(x, v, sweeps):
    for _ in range(sweeps):
        label = cdist(x, v).argmin(axis=1)
        v = np.stack([x[label == i].mean(axis=0) if (label == i).any() else v[i] for i in range(len(v))])
    return v


def test_crisp_limits_are_k_means():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 3)) + 6.0 * rng.integers(0, 3, (300, 1))
    v = seed_centers(x, 12, rng=rng)
    expected = lloyd(x, v, 50)
    for law in (Law.fcm(1.0), Law.efcm(np.inf), Law.fcm(1 + 1e-7), Law.efcm(1e6)):
        found = fuzzy_c_means(x, v, law, settings=Settings(tolerance=0, sweeps=50))
        np.testing.assert_allclose(found.centers, expected, atol=1e-5)
        assert found.objective == pytest.approx((cdist(x, expected).min(axis=1) ** 2).sum(), rel=1e-4)


# -- Proposition 8


def expected_loss(x, centers, u):
    """Mean squared distance between a record and its release, over all draws."""
    return (u * cdist(x, centers) ** 2).sum() / len(x)


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(4)
    return rng.standard_normal((300, 3)) @ rng.standard_normal((3, 4)) + 0.3 * rng.standard_normal((300, 4))


def averaged(x, c, m1, m2, constrain=None):
    """Expected loss, averaged over starts: single local optima need not be ordered.

    All begin with m1 = 1.3, since k-means from the start itself ends in poorer optima.
    """
    losses = []
    for seed in range(3):
        start = seed_centers(x, c, rng=np.random.default_rng(seed))
        start = fuzzy_c_means(x, start, Law.fcm(1.3), constrain=constrain).centers
        centers = fuzzy_c_means(x, start, Law.fcm(m1), constrain=constrain).centers
        losses.append(expected_loss(x, centers, memberships(x, centers, Law.fcm(m2))))
    return np.mean(losses)


def test_loss_grows_with_each_fuzzifier_and_with_fewer_clusters(records):
    edit = np.array([[1.0, 1.0, -1.0, 0.5]])
    for constrain in (None, lambda v: project(v, edit, np.zeros(1))):
        by_m1 = [averaged(records, 40, m1, 1.0, constrain) for m1 in (1.0, 1.5, 3.0)]
        by_m2 = [averaged(records, 40, 1.2, m2, constrain) for m2 in (1.0, 1.5, 3.0)]
        by_c = [averaged(records, c, 1.2, 1.2, constrain) for c in (60, 20, 5, 1)]
        for losses in (by_m1, by_m2, by_c):
            assert (np.diff(losses) > 0).all()


def test_loss_need_not_grow_with_m1_at_other_m2(records):
    """The proposition is about limits: draws with m2 = 2 lose least with centres found at m1 = 2."""
    sharp, suited, fuzzy = (averaged(records, 40, m1, 2.0) for m1 in (1.3, 2.0, 6.0))
    assert suited < sharp < fuzzy


def test_loss_grows_with_m2_for_every_set_of_centres(records):
    """For given centres it is certain: larger m2 or smaller λ2 moves mass to farther centres."""
    centers = records[:30] + 0.1
    by_m2 = [expected_loss(records, centers, memberships(records, centers, Law.fcm(m))) for m in np.linspace(1, 5, 15)]
    by_lam = [
        expected_loss(records, centers, memberships(records, centers, Law.efcm(lam)))
        for lam in np.geomspace(1e3, 1e-3, 15)
    ]
    assert (np.diff(by_m2) > 0).all()
    assert (np.diff(by_lam) > -1e-12).all()
    assert by_lam[-1] > by_lam[0]


def test_limits_of_the_loss(records):
    variance = records.var(axis=0).sum()
    assert averaged(records, 1, 2.0, 2.0) == pytest.approx(variance)
    # Where no direction dominates, all centres meet at the mean.
    even = np.random.default_rng(5).standard_normal((300, 4))
    start = seed_centers(even, 40, rng=np.random.default_rng(0))
    centers = fuzzy_c_means(even, start, Law.fcm(6.0), settings=Settings(tolerance=0)).centers
    loss = expected_loss(even, centers, memberships(even, centers, Law.fcm(6.0)))
    assert loss == pytest.approx(even.var(axis=0).sum(), rel=0.01)
    own = fuzzy_c_means(records, records, Law.fcm(1.0)).centers
    np.testing.assert_array_equal(own, records)
    assert expected_loss(records, own, memberships(records, own, Law.fcm(1.0))) == 0


def test_probabilistic_k_anonymity_is_a_limit(records):
    """Proposition 8 promises size k on average for large m2; at usual m2 single records stand out."""
    k = 5
    centers = fuzzy_c_means(records, seed_centers(records, 60, rng=np.random.default_rng(0)), Law.fcm(1.15)).centers
    usual, large = (certify(records, centers, k=k, first=Law.fcm(1.15), second=Law.fcm(m2)) for m2 in (1.15, 400.0))
    assert usual.worst > 2 / k
    assert usual.share_above > 0.05
    assert large.worst < 1 / k
    assert large.share_above == 0
    sizes = memberships(records, centers, Law.fcm(400.0)).sum(axis=0)
    np.testing.assert_allclose(sizes, k, rtol=0.1)
