"""How close the release comes to each person, beside what other people and chance come to."""

from __future__ import annotations

import math
from collections.abc import Sized
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from anoncore.errors import AnonymizationError
from anoncore.kernels.isolation import without_neighbour
from anoncore.kernels.neighbors import nearest, nearest_of_others
from anoncore.microdata import EACH_RECORD, ComparedUnits
from anoncore.microdata.units import unit_codes
from anoncore.risk._checks import Floats, Indices, matrix
from anoncore.risk._equal_sizes import equal_sizes, searched
from anoncore.risk._values import Flags
from anoncore.risk.identical import identical_records
from anoncore.risk.pairs import ClosePairs, Neighbours, close_pairs, least_of_units
from anoncore.risk.prediction import PredictionMeasures, prediction_measures
from anoncore.risk.tail import (
    FEWEST_ISOLATED,
    ISOLATED,
    ExtremeRecords,
    Extremes,
    MatchedByChance,
    TailTest,
    extreme_distance,
    is_extreme,
    matched_extremes,
    most_isolated,
    tail_test,
)
from anoncore.risk.within import FEWEST_WITHIN, PAIRED, EqualRecords, ratios, within_test

NEARER = 0.5  # of the distance to the nearest other, of an isolated record that is met
_Rows = TypeVar("_Rows", bound=Sized)

_FAR = 1e6  # in units of the own distance
_FEW = 0.25  # of the records of release and original, whichever are fewer, that a reference must hold
# Of parts of the original: their ratio at most, units at least, how often they are drawn, people asked about.
_MOST_TIMES, _FEWEST_IN_PART, _DRAWN, _ASKED = 9, 20, 5, 10_000
_NONE: Floats = np.empty(0)
_ALIKE = 0.05  # by how much the numbers of members and non-members may differ for chance to be equal


