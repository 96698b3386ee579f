import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.kernels.wavelet import relocation
from anoncore.kernels.wavelet import relocation_pairs as pairs_module
from anoncore.kernels.wavelet.relocation import mean_shift_bound, moved_means, net_flows, relocate
from anoncore.kernels.wavelet.relocation_pairs import match

COUNTS = np.array([19, 12, 153, 71, 13, 79, 7, 33, 16, 270, 812, 135, 241, 14, 60, 4337])
TARGETS = np.array([22, 95, 144, 148, 162, 549, 831, 1020, 1232, 722, 424, 259, 83, 137, 139, 305])


# -- flows


def draw_counts(rng, m, total, busy):
    """Counts and targets of the same sum; about ``busy`` of the areas change."""
    counts, targets = rng.multinomial(total, np.full(m, 1 / m), size=2)
    targets = np.where(rng.random(m) < busy, targets, counts)
    targets[-1] += counts.sum() - targets.sum()
    if targets[-1] < 0:
        counts[-1] -= targets[-1]
        targets[-1] = 0
    return counts, targets


def least_cost(surplus, cost):
    """The flow problem over all pairs of areas, from no area back to itself, by interior points."""
    m = len(surplus)
    a, b = np.nonzero(~np.eye(m, dtype=bool) & (surplus[:, None] > 0) & (surplus < 0) & np.isfinite(cost))
    if not len(a):
        return 0.0
    balance = (np.arange(m)[:, None] == a).astype(float) - (np.arange(m)[:, None] == b)
    return linprog(cost[a, b], A_eq=balance, b_eq=surplus, method="highs-ipm").fun


def check_flows(flows, counts, targets):
    assert flows.dtype.kind == "i"
    assert (flows >= 0).all()
    np.testing.assert_array_equal(flows.sum(axis=1) - flows.sum(axis=0), counts - targets)
    # No area passes on what it got, and no pairs are in use that a forest would do without.
    assert not (flows.any(axis=1) & flows.any(axis=0)).any()
    used = np.count_nonzero(flows)
    assert used == len(flows) - connected_components(flows, directed=False)[0]


@given(st.integers(0, 9999), st.integers(1, 9), st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_flows_meet_the_targets_at_the_least_cost(seed, m, total):
    counts, targets = draw_counts(np.random.default_rng(seed), m, total, 0.7)
    cost = np.abs(np.subtract.outer(np.arange(m), np.arange(m))).astype(float)
    flows = net_flows(counts, targets)
    check_flows(flows, counts, targets)
    assert (cost * flows).sum() == pytest.approx(least_cost(counts - targets, cost), abs=1e-6)


def test_flows_of_the_published_signal():
    targets = TARGETS.copy()
    targets[-1] += COUNTS.sum() - TARGETS.sum()
    flows = net_flows(COUNTS, targets)
    check_flows(flows, COUNTS, targets)
    assert flows.sum() == np.maximum(COUNTS - targets, 0).sum()


def test_nothing_flows_when_nothing_changes():
    assert not net_flows(COUNTS, COUNTS).any()


def test_many_areas():
    rng = np.random.default_rng(0)
    counts, targets = draw_counts(rng, 3000, 100_000, 0.05)
    check_flows(net_flows(counts, targets), counts, targets)


def test_flows_that_cannot_be():
    with pytest.raises(InfeasibleError, match="different sums"):
        net_flows(np.array([1, 2]), np.array([1, 1]))


# -- matching


def total(queries, points, partner):
    return ((queries - points[partner]) ** 2).sum()


@pytest.mark.parametrize("kind", ["normal", "discrete", "equal", "crowd", "far", "wide", "wide alike"])
@pytest.mark.parametrize("dense", [0, 20_000, 10**6])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (7, 7), (60, 61), (60, 2000), (150, 400)])
def test_match_is_the_best_of_all(kind, m, n, dense, monkeypatch):
    monkeypatch.setattr(pairs_module, "_DENSE", dense)
    rng = np.random.default_rng(m * n)
    d = 12 if kind.startswith("wide") else 3
    queries, points = rng.normal(size=(m, d)), rng.normal(size=(n, d))
    if kind in ("discrete", "wide alike"):
        queries, points = np.rint(queries), np.rint(points)
    if kind == "equal":
        queries, points = np.ones((m, d)), np.ones((n, d))
    if kind == "crowd":
        queries[:] = queries[0]
    if kind == "far":
        queries += 100.0
    partner = match(queries, points, rng=rng)
    assert len(set(partner)) == m
    cost = cdist(queries, points, "sqeuclidean")
    best = cost[linear_sum_assignment(cost)].sum()
    assert total(queries, points, partner) == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_match_without_room_for_long_lists(monkeypatch):
    monkeypatch.setattr(pairs_module, "_DENSE", 0)
    monkeypatch.setattr(pairs_module, "_ENTRIES", 1000)
    monkeypatch.setattr(pairs_module, "_CHUNK", 50)
    rng = np.random.default_rng(0)
    queries, points = np.zeros((300, 2)), rng.normal(size=(320, 2))
    partner = match(queries, points, rng=rng)
    assert len(set(partner)) == 300
    kept = np.sort((points**2).sum(axis=1))[:300].sum()
    assert kept - 1e-9 <= total(queries, points, partner) <= 1.2 * kept


