"""Close pairs: whether the release pairs off with people more often than chance pairs people with people."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from anoncore.errors import AnonymizationError
from anoncore.risk._checks import Floats, between, vector

# Of all close pairs of a person with a point of three samples alike, those with one given sample; see below.
SHARE = 1.0 / 3.0
# The closest pairs are looked at: as many as this share of the people of a sample, so many at least.
OF_PEOPLE, FEWEST = 0.01, 20


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest of three samples to each person of one of them.

    Parameters
    ----------
    released, other, own : (q,) distances to the nearest released row, to the nearest person of the other
        sample, and to the nearest other person of the own one, in one unit
    partner : (q,) which of the q people that last one is, −1 where it is not among them
    """

    released: Floats
    other: Floats
    own: Floats
    partner: NDArray[np.intp]

    def __post_init__(self) -> None:
        near = vector("released", self.released)
        for name in ("other", "own"):
            vector(name, getattr(self, name), len(near))
        partner = np.asarray(self.partner)
        if partner.shape != near.shape or partner.dtype.kind not in "iu":
            raise AnonymizationError(f"partner must hold {len(near)} whole numbers, one for each person")
        if partner.min() < -1 or partner.max() >= len(partner):
            raise AnonymizationError(f"partner must be −1 … {len(partner) - 1}, the people measured")


@dataclass(frozen=True)
class ClosePairs:
    """Close pairs among release, original and reference, and how surely too many are the release's.

    Parameters
    ----------
    n : pairs closer than tau, of a person with a released row, another person of the same sample, or one of
        the other sample; the closest ones, where there are many
    n_released : of these, those of a person of the original with a released row
    n_people : people of both samples
    n_chance : close pairs of two people, all of them
    tau : share of the farthest of the three distances that counts as close
    p : one-sided p-value
    baseline : the share of n that chance gives the release at most
    """

    n: int
    n_released: int
    n_people: int
    n_chance: int
    tau: float
    p: float
    baseline: float = SHARE

    @property
    def telling(self) -> bool:
        """Whether a close pair is unusual: chance makes at most one for every hundred people."""
        return self.n_chance <= OF_PEOPLE * self.n_people


def close_pairs(original: Neighbours, reference: Neighbours, *, tau: float = 0.1) -> ClosePairs:
    """Test whether pairs of a person and a released row are too many among the closest pairs.

    A person's nearest point in release, A and A* makes a close pair when it lies τ times nearer than the
    farthest of the three samples' nearest points does. If the release were one more sample of the population,
    close pairs of an a in A with a released row would be as many as those with an a* in A*; pairs within A,
    or within A*, each counted once, would be half as many; so one in three is the release's. It is less where
    the release keeps away from people, where the samples differ in size, since 2|A||A*| ≤ |A|² + |A*|², or
    where people have near twins in their own sample.

    Pairs are ordered by how close they are, and the p-value rests on the most striking beginning of that
    order: the least of P(Bin(t, ⅓) ≥ the release's among the closest t), over t. What that least value does
    by chance is computed exactly. So ten copies among two thousand people stand out where people are close to
    each other anyway, because copies are closer still.

    Parameters
    ----------
    original : people of A, ``other`` being their distances to A*
    reference : people of A*, ``other`` being their distances to A; only pairs of two of them are counted
    tau : 0 … 1

    Returns
    -------
    ClosePairs

    Raises
    ------
    AnonymizationError
        When a parameter is out of range.

    Notes
    -----
    Pairs at distance 0 are left to `identical_records`: where values are discrete they say nothing about
    closeness. So are people with two nearest points at one distance. Pairs at one ratio are taken together.
    At most one pair for every hundred people of a sample is looked at, 20 at least. In tables of one or two
    columns people are that close to each other anyway, and what keeps single values, as swapping does, is a
    little closer without being anybody's record: see `ClosePairs.telling`. Source: docs/risk.md.

    Examples
    --------
    >>> far, none = np.ones(50), np.full(50, -1)
    >>> people = Neighbours(np.where(np.arange(50) < 6, 0.01, 1.0), far, far, none)
    >>> found = close_pairs(people, Neighbours(far, far, far, none))
    >>> found.n_released, round(found.p * 3**6)
    (6, 1)
    """
    between("tau", tau, 0, 1)
    ours, near, whose = _closest(original, tau)
    theirs, pairs, within = _closest(reference, tau)
    among = within == 2
    ratio = np.concatenate([near, pairs[among]])
    wins = np.concatenate([whose == 0, np.zeros(int(among.sum()), dtype=bool)])
    order = np.argsort(ratio, kind="stable")
    ratio, wins = ratio[order], wins[order]
    people = ours + theirs
    ends = _ends(ratio, max(FEWEST, math.ceil(OF_PEOPLE * people / 2)))
    seen = int(ends[-1]) if len(ends) else 0
    return ClosePairs(
        n=seen,
        n_released=int(wins[:seen].sum()),
        n_people=people,
        n_chance=int((~wins).sum()),
        tau=tau,
        p=striking_beginning(wins[:seen], ends, SHARE),
    )


