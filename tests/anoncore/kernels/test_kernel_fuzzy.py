import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from anoncore.errors import AnonymizationError
from anoncore.kernels.fuzzy import blocks
from anoncore.kernels.fuzzy.blocks import Law
from anoncore.kernels.fuzzy.c_means import Settings, certify, draw, fuzzy_c_means, memberships, seed_centers
from anoncore.kernels.projection import project

fuzzifiers = st.sampled_from([1.0, 1.0001, 1.15, 1.25, 1.5, 2.0, 3.3])
rates = st.sampled_from([0.01, 1.0, 30.0, np.inf])
seeds = st.integers(0, 10_000)


def normal(n, t, seed=0):
    return np.random.default_rng(seed).standard_normal((n, t))


def few_factors(n, seed=0):
    """Ten columns near a plane: most centres are far from most records."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 10)) + 0.02 * rng.standard_normal((n, 10))
    return x / x.std(axis=0)


def law(m, lam=None):
    return Law.fcm(m) if lam is None else Law.efcm(lam)


def dense(x, v, m=None, lam=None):
    return memberships(x, v, law(m, lam))


def run(x, v, m=None, lam=None, constrain=None, **options):
    return fuzzy_c_means(x, v, law(m, lam), constrain=constrain, settings=Settings(**options))


# -- memberships


@given(seeds, fuzzifiers, rates)
@settings(max_examples=60, deadline=None)
def test_memberships_sum_to_one(seed, m, lam):
    x, v = normal(12, 3, seed), normal(5, 3, seed + 1)
    for u in (memberships(x, v, Law.fcm(m)), memberships(x, v, Law.efcm(lam))):
        assert (u >= 0).all()
        np.testing.assert_allclose(u.sum(axis=1), 1.0, rtol=1e-12)


@given(seeds, st.sampled_from([1.15, 1.5, 2.0, 3.3]))
@settings(max_examples=30, deadline=None)
def test_memberships_follow_the_formula(seed, m):
    x, v = normal(8, 3, seed), normal(5, 3, seed + 1)
    d2 = cdist(x, v) ** 2
    expected = 1.0 / ((d2[:, :, None] / d2[:, None, :]) ** (1 / (m - 1))).sum(axis=2)
    np.testing.assert_allclose(memberships(x, v, Law.fcm(m)), expected, rtol=1e-9)
    weights = np.exp(-1.7 * d2)
    expected = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(memberships(x, v, Law.efcm(1.7)), expected, rtol=1e-9)


@given(seeds, fuzzifiers, st.sampled_from([1e-200, 1e-9, 1e6, 1e120]))
@settings(max_examples=40, deadline=None)
def test_fcm_memberships_have_no_unit(seed, m, unit):
    x, v = normal(8, 3, seed), normal(5, 3, seed + 1)
    found = memberships(x * unit, v * unit, Law.fcm(m))
    np.testing.assert_allclose(found, memberships(x, v, Law.fcm(m)), rtol=1e-8, atol=1e-300)


@given(seeds, st.sampled_from([0.1, 1.0, 8.0]), st.sampled_from([1e-3, 1e3]))
@settings(max_examples=20, deadline=None)
def test_efcm_memberships_scale_with_lambda(seed, lam, unit):
    x, v = normal(8, 3, seed), normal(5, 3, seed + 1)
    found = memberships(x * unit, v * unit, Law.efcm(lam / unit**2))
    np.testing.assert_allclose(found, memberships(x, v, Law.efcm(lam)), rtol=1e-8)


def test_record_on_centres_belongs_to_them_in_equal_shares():
    v = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [5.0, 5.0]])
    for m in (1.0001, 1.15, 2.0, 3.0):
        assert memberships(np.zeros((1, 2)), v, Law.fcm(m)).tolist() == [[0.5, 0.0, 0.5, 0.0]]
    for m in (1.0, 1.0 + 1e-15):
        assert memberships(np.array([[1.0, 1.0]]), v, Law.fcm(m)).tolist() == [[0.0, 1.0, 0.0, 0.0]]
    assert memberships(np.zeros((1, 2)), v, Law.fcm(1.0)).tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert memberships(np.zeros((1, 2)), v, Law.efcm(np.inf)).tolist() == [[1.0, 0.0, 0.0, 0.0]]


def test_memberships_far_beyond_the_range_of_exponentials():
    x, v = np.array([[0.0]]), np.array([[1e3], [1e3 + 1e-6]])
    u = memberships(x, v, Law.efcm(1e4))
    assert np.isfinite(u).all()
    assert u[0, 0] == pytest.approx(1 / (1 + np.exp(-1e4 * 2e-3)), rel=1e-6)
    u = memberships(np.array([[0.0]]), np.array([[1e-170], [3e-170]]), Law.fcm(2.0))
    assert u[0] == pytest.approx([0.9, 0.1])
    u = memberships(np.array([[0.0]]), np.array([[1.0], [1.0 + 1e-9]]), Law.fcm(1.0 + 1e-9))
    assert u[0, 0] == pytest.approx(1 / (1 + np.exp(-2.0)), rel=1e-5)


# -- alternating optimisation


def plain(x, v, m, lam, sweeps):
    """The textbook iteration with a dense matrix."""
    for _ in range(sweeps):
        u = dense(x, v, m, lam)
        raised = u ** (1.0 if m is None else m)
        v = raised.T @ x / raised.sum(axis=0)[:, None]
    u, d2 = dense(x, v, m, lam), cdist(x, v) ** 2
    if lam is None:
        return v, (u**m * d2).sum()
    return v, (u * d2).sum() + np.where(u > 0, u * np.log(np.where(u > 0, u, 1)), 0).sum() / lam


@pytest.mark.parametrize(("m", "lam"), [(1.15, None), (1.5, None), (2.0, None), (None, 0.5), (None, 20.0)])
@pytest.mark.parametrize("t", [1, 4, 10])
def test_iteration_is_the_textbook_one(m, lam, t):
    x = 50.0 + normal(500, t)
    v = seed_centers(x, 40, rng=np.random.default_rng(1))
    found = run(x, v, m, lam, tolerance=0, sweeps=7)
    centers, objective = plain(x, v, m, lam, 7)
    assert found.sweeps == 7
    assert found.dropped == 0.0
    np.testing.assert_allclose(found.centers, centers, atol=1e-7)
    assert found.objective == pytest.approx(objective, rel=1e-9)


@pytest.mark.parametrize(("m", "lam"), [(1.0, None), (1.15, None), (2.0, None), (None, 2.0), (None, np.inf)])
@pytest.mark.parametrize("edited", [False, True])
def test_objective_never_rises(m, lam, edited):
    x = np.abs(normal(400, 3)) + 0.1 * normal(400, 3, 5)
    constrain = None
    if edited:
        A, b = np.array([[1.0, 1.0, -1.0]]), np.array([0.5])

        def constrain(v):
            return project(v, A, b, lower=np.zeros(3))

    found = run(x, x[:30] + 0.05, m, lam, constrain=constrain, tolerance=0, sweeps=40)
    assert (np.diff(found.history) <= 1e-12 * np.abs(found.history[:-1])).all()
    assert found.history[-1] == found.objective
    if edited:
        assert np.abs(found.centers @ A.T - b).max() < 1e-9
        assert found.centers.min() >= 0


def test_constrained_centres_are_a_constrained_stationary_point():
    """A general optimiser, started where the iteration ended, finds nothing better."""
    x = normal(60, 3)
    A, b = np.array([[1.0, -2.0, 1.0]]), np.array([0.3])
    start = seed_centers(x, 4, rng=np.random.default_rng(2))
    found = run(x, start, 1.6, constrain=lambda v: project(v, A, b), tolerance=1e-14, sweeps=3000)
    assert found.converged

    def objective(flat):
        d2 = cdist(x, flat.reshape(4, 3)) ** 2
        return (d2 ** (-1 / 0.6)).sum(axis=1) ** -0.6 @ np.ones(len(x))

    limits = {"type": "eq", "fun": lambda flat: flat.reshape(4, 3) @ A[0] - b[0]}
    best = minimize(objective, found.centers.ravel(), constraints=limits, method="SLSQP", tol=1e-13)
    assert objective(found.centers.ravel()) == pytest.approx(found.objective, rel=1e-10)
    assert best.fun >= found.objective * (1 - 1e-6)


def test_standardised_metric():
    """Projecting in the metric of the standardised records is iterating on them with the edit translated."""
    x = normal(200, 3) * [1.0, 10.0, 100.0]
    scale, A, b = x.std(axis=0), np.array([[1.0, 1.0, -1.0]]), np.zeros(1)
    start = seed_centers(x / scale, 12, rng=np.random.default_rng(3))
    there = run(x / scale, start, 1.3, constrain=lambda v: project(v, A * scale, b), sweeps=15)
    here = run(x / scale, start, 1.3, constrain=lambda v: project(v * scale, A, b, scale) / scale, sweeps=15)
    np.testing.assert_allclose(here.centers, there.centers, atol=1e-9)


def test_stops_where_asked():
    x, v = normal(300, 2), normal(6, 2, 1)
    loose, tight = (run(x, v, 1.5, tolerance=tolerance, sweeps=500) for tolerance in (1e-3, 1e-9))
    assert loose.converged
    assert tight.converged
    assert 1 < loose.sweeps < tight.sweeps < 500
    assert not run(x, v, 1.5, sweeps=2).converged
    none = run(x, v, 1.5, sweeps=0)
    np.testing.assert_array_equal(none.centers, v)
    assert none.objective == pytest.approx(plain(x, v, 1.5, None, 0)[1])


@pytest.mark.parametrize(("m", "lam"), [(1.0, None), (1.0001, None), (1.15, None), (2.0, None), (None, 3.0)])
def test_degenerate_data(m, lam):
    same = np.full((20, 2), 7.0)
    found = run(same, seed_centers(same, 5, rng=np.random.default_rng(0)), m, lam)
    np.testing.assert_allclose(found.centers, 7.0)
    twice = np.repeat(normal(10, 3), 4, axis=0)
    twice[:, 1] = 3.0
    found = run(twice, seed_centers(twice, 10, rng=np.random.default_rng(0)), m, lam)
    np.testing.assert_allclose(found.centers[:, 1], 3.0, rtol=1e-12)
    one = run(twice, twice[:1], m, lam)
    np.testing.assert_allclose(one.centers, twice.mean(axis=0)[None], atol=1e-12)
    every = run(normal(15, 2), normal(15, 2), m, lam, sweeps=5)
    assert np.isfinite(every.centers).all()


def test_every_record_a_centre_is_a_fixed_point():
    x = normal(15, 2)
    for m in (1.0, 1.15, 2.0):
        found = run(x, x, m)
        np.testing.assert_allclose(found.centers, x, atol=1e-12)
        assert found.objective == 0


def test_fuzzifiers_whose_memberships_vanish_are_refused():
    x = normal(60, 2)
    with pytest.raises(AnonymizationError, match="m must be at most 176 for 30 centres"):
        run(x, x[:30], 200.0)
    assert np.isfinite(run(x, x[:30] + 0.1, 170.0).centers).all()


def test_a_centre_without_mass_stays():
    x = np.array([[0.0], [1.0]])
    found = run(x, np.array([[0.4], [1e6]]), 1.0, sweeps=3)
    np.testing.assert_allclose(found.centers.ravel(), [0.5, 1e6])
    found = run(x, np.array([[0.4], [1e6]]), lam=1.0, sweeps=3)
    np.testing.assert_allclose(found.centers.ravel(), [0.5, 1e6])


def test_more_centres_than_records():
    x = normal(4, 2)
    for call in (
        lambda: run(x, normal(5, 2), 1.5),
        lambda: run(x, x[:0], lam=1.5),
        lambda: seed_centers(x, 5, rng=np.random.default_rng(0)),
        lambda: certify(x, normal(5, 2), k=2, first=Law.fcm(1.5), second=Law.fcm(1.5)),
    ):
        with pytest.raises(AnonymizationError, match="between 1 and the 4 records"):
            call()


# -- lists of centres


@pytest.mark.parametrize(("m", "lam"), [(1.1, None), (None, 300.0)])
@pytest.mark.parametrize("t", [2, 10])
def test_lists_keep_their_bound(m, lam, t, monkeypatch):
    """Every list's bound covers the mass that it leaves out, at every sweep."""
    x = few_factors(1500) if t == 10 else normal(1500, 2)
    worst = []
    plain_listed = blocks.Sweeper._listed

    def watched(self, number, sums, figures):
        figures[2] = 0.0
        listed = plain_listed(self, number, sums, figures)
        if listed:
            rows = self._rows(number)
            u = dense(self.geometry.x[rows], self.geometry.centers, m, lam)
            seen = self.restless.copy()
            seen[self.leaves[number].members] = True
            worst.append((u[:, ~seen].sum(axis=1).max(), figures[2], seen.mean()))
        return listed

    monkeypatch.setattr(blocks.Sweeper, "_listed", watched)
    monkeypatch.setattr(blocks, "TREE_GAIN", 8)
    v = seed_centers(x, 300, rng=np.random.default_rng(1))
    found = run(x, v, m, lam, nearest=150, drop=1e-4, tolerance=0, sweeps=20)
    dropped, bound, share = np.array(worst).T
    assert found.listed > 0.05
    assert (dropped <= bound * (1 + 1e-6) + 1e-15).all()
    assert bound.max() <= 1e-4
    assert share.max() < 0.6


