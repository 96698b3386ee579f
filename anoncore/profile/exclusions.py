"""Combinations that never occur: levels of two variables, and levels outside the range of a number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import ConditionalEdit
from anoncore.profile.edges import edge
from anoncore.profile.findings import Finding
from anoncore.profile.marks import Marks
from anoncore.profile.support import beyond, choices, edge_rate, needed, never_meeting
from anoncore.profile.tables import Table

EXPECTED = 10.0  # records that chance would give
ALONE = 1.0  # the same, of each of several levels that are excluded together
TOGETHER = 4.0  # times the evidence, since cells that are rare by themselves are rather empty than impossible
SHARED = 10  # records of a number, on average, from which on fractions describe what records have in common
OFTEN = 0.5  # how often a number is not 0 beside the least of another one, of how often it is at all
RANK, LEAST_RANK = 30, 10  # see `beyond`; of a level with few records, the rank is a fifth of them


def exclusive_levels(table: Table, marks: Marks, computed: set[str]) -> list[Finding]:
    """Find levels of two variables that no record has both of, though chance would give many.

    Chance must give many even at the lowest rate at which either level meets another of the two variables, since
    levels that seldom meet are not levels that cannot. Of a small level it must give many of all those together that
    it never meets, `TOGETHER` times as clearly, and the number of ways to choose those levels counts against it.
    Variables in ``computed`` are left out, and pairs of variables whose combinations follow from those with a third
    one.
    """
    limit = needed(len(marks) ** 2 / 2) / table.weight
    names, slices = list(table.levels), list(marks.levels.values())
    if len(names) < 2:
        return []
    starts = np.array([at.start for at in slices])
    own = np.repeat(np.arange(len(names)), [at.stop - at.start for at in slices])
    counts = marks.counts[: len(own), : len(own)].astype("float64")
    never = np.vstack([_never(counts[at], starts, own, limit, table.weight) for at in slices])
    left_out = np.array([n in computed for n in names])[own]
    never &= (own[:, None] < own) & ~left_out & ~left_out[:, None]
    never |= never.T
    _without_implied(never, starts, own, [not table.missing[n].any() for n in names])
    findings: list[Finding] = []
    for one, other in _pairs(never, own):
        findings += _fewest(table, names[one], names[other], never[slices[one], slices[other]])
    return findings


def _pairs(never: np.ndarray, own: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs of variables that have levels which never meet."""
    one, other = np.nonzero(np.triu(never))
    return sorted(set(zip(own[one].tolist(), own[other].tolist(), strict=True)))


def _without_implied(never: np.ndarray, starts: np.ndarray, own: np.ndarray, complete: list[bool]) -> None:
    """Remove from ``never`` (m, m), the last first, pairs of variables all of whose exclusions follow from the others.

    Two levels never meet where each level of a third variable, which is never missing, never meets one of them.
    """
    for one, other in reversed(_pairs(never, own)):
        i, j = np.nonzero(never & (own == one)[:, None] & (own == other))
        through = np.logical_and.reduceat(never[i] | never[j], starts, axis=1) & complete
        through[:, [one, other]] = False
        if through.any(axis=1).all():
            never[i, j] = never[j, i] = False


def _never(both: np.ndarray, starts: np.ndarray, own: np.ndarray, limit: float, weight: float) -> np.ndarray:
    """Return (q, m) bool: the levels that a variable's levels never meet.

    Parameters
    ----------
    both : (q, m) how often they meet
    starts, own : (n,) the first of the levels of each variable, and (m,) the variable of each
    limit : evidence that is needed
    weight : statistical units for each record
    """
    rows = np.add.reduceat(both, starts, axis=1)
    total, columns = rows.sum(axis=0), both.sum(axis=0)
    expected = rows[:, own] * columns / np.maximum(1.0, total[own])
    empty, likely = (both == 0) & (expected >= EXPECTED), expected >= ALONE
    if not ((both == 0) & likely).any():
        return empty
    rate = np.divide(both, expected, out=np.ones_like(both), where=both > 0)
    by_row, by_column = np.minimum.reduceat(rate, starts, axis=1), rate.min(axis=0)
    lowest = np.minimum(1.0, np.minimum(by_row[:, own], by_column))
    i, j = np.nonzero(empty)
    empty[i, j] = never_meeting(total[own[j]], rows[i, own[j]], columns[j]) * lowest[i, j] >= limit
    cells = _RareCells((both == 0) & likely & ~empty, likely, lowest, limit, weight)
    of_rows = cells.excluded(rows[:, own], columns, total[own], lambda ufunc, values: ufunc.reduce(values, axis=0))
    of_columns = cells.excluded(
        np.broadcast_to(columns, both.shape), rows, total, lambda ufunc, values: ufunc.reduceat(values, starts, axis=1)
    )
    return np.asarray(empty | cells.empty & (of_rows | of_columns[:, own]))