@dataclass(frozen=True, eq=False, repr=False)
class Closeness:
    """The same people measured against the release, other people, and the rest of the original.

    Parameters
    ----------
    released, reference : measures against sets of one size
    kept : share of the released rows that these measures were taken against
    equal : records equal to those of the people, in release and original; None beside other people
    second : (q,) distance to the second nearest point of release and others together; empty beside other people
    own : (q,) distance of each person to the nearest other of the original, of another unit where units are known
    chance : (q,) the reference's distance; within A the mirrored one, own²/d of the distance d to the release, so that
        own < τ·d reads as chance < τ·own
    whole : (q,) distance to the nearest row of the whole release, whatever the sets were matched to
    released_to_others : distances of the non-members to the nearest row of the whole release; empty within A
    people, nonmembers : nearest points in all three sets of these people, and of as many of A*, a release larger than
        A* being cut to its size; None where A* holds no other people
    units : of these people, and of those of A*: tests count each unit once
    extremes : the extreme records of the whole original; None where these people are all of it
    parts : distances among people of one part of A, and of these to another part, that is as many times as large as
        the release is as A; empty where A* holds enough other people
    """

    released: PredictionMeasures
    reference: PredictionMeasures
    kept: float
    equal: EqualRecords | None
    second: Floats
    own: Floats
    chance: Floats
    whole: Floats
    released_to_others: Floats
    people: Neighbours | None
    nonmembers: Neighbours | None
    units: ComparedUnits = EACH_RECORD
    extremes: Extremes | None = None
    parts: tuple[Floats, Floats] = (_NONE, _NONE)

    def pairs(self, tau: float) -> ClosePairs | None:
        """Return `close_pairs`; None where there are no other people."""
        if self.people is None or self.nonmembers is None:
            return None
        sides = (self.people, self.units.members), (self.nonmembers, self.units.nonmembers)
        return close_pairs(*(people.by_unit(units) for people, units in sides), tau=tau)

    def tail(self, tau: float, level: float) -> TailTest:
        """Return `tail_test` of all units, with `close_pairs` where there are enough other people."""
        if self.equal is not None:
            return self._within(tau, level)
        sides = self._members_by_unit
        return tail_test(*sides, tau=tau, level=level, pairs=self.pairs(tau)).with_copies(self._copies(sides[2]))

    def isolated(self, tau: float, level: float) -> TailTest:
        """Return `isolated_forms` as one test."""
        return TailTest.in_forms(self.isolated_forms(tau, level))

    def isolated_forms(self, tau: float, level: float) -> dict[str, TailTest]:
        """Return the forms of `isolated_test`, beside that of non-members where there are as many.

        Then records count as well that are nearer than `NEARER` times the distance to anybody else, which noise hides
        from ``tau``: members and non-members meet a harmless release alike, however near is asked for.
        """
        if self.within:
            # Isolated are those far from the nearest point of either, or from the second of both together: a group that
            # the release leaves out would fill the first.
            farther = np.maximum(self.released.distance, self.own)
            isolated = {f"within {tau:g}": farther, f"within {tau:g}, from the second": self.second}
            return {name: self._within(tau, level, self._isolated_within(apart)) for name, apart in isolated.items()}
        within = [tau] if self._as_many is None or tau >= NEARER else [tau, NEARER]
        return {f"within {share:g}": self._isolated(share, level) for share in within}

    def _isolated(self, tau: float, level: float) -> TailTest:
        """Return the tail test of the most isolated units, beside that of non-members where there are as many."""
        near, other, own = self._members_by_unit
        chosen = self._most_isolated(own, FEWEST_ISOLATED)
        found = tail_test(near[chosen], other[chosen], own[chosen], tau=tau, level=level)
        found = found.with_copies(self._copies(own[chosen]))
        if (others := self._as_many) is None:
            return found
        sides = _by_unit(others.released, others.other, others.own, self.units.nonmembers)
        chosen = self._most_isolated(sides[2], FEWEST_ISOLATED)
        return found.beside(tail_test(*(side[chosen] for side in sides), tau=tau, level=level))

    def _copies(self, own: Floats) -> int:
        """Return how many copies of units that are apart from others the rows that were searched can hold."""
        return min(math.floor(int((own > 0.0).sum()) * self.kept), self.released.n_released)

    def _isolated_within(self, apart: Floats) -> Flags:
        """Return which units are most isolated within A, where the choice must treat release and original alike."""
        return self._most_isolated(-_least(-apart, self.units.members), FEWEST_WITHIN)

    def _most_isolated(self, apart: Floats, fewest: int) -> Flags:
        """Return which units are most isolated, so many that the fewest are expected in the part searched."""
        return most_isolated(apart, min(0.5, max(ISOLATED, fewest / (self.kept * len(apart)))))

    def _within(self, tau: float, level: float, chosen: Flags | None = None) -> TailTest:
        """Return `within_test` of some units, or of all."""
        assert self.equal is not None
        one, other = ratios(self.released.distance, self.own)
        equal, units = self.equal, self.units.members
        if units is not None:
            equal = equal.take(least_of_units(np.minimum(one, other), units))
            one, other = _least(one, units), _least(other, units)
        if chosen is not None:
            one, other, equal = one[chosen], other[chosen], equal.take(chosen)
        return within_test(one, other, equal, tau=tau, level=level).with_copies(self._copies(np.ones(len(one))), PAIRED)

    def extreme(self, tau: float) -> ExtremeRecords:
        """Return `extreme_records` of the whole original, sought in the whole release.

        Chance is seen from non-members beside the release, and from members beside the reference where it is as large;
        within A from people of one part of it beside another part.
        """
        limit, chance = extreme_distance(self.own), MatchedByChance()
        if len(self.parts[0]):
            found = MatchedByChance.of(*self.parts, extreme_distance(self.parts[0]), tau)
            chance = found.over(_DRAWN).by_the_farthest()
        if (others := self.nonmembers) is not None and not self.within:
            chance = MatchedByChance.of(others.own, self.released_to_others, limit, tau)
            if self.kept == 1.0:
                chance += MatchedByChance.of(self.own, self.chance, limit, tau)
        return matched_extremes(self.extremes or self._measured_extremes, tau=tau, chance=chance)

    @property
    def _measured_extremes(self) -> Extremes:
        far = is_extreme(self.own)
        sides = self.whole[far], self.chance[far], self.own[far]
        return Extremes(*sides, len(self.own), float((self.own == 0.0).mean()) if len(self.own) else 0.0)

    def identical(self, level: float) -> TailTest:
        """Return `identical_records`; how many the release holds is counted in all of it."""
        if self.equal is not None:
            found = self._within(0.0, level)
        elif self.people is not None:
            sides = self.released.distance, self.reference.distance, self.own
            found = _identical(sides, self.people.records, self.units.members, level)
        found = replace(found, n_released=int((_least(self.whole, self.units.members) == 0.0).sum()))
        if (strangers := self.nonmembers) is not None and not self.within:
            repeat = bool((strangers.own == 0.0).any() or (self.released_to_others == 0.0).any())
            found = replace(found, others_repeat=repeat)
        if (others := self._as_many) is None:
            return found
        sides = others.released, others.other, others.own
        return found.beside(_identical(sides, others.records, self.units.nonmembers, level))

    @property
    def met_by_others(self) -> int | None:
        """The units of the original with an identical record in A*; None without other people."""
        return None if self.people is None else int((_least(self.people.other, self.units.members) == 0.0).sum())

    @property
    def within(self) -> bool:
        """Whether distances are compared with those within A: there is no A*, or too small a one; `compared_with`."""
        return self.equal is not None

    @property
    def _as_many(self) -> Neighbours | None:
        """The non-members where about as many units were measured, against all of the original, as of members."""
        if self.nonmembers is None or self.within or self.released.n_queries < self.released.n_original:
            return None
        sides = (self.own, self.units.members), (self.nonmembers.own, self.units.nonmembers)
        one, other = (len(rows) if units is None else len(np.unique(units)) for rows, units in sides)
        return self.nonmembers if abs(one - other) <= _ALIKE * one else None

    @property
    def _members_by_unit(self) -> tuple[Floats, Floats, Floats]:
        return _by_unit(self.released.distance, self.chance, self.own, self.units.members)


