"""Close pairs: counted by hand and by brute force, exact by enumeration, at level by simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import binom

from anoncore.errors import AnonymizationError
from anoncore.risk import ClosePairs, Neighbours, close_pairs, closeness
from anoncore.risk.pairs import beginning_p, striking_beginning

ONES, NOBODY = np.ones(100), np.full(100, -1)
APART = 10.0 * np.arange(100.0)[:, None]
FAR = Neighbours(APART, ONES, ONES, ONES, NOBODY)


def of(released=ONES, other=ONES, own=ONES, partner=NOBODY, records=APART) -> Neighbours:
    return Neighbours(records, released, other, own, partner)


def at(*places: int) -> np.ndarray:
    return np.where(np.isin(np.arange(100), places), 0.05, 1.0)


def test_by_hand():
    # Three pairs with the release, one with A*, one person of A beside another, two pairs within A*.
    two, three = NOBODY.copy(), NOBODY.copy()
    two[[4, 5]] = [5, 4]
    three[[0, 1, 2]] = [1, 0, 3]
    found = close_pairs(of(at(0, 1, 2), at(3), at(4, 5), two), of(at(50), at(51), at(0, 1, 2), three))
    assert (found.n, found.n_released, found.n_people) == (7, 3, 200)
    assert (found.n_among, found.n_cross) == (4, 1)
    # All at one ratio: one beginning, of all seven.
    assert found.p == pytest.approx(binom.sf(2, 7, 1 / 3))
    assert found.baseline == 1 / 3


def test_what_is_no_pair():
    twice = of(at(0), at(0))
    barely = of(0.1 * ONES)
    for people in (FAR, twice, barely):
        found = close_pairs(people, FAR)
        assert (found.n, found.n_released, found.p) == (0, 0, 1.0)
    every = close_pairs(of(0.0999 * ONES), FAR)
    assert (every.n, every.n_released) == (20, 20)


def test_of_pairs_at_one_ratio_those_of_people_come_first():
    # Thirty pairs at one ratio, of which twenty are looked at.
    found = close_pairs(of(at(*range(18)), at(*range(50, 62))), FAR)
    assert (found.n, found.n_released) == (20, 8)
    assert found.p == pytest.approx(binom.sf(7, 20, 1 / 3))


def test_identical_records_are_pairs_where_no_two_people_are_identical():
    copied = np.where(np.arange(100) < 4, 0.0, at(4, 5, 6, 7))
    found = close_pairs(of(copied), FAR)
    assert (found.n, found.n_released) == (8, 8)
    assert found.p == pytest.approx(3.0**-8, rel=0.3)
    for twin in (of(copied, own=np.where(np.arange(100) == 99, 0.0, 1.0)), of(copied, other=at(99) - 0.05)):
        assert close_pairs(twin, FAR).n_released == 4
    assert close_pairs(of(copied), of(own=np.where(np.arange(100) < 2, 0.0, 1.0))).n_released == 4


def test_a_household_counts_once():
    together = APART.copy()
    together[:6] = np.linspace(0.0, 0.05, 6)[:, None]
    assert close_pairs(of(at(*range(8))), FAR).n_released == 8
    assert close_pairs(of(at(*range(8)), records=together), FAR).n_released == 3


def test_the_closest_pairs_count():
    # Ten copies closer than forty chance pairs, which would hide them if all pairs were counted alike.
    released, other = ONES.copy(), ONES.copy()
    released[:10], other[10:50] = 0.01, np.linspace(0.05, 0.09, 40)
    found = close_pairs(of(released, other), FAR)
    assert (found.n, found.n_released) == (20, 10)
    assert 3.0**-10 < found.p < 3 * 3.0**-10  # of ten in a row, and of what else is as improbable
    assert binom.sf(9, 50, 1 / 3) > 0.9


def test_closeness_that_people_have_among_themselves_is_not_telling():
    assert close_pairs(of(at(*range(60)), at(90)), FAR).telling
    assert not close_pairs(of(at(*range(60)), at(90, 91)), FAR).telling
    # Whatever the release does: one that is far from everybody makes nobody close to anybody.
    far = close_pairs(of(100 * ONES, at(90)), of(100 * ONES))
    assert (far.telling, far.n_among, far.n_cross) == (True, 1, 1)


def test_a_reference_of_changed_members_is_seen():
    close = closeness(*changed_members(), 5, queries=np.arange(300), rng=np.random.default_rng(0))
    pairs = close.pairs(0.1)
    assert pairs is not None
    assert (pairs.n_cross, pairs.n_among) == (30, 30)
    assert pairs.p_cross == 2.0**-30
    assert close_pairs(FAR, FAR).p_cross == 1.0


def changed_members() -> np.ndarray:
    rows = np.random.default_rng(4).normal(size=(3, 300, 8))
    rows[2, :30] = rows[0, :30] + 0.001
    return rows


@settings(max_examples=60, deadline=None)
@given(
    wins=st.lists(st.booleans(), min_size=1, max_size=9),
    more=st.lists(st.integers(1, 9), max_size=4),
    share=st.sampled_from([0.5, 1 / 3, 0.1]),
)
def test_striking_beginning_by_enumeration(wins, more, share):
    length = len(wins)
    ends = sorted({length, *(end for end in more if end < length)})

    def improbable(drawn) -> float:
        return min(binom.sf(sum(drawn[:end]) - 1, end, share) for end in ends)

    least = improbable(wins) * (1 + 1e-9)
    expected = sum(
        share ** sum(drawn) * (1 - share) ** (length - sum(drawn))
        for drawn in product([False, True], repeat=length)
        if improbable(drawn) <= least
    )
    assert striking_beginning(wins, ends, share) == pytest.approx(expected)


def test_no_draws_are_not_striking():
    assert striking_beginning([], [], 0.5) == 1.0


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), n=st.integers(3, 40), m=st.integers(3, 40))
def test_pairs_by_brute_force(seed, n, m):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    y = a[rng.integers(0, n, m)] + rng.choice([0.01, 1.0], (m, 1)) * rng.normal(size=(m, 2))
    close = closeness(a, y, b, 2, queries=np.arange(n), rng=rng)
    assert close.people is not None
    assert close.nonmembers is not None
    found = close_pairs(close.people, close.nonmembers, tau=0.3)
    points = np.vstack([y, a, b])
    whose = np.repeat(["y", "a", "b"], [m, n, m])
    apart = cdist(points, points)
    np.fill_diagonal(apart, np.inf)
    pairs = {}
    for i in range(m, len(points)):
        least = [apart[i, whose == side].min() for side in "yab"]
        j = int(apart[i].argmin())
        if apart[i, j] < 0.3 * max(least) and (whose[i] == "a" or whose[j] == "b"):
            # Seen from both sides where two people of one sample are each other's nearest.
            pair = i if whose[j] == "y" else frozenset((i, j))
            pairs[pair] = min((apart[i, j] / max(least), whose[j] == "y", i, 0.3 * max(least)), pairs.get(pair, (9,)))
    counted = []
    for _, released, i, near in sorted(pairs.values()):
        if not (released and any(won and apart[i, other] < near for won, other in counted)):
            counted.append((released, i))
    assert (found.n_people, found.n) == (n + m, min(20, len(counted)))
    assert found.n_released == sum(released for released, _ in counted[:20])


def households(rng: np.random.Generator) -> np.ndarray:
    """Draw one population with ten households of eight people alike, part it in three at random."""
    centres = 3 * rng.normal(size=(10, 1, 6))
    tight = 0.01 * np.exp(rng.normal(size=(10, 1, 1)))
    alike = centres + tight * rng.normal(size=(10, 8, 6))
    people = np.vstack([rng.normal(size=(1420, 6)), alike.reshape(-1, 6)])
    return rng.permutation(people).reshape(3, 500, 6)


def mixed(rng: np.random.Generator) -> np.ndarray:
    rows = rng.normal(size=(3, 500, 5))
    rows[:, :, ::3] = np.digitize(rows[:, :, ::3], [-0.5, 0.8])
    return rows


@pytest.mark.parametrize("draw", [households, mixed, lambda rng: rng.normal(size=(3, 500, 3))])
def test_they_ring_as_seldom_as_they_say(draw):
    rung = seen = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        found = closeness(*draw(rng), 5, queries=np.arange(500), rng=rng).pairs(0.1)
        assert found is not None
        rung += found.p < 0.05
        seen += found.n
    # 5 % of 120 are 6, and 11 are exceeded with a chance of 1.4 %.
    assert rung <= 11
    assert seen > 180


def test_sizes_that_differ_lower_the_release_s_share():
    shares = []
    for n, m in ((600, 600), (600, 200), (200, 600)):
        won = seen = 0
        for seed in range(30):
            rng = np.random.default_rng([seed, n, m])
            a, y, b = (rng.normal(size=(size, 3)) for size in (n, m, m))
            close = closeness(a, y, b, 2, queries=np.arange(n), rng=rng)
            assert close.people is not None
            assert close.nonmembers is not None
            found = close_pairs(close.people, close.nonmembers, tau=0.2)
            won, seen = won + found.n_released, seen + found.n
        shares.append(won / seen)
        assert won / seen <= 1 / 3 + 2.5 * np.sqrt(2 / 9 / seen)
    assert min(shares[1:]) < 0.3


def test_bad_arguments():
    with pytest.raises(AnonymizationError, match="tau must be between 0 and 1"):
        close_pairs(FAR, FAR, tau=1)
    with pytest.raises(AnonymizationError, match="own must hold 100 values"):
        of(own=ONES[1:])
    listed = Neighbours([[0], [9]], [0.01, 1], [1, 1], [1, 1], [-1, -1])  # type: ignore[arg-type]
    assert close_pairs(listed, listed).n_released == 1
    for partner in (NOBODY[1:], ONES):
        with pytest.raises(AnonymizationError, match="partner must hold 100 whole numbers"):
            of(partner=partner)
    for partner in (NOBODY - 1, NOBODY + 101):
        with pytest.raises(AnonymizationError, match="partner must be −1 … 99"):
            of(partner=partner)


def test_the_parts_are_told():
    assert close_pairs(FAR, FAR) == ClosePairs(n=0, n_released=0, n_people=200, n_among=0, n_cross=0, tau=0.1, p=1.0)


@pytest.mark.parametrize("mean", [0.4, np.array([0.4, 0.4]), np.array([0.6, 0.4])])
def test_many_draws_between_two_lengths_are_added_as_one_by_one(mean):
    least, lengths = 0.02, np.array([10, 300])
    means = np.broadcast_to(mean, 2)
    first, then = means[0], (300 * means[1] - 10 * means[0]) / 290
    chance, reached = np.ones(1), 0.0
    for t in range(1, lengths[-1] + 1):
        won = first if t <= 10 else then
        chance = np.convolve(chance, [1 - won, won])
        if t in lengths:
            striking = binom.sf(np.arange(t + 1) - 1, t, means[0] if t == 10 else means[1]) <= least
            reached += chance[striking].sum()
            chance[striking] = 0.0
    assert beginning_p(least, lengths, mean) == pytest.approx(reached, abs=1e-13)
