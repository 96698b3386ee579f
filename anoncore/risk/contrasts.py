"""Sums and differences of numbers, and residuals, that a release may keep of each person: the best are chosen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from typing import TypeAlias

import numpy as np
from scipy.stats import rankdata

from anoncore.kernels.left_out import Codes
from anoncore.kernels.threads import in_threads, one_blas_thread
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags, deviations, logarithms, places_among
from anoncore.risk.coded_people import SAME, UNIT, CodedPeople

# Numbers that are combined, the largest ratio of their standard deviations, and combinations that are kept.
_CONTRASTED, _SIMILAR, KEPT = 40, 10.0, 4
_POSITIVE = 0.5  # of the values, where logarithms are taken
# Levels of a variable that have a slope, but for one, and what is added to variances.
_LEVELS, _RIDGE = 12, 1e-4
_TOGETHER = 8  # residuals that are all offered
_SORTED = 2.5e7  # rows times the square of the numbers that are combined
_SORTED_IN_ALL, _COMBINED = 8e6, 1000  # rows times combinations, of which there are so many of one kind at most

_Weights: TypeAlias = tuple[tuple[int, int], ...]  # numbers with the weights that they are added with


@dataclass(frozen=True, eq=False, repr=False)
class Contrast:
    """Codes (P,) of people and (M,) of rows by a sum or difference of some numbers, which these are, and the area."""

    people: Codes
    rows: Codes
    numbers: tuple[int, ...]
    area: float


@dataclass(frozen=True, eq=False, repr=False)
class Contrasts:
    """Sums and differences of numbers, of logarithms and of numbers in standard deviations; and residuals.

    These are numbers less what all other variables say of them.

    Parameters
    ----------
    people, rows : (P, c) and (M, c) numbers, once more in standard deviations, logarithms of those above 0, and
        residuals of linear regressions; NaN where missing
    numbers : (c,) the place of each among all numbers
    residuals : the numbers from this place on are residuals
    tried : the combinations, each of places with their weights; of more than two as many as can be sorted in time
    """

    people: Floats
    rows: Floats
    numbers: Indices
    residuals: int
    tried: tuple[_Weights, ...]

    @classmethod
    def of(cls, coded: CodedPeople, rng: np.random.Generator) -> Contrasts:
        """Take some of the numbers, the fewer, the more rows there are to sort."""
        numbers = coded.numbers
        most = min(_CONTRASTED, int(np.sqrt(_SORTED / max(len(numbers[1]), 1))))
        chosen = np.sort(rng.permutation(numbers[0].shape[1])[:most])
        people, rows = (side[:, chosen] for side in numbers)
        positive = [
            all(np.mean(side[:, at] > 0.0) >= _POSITIVE for side in (people, rows)) for at in range(len(chosen))
        ]
        spread = deviations(people)
        of_logs, varies = deviations(logarithms(people[:, positive])), spread > 0.0
        units, rest = np.where(varies, spread, 1.0), _residuals((people, rows), coded.levels)
        people, rows = (
            np.column_stack([side, side / units, logarithms(side[:, positive]), left])
            for side, left in zip((people, rows), rest, strict=True)
        )
        width, left = len(chosen), rest[0].shape[1]
        of_each = np.concatenate([chosen, chosen, chosen[positive], chosen[:left]])
        linear, of_log = _linear(spread, 0, rng), _linear(of_logs, 2 * width, rng)
        stages = [one + other for one, other in zip(linear, of_log, strict=True)]
        # Of totals and pairs all are tried.
        tried = stages[0] + _weighed(np.flatnonzero(varies) + width, np.ones(2 * width), rng, (1, -1))
        affordable = int(_SORTED_IN_ALL / max(len(numbers[1]), 1))
        for stage in stages[1:]:
            some = rng.permutation(len(stage))[: max(affordable - len(tried), 0)]
            tried += [stage[at] for at in np.sort(some).tolist()]
        return cls(people, rows, of_each, 2 * width + len(of_logs), tuple(dict.fromkeys(tried)))

    def best(self, asked: Indices, scored: Indices, member: Flags) -> list[Contrast]:
        """Return codes of the few that distinguish members best by themselves, among the people asked."""
        rest: list[_Weights] = [((at, 1),) for at in range(self.residuals, self.people.shape[1])]
        every = [*rest, *self.tried]
        areas = dict(zip(every, in_threads(partial(self._area, asked, scored, member), every), strict=True))
        best = sorted(areas, key=lambda one: areas[one])[-KEPT:]
        # Residuals that are kept together are hardly seen in each by itself.
        best += [one for one in rest if len(rest) <= _TOGETHER and one not in best]
        return [
            Contrast(*places_among(*self._values(one), UNIT), tuple(int(self.numbers[at]) for at, _ in one), areas[one])
            for one in best
        ]

    def _values(self, weights: _Weights) -> tuple[Floats, Floats]:
        people, rows = (sum(weight * side[:, at] for at, weight in weights) for side in (self.people, self.rows))
        return np.asarray(people), np.asarray(rows)

    def _area(self, asked: Indices, scored: Indices, member: Flags, weights: _Weights) -> float:
        people, rows = self._values(weights)
        ratios = _gaps(people[scored], people[asked]) - _gaps(rows, people[asked])
        return float(areas_under_curve(member[asked], ratios[:, None])[0])


def _linear(spread: Floats, first: int, rng: np.random.Generator) -> list[list[_Weights]]:
    """Return stages of combinations of numbers, or of logarithms, whose places begin with ``first``: ever wider ones.

    Totals and pairs as sums and differences, and of logarithms with one of them twice; sums of three; three with any
    signs; pairs of numbers with one of them twice; sums of four; of five, and four with two signs.
    """
    places, spreads = np.flatnonzero(spread > 0.0) + first, np.concatenate([np.zeros(first), spread])
    of = partial(_weighed, places, spreads, rng)
    squares = of((1, -2), (-2, 1))
    return [
        _totals(places, spreads) + of((1, 1), (1, -1)) + (squares if first else []),
        of((1, 1, 1)),
        of((1, 1, -1), (1, -1, 1), (-1, 1, 1)),
        of((1, 2), (2, 1)) + ([] if first else squares),
        of((1, 1, 1, 1)),
        of((1, 1, 1, 1, 1)) + of((1, 1, -1, -1), (1, -1, 1, -1), (1, -1, -1, 1)),
    ]


def _weighed(places: Indices, spread: Floats, rng: np.random.Generator, *weights: tuple[int, ...]) -> list[_Weights]:
    """Return combinations of places of similar spread with weights of one length, of more than 1000 a random part."""
    size = len(weights[0])
    if comb(len(places), size) <= _COMBINED:
        every = list(combinations(places.tolist(), size))
    else:
        drawn = np.sort(np.argsort(rng.random((_COMBINED, len(places))), axis=1)[:, :size], axis=1)
        every = [tuple(places[at].tolist()) for at in np.unique(drawn, axis=0)]
    like = [at for at in every if spread[[*at]].max() <= _SIMILAR * spread[[*at]].min()]
    return [tuple(zip(at, of, strict=True)) for of in weights for at in like]


def _totals(places: Indices, spread: Floats) -> list[_Weights]:
    """Return the sums of all numbers, of those that vary most, and of these all but one; of three at least."""
    found: list[_Weights] = []
    for share in (0.0, 0.01, 1.0 / _SIMILAR):
        most = [at for at in places.tolist() if spread[at] >= share * spread[places].max()]
        found.append(tuple((at, 1) for at in most))
    found += [tuple(one for one in found[-1] if one is not left) for left in found[-1]]
    return [one for one in found if len(one) > 2]


def _residuals(numbers: tuple[Floats, Floats], levels: tuple[Indices, Indices]) -> list[Floats]:
    """Return (P, c) and (M, c) numbers less what all others and the levels say of them, by regressions on the people.

    From the inverse of one covariance matrix, missing numbers being means; NaN where the number itself is missing.
    """
    known = np.isfinite(numbers[0])
    centre = np.where(known, numbers[0], 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    spread = deviations(numbers[0])
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