def _identical(sides: tuple[Floats, Floats, Floats], records: Floats, units: Indices | None, level: float) -> TailTest:
    """Return `identical_records` of units; of each the record that is nearest to either of both sets stands for all."""
    if units is not None:
        records = records[least_of_units(np.minimum(sides[0], sides[1]), units)]
    return identical_records(*(_least(side, units) for side in sides), level=level, records=records)


def _by_unit(released: Floats, chance: Floats, gap: Floats, units: Indices | None) -> tuple[Floats, Floats, Floats]:
    """Return the distances to release, to what stands for chance, and to other people, one of each unit.

    A unit is in the tail of a set where one of its records is: where the least of its ratios to the own distance
    is below τ. Its own distance is that of its most isolated record.
    """
    if units is None:
        return released, chance, gap
    most = -_least(-gap, units)
    ratios = (np.divide(side, gap, out=np.full(len(gap), np.inf), where=gap > 0.0) for side in (released, chance))
    # Beyond τ it does not matter how far.
    near, other = (np.minimum(_least(ratio, units), _FAR) * most for ratio in ratios)
    return near, other, most


def _least(values: Floats, units: Indices | None) -> Floats:
    """Return the least value of each unit."""
    return values if units is None else values[least_of_units(values, units)]


def closeness(
    original: ArrayLike,
    released: ArrayLike,
    reference: ArrayLike | None,
    k: int,
    *,
    queries: Indices,
    rng: np.random.Generator,
    units: ComparedUnits = EACH_RECORD,
) -> Closeness:
    """Measure people of the original against the release, against other people, and against each other.

    More rows come closer by chance, so sets of different size are matched by a random part of the larger.
    Without a reference each person is compared with the original without that person; beside one that `compared_with`
    finds too small, too, since most copies would be left out with the rest of the release.

    Parameters
    ----------
    original, released, reference : (N, n), (M, n) and (L, n) or None, encoded alike, in standard deviations
    k : neighbours that ambiguity and uncertainty look at
    queries : (q,) rows of the original that are measured
    rng : draws the random part; not used where sizes agree
    units : of original and reference; nearest others are of other units, and tests count units

    Returns
    -------
    Closeness

    Raises
    ------
    AnonymizationError
        When the tables do not fit together or are too small for k.

    Notes
    -----
    Source: docs/explanation/risk.md.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people, others = rng.normal(size=(2, 60, 3))
    >>> closeness(people, people, others, 5, queries=np.arange(60), rng=rng).tail(0.1, 0.01).n_released
    60
    """
    x = matrix("original", original)
    y = matrix("released", released, x.shape[1])
    r = None if reference is None else matrix("reference", reference, x.shape[1])
    if r is not None and len(np.unique(unit_codes(units.nonmembers, len(r)))) < 2:
        raise AnonymizationError("reference must hold records of at least two people; add some, or leave it out")
    beside = compared_with(x, y, r, units.nonmembers)
    y_, r_, part = _matched(x, y, beside, units.nonmembers, rng)
    near = prediction_measures(x, y_, k, queries=queries)
    other = prediction_measures(x, r_, k, leave_one_out=r_ is None, queries=queries, units=units.members)
    scale = np.sqrt(x.shape[1])
    # Without A* the nearest other records were searched already.
    own, to = other.distance, np.empty((0, 1), dtype=np.intp)
    if r is not None:
        gaps, to = _nearest_others(x, queries, units.members)
        own = gaps[:, 0] / scale
    people = nonmembers = None
    asked = None
    others, points, distances = r_, y_, (near.distance, other.distance)
    if r is not None and beside is None:
        others, points = r, y[rng.choice(len(y), len(r), replace=False)]
        distances = nearest(x[queries], points, 1)[0][:, 0] / scale, nearest(x[queries], r, 1)[0][:, 0] / scale
    if others is not None:
        people = Neighbours(x[queries], *distances, own, _places(to[:, 0], queries, len(x)))
        nonmember_units = units.nonmembers
        if nonmember_units is not None and part is not None:
            nonmember_units = nonmember_units[part]
        nonmembers, asked = _nonmembers((others, points, x), queries, nonmember_units, rng)
        units = ComparedUnits(units.members, None if nonmember_units is None else nonmember_units[asked])
    same, to_others = near.n_released == len(y), np.empty(0)
    if nonmembers is not None and beside is not None:
        to_others = nonmembers.released if same else nearest(nonmembers.records, y, 1)[0][:, 0] / scale
    return Closeness(
        released=near,
        reference=other,
        kept=near.n_released / len(y),
        equal=EqualRecords.of(x[queries], x, y_) if r_ is None else None,
        second=_second(x, y_, queries, units.members) if r_ is None else np.empty(0),
        own=own,
        chance=mirrored(own, near.distance) if r_ is None else other.distance,
        whole=near.distance if same else nearest(x[queries], y, 1)[0][:, 0] / scale,
        released_to_others=to_others,
        people=people,
        nonmembers=nonmembers,
        units=units.take(queries),
        extremes=None if len(queries) == len(x) else _extremes((x, y, r_), own, units.members),
        parts=_in_parts(x, len(y), units.members, rng) if r_ is None else (_NONE, _NONE),
    )


