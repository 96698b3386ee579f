"""Close pairs: whether the release pairs off with people more often than chance pairs people with people."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import binom

from anoncore.errors import AnonymizationError
from anoncore.microdata.units import unit_codes
from anoncore.parameters import between
from anoncore.risk._checks import Floats, Indices, matrix, vector

# Of all close pairs of a person with a point of three samples alike, those with one given sample; see below.
SHARE = 1.0 / 3.0
# The closest pairs are looked at: as many as this share of the people of a sample, so many at least.
OF_PEOPLE, FEWEST = 0.01, 20
# A close pair is unusual while people make at most this many with each other, as a share of all people.
CROWDED = 0.005
# Draws between two lengths, up to which one after the other is added.
FEW_DRAWS = 64


@dataclass(frozen=True, eq=False, repr=False)
class Neighbours:
    """The nearest of three samples to each person of one of them.

    Parameters
    ----------
    records : (q, n) the people, encoded, in standard deviations
    released, other, own : (q,) distances to the nearest released row, to the nearest person of the other
        sample, and to the nearest other person of the own one: root mean squares over the n columns
    partner : (q,) which of the q people that last one is, −1 where it is not among them

    Raises
    ------
    AnonymizationError
        When the parts are not of the same people.
    """

    records: Floats
    released: Floats
    other: Floats
    own: Floats
    partner: NDArray[np.intp]

    def __post_init__(self) -> None:
        people = matrix("records", self.records)
        sides = {name: vector(name, getattr(self, name), len(people)) for name in ("released", "other", "own")}
        partner = np.asarray(self.partner)
        if partner.shape != (len(people),) or partner.dtype.kind not in "iu":
            raise AnonymizationError(f"partner must hold {len(people)} whole numbers, one for each person")
        if partner.min() < -1 or partner.max() >= len(people):
            raise AnonymizationError(f"partner must be −1 … {len(people) - 1}, the people measured")
        for name, value in ({"records": people, "partner": partner} | sides).items():
            object.__setattr__(self, name, value)

    def by_unit(self, units: NDArray[np.integer] | None) -> Neighbours:
        """Return one record of each statistical unit, the one with the closest pair, whichever sample it is with.

        Parameters
        ----------
        units : (q,) unit of each person; None where each is its own
        """
        if units is None:
            return self
        three = np.stack([self.released, self.other, self.own])
        farthest = three.max(axis=0)
        ratio = np.divide(three.min(axis=0), farthest, out=np.ones(len(farthest)), where=farthest > 0.0)
        first = least_of_units(ratio, units)
        partner = np.where(self.partner >= 0, unit_codes(units, len(units))[self.partner], -1)
        return Neighbours(self.records[first], self.released[first], self.other[first], self.own[first], partner[first])


@dataclass(frozen=True)
class ClosePairs:
    """Close pairs among release, original and reference, and how surely too many are the release's.

    Parameters
    ----------
    n : the closest pairs that were looked at, of a person with a released row, with another person of the
        same sample, or from A to A*
    n_released : of these, those of a person of the original with a released row
    n_people : people of both samples
    n_among, n_cross : close pairs of two people when there is no release, and those of one of A and one of A*
    tau : share of the farthest distance that counts as close
    p : one-sided p-value
    baseline : the share of n that chance gives the release at most
    """

    n: int
    n_released: int
    n_people: int
    n_among: int
    n_cross: int
    tau: float
    p: float
    baseline: float = SHARE

    @property
    def telling(self) -> bool:
        """Whether a close pair is unusual: people make at most one for every two hundred of them."""
        return self.n_among <= CROWDED * self.n_people

    @property
    def p_cross(self) -> float:
        """One-sided p-value of so many pairs of A with A*; small where A* holds people of A, changed.

        Of pairs of two people at most half are of one of A and one of A*, whatever the sizes.
        """
        return float(binom.sf(self.n_cross - 1, self.n_among, 0.5))


def least_of_units(values: Floats, units: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return (U,) where each unit, in the order of their numbers, has its least value.

    Examples
    --------
    >>> least_of_units(np.array([3.0, 1.0, 2.0]), np.array([7, 7, 4])).tolist()
    [2, 1]
    """
    order = np.lexsort((values, units))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff(units[order]) != 0
    return order[first]