# -- relocation


def population(rng, n, m, sizes, share, t=2, discrete=False):
    """Households of random sizes in random areas, some of their members vital."""
    size = rng.choice(sizes, size=n)
    household = np.repeat(rng.permutation(10 * n)[:n], size)
    area = np.repeat(rng.integers(0, m, n), size)
    vital = rng.random(len(area)) < share
    features = rng.integers(0, 3, (len(area), t)) if discrete else rng.normal(size=(len(area), t))
    order = rng.permutation(len(area))
    return area[order], vital[order], features[order].astype(float), household[order]


def draw_flows(rng, area, vital, m, most=4):
    """Flows from some areas to the others, no larger than what there is."""
    flows = np.zeros((m, m), dtype=int)
    left = np.bincount(area[vital], minlength=m)
    sends = rng.random(m) < 0.5
    for a, b in itertools.product(np.flatnonzero(sends), np.flatnonzero(~sends)):
        flows[a, b] = rng.integers(0, min(left[a], most) + 1)
        left[a] -= flows[a, b]
    return flows


def groups(area, vital, household):
    """Units as (code, area, record numbers, vital members)."""
    codes = np.arange(len(area)) if household is None else household
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        yield code, area[members[0]], members, int(vital[members].sum())


def check(area, vital, features, flows, household, moved):
    """All that has to hold whatever was chosen."""
    m = len(flows)
    held = flows - moved.unmatched
    assert (moved.unmatched >= 0).all()
    assert (held >= 0).all()
    before, after = (np.bincount(at[vital], minlength=m) for at in (area, moved.area))
    np.testing.assert_array_equal(before - after, held.sum(axis=1) - held.sum(axis=0))
    np.testing.assert_array_equal(np.bincount(moved.area, minlength=m), np.bincount(area, minlength=m))
    units = {code: (home, members, v) for code, home, members, v in groups(area, vital, household)}
    expected, cost, sums = area.copy(), 0.0, np.zeros((3, m, m))
    for left, right in moved.pairs:
        (a, movers, v), (b, others, none) = units[left], units[right]
        assert none == 0 < v
        assert len(movers) == len(others)
        expected[movers], expected[others] = b, a
        gap = features[movers].mean(axis=0) - features[others].mean(axis=0)
        spread = features[movers].std(axis=0) - features[others].std(axis=0)
        each = len(movers) * (gap @ gap + spread @ spread)
        sums[:, a, b] += len(movers), each, v
        cost += each
    assert len(np.unique(moved.pairs)) == moved.pairs.size == moved.moved_units
    np.testing.assert_array_equal(moved.area, expected)
    np.testing.assert_array_equal(moved.flow_records, sums[0])
    np.testing.assert_allclose(moved.flow_costs, sums[1], atol=1e-9)
    np.testing.assert_array_equal(held, sums[2])
    assert 2 * moved.flow_records.sum() == (moved.area != area).sum()
    assert moved.cost == pytest.approx(cost, abs=1e-9)
    assert moved.lower_bound <= moved.cost
    shift = np.linalg.norm(moved_means(features, area, moved.area, m), axis=1)
    assert (shift <= mean_shift_bound(moved, np.bincount(area, minlength=m)) + 1e-12).all()


