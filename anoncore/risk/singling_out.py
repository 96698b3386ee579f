"""Singling out: conditions read off a release that are true of exactly one person of the original."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.agreement import Places, sole_units
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats
from anoncore.risk._proportions import Proportion, proportion
from anoncore.risk._residual import ResidualRisk, residual_risk
from anoncore.risk._values import SortedValues, aligned_values, shared_variables

_PREDICATES = 12_000
_RECORDS = 100_000  # a sample would lack most of the people whom released rows describe
_BATCH = 10_000
_BATCHES = 20
_SIZES = (1, 2, 3, 4)
_FEW_NEW = 0.02  # share of new predicates in a batch below which nearly all are found
_ENOUGH = 2000  # predicates from which the upper bound of a harmless release is within 0.1, for N non-members
_FEWEST = 10  # non-members; by fewer no release can be shown to be harmless

Predicates: TypeAlias = tuple[Places, Places, Places]


@dataclass(frozen=True)
class SinglingOutBySize:
    """Conditions on so many variables: how often they single somebody out, beside the control.

    Parameters
    ----------
    n_conditions : variables in one predicate
    residual : success on the original beyond the success on the control
    blind : the most that predicates of the average weight reach without any release, N·w·(1 − w)^(N − 1)
    pooled : of the predicates of this and other sizes together, where too few were found of this one
    """

    n_conditions: int
    residual: ResidualRisk
    blind: float
    pooled: ResidualRisk | None = None

    @property
    def is_pooled(self) -> bool:
        """Whether the upper bound is that of several sizes: not where the predicates of this one do more than these."""
        return self.pooled is not None and self.residual.lower <= self.pooled.upper

    @property
    def upper(self) -> float:
        """The upper bound of the predicates of this size, or of those that they are pooled with.

        It is not below the value of enough predicates: others, which single fewer people out, do not excuse it.
        """
        if self.pooled is None or not self.is_pooled:
            return self.residual.upper
        return max(self.pooled.upper, self.residual.value if self.residual.attack.n >= _ENOUGH else 0.0)


@dataclass(frozen=True)
class SinglingOut:
    """Success of predicates from the release at singling out people of the original.

    Parameters
    ----------
    sizes : by number of conditions, each at a confidence that holds for all of them together; those for which a
        predicate was found that holds for one released record alone
    n_members, n_nonmembers : statistical units whom predicates may single out, without the members who are among the
        control
    """

    meaning: ClassVar[str] = (
        "How much more often a condition that is true of one released row is true of exactly one person of the "
        "original than of exactly one non-member; 0 is none."
    )

    sizes: tuple[SinglingOutBySize, ...]
    n_members: int
    n_nonmembers: int

    @property
    def worst(self) -> SinglingOutBySize | None:
        """Return the size with the largest lower bound; None where no predicate was found."""
        return max(self.sizes, key=lambda one: one.residual.lower, default=None)


@dataclass(frozen=True, eq=False, repr=False)
class _Released:
    """The release in codes: (n, M) rows, which columns have levels, how many codes are numbers, and medians."""

    rows: Places
    equality: NDArray[np.bool_]
    numbers: Places
    medians: Floats


def singling_out(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    predicates: int = _PREDICATES,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> SinglingOut | None:
    """Read predicates off the release and count those that are true of exactly one person.

    A predicate takes the values of a random released row in one to four random variables. Levels and missing
    values must be equal; so must numbers in predicates on one variable and, by the toss of a coin, in others,
    where the number must else be at least the row's when that lies in the upper half of the release, or at
    most. Predicates that hold for different released rows are dropped, and each counts once. A predicate succeeds when
    exactly one statistical unit of the original has records that satisfy it. The control are non-members. Where these
    are n, fewer than the N members, N − n members are added to them, only non-members who are singled out among all N
    count, and each counts N/n times. Where the release owes nothing to the members, both sides are alike in
    expectation; where it does, the members who were added satisfy predicates, and the control is lower than that of N
    non-members, so that r errs towards a leak. A sample of the members would weaken the attack instead: it lacks most
    of the people of whom predicates are true.
    Reported is r = (r_original − r_control) / (1 − r_control). A table with few levels has a dozen
    predicates on one variable, which can prove a leak and never that there is none; neighbouring sizes are therefore
    pooled until they hold 2000 predicates, or N/n times as many beside a small reference, and the upper bound is that
    of all of them.

    Parameters
    ----------
    original, released, reference : Microdata; of more than 100 000 records of the original a sample, and of the
        reference as many units at most
    predicates : of each size that hold for one released row alone; fewer where 200 000 draws do not find them, or
        hardly any are new
    confidence : 0 … 1, of all sizes together
    rng : Generator

    Returns
    -------
    SinglingOut, or None where nothing can be compared, or there are fewer than ten non-members

    Notes
    -----
    Sources: Article 29 Working Party, opinion 05/2014 (WP216); Giomi et al. 2023, *PoPETs* 2023(2), 312–328;
    the blind baseline is Cohen and Nissim's 2020, *PNAS* 117, 8344–8352. O(predicates · people).

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> import pandas as pd
    >>> schema = Schema([Variable(name, "continuous") for name in "ab"])
    >>> people = np.random.default_rng(1).normal(size=(3, 200, 2))
    >>> a, b, c = (Microdata(pd.DataFrame(t, columns=["a", "b"]), schema) for t in people)
    >>> attacks = [singling_out(a, t, b, rng=np.random.default_rng(0)).sizes[0] for t in (a, c)]
    >>> attacks[0].residual.value > 0.5 > attacks[1].residual.value
    True
    """
    tables = (original, released, reference)
    names = shared_variables(tables)
    sides = _draw_sides(original, reference, rng)
    if sides.n_units[0] < 2 or sides.n_units[1] < _FEWEST or not names or not len(released):
        return None
    equality = np.array([original.schema[name].is_categorical for name in names])
    columns = [aligned_values(tables, name) for name in names]
    pools = [SortedValues(np.concatenate([m[sides.members], r, s[sides.nonmembers]])) for m, r, s in columns]
    places = np.stack([pool.places.astype(np.int32) for pool in pools])
    ends = np.cumsum([len(sides.members), len(released)])
    people, rows, nonmembers = (np.ascontiguousarray(side) for side in np.split(places, ends, 1))
    numbers = np.array([pool.numbers for pool in pools], dtype=np.int32)
    # A row that is released several times speaks of as few people as one that is released once.
    rows = np.ascontiguousarray(np.unique(rows, axis=1))
    table = _Released(rows, equality, numbers, np.median(rows, axis=1))
    control = np.hstack([nonmembers, people[:, sides.added]])
    sizes = [size for size in _SIZES if size <= len(names)]
    found = {}
    for size in sizes:
        drawn, of_rows = _predicates(table, size, predicates, rng)
        if len(of_rows):
            singled = sole_units(*drawn, people, sides.units), sole_units(*drawn, control, sides.of_control)
            held = singled[1] if not len(sides.added) else sole_units(*drawn, nonmembers)
            found[size] = _Singled(of_rows, *singled, nobody=float((held == -1).mean()))
    return SinglingOut(_by_size(found, sides.n_units, 1.0 - (1.0 - confidence) / len(sizes)), *sides.n_units)


@dataclass(frozen=True, eq=False, repr=False)
class _Sides:
    """Whom predicates are tried on.

    Parameters
    ----------
    members, nonmembers : places of their records in either table
    units : of the members' records, 0 … N − 1
    added : places among the members' records of N − n units that are added to the n non-members
    of_control : units of the non-members' records, 0 … n − 1, and from n on of those that are added
    n_units : N and n
    """

    members: NDArray[np.intp]
    nonmembers: NDArray[np.intp]
    units: NDArray[np.int64]
    added: NDArray[np.intp]
    of_control: NDArray[np.int64]
    n_units: tuple[int, int]


def _draw_sides(original: Microdata, reference: Microdata, rng: np.random.Generator) -> _Sides:
    """Draw at most 100 000 records of the original, by units, and no more units of the reference."""
    units = [np.arange(len(side)) if side.units is None else side.units for side in (original, reference)]
    counts = [len(np.unique(own)) for own in units]
    n_members = _RECORDS * counts[0] // max(len(units[0]), _RECORDS)
    n = n_members, min(n_members, counts[1])
    (members, of_members), (nonmembers, of_nonmembers) = (
        _draw_units(own, number, rng) for own, number in zip(units, n, strict=True)
    )
    added = np.flatnonzero(np.isin(of_members, rng.choice(n_members, n[0] - n[1], replace=False)))
    of_control = np.concatenate([of_nonmembers, n[1] + of_members[added]])
    return _Sides(members, nonmembers, of_members, added, of_control, n)


def _draw_units(
    units: NDArray[np.int64], number: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Draw so many units: the places of their records, and of these the units, counted from 0."""
    drawn = np.sort(rng.choice(np.unique(units), number, replace=False))
    places = np.flatnonzero(np.isin(units, drawn))
    return places, np.searchsorted(drawn, units[places])