@pytest.mark.parametrize(("m", "lam"), [(1.1, None), (None, 300.0)])
def test_lists_give_what_all_centres_give(m, lam):
    x = few_factors(2000)
    v = seed_centers(x, 400, rng=np.random.default_rng(1))
    full = run(x, v, m, lam, nearest=0, tolerance=0, sweeps=25)
    listed = run(x, v, m, lam, nearest=200, drop=1e-7, tolerance=0, sweeps=25)
    assert listed.listed > 0.1
    assert 0 < listed.dropped <= 1e-7
    assert listed.objective == pytest.approx(full.objective, rel=1e-6)
    np.testing.assert_allclose(listed.centers, full.centers, atol=1e-3)
    assert (np.diff(listed.history) <= 1e-7 * np.abs(listed.history[:-1])).all()


@pytest.mark.parametrize("options", [{"nearest": 0}, {"nearest": 150, "drop": 1e-4}])
def test_threads_change_nothing_and_blocks_only_rounding(options, monkeypatch):
    x = few_factors(2000)
    v = seed_centers(x, 400, rng=np.random.default_rng(1))

    def centers():
        return run(x, v, 1.1, tolerance=0, sweeps=15, **options).centers

    several = centers()
    monkeypatch.setattr(blocks, "_threads", lambda: 1)
    np.testing.assert_array_equal(centers(), several)
    monkeypatch.setattr(blocks, "ENTRIES", 1 << 14)
    np.testing.assert_allclose(centers(), several, atol=1e-9 if "drop" not in options else 1e-3)