def close_pairs(original: Neighbours, reference: Neighbours, *, tau: float = 0.1) -> ClosePairs:
    """Test whether pairs of a person and a released row are too many among the closest pairs.

    A person's nearest point in release, A and A* makes a close pair when it is nearer than τ times the
    farthest of the three samples' nearest points. If the release were one more sample of the population,
    close pairs of an a in A with a released row would be as many as those with an a* in A*; pairs within A,
    or within A*, each counted once, would be half as many; so one in three is the release's. It is less where
    the release keeps away from people, where the samples differ in size, since 2|A||A*| ≤ |A|² + |A*|², or
    where people have near twins in their own sample.

    Pairs are ordered by how close they are, and the p-value rests on the most striking beginning of that
    order: the least of P(Bin(t, ⅓) ≥ the release's among the closest t), over t. What that least value does
    by chance is computed exactly for independent pairs. So ten copies among two thousand people stand out
    where people are close to each other anyway, because copies are closer still. One released row may be near
    to many people who are near to each other, so those of one household count once, by their closest pair.

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
    Pairs at distance 0 are counted where no two people are identical, and else left to `identical_records`:
    where values are discrete they say nothing about closeness. People with two nearest points at one
    distance are left out. Of pairs at one ratio those of two people come first, which favours the release.
    At most one pair for every hundred people of a sample is looked at, 20 at least. In tables of one or two
    columns people are that close to each other anyway, and what keeps single values, as swapping does, is a
    little closer without being anybody's record: see `ClosePairs.telling`, which looks at people alone, so
    that no release can bear on it. Level: nominal for independent pairs; measured where people come in
    households. Source: docs/explanation/risk.md.

    Examples
    --------
    >>> far, none = np.ones(50), np.full(50, -1)
    >>> apart = 10.0 * np.arange(50)[:, None]
    >>> people = Neighbours(apart, np.where(np.arange(50) < 6, 0.01, 1.0), far, far, none)
    >>> found = close_pairs(people, Neighbours(apart, far, far, far, none))
    >>> found.n_released, round(found.p * 3**6)
    (6, 1)
    """
    between("tau", tau, 0, 1)
    least = 0.0 if _discrete(original) or _discrete(reference) else -1.0
    near, whose, who = _closest(original, tau, least)
    pairs, within, _ = _closest(reference, tau, least)
    among = within == 2
    ratio = np.concatenate([near, pairs[among]])
    wins = np.concatenate([whose == 0, np.zeros(int(among.sum()), dtype=bool)])
    order = np.lexsort((wins, ratio))
    people = len(original.own) + len(reference.own)
    most = max(FEWEST, math.ceil(OF_PEOPLE * people / 2))
    order = order[_households_once(original, who, order, wins, tau, most)]
    wins, seen = wins[order], len(order)
    one, other = (_among(side, tau) for side in (original, reference))
    return ClosePairs(
        n=seen,
        n_released=int(wins.sum()),
        n_people=people,
        n_among=sum(one) + other[1],
        n_cross=one[0],
        tau=tau,
        p=striking_beginning(wins, ends(ratio[order]), SHARE),
    )


def _discrete(people: Neighbours) -> bool:
    """Return whether somebody has an identical record in either sample."""
    return bool((people.own == 0.0).any() or (people.other == 0.0).any())