def rank(area, vital, flows, household, moved):
    """What is minimised, in this order: shortage, vital members beyond the first."""
    units = {code: v for code, _, _, v in groups(area, vital, household)}
    return int(moved.unmatched.sum()), sum(units[code] - 1 for code in moved.pairs[:, 0])


def best_of_all(area, vital, features, flows, household):
    """Try every choice: (shortage, members beyond the first, cost)."""
    units = list(groups(area, vital, household))
    movers = [u for u in units if u[3]]
    others = [u for u in units if not u[3]]

    def gap(u, w):
        x, y = features[u[2]], features[w[2]]
        means, spreads = x.mean(axis=0) - y.mean(axis=0), x.std(axis=0) - y.std(axis=0)
        return len(x) * (means @ means + spreads @ spreads)

    def search(i, open_flows, used, excess, cost):
        if i == len(movers):
            return int(open_flows.sum()), excess, cost
        found = [search(i + 1, open_flows, used, excess, cost)]
        for j, other in enumerate(others):
            at = movers[i][1], other[1]
            v = movers[i][3]
            if j in used or len(movers[i][2]) != len(other[2]) or open_flows[at] < v:
                continue
            rest = open_flows.copy()
            rest[at] -= v
            found.append(search(i + 1, rest, used | {j}, excess + v - 1, cost + gap(movers[i], other)))
        return min(found)

    return search(0, flows, frozenset(), 0, 0.0)


@given(st.integers(0, 99999), st.sampled_from(["records", "couples", "mixed"]), st.booleans())
@settings(max_examples=80, deadline=None)
def test_small_cases_against_all_choices(seed, kind, discrete):
    rng = np.random.default_rng(seed)
    sizes = {"records": [1], "couples": [2], "mixed": [1, 2, 3]}[kind]
    n = {"records": 10, "couples": 8, "mixed": 9}[kind]
    area, vital, features, household = population(rng, n, 3, sizes, 0.35, discrete=discrete)
    flows = draw_flows(rng, area, vital, 3)
    household = None if kind == "records" else household
    moved = relocate(area, vital, features, flows, household=household, rng=rng)
    check(area, vital, features, flows, household, moved)
    *ranked, cost = best_of_all(area, vital, features, flows, household)
    assert rank(area, vital, flows, household, moved) == tuple(ranked)
    assert moved.cost == pytest.approx(cost, abs=1e-6)
    assert moved.lower_bound == moved.cost


@given(
    st.integers(0, 99999),
    st.sampled_from(["records", "households", "lumps"]),
    st.sampled_from([0.02, 0.2, 0.6]),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_the_way_for_many_units(seed, kind, share, discrete):
    rng = np.random.default_rng(seed)
    sizes = {"records": [1], "households": [1, 1, 2, 3, 4], "lumps": [3, 4]}[kind]
    m = int(rng.integers(2, 6))
    area, vital, features, household = population(rng, 60, m, sizes, share, discrete=discrete)
    if kind == "lumps":
        # Where anyone is vital, so is the next member.
        order = np.argsort(household)
        vital[order] |= np.roll(vital[order], 1) & (np.roll(household[order], 1) == household[order])
    flows = draw_flows(rng, area, vital, m, most=6)
    household = None if kind == "records" else household
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs_module, "_EXACT", -1)
        patch.setattr(pairs_module, "_DENSE", int(rng.choice([0, 100, 10**6])))
        moved = relocate(area, vital, features, flows, household=household, rng=rng)
        patch.setattr(pairs_module, "_EXACT", 10**6)
        best = relocate(area, vital, features, flows, household=household, rng=rng)
    check(area, vital, features, flows, household, moved)
    check(area, vital, features, flows, household, best)
    ranks = [rank(area, vital, flows, household, r) for r in (moved, best)]
    assert ranks[0] == ranks[1]
    assert best.cost <= moved.cost + 1e-6
    if ranks[0] == (0, 0):
        assert moved.lower_bound <= best.cost + 1e-6