# -- certificates


def poisson_binomial(chances):
    counts = np.ones(1)
    for p in chances:
        counts = np.convolve(counts, [1 - p, p])
    return counts


@given(seeds, st.sampled_from([1.1, 1.5, 2.0]), st.sampled_from([0.3, 3.0]))
@settings(max_examples=25, deadline=None)
def test_posterior_bounds_the_exact_one(seed, m, lam):
    x, v = normal(9, 2, seed), normal(3, 2, seed + 1)
    for step in (Law.fcm(m), Law.efcm(lam)):
        u = memberships(x, v, step)
        found = certify(x, v, k=3, first=step, second=step)
        for j in range(9):
            others = np.delete(u, j, axis=0)
            exact = [u[j, i] * (poisson_binomial(others[:, i]) / np.arange(1, 10)).sum() for i in range(3)]
            mu = others.sum(axis=0)
            assert found.posterior[j] >= max(exact) - 1e-12
            assert found.posterior[j] == pytest.approx((u[j] * -np.expm1(-mu) / mu).max(), rel=1e-9)


def test_certificate_figures():
    x = normal(400, 3)
    v = seed_centers(x, 40, rng=np.random.default_rng(0))
    found = certify(x, v, k=10, first=Law.fcm(1.2), second=Law.fcm(1.4))
    raised = memberships(x, v, Law.fcm(1.2)) ** 1.2
    n_eff = raised.sum(axis=0) ** 2 / (raised**2).sum(axis=0)
    np.testing.assert_allclose(found.n_eff, n_eff, rtol=1e-9)
    assert found.n_eff_least == found.n_eff.min()
    assert found.n_eff_below == (n_eff < 10).sum()
    assert found.worst == found.posterior.max()
    assert found.share_above == (found.posterior > 0.1).mean()
    assert found.distinct == 40
    assert found.dropped == 0