def _closest(people: Neighbours, tau: float, least: float) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Return of each close pair above ``least`` its ratio, whose the point is (0, 1 or 2), and the person."""
    three = np.stack([people.released, people.other, people.own])
    first, second = np.partition(three, 1, axis=0)[:2]
    farthest = three.max(axis=0)
    ratio = np.divide(first, farthest, out=np.ones(len(first)), where=farthest > 0.0)
    whose = three.argmin(axis=0)
    close = (ratio < tau) & (first > least) & (first < second)
    close &= ~_seen_twice(people, close & (whose == 2), ratio)
    return ratio[close], whose[close], np.flatnonzero(close)


def _among(people: Neighbours, tau: float) -> tuple[int, int]:
    """Return the close pairs with the other sample, and within this one, when there is no release."""
    farther = np.maximum(people.own, people.other)
    nearer = np.minimum(people.own, people.other)
    close = (nearer > 0.0) & (nearer < tau * farther)
    within = close & (people.own < people.other)
    ratio = np.divide(nearer, farther, out=np.ones(len(nearer)), where=farther > 0.0)
    return int((close & ~within).sum()), int((within & ~_seen_twice(people, within, ratio)).sum())


def _seen_twice(people: Neighbours, within: NDArray[np.bool_], ratio: Floats) -> NDArray[np.bool_]:
    """Return who is left out of two people of one sample who are each other's nearest: the farther one."""
    here, to = np.arange(len(within)), people.partner
    both = within & (to >= 0) & within[to] & (to[to] == here)
    return both & ((ratio > ratio[to]) | ((ratio == ratio[to]) & (to < here)))


def _households_once(
    people: Neighbours,
    who: NDArray[np.intp],
    order: NDArray[np.intp],
    wins: NDArray[np.bool_],
    tau: float,
    most: int,
) -> NDArray[np.intp]:
    """Return the first ``most`` places that count; of people within τ of each other the first win alone.

    Within τ: nearer than τ times the farthest of the three distances of the later one.
    """
    farthest = np.stack([people.released, people.other, people.own]).max(axis=0)
    scale = math.sqrt(people.records.shape[1])
    kept: list[int] = []
    counted: list[int] = []
    for place, pair in enumerate(order):
        if len(counted) == most:
            break
        if wins[pair]:
            person = int(who[pair])
            apart = np.linalg.norm(people.records[kept] - people.records[person], axis=1) / scale
            if kept and apart.min() < tau * farthest[person]:
                continue
            kept.append(person)
        counted.append(place)
    return np.array(counted, dtype=np.intp)


def ends(ratio: Floats) -> NDArray[np.intp]:
    """Return the lengths of the beginnings that part no pairs at one ratio, and of all that are looked at."""
    return np.flatnonzero(np.append(ratio[1:] > ratio[:-1], True)[: len(ratio)]) + 1


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
    return beginning_p(float(improbable.min()), lengths, share)


def beginning_p(least: float, lengths: Indices, share: float | Floats) -> float:
    """Return P(wins among some first t draws, t one of the lengths, are as improbable as ``least``).

    The wins among the first t draws are as improbable as P(Bin(t, share) ≥ wins).

    Parameters
    ----------
    least : 0 … 1, see `striking_beginning`
    lengths : (L ≥ 1,), ascending
    share : 0 … 1, probability of a win; or (L,), the mean probability of the draws up to each length

    Notes
    -----
    The draws between two lengths are added at once, O(T log T) by Fourier transforms where they are many: then the
    result is exact to about 1e-15.
    """
    least *= 1.0 + 1e-9  # what differs by rounding alone is one value
    chance = np.ones(1)
    reached, before = 0.0, 0
    means = np.broadcast_to(np.asarray(share, dtype=np.float64), len(lengths))
    wins = np.diff(means * lengths, prepend=0.0)
    for length, mean, won in zip(lengths.tolist(), means.tolist(), wins.tolist(), strict=True):
        drawn = length - before
        own = min(max(won / drawn, 0.0), 1.0)
        if drawn > FEW_DRAWS:
            added = binom.pmf(np.arange(drawn + 1), drawn, own)
            size = next_fast_len(length + 1, real=True)
            chance = np.maximum(0.0, irfft(rfft(chance, size) * rfft(added, size), size)[: length + 1])
        else:
            for _ in range(drawn):
                chance = np.convolve(chance, [1.0 - own, own])
        before = length
        striking = binom.sf(np.arange(length + 1) - 1, length, mean) <= least
        reached += float(chance[striking].sum())
        chance[striking] = 0.0
    return min(1.0, reached)
