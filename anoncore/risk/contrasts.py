"""Sums and differences of numbers, and residuals, that a release may keep of each person: the best are chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from scipy.stats import rankdata

from anoncore.kernels.left_out import Codes
from anoncore.kernels.threads import in_threads, one_blas_thread
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags, places_among
from anoncore.risk.coded_people import SAME, UNIT, CodedPeople

# Numbers that are combined, the largest ratio of their standard deviations, numbers in a combination, and those kept.
_CONTRASTED, _SIMILAR, _TERMS, KEPT = 40, 10.0, 4, 4
# Levels of a variable that have a slope, but for one, and what is added to variances.
_LEVELS, _RIDGE = 12, 1e-4
_TOGETHER = 8  # residuals that are all offered
_SORTED = 2.5e7  # rows times the square of the numbers that are combined

_Signs: TypeAlias = frozenset[tuple[int, int]]  # numbers with the signs that they are added with


@dataclass(frozen=True, eq=False, repr=False)
class Contrast:
    """Codes (P,) of people and (M,) of rows by a sum or difference of some numbers, which these are, and the area."""

    people: Codes
    rows: Codes
    numbers: tuple[int, ...]
    area: float


@dataclass(frozen=True, eq=False, repr=False)
class Contrasts:
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
    def of(cls, coded: CodedPeople, rng: np.random.Generator) -> Contrasts:
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

    def best(self, asked: Indices, scored: Indices, member: Flags) -> list[Contrast]:
        """Return codes of the few that distinguish members best by themselves, among the people asked."""
        alone = [frozenset({(at, 1)}) for at in range(len(self.spread))]
        rest = alone[self.residuals :]
        areas = dict(zip(rest, in_threads(partial(self._area, asked, scored, member), rest), strict=True))
        latest = set(alone[: self.residuals])
        for _ in range(_TERMS - 1):
            wider = sorted({one for signs in latest for one in self._wider(signs)}, key=sorted)
            areas |= zip(wider, in_threads(partial(self._area, asked, scored, member), wider), strict=True)
            latest = set(sorted(wider, key=lambda one: areas[one])[-KEPT:])
        best = sorted(areas, key=lambda one: areas[one])[-KEPT:]
        # Residuals that are kept together are hardly seen in each by itself.
        best += [one for one in rest if len(rest) <= _TOGETHER and one not in best]
        return [
            Contrast(
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
        return float(areas_under_curve(member[asked], ratios[:, None])[0])


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


def areas_under_curve(member: Flags, scores: Floats) -> Floats:
    """Return (n,) areas under the curve of (T, n) scores, column by column."""
    ranks, members = rankdata(scores, axis=0), int(member.sum())
    others = len(member) - members
    return np.asarray((ranks[member].sum(axis=0) - members * (members + 1) / 2.0) / (members * others))