def test_crisp_certificate_is_the_cluster_size():
    x = np.repeat(np.arange(4.0), [2, 3, 5, 10])[:, None]
    found = certify(x, np.arange(4.0)[:, None], k=4, first=Law.fcm(1.0), second=Law.fcm(1.0))
    assert found.n_eff.tolist() == [2, 3, 5, 10]
    assert found.n_eff_below == 2
    # A cluster of s has s − 1 others for certain; the bound takes them for random.
    expected = np.repeat([-np.expm1(-float(s - 1)) / (s - 1) for s in (2, 3, 5, 10)], [2, 3, 5, 10])
    np.testing.assert_allclose(found.posterior, expected)


def test_certificate_through_a_tree(monkeypatch):
    x = normal(3000, 2)
    v = seed_centers(x, 300, rng=np.random.default_rng(0))
    full = certify(x, v, k=10, first=Law.fcm(1.05), second=Law.fcm(1.05))
    monkeypatch.setattr(blocks, "TREE_GAIN", 1)
    tree = certify(x, v, k=10, first=Law.fcm(1.05), second=Law.fcm(1.05))
    assert full.dropped == 0 < tree.dropped <= 1e-9
    np.testing.assert_allclose(tree.posterior, full.posterior, rtol=1e-7)
    np.testing.assert_allclose(tree.n_eff, full.n_eff, rtol=1e-7)


