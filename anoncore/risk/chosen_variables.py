"""Membership by densities in a few variables, which are chosen with one half of the people and tried on the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from scipy.stats import rankdata

from anoncore.kernels.left_out import MISSING, Codes, nearest_with_each, nearest_without_each
from anoncore.kernels.threads import in_threads, one_blas_thread
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags, places_among
from anoncore.risk.coded_people import SAME, UNIT, CodedPeople, distance_ratios, log_ratios

CHOSEN = "density ratio, variables chosen by the other half of the people"
IN_BOTH_HALVES = 20  # tests for which the scores count, since both halves may choose one combination
_APART = np.int32(-(2**29))  # as far from every value as a missing one
_FEWEST, _MOST = 20, 2000  # people of a side in a half, at least; people to choose with, at most
_LEAST = 300  # people to choose with where there are so many; where they take too long fewer variables are offered
_OPERATIONS = 12e9  # of the distances that a choice takes, which limits the people to choose with
_VARIABLES = 40  # of more a random choice
_WIDENED, _WIDEST = 4, 5  # the best combinations that are extended, and the variables they reach
# Numbers that are combined, the largest ratio of their standard deviations, numbers in a combination, and those kept.
_CONTRASTED, _SIMILAR, _TERMS, _KEPT = 40, 10.0, 4, 4
# Levels of a variable that have a slope, but for one, and what is added to variances.
_LEVELS, _RIDGE = 12, 1e-4
_TOGETHER = 8  # residuals that are all offered
_SORTED = 2.5e7  # rows times the square of the numbers that are combined
_SEARCHES = 50  # for nearest rows that a choice takes, about

_Signs: TypeAlias = frozenset[tuple[int, int]]  # numbers with the signs that they are added with


@dataclass(frozen=True, eq=False, repr=False)
class ChosenVariables:
    """Scores by variables that each half chose for the other.

    Parameters
    ----------
    scores : (P,) mean rank in the own half over its size
    names : the variables that either half chose, also those of sums and differences
    """

    scores: Floats
    names: tuple[str, ...]


def by_chosen_variables(
    coded: CodedPeople, halves: Sequence[Indices], rng: np.random.Generator
) -> ChosenVariables | None:
    """Score people by the ratio of distances in the variables that distinguish members best in the other half.

    A release may keep a few variables of each person beside others' values, by which no record is near. The distance is
    Σ_j min(|x_j − y_j|, 1), numbers by their place in the distribution of all people and levels 1 apart; the score, the
    logarithm of the distance to the nearest person of the other half less that to the nearest released row. In one half
    the area under the curve is computed for all variables but one; the third without which it is largest is removed,
    and so on; and for pairs with a number, of which the best are extended by one variable at a time, to five, and for
    the sums below alone. The combination with the largest area scores the other half. Among the variables are four by
    which by themselves the area is largest in that half, of sums and differences of two to four numbers, differences of
    two logarithms (one of them also twice) or of two numbers in standard deviations, and numbers less what a linear
    regression on all other variables says (of at most eight numbers all of these): an offset or a factor that is the
    same for several numbers of a person keeps differences or ratios, some methods keep totals, and some residuals.

    Parameters
    ----------
    coded : people and rows
    halves : of the people, no unit in both
    rng : Generator, draws the people to choose with, and variables where there are many

    Returns
    -------
    ChosenVariables; None with fewer than 20 on a side of a half, or one variable

    Notes
    -----
    No person is scored by a choice that looked at their membership, so that without a leak all score alike in each
    half. But where a combination has a large area by chance in both halves, both choose it, so that areas of the halves
    are not independent: of K independent combinations P(z) of the mean becomes about P(z) + K·P(z/√2)², at z = 4 for K
    = 10 three times as much. Measured on tables of eight variables (150 draws of 600 people) the standard error is 1.06
    times that of independent scores, the fourth moment 4.0 in place of 3. So lower bounds and p-values are those of
    `IN_BOTH_HALVES` tests. Source: docs/explanation/risk.md; ratio of distances as in `anoncore.risk.density`. O(P·M·n)
    for each of about 50 searches, with at most 2000 people.
    """
    member = np.arange(len(coded.people)) < coded.n_members
    fewest = min(int(np.bincount(member[half].astype(int), minlength=2).min()) for half in halves)
    search = (coded.rows.shape[1] + len(halves[0])) * _SEARCHES
    affordable = max(int(_OPERATIONS / (search * _LEAST)) - _KEPT, 0)
    drawn = np.sort(rng.permutation(coded.people.shape[1])[: min(_VARIABLES, affordable)])
    most = int(np.clip(_OPERATIONS / (search * (len(drawn) + _KEPT)), _LEAST, _MOST))
    if fewest < _FEWEST or coded.people.shape[1] < 2:
        return None
    scores, contrasts = np.empty(len(member)), _Contrasts.of(coded, rng)
    numbers, used = np.flatnonzero(coded.numeric), set[int]()
    for learned, scored in (halves, halves[::-1]):
        asked = _balanced(learned, member, most, rng)
        kept = contrasts.best(asked, scored, member)
        if len(drawn) + len(kept) < 2:
            return None
        people = np.column_stack([coded.people[:, drawn], *(one.people for one in kept)])
        rows = np.stack([*coded.rows[drawn], *(one.rows for one in kept)])
        numeric = np.append(coded.numeric[drawn], np.ones(len(kept), dtype=bool))
        # The search without a variable passes over rows that have no value there.
        present, there = (np.where(table == MISSING, _APART, table) for table in (people, rows))
        beside = np.ascontiguousarray(present[scored].T)
        alone = {frozenset({len(drawn) + at}): one.area for at, one in enumerate(kept)}
        chosen = _Choice(present[asked], there, beside, member[asked]).best(numeric, alone)
        # The nearest person is of the other half, so that no person is their own nearest neighbour.
        ratios = distance_ratios(people[scored][:, chosen], rows[chosen], people[learned][:, chosen])
        scores[scored] = rankdata(ratios) / len(ratios)
        of_each = [*drawn[:, None], *(numbers[list(one.numbers)] for one in kept)]
        used |= {int(j) for at in np.flatnonzero(chosen) for j in of_each[at]}
    return ChosenVariables(scores, tuple(coded.names[j] for j in sorted(used)))


@dataclass(frozen=True, eq=False, repr=False)
class _Contrast:
    """Codes (P,) of people and (M,) of rows by a sum or difference of some numbers, which these are, and the area."""

    people: Codes
    rows: Codes
    numbers: tuple[int, ...]
    area: float


@dataclass(frozen=True, eq=False, repr=False)
class _Contrasts:
    """Sums and differences of numbers of similar spread; differences of two in standard deviations, or of logarithms.

    And each number less what all other variables say of it.

    Parameters
    ----------
    people, rows : (P, c) and (M, c) numbers, once more in standard deviations, logarithms, and residuals of linear
        regressions; NaN where missing
    spread : (c,) standard deviations of those that may be combined, 0 of others
    scaled, logs, residuals : the numbers from this place on are in standard deviations, and so on
    numbers : (c,) the place of each among all numbers
    """

    people: Floats
    rows: Floats
    spread: Floats
    scaled: int
    logs: int
    residuals: int
    numbers: Indices

    @classmethod
    def of(cls, coded: CodedPeople, rng: np.random.Generator) -> _Contrasts:
        """Take some of the numbers, the fewer, the more rows there are to sort."""
        numbers = coded.numbers
        most = min(_CONTRASTED, int(np.sqrt(_SORTED / max(len(numbers[1]), 1))))
        chosen = np.sort(rng.permutation(numbers[0].shape[1])[:most])
        people, rows = (side[:, chosen] for side in numbers)
        positive = [
            all((side[:, at] > 0.0).any() and not (side[:, at] <= 0.0).any() for side in (people, rows))
            for at in range(len(chosen))
        ]
        spread = _deviations(people)
        of_logs, varies = _deviations(np.log(people[:, positive])), spread > 0.0
        units, rest = np.where(varies, spread, 1.0), _residuals((people, rows), coded.levels)
        people, rows = (
            np.column_stack([side, side / units, np.log(side[:, positive]), left])
            for side, left in zip((people, rows), rest, strict=True)
        )
        width, left = len(chosen), rest[0].shape[1]
        spreads = np.concatenate([spread, varies.astype(np.float64), of_logs, np.zeros(left)])
        of_each = np.concatenate([chosen, chosen, chosen[positive], chosen[:left]])
        return cls(people, rows, spreads, width, 2 * width, 2 * width + len(of_logs), of_each)

    def best(self, asked: Indices, scored: Indices, member: Flags) -> list[_Contrast]:
        """Return codes of the few that distinguish members best by themselves, among the people asked."""
        alone = [frozenset({(at, 1)}) for at in range(len(self.spread))]
        rest = alone[self.residuals :]
        areas = dict(zip(rest, in_threads(partial(self._area, asked, scored, member), rest), strict=True))
        latest = set(alone[: self.residuals])
        for _ in range(_TERMS - 1):
            wider = sorted({one for signs in latest for one in self._wider(signs)}, key=sorted)
            areas |= zip(wider, in_threads(partial(self._area, asked, scored, member), wider), strict=True)
            latest = set(sorted(wider, key=lambda one: areas[one])[-_KEPT:])
        best = sorted(areas, key=lambda one: areas[one])[-_KEPT:]
        # Residuals that are kept together are hardly seen in each by itself.
        best += [one for one in rest if len(rest) <= _TOGETHER and one not in best]
        return [
            _Contrast(
                *places_among(*self._values(one), UNIT),
                tuple(int(self.numbers[at]) for at, _ in sorted(one)),
                areas[one],
            )
            for one in best
        ]

    def _wider(self, signs: _Signs) -> Iterator[_Signs]:
        """Give the combinations with one number more, of a spread like the largest; of two others, differences.

        Of a logarithm twice another is subtracted, too, as in an index of body mass. The first number is added.
        """
        own = {at for at, _ in signs}
        most, kind = max(self.spread[at] for at in own), self._kind(min(own))
        if kind.start and len(own) > 1:
            return
        for at in kind:
            if at not in own and 0.0 < most <= _SIMILAR * self.spread[at] <= _SIMILAR**2 * most:
                for sign in (-1, 1) if not kind.start else (-1, -2) if kind.start == self.logs else (-1,):
                    wider = sorted(signs | {(at, sign)})
                    yield frozenset((one, of if wider[0][1] > 0 else -of) for one, of in wider)

    def _kind(self, at: int) -> range:
        """Return the places of the numbers that one may be combined with: as they are, in deviations, or logarithms."""
        ends = (0, self.scaled, self.logs, self.residuals)
        return next(range(start, end) for start, end in pairwise(ends) if at < end)

    def _values(self, signs: _Signs) -> tuple[Floats, Floats]:
        people, rows = (sum(sign * side[:, at] for at, sign in sorted(signs)) for side in (self.people, self.rows))
        return np.asarray(people), np.asarray(rows)

    def _area(self, asked: Indices, scored: Indices, member: Flags, signs: _Signs) -> float:
        people, rows = self._values(signs)
        ratios = _gaps(people[scored], people[asked]) - _gaps(rows, people[asked])
        return float(_areas(member[asked], ratios[:, None])[0])


def _deviations(people: Floats) -> Floats:
    """Return the standard deviation of each column; 0 of one without numbers."""
    return np.array([np.nanstd(column) if np.isfinite(column).any() else 0.0 for column in people.T])


def _residuals(numbers: tuple[Floats, Floats], levels: tuple[Indices, Indices]) -> list[Floats]:
    """Return (P, c) and (M, c) numbers less what all others and the levels say of them, by regressions on the people.

    From the inverse of one covariance matrix, missing numbers being means; NaN where the number itself is missing.
    """
    known = np.isfinite(numbers[0])
    centre = np.where(known, numbers[0], 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    spread = _deviations(numbers[0])
    spread = np.where(spread > 0.0, spread, 1.0)
    held = [(column, level) for column in range(levels[0].shape[1]) for level in _frequent(levels[0][:, column])]
    flags = np.column_stack([np.empty((len(numbers[0]), 0)), *(levels[0][:, at] == level for at, level in held)])
    people = np.column_stack([np.nan_to_num((numbers[0] - centre) / spread), flags])
    if people.shape[1] < 2 or not len(centre):
        return [side[:, :0] for side in numbers]
    with one_blas_thread():
        inverse = np.linalg.inv(np.cov(people, rowvar=False) + _RIDGE * np.eye(people.shape[1]))
        weights = inverse[:, : len(centre)] / np.diag(inverse)[: len(centre)]
        found = [np.nan_to_num((side - centre) / spread) @ weights[: len(centre)] for side in numbers]
    for at, (column, level) in enumerate(held, start=len(centre)):
        for one, own in zip(found, levels, strict=True):
            one[own[:, column] == level] += weights[at]
    return [np.where(np.isnan(side), np.nan, one) for side, one in zip(numbers, found, strict=True)]


def _frequent(codes: Indices) -> list[int]:
    """Return the most frequent levels, but for one."""
    counts = np.bincount(codes, minlength=1)
    return [int(level) for level in np.argsort(-counts, kind="stable")[1 : _LEVELS + 1] if counts[level]]


def _gaps(values: Floats, asked: Floats) -> Floats:
    """Return logarithms of the distances to the nearest of some values; 0 where there is none, or one is missing."""
    ascending = np.sort(values[~np.isnan(values)])
    if not len(ascending) or np.isnan(asked).all():
        return np.zeros(len(asked))
    at = np.searchsorted(ascending, asked)
    near = [np.abs(asked - ascending[np.clip(place, 0, len(ascending) - 1)]) for place in (at - 1, at)]
    same = SAME * max(float(np.nanmax(asked) - np.nanmin(asked)), np.finfo(float).tiny)
    return np.where(np.isnan(asked), 0.0, np.log(np.minimum(*near) + same))


def _balanced(half: Indices, member: Flags, most: int, rng: np.random.Generator) -> Indices:
    """Draw as many members as non-members."""
    sides = half[member[half]], half[~member[half]]
    size = min(most // 2, *map(len, sides))
    return np.concatenate([rng.choice(side, size, replace=False) for side in sides])


@dataclass(frozen=True, eq=False, repr=False)
class _Choice:
    """People of whom it is known who is a member, rows, and people of the other half.

    Parameters
    ----------
    people, rows, beside : (T, n), (n, M) and (n, B)
    member : (T,)
    """

    people: Codes
    rows: Codes
    beside: Codes
    member: Flags

    def best(self, numeric: Flags, alone: Mapping[frozenset[int], float]) -> Flags:
        """Return the combination of variables with the largest area, of single ones those that are known."""
        # Of two variables that are no numbers, nothing else is tried.
        areas = {frozenset(range(len(self.rows))): 0.0} | dict(alone)
        for combinations in (self._narrowed(), self._widened(np.flatnonzero(numeric))):
            for found in combinations:
                areas |= found
        best = max(areas, key=lambda one: areas[one])
        return self._flags(best)

    def _flags(self, variables: frozenset[int]) -> Flags:
        return np.isin(np.arange(len(self.rows)), list(variables))

    def _narrowed(self) -> Iterator[dict[frozenset[int], float]]:
        """Remove a third of the variables at a time; give the areas of what is left, two variables at least."""
        known = np.ones(len(self.rows), dtype=bool)
        while (size := int(known.sum())) > 2:
            caps = np.ascontiguousarray(np.broadcast_to(np.where(known, UNIT, 0), self.people.shape).astype(np.int32))
            near, among = (nearest_without_each(self.people, caps, table)[0] for table in (self.rows, self.beside))
            at = np.flatnonzero(known)
            areas = self._areas(near[:, at], among[:, at], size - 1)
            whole = frozenset(at.tolist())
            yield {whole - {int(j)}: float(area) for j, area in zip(at, areas, strict=True)}
            known[at[np.argsort(-areas, kind="stable")[: min(-(-size // 3), size - 2)]]] = False

    def _widened(self, first: Indices) -> Iterator[dict[frozenset[int], float]]:
        """Give the areas of pairs with one of the first variables, and of the best combinations with one more."""
        found: dict[frozenset[int], float] = {}
        for j in first.tolist():
            found |= self._with_each(frozenset({j}))
        yield found
        for _ in range(2, _WIDEST):
            best = sorted(found, key=lambda one: found[one])[-_WIDENED:]
            found = {}
            for one in best:
                found |= self._with_each(one)
            yield found

    def _with_each(self, variables: frozenset[int]) -> dict[frozenset[int], float]:
        """Return the areas of some variables with one more."""
        known = self._flags(variables)
        near, among = (nearest_with_each(self.people, known, UNIT, table) for table in (self.rows, self.beside))
        others = np.flatnonzero(~known)
        areas = self._areas(near[:, others], among[:, others], len(variables) + 1)
        return {variables | {int(j)}: float(area) for j, area in zip(others, areas, strict=True)}

    def _areas(self, near: Codes, among: Codes, variables: int) -> Floats:
        """Return the area under the curve of the ratios of distances, column by column."""
        return _areas(self.member, log_ratios(near, among, variables))


def _areas(member: Flags, scores: Floats) -> Floats:
    """Return (n,) areas under the curve of (T, n) scores, column by column."""
    ranks, members = rankdata(scores, axis=0), int(member.sum())
    others = len(member) - members
    return np.asarray((ranks[member].sum(axis=0) - members * (members + 1) / 2.0) / (members * others))
