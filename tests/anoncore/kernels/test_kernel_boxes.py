from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.optimize import minimize
from scipy.stats import norm

from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.kernels.boxes import cells as _boxes_cells
from anoncore.kernels.boxes.cells import cut_between
from anoncore.kernels.boxes.partition import (
    Diversity,
    Limits,
    distinct_counts,
    off_grid,
    partition,
    snap_outward,
)
from anoncore.kernels.boxes.shapes import (
    half_widths,
    local_radius,
    sensitivities,
    statistic_scales,
)
from anoncore.kernels.boxes.weights import crisp_rule, objective, optimal_weights


def frozen(values):
    values = np.array(values, dtype=float)
    values.setflags(write=False)
    return values


# -- sensitivities

STATISTICS = {
    ("mean", 1, None): lambda x: x[:, 1].mean(),
    ("variance", 0, None): lambda x: x[:, 0].var(),
    ("sd", 2, None): lambda x: x[:, 2].std(),
    ("covariance", 0, 2): lambda x: np.cov(x.T, bias=True)[0, 2],
    ("covariance", 1, 1): lambda x: x[:, 1].var(),
    ("correlation", 1, 2): lambda x: np.corrcoef(x.T)[1, 2],
}


def numerical_sensitivities(statistic, x, h=1e-6):
    result = np.empty(x.shape)
    for at in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[at] = h
        result[at] = abs(statistic(x + step) - statistic(x - step)) / (2 * h) * len(x)
    return result


@pytest.mark.parametrize("statistic", STATISTICS)
def test_sensitivities_are_derivatives(statistic):
    x = np.random.default_rng(0).normal(size=(12, 3)) @ np.array([[1, 0.5, 0.2], [0, 1, 0.7], [0, 0, 3]])
    expected = numerical_sensitivities(STATISTICS[statistic], x)
    np.testing.assert_allclose(sensitivities(frozen(x), [statistic], floor=0.0), expected, atol=1e-7)