def test_distinct_centres():
    x = normal(3000, 3)
    apart = float(np.sqrt(x.var(axis=0).mean()))
    crowd = np.repeat(np.array([[0.0, 0, 0], [1, 1, 1]]), 1000, axis=0) + 1e-5 * normal(2000, 3)
    crowd[0] += 1.0 / 3.0
    assert certify(x, crowd, k=2, first=Law.fcm(1.5), second=Law.fcm(1.5)).distinct == 3
    # On either side of a grid line, and yet one.
    line = np.arange(3)[:, None] * np.array([[0.4e-3, 0, 0]]) * apart
    assert certify(x, line, k=2, first=Law.fcm(1.5), second=Law.fcm(1.5)).distinct == 1
    assert certify(np.ones((5, 2)), np.ones((3, 2)), k=2, first=Law.fcm(1.5), second=Law.fcm(1.5)).distinct == 1


def test_centres_collapse_past_the_ceiling():
    x = normal(1500, 10)
    v = seed_centers(x, 300, rng=np.random.default_rng(0))
    below, past = (run(x, v, m, sweeps=150).centers for m in (1.1, 2.0))
    kept = certify(x, below, k=5, first=Law.fcm(1.1), second=Law.fcm(1.1))
    gone = certify(x, past, k=5, first=Law.fcm(2.0), second=Law.fcm(2.0))
    assert 1.2 < kept.fuzzifier_ceiling < 1.4
    assert kept.distinct == 300
    assert gone.distinct < 100
    assert certify(x[:, :2], x[:3, :2], k=2, first=Law.fcm(1.1), second=Law.fcm(1.1)).fuzzifier_ceiling > 5