def compared_with(x: Sized, y: Sized, r: _Rows | None, units: Indices | None = None) -> _Rows | None:
    """Return the reference with which distances to a release are compared; None for A − A_j.

    Searching no more of the release than a reference of less than a quarter of its rows, and of the original's, would
    leave out most copies. Beside a reference of units as much is searched as `equal_sizes` takes.
    """
    if r is None:
        return None
    return None if min(len(r), searched(len(y), len(r), units)) < _FEW * min(len(x), len(y)) else r


def _in_parts(x: Floats, released: int, units: Indices | None, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return distances of people of one part of A to others of it and to the other part; none of few people.

    Parts are of whole units, and their sizes in proportion as those of A and the release; they are drawn five times,
    and at most 10 000 people are asked about.
    """
    codes, (draw,) = unit_codes(units, len(x)), rng.spawn(1)
    share = 1.0 / (1.0 + np.clip(released / len(x), 1.0 / _MOST_TIMES, _MOST_TIMES))
    n_units, found = int(codes.max()) + 1, []
    if min(share, 1.0 - share) * n_units < _FEWEST_IN_PART:
        return _NONE, _NONE
    for _ in range(_DRAWN):
        is_first = draw.permutation(n_units)[codes] < share * n_units
        one, other = x[is_first], x[~is_first]
        asked = np.sort(draw.permutation(len(one))[: _ASKED // _DRAWN])
        gaps = _nearest_others(one, asked, None if units is None else codes[is_first])[0][:, 0]
        found.append((gaps, nearest(one[asked], other, 1)[0][:, 0]))
    gaps, others = (np.concatenate(side) / np.sqrt(x.shape[1]) for side in zip(*found, strict=True))
    return gaps, others


def _second(x: Floats, y: Floats, asked: Indices, units: Indices | None) -> Floats:
    """Return (q,) distances to the second nearest of the released records and those of other people together."""
    near = nearest(x[asked], y, min(2, len(y)))[0]
    own = _nearest_others(x, asked, units, min(2, len(x) - 1 if units is None else _of_others(units)))[0]
    return np.asarray(np.partition(np.hstack([near, own]), 1, axis=1)[:, 1] / np.sqrt(x.shape[1]))


def _of_others(units: Indices) -> int:
    """Return how many records of other units each person has at least."""
    return len(units) - int(np.unique(units, return_counts=True)[1].max())


def _extremes(sides: tuple[Floats, Floats, Floats | None], own: Floats, units: Indices | None) -> Extremes:
    """Find the extreme records of the original among all of it, where ``own`` is known of a sample.

    The sample determines how far is extreme, as a percentile that it knows to within its error; who is that far from
    everyone is then found among all records.
    """
    x, y, r = sides
    scale = np.sqrt(x.shape[1])
    limit = extreme_distance(own)
    # Distances are compared in units of the measures; rounding must not lose any beforehand.
    places, gap = without_neighbour(x, limit * scale * (1.0 - 1e-9), units)
    gap = gap / scale
    extreme = is_extreme(gap) if limit == 0.0 and len(gap) else gap > limit
    places, gap = places[extreme], gap[extreme]
    if not len(places):
        return Extremes(gap, gap, gap, len(x), 0.0)
    near = nearest(x[places], y, 1)[0][:, 0] / scale
    chance = mirrored(gap, near) if r is None else nearest(x[places], r, 1)[0][:, 0] / scale
    return Extremes(near, chance, gap, len(x), float((own == 0.0).mean()))


def _matched(
    x: Floats, y: Floats, r: Floats | None, units: Indices | None, rng: np.random.Generator
) -> tuple[Floats, Floats | None, Indices | None]:
    """Return release and reference of about the same size, and which rows of the reference these are if not all."""
    if r is None:
        # The reference, A − A_j, cannot grow with the release.
        return (y if len(y) <= len(x) else y[rng.choice(len(y), len(x), replace=False)]), None, None
    of_release, of_reference = equal_sizes(len(y), len(r), units, rng)
    return y if of_release is None else y[of_release], r if of_reference is None else r[of_reference], of_reference


def _nearest_others(x: Floats, asked: Indices, units: Indices | None, k: int = 1) -> tuple[Floats, Indices]:
    """Find the k nearest records of other people, or of other units, for some of the records."""
    if units is None:
        return nearest(x[asked], x, k, skip_self=asked)
    return nearest_of_others(x[asked], x, k, own=units[asked], units=units)


def mirrored(own: Floats, near: Floats) -> Floats:
    """Return own²/near, below τ·own where own is below τ·near: as often by chance as near is below τ·own.

    Examples
    --------
    >>> mirrored(np.array([0.5, 2.0, 0.0]), np.array([8.0, 0.0, 0.0])).tolist()
    [0.03125, 2000000.0, 0.0]
    """
    return own * np.divide(own, near, out=np.full(len(own), _FAR), where=near * _FAR > own)


def _nonmembers(
    sides: tuple[Floats, Floats, Floats], queries: Indices, units: Indices | None, rng: np.random.Generator
) -> tuple[Neighbours, Indices]:
    """Measure people of the reference, as many as of the original, as those are measured; return also which."""
    r, y, x = sides
    asked = np.arange(len(r))
    if len(queries) < len(x) and len(queries) < len(r):
        asked = np.sort(rng.choice(len(r), len(queries), replace=False))
    scale = np.sqrt(x.shape[1])
    gaps, to = _nearest_others(r, asked, units)
    people = Neighbours(
        records=r[asked],
        released=nearest(r[asked], y, 1)[0][:, 0] / scale,
        other=nearest(r[asked], x, 1)[0][:, 0] / scale,
        own=gaps[:, 0] / scale,
        partner=_places(to[:, 0], asked, len(r)),
    )
    return people, asked


def _places(rows: Indices, asked: Indices, size: int) -> Indices:
    """Return where rows stand among those asked about, −1 for those that do not."""
    place = np.full(size, -1)
    place[asked] = np.arange(len(asked))
    return place[rows]