def test_many_units_come_close_to_the_least_cost():
    rng = np.random.default_rng(0)
    area, vital, features, household = population(rng, 20_000, 6, [1, 2, 3, 4], 0.03, t=3)
    flows = np.zeros((6, 6), dtype=int)
    flows[0, 2:], flows[1, 5] = [40, 10, 60, 20], 70
    moved = relocate(area, vital, features, flows, household=household, rng=rng)
    check(area, vital, features, flows, household, moved)
    assert not moved.unmatched.any()
    assert 0 < moved.lower_bound <= moved.cost < 1.05 * moved.lower_bound


def test_a_pool_of_counterparts_that_is_used_up():
    """No one may be chosen twice, and sizes that run out are replaced by others."""
    rng = np.random.default_rng(1)
    size = np.repeat([1, 2, 1, 2], [100, 100, 20, 100])
    household = np.repeat(np.arange(320), size)
    area = (household >= 200).astype(int)
    vital = (area == 0) & np.append(True, household[1:] != household[:-1])
    # Single movers are like their counterparts, couples are not: all would go alone, but 20 can.
    features = np.where((area == 0) & (size[household] == 2), 5.0, 0.0)[:, None]
    flows = np.array([[0, 60], [0, 0]])
    moved = relocate(area, vital, features, flows, household=household, rng=rng)
    check(area, vital, features, flows, household, moved)
    assert not moved.unmatched.any()
    assert moved.flow_records.sum() == 20 + 2 * 40
    assert moved.cost == pytest.approx(40 * 2 * 25)


def test_lumps_that_fit_are_found():
    """Households with 2 and 3 vital members, 25 each, reach 71 in some way."""
    size = np.full(120, 3)
    household = np.repeat(np.arange(120), size)
    area = (household >= 50).astype(int)
    inside = np.tile([0, 1, 2], 120)
    vital = (area == 0) & (inside < 2 + household % 2)
    features = np.random.default_rng(0).normal(size=(360, 2))
    flows = np.array([[0, 71], [0, 0]])
    moved = relocate(area, vital, features, flows, household=household, rng=np.random.default_rng(0))
    check(area, vital, features, flows, household, moved)
    assert not moved.unmatched.any()


def test_lumps_that_cannot_fit_are_reported():
    household = np.repeat(np.arange(8), 2)
    area = np.repeat([0, 1], 8)
    flows = np.array([[0, 5], [0, 0]])
    features = np.zeros((16, 1))
    moved = relocate(area, area == 0, features, flows, household=household, rng=np.random.default_rng(0))
    check(area, area == 0, features, flows, household, moved)
    assert moved.unmatched.tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize("exact", [-1, 10**6])
def test_too_few_counterparts_are_reported(exact, monkeypatch):
    monkeypatch.setattr(pairs_module, "_EXACT", exact)
    area = np.repeat([0, 1], [40, 15])
    vital = np.arange(55) < 43
    features = np.arange(55.0)[:, None]
    flows = np.array([[0, 20], [0, 0]])
    moved = relocate(area, vital, features, flows, rng=np.random.default_rng(0))
    check(area, vital, features, flows, None, moved)
    assert moved.unmatched.tolist() == [[0, 8], [0, 0]]


@pytest.mark.parametrize("vital", [[True, True, True], [False, False, False]])
def test_no_counterpart_or_no_mover_at_all(vital):
    area, flows = np.array([0, 1, 1]), np.array([[0, 1], [0, 0]])
    moved = relocate(area, np.array(vital), np.zeros((3, 1)), flows, rng=np.random.default_rng(0))
    assert moved.area.tolist() == area.tolist()
    assert (moved.unmatched == flows).all()
    assert moved.flow_records.sum() == moved.moved_units == moved.cost == 0


def test_nothing_to_move():
    rng = np.random.default_rng(0)
    area, vital, features, household = population(rng, 50, 4, [1, 2], 0.2)
    moved = relocate(area, vital, features, np.zeros((4, 4), dtype=int), household=household, rng=rng)
    assert (moved.area == area).all()
    assert moved.pairs.shape == (0, 2)