def test_sensitivities_mix_by_probability_and_accuracy():
    x = np.random.default_rng(1).normal(size=(10, 3))
    p, wanted = [0.5, 0.2, 0.1, 0.1, 0.05, 0.05], [1.0, 0.1, 2.0, 0.3, 4.0, 0.5]
    single = [sensitivities(x, [s], floor=0.0) for s in STATISTICS]
    expected = sum(share / accuracy * a for share, accuracy, a in zip(p, wanted, single, strict=True))
    found = sensitivities(x, list(STATISTICS), p, wanted, floor=0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(sensitivities(x, list(STATISTICS), floor=0.0), sum(single) / len(single), rtol=1e-12)


def test_no_sensitivity_falls_below_the_floor():
    x = frozen(np.column_stack([[0.0, 1.0, 2.0], [5.0, 5.0, 5.0], [0.0, 0.0, 1e6]]))
    a = sensitivities(x, [("mean", 0, None)], floor=0.01)
    share = 0.01 * x[:, 0].std()
    np.testing.assert_allclose(a, np.tile([1.0, share, share / x[:, 2].std()], (3, 1)))
    assert (sensitivities(x, [("variance", 1, None)]) > 0).all()


def test_sensitivities_refuse_what_has_no_derivative():
    x = frozen([[0.1, 1], [0.1, 2], [0.1, 4]])
    for name, j in (("sd", None), ("correlation", 1)):
        with pytest.raises(AnonymizationError, match="constant"):
            sensitivities(x, [(name, 0, j)])
    with pytest.raises(AnonymizationError, match="allowed are"):
        sensitivities(x, [("mode", 0, None)])


def test_scales_follow_the_units():
    x = np.random.default_rng(0).normal(size=(50, 3))
    factors = np.array([2.0, 10.0, 0.1])
    ratio = statistic_scales(x * factors, list(STATISTICS)) / statistic_scales(x, list(STATISTICS))
    np.testing.assert_allclose(ratio, [10, 4, 0.1, 0.2, 100, 1])


# -- ideal half-widths

positive = st.floats(0.01, 50)


def general_half_widths(a, density, k, least):
    """Minimise Σ a_i Δ_i over log Δ_i with a general optimiser."""
    n = len(a)
    need = np.log(k / density) - n * np.log(2)
    lower = np.where(least > 0, np.log(np.maximum(least, 1e-300)), -30.0)
    start = np.maximum(lower, need / n) + 0.5
    found = minimize(
        lambda t: (a * np.exp(t)).sum(),
        start,
        jac=lambda t: a * np.exp(t),
        bounds=[(b, 30.0) for b in lower],
        constraints={"type": "ineq", "fun": lambda t: t.sum() - need, "jac": lambda t: np.ones(n)},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return np.exp(found.x)


@given(st.integers(1, 4), st.data())
@settings(max_examples=60)
def test_half_widths_agree_with_a_general_optimiser(n, data):
    a = np.array(data.draw(st.lists(positive, min_size=n, max_size=n)))
    epsilon = np.array(data.draw(st.lists(st.floats(0, 3), min_size=n, max_size=n)))
    density, k, diversity = data.draw(positive), data.draw(st.integers(2, 9)), data.draw(st.integers(2, 4))
    found = half_widths(a[None], np.array([density]), k, diversity, epsilon)[0]
    assert (found >= 0.5 * diversity * epsilon).all()
    assert density * np.prod(2 * found) >= k * (1 - 1e-9)
    oracle = general_half_widths(a, density, k, 0.5 * diversity * epsilon)
    assert (a * found).sum() <= (a * oracle).sum() * (1 + 1e-7)
    assert (a * found).sum() >= (a * oracle).sum() * (1 - 1e-5)


def test_half_widths_without_diversity_are_the_closed_form():
    rng = np.random.default_rng(0)
    a, density = rng.lognormal(size=(50, 3)), rng.lognormal(size=50)
    c = 0.5 * (4 / density * a.prod(axis=1)) ** (1 / 3)
    found = half_widths(frozen(a), frozen(density), 4)
    np.testing.assert_allclose(found, c[:, None] / a, rtol=1e-12)
    np.testing.assert_allclose(half_widths(a, density, 4, 3, 0.0), found, rtol=1e-12)
    assert total_cost(a, found) == pytest.approx(3 * c.mean())


def test_half_widths_that_are_all_least():
    found = half_widths(frozen([[1.0, 2.0]]), frozen([100.0]), 3, np.array([2, 3]), frozen([1.0, 4.0]))
    assert found.tolist() == [[1.0, 6.0]]


# -- radii


def total_cost(a, widths):
    """The half-range that boxes leave to the statistic, averaged over records."""
    return (a * widths).sum(axis=1).mean()


def radius_by_brute_force(x, a, k):
    distance = (a[:, None, :] * np.abs(x[:, None, :] - x[None, :, :])).max(axis=2)
    np.fill_diagonal(distance, np.inf)
    return np.sort(distance, axis=1)[:, k - 1]


def test_radius_needs_no_density():
    """In a uniform cloud the radius agrees with the ideal c, edge effects and fluctuations aside."""
    x = np.random.default_rng(0).random((20_000, 2))
    a = np.broadcast_to([1.0, 3.0], x.shape)
    ideal = (half_widths(a, np.full(len(x), 20_000.0), 5) * a)[:, 0].mean()
    assert local_radius(x, a, 5, candidates=1).mean() == pytest.approx(ideal, rel=0.05)


def test_local_radius_is_exact_for_constant_sensitivities():
    x = np.random.default_rng(0).normal(size=(200, 2))
    a = np.broadcast_to([0.5, 7.0], x.shape)
    np.testing.assert_allclose(local_radius(x, a, 3), radius_by_brute_force(x, a, 3))


@pytest.mark.parametrize(("statistic", "excess"), [(("variance", 0, None), 1.03), (("covariance", 0, 1), 1.03)])
def test_local_radius_is_an_upper_bound_near_the_truth(statistic, excess):
    x = np.random.default_rng(2).normal(size=(1500, 2))
    a = sensitivities(x, [statistic, ("mean", 1, None)], [0.8, 0.2])
    found, truth = local_radius(x, a, 5), radius_by_brute_force(x, a, 5)
    assert (found >= truth * (1 - 1e-12)).all()
    assert found.mean() < excess * truth.mean()


def test_local_radius_among_twins_and_few_records():
    x = frozen(np.repeat([[0.0], [1.0]], 40, axis=0))
    assert local_radius(x, np.ones_like(x), 2, candidates=1).tolist() == [0.0] * 80
    np.testing.assert_array_equal(local_radius(x[38:43], np.ones((5, 1)), 4), np.ones(5))


# -- weights

costs = npst.arrays(np.float64, st.integers(1, 12), elements=st.floats(0, 10))


@given(costs, st.integers(1, 4), st.floats(0, 100))
def test_weights_are_optimal(c, n, A):
    weights, lam = optimal_weights(c, n, A)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)
    assert objective(weights, c, n, A) == pytest.approx(lam, rel=1e-9, abs=1e-9)
    kept, threshold = crisp_rule(c, n, A)
    np.testing.assert_array_equal(kept, c <= threshold)
    assert lam <= objective(kept / kept.sum(), c, n, A) * (1 + 1e-12) + 1e-12
    # The gradient is λ where the weight is positive, and not below it elsewhere.
    length = np.sqrt((weights**2).sum())
    assert (n * c + A * weights / length >= lam - 1e-7 * max(1, lam)).all()


@pytest.mark.parametrize("seed", range(12))
def test_weights_agree_with_a_general_optimiser(seed):
    rng = np.random.default_rng(seed)
    c, n, A = rng.lognormal(size=rng.integers(3, 15)), int(rng.integers(1, 5)), float(rng.uniform(0.5, 20))

    def gradient(w):
        return n * c + A * w / np.sqrt((w**2).sum())

    found = minimize(
        lambda w: n * (w @ c) + A * np.sqrt((w**2).sum()),
        np.full(len(c), 1 / len(c)),
        jac=gradient,
        bounds=[(0, 1)] * len(c),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(len(c))},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 2000},
    )
    weights, lam = optimal_weights(frozen(c), n, A)
    np.testing.assert_allclose(weights, found.x, atol=1e-6)
    assert lam == pytest.approx(found.fun, rel=1e-9)
    assert lam <= found.fun + 1e-12


