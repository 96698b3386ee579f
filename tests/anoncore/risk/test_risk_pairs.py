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
from anoncore.risk.pairs import striking_beginning

ONES, NOBODY = np.ones(100), np.full(100, -1)
FAR = Neighbours(ONES, ONES, ONES, NOBODY)


def of(released=ONES, other=ONES, own=ONES, partner=NOBODY) -> Neighbours:
    return Neighbours(released, other, own, partner)


def at(*places: int) -> np.ndarray:
    return np.where(np.isin(np.arange(100), places), 0.05, 1.0)


def test_by_hand():
    # Three pairs with the release, one with A*, one person of A beside another, two pairs within A*.
    two, three = NOBODY.copy(), NOBODY.copy()
    two[[4, 5]] = [5, 4]
    three[[0, 1, 2]] = [1, 0, 3]
    found = close_pairs(of(at(0, 1, 2), at(3), at(4, 5), two), of(at(50), at(51), at(0, 1, 2), three))
    assert (found.n, found.n_released, found.n_chance, found.n_people) == (7, 3, 4, 200)
    # All at one ratio: one beginning, of all seven.
    assert found.p == pytest.approx(binom.sf(2, 7, 1 / 3))
    assert found.baseline == 1 / 3


def test_what_is_no_pair():
    twice = of(at(0), at(0))
    identical = of(np.where(np.arange(100) < 9, 0.0, 1.0))
    barely = of(0.1 * ONES)
    for people in (FAR, twice, identical, barely):
        found = close_pairs(people, FAR)
        assert (found.n, found.n_released, found.p) == (0, 0, 1.0)
    assert close_pairs(of(0.0999 * ONES), FAR).n == 100


def test_the_closest_pairs_count():
    # Ten copies closer than forty chance pairs, which would hide them if all pairs were counted alike.
    released, other = ONES.copy(), ONES.copy()
    released[:10], other[10:50] = 0.01, np.linspace(0.05, 0.09, 40)
    found = close_pairs(of(released, other), FAR)
    assert (found.n, found.n_released) == (20, 10)
    assert 3.0**-10 < found.p < 3 * 3.0**-10  # of ten in a row, and of what else is as improbable
    assert binom.sf(9, 50, 1 / 3) > 0.9


def test_closeness_that_chance_makes_often_is_not_telling():
    assert close_pairs(of(at(*range(60)), at(90, 91)), FAR).telling
    assert not close_pairs(of(at(0), at(90, 91, 92)), FAR).telling


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
    assert close.strangers is not None
    found = close_pairs(close.people, close.strangers, tau=0.3)
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
            pairs[i if whose[j] == "y" else frozenset((i, j))] = whose[j] == "y"
    released, chance = sum(pairs.values()), len(pairs) - sum(pairs.values())
    assert (found.n_people, found.n_chance) == (n + m, chance)
    assert found.n == min(20, released + chance)
    assert found.n_released >= released - max(0, released + chance - 20)


@pytest.mark.parametrize("kind", ["3 columns", "rounded", "mixed"])
def test_they_ring_as_seldom_as_they_say(kind):
    rung = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, len(kind)])
        rows = rng.normal(size=(3, 500, 3 if kind == "3 columns" else 5))
        if kind == "rounded":
            rows = rows.round(1)
        if kind == "mixed":
            rows[:, :, ::3] = np.digitize(rows[:, :, ::3], [-0.5, 0.8])
        close = closeness(*rows, 5, queries=np.arange(500), rng=rng)
        rung += close.tail(0.1, 0.05).verdict == "fail"
    # 5 % of 200 are 10, and 16 are exceeded with a chance of 2 %.
    assert rung <= 16


def test_sizes_that_differ_lower_the_release_s_share():
    shares = []
    for n, m in ((600, 600), (600, 200), (200, 600)):
        won = seen = 0
        for seed in range(60):
            rng = np.random.default_rng([seed, n, m])
            a, y, b = (rng.normal(size=(size, 3)) for size in (n, m, m))
            close = closeness(a, y, b, 2, queries=np.arange(n), rng=rng)
            assert close.people is not None
            assert close.strangers is not None
            found = close_pairs(close.people, close.strangers, tau=0.2)
            won, seen = won + found.n_released, seen + found.n
        shares.append(won / seen)
        assert won / seen <= 1 / 3 + 2.5 * np.sqrt(2 / 9 / seen)
    assert min(shares[1:]) < 0.3


def test_bad_arguments():
    with pytest.raises(AnonymizationError, match="tau must be between 0 and 1"):
        close_pairs(FAR, FAR, tau=1)
    with pytest.raises(AnonymizationError, match="own must hold 100 values"):
        of(own=ONES[1:])
    for partner in (NOBODY[1:], ONES):
        with pytest.raises(AnonymizationError, match="partner must hold 100 whole numbers"):
            of(partner=partner)
    for partner in (NOBODY - 1, NOBODY + 101):
        with pytest.raises(AnonymizationError, match="partner must be −1 … 99"):
            of(partner=partner)


def test_the_parts_are_told():
    assert close_pairs(FAR, FAR) == ClosePairs(n=0, n_released=0, n_people=200, n_chance=0, tau=0.1, p=1.0)