def _closest(people: Neighbours, tau: float) -> tuple[int, Floats, NDArray[np.intp]]:
    """Return the number of people, and of each close pair its ratio and whose the point is: 0, 1 or 2."""
    three = np.stack([people.released, people.other, people.own])
    first, second = np.partition(three, 1, axis=0)[:2]
    ratio = np.divide(first, three.max(axis=0), out=np.ones(len(first)), where=first > 0.0)
    whose = three.argmin(axis=0)
    close = (ratio < tau) & (first < second)
    # Two people of one sample who are each other's nearest are one pair, as close as the closer of them says.
    here, to = np.arange(len(first)), people.partner
    within = close & (whose == 2) & (to >= 0)
    both = within & within[to] & (to[to] == here)
    close &= ~(both & ((ratio > ratio[to]) | ((ratio == ratio[to]) & (to < here))))
    return len(first), ratio[close], whose[close]


def _ends(ratio: Floats, most: int) -> NDArray[np.intp]:
    """Return the lengths of beginnings that part no pairs at one ratio, ``most`` or the shortest at most."""
    ends = np.flatnonzero(np.append(ratio[1:] > ratio[:-1], True)[: len(ratio)]) + 1
    return ends[: max(1, int(np.searchsorted(ends, most, side="right")))]


def striking_beginning(wins: ArrayLike, ends: ArrayLike, share: float) -> float:
    """Return the exact p-value of the most striking beginning of a sequence of independent draws.

    Parameters
    ----------
    wins : (T,) bool, in order
    ends : ascending lengths of the beginnings that are looked at, the last being T
    share : 0 … 1, probability of a win under the null hypothesis

    Returns
    -------
    float
        P(some beginning is at least as improbable as the most improbable one here), a beginning's
        improbability being P(Bin(t, share) ≥ wins among its t); 1 for an empty sequence.

    Notes
    -----
    O(T²): the number of wins is a Markov chain, stopped where a beginning is as improbable.

    Examples
    --------
    >>> wins = [True, True, False]
    >>> striking_beginning(wins, [3], 0.5), striking_beginning(wins, [1, 2, 3], 0.5)
    (0.5, 0.25)
    """
    won = np.asarray(wins, dtype=bool)
    lengths = np.asarray(ends, dtype=np.intp)
    if not len(won):
        return 1.0
    improbable = np.asarray(binom.sf(np.cumsum(won)[lengths - 1] - 1, lengths, share))
    found = float(improbable.min()) * (1.0 + 1e-9)  # what differs by rounding alone is one value
    chance = np.zeros(len(won) + 1)
    chance[0] = 1.0
    reached, before = 0.0, 0
    for length in lengths:
        for _ in range(length - before):
            chance[1:] = (1.0 - share) * chance[1:] + share * chance[:-1]
            chance[0] *= 1.0 - share
        before = length
        striking = binom.sf(np.arange(length + 1) - 1, length, share) <= found
        reached += float(chance[: length + 1][striking].sum())
        chance[: length + 1][striking] = 0.0
    return min(1.0, reached)