def test_best_threshold_agrees_with_trying_all():
    rng = np.random.default_rng(3)
    for _ in range(50):
        c, A = rng.integers(0, 6, 10).astype(float), rng.uniform(0, 10)
        kept, _ = crisp_rule(c, 2, A)
        tried = [objective((c <= c0) / (c <= c0).sum(), c, 2, A) for c0 in c]
        assert objective(kept / kept.sum(), c, 2, A) == pytest.approx(min(tried))


def test_weights_at_the_edges():
    c = frozen([2, 1, 1, np.inf])
    assert optimal_weights(c, 3, 0.0)[0].tolist() == [0, 0.5, 0.5, 0]
    assert optimal_weights(c, 3, 0.0)[1] == 3.0
    assert optimal_weights(c, 3, 1e-200)[0].tolist() == [0, 0.5, 0.5, 0]
    np.testing.assert_allclose(optimal_weights(c, 3, 1e9)[0], [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-8)
    assert crisp_rule(c, 3, 0.0)[0].tolist() == [False, True, True, False]
    assert crisp_rule(c, 3, 1e9)[0].tolist() == [True, True, True, False]
    for function in (optimal_weights, crisp_rule):
        with pytest.raises(AnonymizationError, match="infinite"):
            function(frozen([np.inf]), 1, 1.0)


# -- cuts


@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.floats(1e-12, 1e6)), min_size=1))
def test_cuts_lie_strictly_between(pairs):
    left = np.array([p[0] for p in pairs])
    with np.errstate(over="ignore"):
        right = np.nextafter(left + np.array([p[1] for p in pairs]), np.inf)
    left, right = left[np.isfinite(right)], right[np.isfinite(right)]
    z = cut_between(left, right)
    none = np.nextafter(left, right) == right
    assert np.isnan(z[none]).all()
    assert ((left < z) & (z < right))[~none].all()


def test_cuts_are_round():
    left, right = frozen([41.2371, 3, -1000.3, 1e6, 0.1]), frozen([41.2618, 4, -12.9, 1e6 + 1, 0.3])
    assert cut_between(left, right).tolist() == [41.25, 3.5, -500.0, 1000000.5, 0.2]


# -- distinct values


@given(
    npst.arrays(np.float64, st.integers(1, 9), elements=st.integers(0, 12).map(lambda v: v / 4)),
    st.sampled_from([0.0, 0.25, 0.5, 0.6, 1.0]),
)
def test_distinct_values_are_counted_exactly(values, epsilon):
    def apart(chosen):
        return all(b - a >= epsilon and b > a for a, b in pairwise(sorted(chosen)))

    most = max(m for m in range(1, len(values) + 1) if any(map(apart, combinations(values, m))))
    x = np.column_stack([np.append(values, values), np.zeros(2 * len(values))])
    label = np.repeat([1, 0], len(values))
    assert distinct_counts(x, label, np.array([epsilon, 1.0])).tolist() == [[most, 1], [most, 1]]