@pytest.mark.parametrize("households", [False, True])
def test_alike_records_cost_nothing(households):
    rng = np.random.default_rng(0)
    area, vital, features, household = population(rng, 3000, 4, [1, 2, 3], 0.1)
    features[:] = 7.0
    flows = np.array([[0, 0, 30, 9], [0, 0, 0, 40], [0] * 4, [0] * 4])
    moved = relocate(area, vital, features, flows, household=household if households else None, rng=rng)
    check(area, vital, features, flows, household if households else None, moved)
    assert moved.cost == 0
    assert not moved.unmatched.any()


@pytest.mark.parametrize("n", [60, 4000])
def test_the_seed_decides_among_equals(n):
    rng = np.random.default_rng(0)
    area, vital, features, household = population(rng, n, 3, [1, 2], 0.2, t=1, discrete=True)
    flows = np.zeros((3, 3), dtype=int)
    flows[0, 1:] = n // 60, n // 60
    first, again, other = (
        relocate(area, vital, features, flows, household=household, rng=np.random.default_rng(seed))
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.pairs, again.pairs)
    np.testing.assert_array_equal(first.area, again.area)
    assert (first.area != other.area).any()


def test_input_is_left_alone():
    rng = np.random.default_rng(0)
    data = [*population(rng, 500, 3, [1, 2], 0.2), np.array([[0, 5, 6], [0] * 3, [0] * 3])]
    for array in data:
        array.setflags(write=False)
    area, vital, features, household, flows = data
    relocate(area, vital, features, flows, household=household, rng=rng)


def test_candidates_are_a_sample_unless_more_are_needed(monkeypatch):
    rng = np.random.default_rng(0)
    area = np.repeat([0, 1], 2000)
    vital = area == 0
    features = rng.normal(size=(4000, 1))
    flows = np.array([[0, 10], [0, 0]])
    all_ = relocate(area, vital, features, flows, rng=rng)
    monkeypatch.setattr(relocation, "_CANDIDATES", 20)
    few = relocate(area, vital, features, flows, rng=rng)
    check(area, vital, features, flows, None, few)
    assert all_.cost < few.cost
    # Only one of the 2000 couples has a counterpart: it is found whatever the sample.
    household = np.append(np.repeat(np.arange(500), 4), 500 + np.arange(2000))
    household[[0, 1, 2]], household[3] = 9000, 9001
    one = np.array([[0, 1], [0, 0]])
    monkeypatch.setattr(relocation, "_CANDIDATES", 1)
    found = relocate(area, vital, features, one, household=household, rng=rng)
    check(area, vital, features, one, household, found)
    assert not found.unmatched.any()


def test_households_in_two_areas_are_refused():
    with pytest.raises(AnonymizationError, match="two areas"):
        relocate(
            np.array([0, 1]),
            np.array([True, False]),
            np.zeros((2, 1)),
            np.array([[0, 1], [0, 0]]),
            household=np.array([4, 4]),
            rng=np.random.default_rng(0),
        )


# -- means


@given(st.integers(0, 9999))
@settings(max_examples=30, deadline=None)
def test_moved_means(seed):
    rng = np.random.default_rng(seed)
    before, features = rng.integers(0, 4, 50), rng.normal(size=(50, 3))
    after = before.copy()
    swapped = rng.permutation(50)[:20].reshape(2, 10)
    after[swapped[0]], after[swapped[1]] = before[swapped[1]], before[swapped[0]]
    expected = np.zeros((5, 3))
    for a in range(4):
        if (before == a).any():
            expected[a] = features[after == a].mean(axis=0) - features[before == a].mean(axis=0)
    np.testing.assert_allclose(moved_means(features, before, after, 5), expected, atol=1e-12)


def test_the_bound_of_the_shift_is_attained():
    """All swaps in one direction and of one length."""
    area = np.repeat([0, 1], 50)
    features = np.where(area == 0, 0.0, 2.0)[:, None]
    moved = relocate(area, area == 0, features, np.array([[0, 9], [0, 0]]), rng=np.random.default_rng(0))
    shift = np.abs(moved_means(features, area, moved.area, 2)[:, 0])
    np.testing.assert_allclose(shift, mean_shift_bound(moved, np.array([50, 50])))