# -- draws


@pytest.mark.parametrize("chances", [Law.fcm(1.0), Law.fcm(1.3), Law.fcm(2.0), Law.efcm(0.7), Law.efcm(np.inf)])
def test_draws_follow_the_memberships(chances):
    x, v = normal(6, 2), normal(4, 2, 1)
    many = np.repeat(x, 20_000, axis=0)
    label = draw(many, v, chances, rng=np.random.default_rng(0)).reshape(6, -1)
    shares = np.stack([(label == i).mean(axis=1) for i in range(4)], axis=1)
    np.testing.assert_allclose(shares, memberships(x, v, chances), atol=0.015)


def test_draws_do_not_depend_on_blocks_or_threads(monkeypatch):
    x, v = normal(3000, 4), normal(50, 4, 1)
    drawn = draw(x, v, Law.fcm(1.5), rng=np.random.default_rng(3))
    monkeypatch.setattr(blocks, "ENTRIES", 1000)
    monkeypatch.setattr(blocks, "_threads", lambda: 1)
    np.testing.assert_array_equal(draw(x, v, Law.fcm(1.5), rng=np.random.default_rng(3)), drawn)
    assert (draw(x, v, Law.fcm(1.5), rng=np.random.default_rng(4)) != drawn).mean() > 0.3


def test_draws_through_a_tree(monkeypatch):
    x = normal(3000, 2)
    v = seed_centers(x, 300, rng=np.random.default_rng(0))
    drawn = draw(x, v, Law.fcm(1.05), rng=np.random.default_rng(3))
    monkeypatch.setattr(blocks, "TREE_GAIN", 1)
    trees = draw(x, v, Law.fcm(1.05), rng=np.random.default_rng(3))
    # The same uniform meets the centres in another order, so only the chances agree.
    for label in (drawn, trees):
        own = memberships(x, v, Law.fcm(1.05))[np.arange(3000), label]
        assert own.mean() == pytest.approx((memberships(x, v, Law.fcm(1.05)) ** 2).sum(axis=1).mean(), abs=0.02)


# -- seeding


@given(
    npst.arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=st.integers(-2, 2)),
    seeds,
)
@settings(max_examples=60, deadline=None)
def test_seeds_are_as_many_as_asked(x, seed):
    for c in {1, len(x) // 2 + 1, len(x)}:
        v = seed_centers(x, c, rng=np.random.default_rng(seed))
        assert v.shape == (c, x.shape[1])
        assert np.isfinite(v).all()
        constant = np.ptp(x, axis=0) == 0
        np.testing.assert_array_equal(v[:, constant], np.broadcast_to(x[0, constant], (c, constant.sum())))


@pytest.mark.parametrize("n", [2000, 5000])
def test_seeds_sit_on_no_record_and_cover_the_data(n):
    rng = np.random.default_rng(0)
    x = np.concatenate([normal(n // 2, 4), 30.0 + normal(n - n // 2, 4, 1)])
    v = seed_centers(x, n // 5, rng=rng)
    distances = cdist(v, x).min(axis=1)
    assert (distances < 1e-3).mean() == 0
    assert np.median(distances) > 0.1
    uniform = x[rng.choice(n, n // 5, replace=False)] + 0.05 * normal(n // 5, 4, 2)
    ours, theirs = (run(x, start, 1.0, sweeps=30).objective for start in (v, uniform))
    assert ours < theirs
    np.testing.assert_array_equal(v, seed_centers(x, n // 5, rng=np.random.default_rng(0)))