@dataclass(frozen=True, eq=False, repr=False)
class _Singled:
    """Whom predicates single out.

    Parameters
    ----------
    rows : (T,) the released rows that they are of
    members, control : (T,) units of either side, or below 0; of the control those from the number of non-members on are
        members who were added
    nobody : share of the predicates that are true of no non-member
    """

    rows: NDArray[np.int64]
    members: NDArray[np.int64]
    control: NDArray[np.int64]
    nobody: float

    def sides(self, n: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the members and the non-members who are singled out, or numbers below 0."""
        return self.members, np.where(self.control < n[1], self.control, -2)

    def design_effects(self, n: tuple[int, int]) -> tuple[float, float]:
        """Return how much more successes of either side vary than those of independent predicates, 1 at least.

        Predicates of one released row, and those that single out the same of n units, succeed together. Variances by
        either cluster are added, less the one by both, of both sides together: where the release owes nothing to the
        members they are alike. Of few non-members each may be singled out by many predicates: their own effect counts
        where it is larger.

        Source: Cameron, Gelbach and Miller 2011, *JBES* 29, 238–249, eq. 2.8.
        """
        variances = np.array([self._variances(side, units) for side, units in zip(self.sides(n), n, strict=True)])
        both, own = (
            max(together / alone, 1.0) if alone else 1.0 for alone, together in (variances.sum(0), variances[1])
        )
        return both, max(both, own)

    def _variances(self, side: NDArray[np.int64], units: int) -> tuple[float, float]:
        """Return the variance of the number of successes as if they were independent, and as they are."""
        single = side >= 0
        by_row = np.bincount(self.rows, single - single.mean())
        of_units = side[single], side[single] + (side.max() + 1) * self.rows[single]
        by_unit, by_both = ((counts := np.unique(one, return_counts=True)[1]) @ (counts - 1) for one in of_units)
        alike = max(float(by_unit - by_both) - float(single.sum()) ** 2 / units, 0.0)
        return float(single.var()) * len(single), float((by_row**2).sum()) + alike


def _by_size(found: dict[int, _Singled], n: tuple[int, int], confidence: float) -> tuple[SinglingOutBySize, ...]:
    """Return the results from whom the predicates of each size single out among so many units of either side."""

    def residual(sizes: list[int]) -> ResidualRisk:
        some = [found[size] for size in sizes]
        rows, of_members, control = (
            np.concatenate([getattr(one, name) for one in some]) for name in ("rows", "members", "control")
        )
        one = _Singled(rows, of_members, control, nobody=math.nan)
        members, nonmembers = (
            _share(side >= 0, effect, confidence)
            for side, effect in zip(one.sides(n), one.design_effects(n), strict=True)
        )
        return residual_risk(members, _scaled(nonmembers, n[0] / n[1]))

    results = []
    for sizes in _pools({size: len(one.rows) for size, one in found.items()}, _ENOUGH * n[0] / n[1]):
        pooled = residual(sizes) if len(sizes) > 1 else None
        results += [SinglingOutBySize(one, residual([one]), _blind(found[one], n), pooled) for one in sizes]
    return tuple(results)


def _share(single: NDArray[np.bool_], effect: float, confidence: float) -> Proportion:
    """Return the share of successes with the interval of as many predicates less as they succeed together."""
    return replace(proportion(single.sum() / effect, len(single) / effect, confidence), n=len(single))


def _scaled(share: Proportion, factor: float) -> Proportion:
    """Return the share as if there were so many times as many people who may be singled out."""
    value, lower, upper = (min(factor * one, 1.0) for one in (share.value, share.lower, share.upper))
    return Proportion(value, lower, upper, share.n)


def _pools(found: dict[int, int], enough: float) -> list[list[int]]:
    """Return neighbouring sizes together that hold enough predicates.

    Examples
    --------
    >>> _pools({1: 11, 2: 500, 3: 3000, 4: 3000}, 2000), _pools({1: 3000, 2: 40}, 2000)
    ([[1, 2, 3], [4]], [[1, 2]])
    """
    pools: list[list[int]] = [[]]
    for size in found:
        if sum(found[one] for one in pools[-1]) >= enough:
            pools.append([])
        pools[-1].append(size)
    if len(pools) > 1 and sum(found[one] for one in pools[-1]) < enough:
        pools[-2:] = [pools[-2] + pools[-1]]
    return [one for one in pools if one]


def _predicates(
    table: _Released, size: int, number: int, rng: np.random.Generator
) -> tuple[Predicates, NDArray[np.int64]]:
    """Return different predicates that hold for a single released row, intervals and columns, and these rows."""
    kept = np.empty((0, 3 * size), dtype=np.int32)
    for _ in range(_BATCHES):
        drawn = _batch(table, size, rng)
        single, before = sole_units(*drawn, table.rows) >= 0, len(kept)
        kept = np.unique(np.concatenate([kept, np.hstack(drawn)[single]]), axis=0)
        if len(kept) >= number or len(kept) - before < _FEW_NEW * len(kept):
            break
    kept = rng.permutation(kept)[:number]
    lower, upper, columns = (np.ascontiguousarray(kept[:, at * size : (at + 1) * size]) for at in range(3))
    return (lower, upper, columns), sole_units(lower, upper, columns, table.rows)


def _batch(table: _Released, size: int, rng: np.random.Generator) -> Predicates:
    columns = np.sort(np.argsort(rng.random((_BATCH, len(table.rows))), axis=1)[:, :size], axis=1).astype(np.int32)
    values = table.rows[columns, rng.integers(table.rows.shape[1], size=_BATCH)[:, None]]
    ends = table.numbers[columns]
    equal = table.equality[columns] | (values >= ends)
    equal |= rng.random(columns.shape) < (0.5 if size > 1 else 1.0)
    upper_half = values >= table.medians[columns]
    lower = np.where(equal | upper_half, values, 0).astype(np.int32)
    return lower, np.where(equal | ~upper_half, values + 1, ends).astype(np.int32), columns


def _blind(found: _Singled, n: tuple[int, int]) -> float:
    """Return N·w·(1 − w)^(N − 1) for the weight w that makes a predicate true of no non-member as often as here."""
    weight = min(1.0, -np.log(max(found.nobody, 0.5 / len(found.rows))) / n[1])
    return float(n[0] * weight * (1.0 - weight) ** (n[0] - 1))
