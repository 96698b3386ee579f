import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from statsmodels.datasets import randhie

from anoncore.errors import AnonymizationError
from anoncore.kernels.fuzzy import balanced as module
from anoncore.kernels.fuzzy.balanced import (
    Balanced,
    Settings,
    balanced_entropy_c_means,
    balanced_sizes,
    initial_centers,
    recommended_lambda,
    round_dependently,
)
from anoncore.kernels.projection import project


def seeded(seed=0):
    return np.random.default_rng(seed)


def standardised(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def heavy_tailed(n_records, columns=8):
    rng = seeded()
    x = rng.standard_normal((n_records, columns)) @ rng.standard_normal((columns, columns))
    return standardised(x / np.sqrt(rng.chisquare(3, size=(n_records, 1)) / 3))


def survey(n_records):
    x = randhie.load_pandas().data.select_dtypes("number").to_numpy(float)
    return standardised(x[seeded().permutation(len(x))[:n_records]])


def started(x, k, seed=0):
    sizes = balanced_sizes(len(x), k)
    return sizes, initial_centers(x, sizes, rng=seeded(seed))


def assert_balanced(plan, sizes):
    table = plan.matrix()
    assert (plan.values > 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(table.sum(axis=0), sizes, atol=1e-12 * len(plan.indptr))
    assert plan.residual == np.abs(table.sum(axis=0) - sizes).max()
    assert plan.worst_posterior == (table.toarray() / sizes).max() <= 1 / sizes.min() + 1e-6


# -- sizes and starts


@given(st.integers(1, 30), st.integers(0, 400))
def test_sizes(k, more):
    sizes = balanced_sizes(k + more, k)
    assert sizes.sum() == k + more
    assert len(sizes) == (k + more) // k
    assert sizes.min() >= k
    assert np.ptp(sizes) <= 1


@given(st.integers(5, 200), st.integers(2, 7), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_starts_are_means_of_groups(n_records, k, seed):
    if n_records < k:
        return
    x = seeded(seed).standard_normal((n_records, 3))
    sizes, centers = started(x, k, seed)
    np.testing.assert_allclose(sizes @ centers, x.sum(axis=0), atol=1e-9)
    assert centers.shape == (len(sizes), 3)
    assert cdist(centers, x).min() > 1e-9


def test_starts_find_separate_groups():
    middles = np.array([[0.0, 0.0], [0.0, 50.0], [90.0, 0.0], [90.0, 50.0]])
    x = np.repeat(middles, 5, axis=0) + seeded().normal(size=(20, 2))
    _, centers = started(x, 5)
    near = cdist(middles, centers).argmin(axis=1)
    np.testing.assert_allclose(centers[near], x.reshape(4, 5, 2).mean(axis=1), atol=1e-12)


# -- balance and the bound


@given(
    st.integers(6, 90),
    st.integers(2, 6),
    st.floats(-3, 6),
    st.integers(0, 99),
    st.sampled_from(["any", "levels", "constant", "same"]),
)
@settings(max_examples=60, deadline=None)
def test_sums_and_bound_at_any_lambda(n_records, k, exponent, seed, form):
    x = seeded(seed).standard_t(2, size=(n_records, 3))
    if form == "levels":
        x = np.sign(x)
    elif form == "constant":
        x[:, 1] = 4.0
    elif form == "same":
        x[:] = 1.0
    sizes, centers = started(x, k, seed)
    plan = balanced_entropy_c_means(x, centers, 10.0**exponent, sizes, settings=Settings(sweeps=3))
    assert_balanced(plan, sizes)
    assert plan.worst_posterior <= 1 / k + 1e-12
    labels = round_dependently(plan, sizes, rng=seeded(seed))
    assert np.bincount(labels, minlength=len(sizes)).tolist() == sizes.tolist()


@pytest.mark.parametrize("n_records", [5, 6, 9])
def test_one_cluster(n_records):
    x = seeded().standard_normal((n_records, 2))
    sizes, centers = started(x, 5)
    plan = balanced_entropy_c_means(x, centers, 3.0, sizes)
    assert plan.converged
    assert plan.worst_posterior == pytest.approx(1 / n_records)
    np.testing.assert_allclose(plan.centers[0], x.mean(axis=0))
    assert (round_dependently(plan, sizes, rng=seeded()) == 0).all()


def test_bound_holds_where_nothing_has_converged(monkeypatch):
    monkeypatch.setattr(module, "SINKHORN", 0)
    monkeypatch.setattr(module, "LAST", 0)
    monkeypatch.setattr(module, "MOST", 0)
    x = heavy_tailed(200)
    sizes, centers = started(x, 5)
    plan = balanced_entropy_c_means(x, centers, 50.0, sizes, settings=Settings(sweeps=1, inner=0, annealing=0))
    assert not plan.converged
    assert plan.repaired > 0.01
    assert_balanced(plan, sizes)


def test_bound_holds_where_candidates_cannot_hold_all(monkeypatch):
    """All centres lie by 7 records, 53 lie far off: their nearest centres have no room for them."""
    monkeypatch.setattr(module, "DENSE", 0)
    x = np.concatenate([seeded().normal(size=(7, 2)), 1000 + seeded(1).normal(size=(53, 2))])
    sizes = balanced_sizes(60, 5)
    plan = balanced_entropy_c_means(x, seeded(2).normal(size=(12, 2)), 5.0, sizes, settings=Settings(candidates=2))
    assert_balanced(plan, sizes)


# -- independent solutions


@pytest.mark.parametrize("lam", [0.1, 1.0, 5.0])
def test_plan_is_the_scaled_kernel(lam):
    """Plain Sinkhorn in logs, many times over."""
    x = heavy_tailed(40, 3)
    sizes, centers = started(x, 5)
    plan = balanced_entropy_c_means(x, centers, lam, sizes, settings=Settings(sweeps=1, annealing=0))
    logs, column = -lam * cdist(x, centers, "sqeuclidean"), np.zeros(len(sizes))
    for _ in range(4_000):
        row = -logsumexp(logs + column, axis=1)
        column = np.log(sizes) - logsumexp(logs + row[:, None], axis=0)
    expected = np.exp(logs + row[:, None] + column)
    np.testing.assert_allclose(plan.matrix().toarray(), expected, atol=1e-6)
    np.testing.assert_allclose(plan.centers, expected.T @ x / sizes[:, None], atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_large_lambda_is_the_transportation_problem(seed):
    x = seeded(seed).standard_normal((32, 2))
    sizes, centers = started(x, 5, seed)
    plan = balanced_entropy_c_means(x, centers, 1e3, sizes, settings=Settings(sweeps=1, annealing=0, inner=200))
    costs = cdist(x, centers, "sqeuclidean")
    seats = np.repeat(np.arange(len(sizes)), sizes)
    records, taken = linear_sum_assignment(costs[:, seats])
    best = costs[records, seats[taken]].sum()
    labels = round_dependently(plan, sizes, rng=seeded())
    assert costs[np.arange(32), labels].sum() == pytest.approx(best, rel=0.005)


# -- descent


@pytest.mark.parametrize("lam", [0.3, 2.0, 8.0])
@pytest.mark.parametrize("held", [False, True])
def test_objective_never_rises(lam, held):
    x = heavy_tailed(300, 4)
    sizes, centers = started(x, 5)
    total = np.array([[1.0, 1.0, -1.0, 0.0]])

    def constrain(v):
        return project(v, total, np.zeros(1))

    plan = balanced_entropy_c_means(
        x,
        constrain(centers) if held else centers,
        lam,
        sizes,
        constrain=constrain if held else None,
        settings=Settings(inner=60, annealing=0, tolerance=0.0),
    )
    assert plan.sweeps == len(plan.objectives) <= 30
    slight = 1e-5 * abs(plan.objective)
    assert np.diff(plan.objectives).max() <= slight
    assert plan.objectives[0] - plan.objectives[-1] > 100 * slight
    # The last plan in full, where the path has the dual.
    assert plan.objective == pytest.approx(plan.objectives[-1], rel=1e-4)


def test_edits_hold_exactly():
    rng = seeded()
    parts = rng.lognormal(size=(200, 2))
    x = np.column_stack([parts, parts.sum(axis=1) + rng.normal(scale=0.1, size=200)])
    A, b = np.array([[1.0, 1.0, -1.0]]), np.zeros(1)
    sizes, centers = started(x, 5)
    lam = recommended_lambda(x, centers)
    lower = np.full(3, 0.2)
    plan = balanced_entropy_c_means(x, centers, lam, sizes, constrain=lambda v: project(v, A, b, lower=lower))
    free = balanced_entropy_c_means(x, centers, lam, sizes)
    assert np.abs(plan.centers @ A.T).max() < 1e-9
    assert plan.centers.min() >= 0.2
    assert np.abs(free.centers @ A.T).max() > 1e-3
    assert_balanced(plan, sizes)


# -- candidates


def information_loss(x, centers, labels):
    return 100 * ((x - centers[labels]) ** 2).sum() / ((x - x.mean(axis=0)) ** 2).sum()


def test_candidates_give_what_the_complete_graph_gives(monkeypatch):
    x = heavy_tailed(700, 5)
    sizes, centers = started(x, 5)
    lam = recommended_lambda(x, centers)
    plans = []
    for entries in (10**9, 0):
        monkeypatch.setattr(module, "DENSE", entries)
        plans.append(balanced_entropy_c_means(x, centers, lam, sizes, settings=Settings(sweeps=1, annealing=0)))
    dense, few = plans
    assert dense.dropped == 0.0 < few.dropped < 0.01
    shift = np.abs((dense.matrix() - few.matrix()).toarray()).sum() / len(x)
    assert shift < 0.02
    assert few.objective == pytest.approx(dense.objective, rel=0.005)


# -- rounding


def planned(table, sizes):
    """A plan written down entry by entry."""
    rows, columns = np.nonzero(table)
    indptr = np.searchsorted(rows, np.arange(len(table) + 1))
    nothing = np.zeros(0)
    c = len(sizes)
    return Balanced(np.zeros((c, 1)), indptr, columns, table[rows, columns], True, 1, 0.0, 0.0, 0.0, 1.0, 0.0, nothing)


def test_rounding_keeps_every_mean():
    table = np.array(
        [
            [0.2, 0.3, 0.5],
            [0.9, 0.1, 0.0],
            [0.25, 0.25, 0.5],
            [0.0, 1.0, 0.0],
            [0.6, 0.05, 0.35],
            [0.05, 0.3, 0.65],
        ]
    )
    sizes, rng, draws = np.array([2, 2, 2]), seeded(), 6000
    plan = planned(table, sizes)
    counts = np.zeros(table.shape)
    for _ in range(draws):
        labels = round_dependently(plan, sizes, rng=rng)
        assert np.bincount(labels).tolist() == [2, 2, 2]
        counts[np.arange(6), labels] += 1
    sure = (table == 0) | (table == 1)
    np.testing.assert_array_equal(counts[sure], draws * table[sure])
    errors = (counts - draws * table)[~sure] / np.sqrt(draws * (table * (1 - table))[~sure])
    assert np.abs(errors).max() < 4
    assert (errors**2).mean() < 3


def test_rounding_keeps_the_means_of_a_plan_with_many_cycles():
    x = seeded().standard_normal((40, 2))
    sizes, centers = started(x, 5)
    plan = balanced_entropy_c_means(x, centers, 0.5, sizes)
    table, rng, draws = plan.matrix().toarray(), seeded(1), 4000
    counts = np.zeros(table.shape)
    for _ in range(draws):
        counts[np.arange(40), round_dependently(plan, sizes, rng=rng)] += 1
    errors = (counts - draws * table) / np.sqrt(draws * np.maximum(table * (1 - table), 1 / draws))
    assert np.abs(errors).max() < 5
    assert 0.5 < (errors**2).mean() < 1.5


def test_a_plan_off_balance_is_refused():
    sizes = np.array([2, 2])
    crowded = planned(np.array([[1.0, 0.0], [1.0, 0.0], [0.9, 0.1], [0.1, 0.9]]), sizes)
    with pytest.raises(AnonymizationError, match="not balanced"):
        round_dependently(crowded, sizes, rng=seeded())


def test_same_seed_same_output():
    x = heavy_tailed(300, 4)

    def release(seed):
        sizes, centers = started(x, 5, seed)
        plan = balanced_entropy_c_means(x, centers, 5.0, sizes)
        return plan.centers, round_dependently(plan, sizes, rng=seeded(seed))

    (a, la), (b, lb), (c, lc) = release(1), release(1), release(2)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(la, lb)
    assert not np.array_equal(la, lc)
    assert not np.array_equal(a, c)


# -- what it costs


def mdav(x, k):
    """Maximum distance to average vector (Domingo-Ferrer & Mateo-Sanz 2002), as printed."""
    left, labels, group = np.arange(len(x)), np.full(len(x), -1), 0

    def far(p):
        return x[left[((x[left] - p) ** 2).sum(axis=1).argmax()]]

    def take(p):
        nonlocal left, group
        near = np.argsort(((x[left] - p) ** 2).sum(axis=1), kind="stable")[:k]
        labels[left[near]] = group
        left, group = np.delete(left, near), group + 1

    while len(left) >= 3 * k:
        r = far(x[left].mean(axis=0))
        s = far(r)
        take(r)
        take(s)
    if len(left) >= 2 * k:
        take(far(x[left].mean(axis=0)))
    labels[left] = group
    return labels


def group_means(x, labels):
    return np.array([x[labels == i].mean(axis=0) for i in range(labels.max() + 1)])


@pytest.mark.parametrize("data", [survey, heavy_tailed])
def test_loses_little_more_than_mdav(data):
    x = data(700)
    sizes, centers = started(x, 5)
    plan = balanced_entropy_c_means(x, centers, recommended_lambda(x, centers), sizes)
    assert plan.converged
    assert_balanced(plan, sizes)
    labels, rival = round_dependently(plan, sizes, rng=seeded()), mdav(x, 5)
    ours, theirs = (
        information_loss(x, plan.centers, labels),
        information_loss(x, group_means(x, rival), rival),
    )
    assert ours <= 1.1 * theirs


def test_recommended_lambda_follows_the_scale():
    x = heavy_tailed(200)
    _, centers = started(x, 5)
    lam = recommended_lambda(x, centers)
    assert recommended_lambda(10 * x, 10 * centers) == pytest.approx(lam / 100)
    assert recommended_lambda(np.ones((9, 2)), np.ones((1, 2))) == 16.0


@pytest.mark.parametrize("lam", [1e4, 1e6, 1e9])
def test_centres_are_the_means_of_the_released_plan_also_where_scaling_fails(lam):
    rng = np.random.default_rng(0)
    rows = {
        "outliers": rng.pareto(0.5, (200, 2)).round(2),
        "ties": np.vstack([rng.integers(0, 3, (199, 2)), [[50, 50]]]).astype(float),
    }
    for x in rows.values():
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        sizes, centers = started(x, 5)
        plan = balanced_entropy_c_means(x, centers, lam, sizes, settings=Settings(sweeps=4))
        assert np.allclose(plan.centers, plan.matrix().T @ x / sizes[:, None])
        assert plan.repaired <= 1e-6 or not plan.converged