def test_distinct_values_of_one_large_box():
    x = np.arange(100_000.0)[:, None]
    assert distinct_counts(x, np.zeros(len(x), dtype=int), 2.5).tolist() == [[33_334]]


# -- the partition, beside a plain recursive one


def plain_partition(x, a, k, least, epsilon, lower_limit, upper_limit):  # noqa: C901
    """Return the boxes as sorted (lower, upper, records), by the definition and one record at a time."""
    n = x.shape[1]
    lowest = np.where(np.isinf(lower_limit), x.min(axis=0), lower_limit)
    highest = np.where(np.isinf(upper_limit), x.max(axis=0), upper_limit)

    def diverse(rows):
        for j in range(n):
            count, last = 0, None
            for value in sorted(x[rows, j]):
                if last is None or (value > last and value - last >= epsilon[j]):
                    count, last = count + 1, value
            if count < least:
                return False
        return True

    def cuts(rows, j, target):
        values = np.sort(x[rows, j])
        at = []
        for p in range(k, len(rows) - k + 1):
            left = x[rows, j] <= values[p - 1]
            if values[p] > values[p - 1] and diverse(rows[left]) and diverse(rows[~left]):
                at.append((abs(p - target), p, left, values[p - 1], values[p]))
        return min(at, key=lambda c: c[:2]) if at else None

    def best(rows, lower, upper):
        q, m, found, most = len(rows) // k, len(rows), None, 0.0
        low = np.where(np.isinf(lower), lowest, lower)
        high = np.where(np.isinf(upper), highest, upper)
        for j in range(n) if q > 1 else ():
            for target in (m * (q // 2) // q, m - m * (q // 2) // q):
                cut = cuts(rows, j, target)
                if cut is None:
                    continue
                left, z = cut[2], cut_between(*(np.array([v]) for v in cut[3:]))[0]
                before = a[rows, j].sum() * (high[j] - low[j])
                after = a[rows[left], j].sum() * (z - low[j]) + a[rows[~left], j].sum() * (high[j] - z)
                if before - after > most:
                    found, most = (j, z, left), before - after
        return found

    def grow(rows, lower, upper):
        cut = best(rows, lower, upper)
        if cut is None:
            return [(tuple(lower), tuple(upper), tuple(sorted(rows)))]
        j, z, left = cut
        inner_upper, inner_lower = upper.copy(), lower.copy()
        inner_upper[j] = inner_lower[j] = z
        return grow(rows[left], lower, inner_upper) + grow(rows[~left], inner_lower, upper)

    return sorted(grow(np.arange(len(x)), lower_limit.astype(float), upper_limit.astype(float)))


def as_boxes(found):
    members = [tuple(np.flatnonzero(found.label == b)) for b in range(len(found.sizes))]
    return list(zip(map(tuple, found.lower), map(tuple, found.upper), members, strict=True))


@st.composite
def problems(draw, most=60):
    n, size = draw(st.integers(1, 3)), draw(st.integers(12, most))
    # Whole numbers: sums and faces are exact in both implementations, ties are many.
    x = draw(npst.arrays(np.float64, (size, n), elements=st.integers(0, draw(st.sampled_from([4, 40])))))
    a = draw(npst.arrays(np.float64, (size, n), elements=st.integers(1, 5)))
    return x, a, draw(st.integers(1, 4))


@given(problems(), st.integers(1, 3), st.sampled_from([0.0, 1.0, 3.0]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_partition_agrees_with_a_plain_one(problem, l, epsilon, limited):  # noqa: E741
    x, a, k = problem
    n = x.shape[1]
    low, high = (np.full(n, -2.0), np.full(n, 64.0)) if limited else (np.full(n, -np.inf), np.full(n, np.inf))
    if (distinct_counts(x, np.zeros(len(x), dtype=int), epsilon) < l).any():
        with pytest.raises(InfeasibleError, match="distinct values"):
            partition(x, a, k, diversity=Diversity(l, epsilon))
        return
    found = partition(x, a, k, diversity=Diversity(l, epsilon), limits=Limits(low, high))
    assert as_boxes(found) == plain_partition(x, a, k, l, np.full(n, epsilon), low, high)


@given(problems(200), st.integers(1, 3), st.sampled_from([0.0, 0.7, 2.0]), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_partition_keeps_its_promises(problem, l, epsilon, seed):  # noqa: E741
    x, a, k = problem
    rng = np.random.default_rng(seed)
    x = x * rng.choice([0.1, 1.0], x.shape)
    a = a * rng.lognormal(size=a.shape)
    strata = rng.integers(0, 2, len(x)) * 7
    enough = np.bincount(strata)[[0, 7]].min() >= k if strata.any() and not strata.all() else True
    whole = distinct_counts(x, np.unique(strata, return_inverse=True)[1], epsilon).min() >= l
    if not (enough and whole):
        with pytest.raises(InfeasibleError):
            partition(x, a, k, diversity=Diversity(l, epsilon), strata=strata)
        return
    found = partition(frozen(x), frozen(a), k, diversity=Diversity(l, epsilon), strata=strata)
    assert (found.sizes >= k).all()
    np.testing.assert_array_equal(found.sizes, np.bincount(found.label))
    np.testing.assert_array_equal(found.stratum[found.label], strata)
    np.testing.assert_array_equal(found.distinct, distinct_counts(x, found.label, epsilon))
    assert (found.distinct >= l).all()
    assert (found.lower[found.label] < x).all()
    assert (x < found.upper[found.label]).all()
    assert disjoint(found)
    # Covering: any point lies in one box of every stratum.
    points = rng.normal(1, 3, (50, x.shape[1]))
    for name in np.unique(strata):
        of = found.stratum == name
        inside = (found.lower[of] <= points[:, None]) & (points[:, None] < found.upper[of])
        assert (inside.all(axis=2).sum(axis=1) == 1).all()
    order = rng.permutation(len(x))
    again = partition(x[order], a[order], k, diversity=Diversity(l, epsilon), strata=strata[order])
    np.testing.assert_array_equal(again.label, found.label[order])
    np.testing.assert_array_equal(again.lower, found.lower)
    np.testing.assert_array_equal(again.upper, found.upper)


def disjoint(found):
    lower, upper, stratum = found.lower, found.upper, found.stratum
    apart = (upper[:, None] <= lower[None]) | (lower[:, None] >= upper[None])
    different = stratum[:, None] != stratum[None]
    return (apart.any(axis=2) | different | np.eye(len(lower), dtype=bool)).all()


def test_numbering_follows_position_and_not_record_order():
    x = np.random.default_rng(0).normal(size=(200, 2))
    found = partition(x, np.ones_like(x), 5)
    assert sorted(map(tuple, found.lower)) == list(map(tuple, found.lower))


def test_tied_records_share_a_box():
    x = np.random.default_rng(0).integers(0, 4, (500, 2)).astype(float)
    found = partition(x, np.ones_like(x), 3)
    _, cell = np.unique(x, axis=0, return_inverse=True)
    for value in np.unique(cell):
        assert len(np.unique(found.label[cell == value])) == 1
    assert len(found.sizes) == 16


def test_values_with_no_number_between_are_not_parted():
    x = np.array([1.0, 1.0, np.nextafter(1.0, 2), np.nextafter(1.0, 2)])[:, None]
    assert partition(x, np.ones_like(x), 2).sizes.tolist() == [4]


def test_diversity_may_differ_by_column():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=400), rng.integers(0, 2, 400)])
    found = partition(x, np.ones_like(x), 3, diversity=Diversity(np.array([3, 1]), np.array([0.01, 0.0])))
    assert (found.distinct[:, 0] >= 3).all()
    assert (found.distinct[:, 1] == 1).any()
    assert partition(x, np.ones_like(x), 3).distinct is None


def test_too_few_records_to_cut_share_one_box():
    x = frozen(np.arange(7)[:, None])
    found = partition(x, np.ones_like(x), 4)
    assert found.label.tolist() == [0] * 7
    assert (found.lower.tolist(), found.upper.tolist()) == ([[-np.inf]], [[np.inf]])
    assert found.half_widths(0.0, 6.0).tolist() == [[3.0]]


def test_partition_refuses_what_cannot_be():
    x = frozen(np.arange(10)[:, None])
    a = np.ones_like(x)
    with pytest.raises(InfeasibleError, match="1 of 2 strata"):
        partition(x, a, 3, strata=np.array([0] * 8 + [1] * 2))
    with pytest.raises(InfeasibleError, match="fewer than k = 11"):
        partition(x, a, 11)
    with pytest.raises(InfeasibleError, match="distinct values of column 0"):
        partition(x, a, 2, diversity=Diversity(4, 4.0))
    with pytest.raises(AnonymizationError, match="outside"):
        partition(x, a, 2, limits=Limits(upper=8.0))


# -- how low the cost is


def least_cost(x, a, k):
    """Try every guillotine partition of a tiny table; return the least total cost."""
    memory = {}

    def cost(rows, lower, upper):
        key = (rows, lower, upper)
        if key not in memory:
            here = sum(a[list(rows), j].sum() * (upper[j] - lower[j]) / 2 for j in range(x.shape[1]))
            memory[key] = min([here, *children(rows, lower, upper)])
        return memory[key]

    def children(rows, lower, upper):
        for j in range(x.shape[1]):
            values = np.unique(x[list(rows), j])
            for z in cut_between(values[:-1], values[1:]):
                left = tuple(r for r in rows if x[r, j] < z)
                right = tuple(r for r in rows if x[r, j] > z)
                if min(len(left), len(right)) >= k:
                    yield cost(left, lower, (*upper[:j], z, *upper[j + 1 :])) + cost(
                        right, (*lower[:j], z, *lower[j + 1 :]), upper
                    )

    return cost(tuple(range(len(x))), tuple(x.min(axis=0)), tuple(x.max(axis=0))) / len(x)


def own_cost(x, a, k, steer=None, **options):
    found = partition(x, a if steer is None else steer, k, **options)
    return total_cost(a, found.half_widths(x.min(axis=0), x.max(axis=0))[found.label])


def test_gap_to_the_best_guillotine_partition():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(200):
        x = rng.normal(size=(int(rng.integers(4, 9)), int(rng.integers(1, 3))))
        a = rng.lognormal(size=x.shape)
        ratios.append(own_cost(x, a, 2) / least_cost(x, a, 2))
    assert min(ratios) >= 1 - 1e-12
    # Measured over 200 tables: 1.4 % dearer on average, 22 % at worst (45 % among 400 of two columns).
    assert np.mean(ratios) < 1.03
    assert np.max(ratios) < 1.5


@pytest.mark.parametrize("k", [5, 7, 10])
def test_cost_of_means_is_within_a_tenth_of_the_ideal(k):
    rng = np.random.default_rng(0)
    for x, density in (
        (rng.random((20_000, 2)), lambda x: np.full(len(x), 20_000.0)),
        (rng.normal(size=(20_000, 2)), lambda x: 20_000 * norm.pdf(x).prod(axis=1)),
    ):
        a = sensitivities(x, [("mean", 0, None), ("mean", 1, None)])
        ideal = total_cost(a, half_widths(a, density(x), k))
        assert own_cost(x, a, k) < 1.1 * ideal


def mondrian_half_widths(x, k):
    """LeFevre et al. 2006, strict: halve at the median the column whose range, as a share, is widest."""
    result, span = np.empty_like(x), np.ptp(x, axis=0)
    open_ = [(np.arange(len(x)), x.min(axis=0), x.max(axis=0))]
    while open_:
        rows, lower, upper = open_.pop()
        for j in np.argsort(-np.ptp(x[rows], axis=0) / span, kind="stable"):
            values = x[rows, j]
            left = values <= np.median(values)
            if min(left.sum(), (~left).sum()) >= k:
                z = 0.5 * (values[left].max() + values[~left].min())
                inner_upper, inner_lower = upper.copy(), lower.copy()
                inner_upper[j] = inner_lower[j] = z
                open_ += [(rows[left], lower, inner_upper), (rows[~left], inner_lower, upper)]
                break
        else:
            result[rows] = (upper - lower) / 2
    return result


def test_aiming_at_whole_boxes_beats_halving(monkeypatch):
    """Halving 6000 records down to 7 or more ends at 6000 / 2⁹, 11 to 12 in a box."""
    x = np.random.default_rng(0).normal(size=(6000, 2))
    a = np.ones_like(x)
    aimed = own_cost(x, a, 7)
    sizes = partition(x, a, 7).sizes
    monkeypatch.setattr(_boxes_cells, "_targets", lambda size, k: [(size // 2, np.ones(len(size), dtype=bool))])
    assert aimed < 0.85 * own_cost(x, a, 7)
    assert sizes.mean() < 7.1
    assert partition(x, a, 7).sizes.mean() > 11


ALL = [("mean", i, None) for i in range(4)]
SHAPES = {
    "normal": lambda rng: rng.normal(size=(8000, 4)),
    "lognormal": lambda rng: rng.lognormal(size=(8000, 4)),
    "correlated": lambda rng: rng.multivariate_normal(np.zeros(4), 0.3 + 0.7 * np.eye(4), 8000),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_cost_beside_an_unweighted_partition(shape):
    """Less than half where the statistic leaves columns out, a lesser gain where it asks about all."""
    x = SHAPES[shape](np.random.default_rng(1))
    unweighted = mondrian_half_widths(x, 5)
    for statistics, ratio in (
        ([("mean", 0, None)], 0.05),
        ([("variance", 0, None)], 0.1),
        ([("covariance", 0, 1)], 0.2),
        ([("correlation", 0, 1)], 0.2),
        ([("mean", 0, None), ("mean", 2, None)], 0.5),
        (ALL, 0.97),
        ([("sd", i, None) for i in range(4)], 0.9),
    ):
        a = sensitivities(x, statistics, floor=0.0)
        steer = sensitivities(x, statistics)
        assert own_cost(x, a, 5, steer) < ratio * total_cost(a, unweighted)


# -- snapping


@given(
    npst.arrays(np.float64, (5, 2), elements=st.floats(-1e4, 1e4)),
    st.sampled_from([0.1, 0.25, 0.05, 1.0, 5.0, 1000.0, 0.3]),
)
def test_snapping_encloses_on_the_grid(bounds, unit):
    lower, upper = bounds, bounds + 1.0
    low, high = snap_outward(lower, upper, unit)
    assert (low <= lower).all()
    assert (high >= upper).all()
    assert (lower - low < unit * (1 + 1e-6)).all()
    assert (high - upper < unit * (1 + 1e-6)).all()
    for bound in (low, high):
        steps = bound / unit
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-6)


def test_snapping_leaves_grid_points_and_infinite_faces():
    low, high = snap_outward(frozen([[0.3, -3], [-np.inf, 7]]), frozen([[0.7, 7], [0.3, np.inf]]), frozen([0.1, 5]))
    assert low.tolist() == [[0.3, -5.0], [-np.inf, 5.0]]
    assert high.tolist() == [[0.7, 10.0], [0.3, np.inf]]


@given(
    seed=st.integers(0, 10**6),
    unit=st.sampled_from([1.0, 0.1, 0.01, 10.0, 0.25, 3.0]),
    far=st.sampled_from([0.0, 1e3, 1e6]),
)
@settings(max_examples=40, deadline=None)
def test_faces_off_the_grid_still_part_the_same_records(seed, unit, far):
    rng = np.random.default_rng(seed)
    x = np.round(np.rint(far + rng.normal(0, 20, (60, 2))) * unit, 2)
    part = partition(x, np.ones_like(x), 4, limits=Limits(x.min(0) - unit, x.max(0) + unit))
    faces = x.min(0) - unit, x.max(0) + unit
    low, high = off_grid(part.lower, part.upper, unit, *faces)
    assert (low[part.label] <= x).all()
    assert (x <= high[part.label]).all()
    for ends, was, outer in ((low, part.lower, faces[0]), (high, part.upper, faces[1])):
        inner = was != outer
        np.testing.assert_array_equal(ends[~inner], was[~inner])
        steps = ends[inner] / unit
        assert (np.abs(steps - np.rint(steps)) > 1e-3).all()
    shared = {tuple(face) for face in np.argwhere(part.upper[:, None, 0] == part.lower[None, :, 0])}
    assert shared <= {tuple(face) for face in np.argwhere(high[:, None, 0] == low[None, :, 0])}


def test_faces_without_a_unit_or_too_far_out_stay():
    faces = np.array([[0.0, 0.0], [4.0, 2.0**60]]), np.array([[4.0, 2.0**60], [9.0, np.nan]])
    found = off_grid(*faces, np.array([np.nan, 1.0]), 0.0, 9.0)
    for ends, was in zip(found, faces, strict=True):
        np.testing.assert_array_equal(ends, was)