@dataclass(frozen=True, eq=False, repr=False)
class _RareCells:
    """Pairs of levels that never meet, each too rare to show by itself that they cannot.

    Parameters
    ----------
    empty, likely : (q, m) bool, which pairs never meet and are rare; of which pairs chance gives one record or more
    lowest : (q, m) the lowest rate at which either of two levels meets another one
    limit, weight : evidence that is needed of records, each of so many statistical units
    """

    empty: np.ndarray
    likely: np.ndarray
    lowest: np.ndarray
    limit: float
    weight: float

    def excluded(
        self, records: np.ndarray, met: np.ndarray, total: np.ndarray, reduced: Callable[[np.ufunc, np.ndarray], Any]
    ) -> np.ndarray:
        """Return which sets of levels show, taken as one level, that another level meets none of them.

        Parameters
        ----------
        records : (q, m) of each level of a set
        met, total : records of the other level, and all, for each set
        reduced : gives one value for each set, from (q, m) values and the function that joins them
        """
        number, size = reduced(np.add, self.empty.astype("float64")), reduced(np.add, self.empty * records)
        rate = reduced(np.minimum, np.where(self.empty, self.lowest, 1.0))
        chosen = choices(reduced(np.add, self.likely.astype("float64")), number) / self.weight
        evidence = never_meeting(np.broadcast_to(total, size.shape), size, np.broadcast_to(met, size.shape)) * rate
        clear = evidence >= TOGETHER * (self.limit + chosen)
        return np.asarray((number > 1) & (size * met >= EXPECTED * total) & clear)


def _fewest(table: Table, one: str, other: str, never: np.ndarray) -> list[Finding]:
    """Return the rules of two variables in the direction that needs fewer of them, and fewer words."""
    ways = [_rules(table, one, other, never), _rules(table, other, one, never.T)]
    best = min(ways, key=lambda rules: (len(rules), sum(len(rule.then.values or ()) for rule in rules)))
    return [Finding(rule) for rule in best]


def _rules(table: Table, one: str, other: str, never: np.ndarray) -> list[ConditionalEdit]:
    """Return one rule for all levels of ``one`` that exclude the same levels of ``other``."""
    groups: dict[bytes, list[int]] = {}
    for level in np.flatnonzero(never.any(axis=1)).tolist():
        groups.setdefault(never[level].tobytes(), []).append(level)
    missing = True if table.missing[other].any() else None
    rules = []
    for at in groups.values():
        left = tuple(v for v, excluded in zip(table.levels[other], never[at[0]], strict=True) if not excluded)
        when = Condition(variable=one, values=tuple(table.levels[one][q] for q in at))
        then = Condition(variable=other, values=left, missing=missing)
        rules.append(ConditionalEdit(name=f"{other} by {one}", when=(when,), then=then))
    return rules


def level_ranges(table: Table, computed: set[str], ordered: Collection[frozenset[str]] = ()) -> list[Finding]:
    """Find numbers that lie above, or below, a limit wherever another variable has certain levels, or is 0.

    For each variable with levels, and each number with many zeros, the number is chosen that it restricts most.
    Variables in ``computed`` are left out, and pairs of numbers in ``ordered``, which an order restricts.
    """
    numbers = table.numbers(computed, 5 * RANK)
    groups = [_Groups(n, levels, table.codes[n]) for n, levels in table.levels.items()]
    groups += [_Groups(n, (0,), codes, zeros=True) for n, codes in table.zeros.items()]
    groups = [one for one in groups if one.name not in computed]
    limit = needed(2 * len(numbers) * sum(len(one.levels) for one in groups)) / table.weight
    findings: list[Finding] = []
    values = np.column_stack([table.numeric[n] for n in numbers]) if numbers else np.zeros((table.records, 0))
    ranked = [np.sort(column[~np.isnan(column)]) for column in values.T]
    for one in groups:
        hopeful = [numbers[j] for j in _restricted(one.codes, values, ranked, limit)]
        others = (n for n in hopeful if n != one.name and frozenset((n, one.name)) not in ordered)
        ranges = [rules for n in others if (rules := list(_limits(table, one, n, limit)))]
        if ranges:
            findings += [rule for rule, _ in max(ranges, key=lambda rules: sum(excluded for _, excluded in rules))]
    return findings


@dataclass(frozen=True, eq=False, repr=False)
class _Groups:
    """The records at each level of a variable: ``codes`` (N,) are positions in ``levels``, beyond them, or -1.

    Of numbers that are often 0, ``zeros``, the other numbers are beyond; only those that are 0 with them are found.
    """

    name: str
    levels: tuple[Any, ...]
    codes: np.ndarray
    zeros: bool = False


def _restricted(codes: np.ndarray, values: np.ndarray, ranked: list[np.ndarray], limit: float) -> list[int]:
    """Return the columns of ``values`` (N, n) of which a level has no number where chance would give it some."""
    order = np.argsort(codes, kind="stable")[int((codes < 0).sum()) :]
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    rows = values[order]
    low, high = np.fmin.reduceat(rows, starts), np.fmax.reduceat(rows, starts)
    sizes = np.add.reduceat(~np.isnan(rows), starts).astype("float64")
    if not ranked:
        return []
    below = np.column_stack([np.searchsorted(column, low[:, j]) for j, column in enumerate(ranked)])
    known = np.array([len(column) for column in ranked], dtype="float64")
    above = known - np.column_stack([np.searchsorted(c, high[:, j], side="right") for j, c in enumerate(ranked)])
    evidence = never_meeting(np.broadcast_to(known, sizes.shape), np.maximum(below, above) * (sizes > 0), sizes)
    return np.flatnonzero((evidence >= limit).any(axis=0)).tolist()


def _limits(table: Table, groups: _Groups, by: str, limit: float) -> Iterator[tuple[Finding, float]]:
    """Yield rules on a number for the levels of one variable, and the records that chance would put beyond them."""
    column, codes = table.numeric[by], groups.codes
    both = (codes >= 0) & ~np.isnan(column)
    total = float(both.sum())
    shared = _shared(column[both])
    for sign in (1.0, -1.0):
        limits: dict[float, list[int]] = {}
        by_chance = 0.0
        for level in range(len(groups.levels)):
            inside = sign * column[both & (codes == level)]
            rank = min(RANK, len(inside) // 5)
            if rank < LEAST_RANK:
                continue
            within = beyond(inside, rank)
            constant = inside.min() == inside.max()
            if groups.zeros and not (constant and inside[0] == 0):
                continue
            rate = (
                _beside_zero(table, groups.name, by) if groups.zeros else edge_rate(inside, (sign * column)[both], rank)
            )
            outside = (sign * column)[both & (sign * column < within)]
            if not len(outside):
                continue
            evidence = never_meeting(total, len(outside), len(inside))
            if shared and not constant:
                counts = (len(np.unique(part)) for part in (outside, inside))
                evidence = np.minimum(evidence, never_meeting(shared, *counts))
            if evidence * rate < limit:
                continue
            value = float(sign * inside[0])
            bound = value if constant else _bound(column, sign, float(outside.max()), within, table.precision[by])
            if not (sign * column[both & (codes == level)] >= sign * bound).all():
                continue
            limits.setdefault(bound, []).append(level)
            by_chance += len(outside) * len(inside) / total
        for bound, levels in limits.items():
            yield _limited(table, groups, by, levels, bound, sign), by_chance


def _beside_zero(table: Table, name: str, by: str) -> float:
    """Return how often a number is not 0 beside the least numbers of another one that is, of how often it is at all.

    As many as there are beside 0. Of numbers that rise with each other few are other than 0 there, and none beside 0:
    below `OFTEN` the rate is given as 0.
    """
    other, column = table.numeric[name], table.numeric[by]
    known = ~np.isnan(other) & ~np.isnan(column)
    beside = np.sort(other[known & (other > 0)])[: int((known & (other == 0)).sum())]
    near = column[known & (other > 0) & (other <= beside[-1])] if len(beside) else column[:0]
    rate = float((near != 0).mean()) / float((column[known] != 0).mean()) if len(near) else 1.0
    return min(1.0, rate) if rate >= OFTEN else 0.0


def _shared(present: np.ndarray) -> int:
    """Return how many fractions numbers are that describe areas or schools more than records; 0 of other numbers.

    Those of one area are no evidence by themselves: it is counted by different numbers.
    """
    different = np.unique(present)
    mostly_whole = 2 * (different == np.round(different)).sum() >= len(different)
    return 0 if mostly_whole or len(different) * SHARED > len(present) else len(different)


def _bound(column: np.ndarray, sign: float, outside: float, within: float, unit: float | None) -> float:
    """Return a round number between what is outside and what is within; both are turned by ``sign``."""
    if sign > 0:
        return edge(column, outside, within, unit)[1]
    return edge(column, -within, -outside, unit)[0]


def _limited(table: Table, groups: _Groups, by: str, levels: list[int], bound: float, sign: float) -> Finding:
    lower, upper = (bound, None) if sign > 0 else (None, bound)
    missing = True if table.missing[by].any() else None
    when = Condition(variable=groups.name, values=tuple(groups.levels[q] for q in levels))
    then = Condition(variable=by, lower=lower, upper=upper, missing=missing)
    return Finding(ConditionalEdit(name=f"{by} by {groups.name}", when=(when,), then=then))
