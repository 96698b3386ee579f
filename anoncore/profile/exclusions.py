"""Combinations that never occur: levels of two variables, and levels outside the range of a number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import ConditionalEdit
from anoncore.profile.edges import edge
from anoncore.profile.findings import Finding
from anoncore.profile.marks import Marks
from anoncore.profile.support import beyond, edge_rate, needed, never_meeting
from anoncore.profile.tables import Table

EXPECTED = 10.0  # records that chance would give
RANK = 30  # see `beyond`


def exclusive_levels(table: Table, marks: Marks, computed: set[str]) -> list[Finding]:
    """Find levels of two variables that no record has both of, though chance would give many.

    Chance must give many even at the lowest rate at which either level meets another of the two variables, since
    levels that seldom meet are not levels that cannot. Variables in ``computed`` are left out.
    """
    names = [n for n in table.levels if n not in computed and (table.counts(n) > 0).sum() > 1]
    limit = needed(len(marks) ** 2 / 2) / table.weight
    findings: list[Finding] = []
    for one, other in combinations(names, 2):
        both = marks.counts[marks.levels[table.position[one]], marks.levels[table.position[other]]].astype("float64")
        never = _never(both, limit)
        if never.any():
            findings += _fewest(table, one, other, never)
    return findings


def _never(both: np.ndarray, limit: float) -> np.ndarray:
    """Return (q, r) bool: the levels that never meet, of two variables that meet ``both`` (q, r) times."""
    rows, columns, total = both.sum(axis=1, keepdims=True), both.sum(axis=0, keepdims=True), both.sum()
    expected = rows * columns / max(1.0, total)
    empty = (both == 0) & (expected >= EXPECTED)
    if not empty.any():
        return empty
    rate = np.divide(both, expected, out=np.ones_like(both), where=both > 0)
    lowest = np.minimum(rate.min(axis=1, keepdims=True), rate.min(axis=0, keepdims=True))
    evidence = never_meeting(np.full_like(both, total), rows + 0 * both, columns + 0 * both)
    return np.asarray(empty & (evidence * np.minimum(1.0, lowest) >= limit))


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


def level_ranges(table: Table, computed: set[str]) -> list[Finding]:
    """Find numbers that lie above, or below, a limit wherever another variable has certain levels.

    For each variable with levels the number is chosen that its levels restrict most. Variables in ``computed`` are
    left out.
    """
    numbers = table.numbers(computed, 5 * RANK)
    names = [n for n in table.levels if n not in computed]
    limit = needed(2 * len(numbers) * sum(len(table.levels[n]) for n in names)) / table.weight
    findings: list[Finding] = []
    values = np.column_stack([table.numeric[n] for n in numbers]) if numbers else np.zeros((table.records, 0))
    ranked = [np.sort(column[~np.isnan(column)]) for column in values.T]
    for name in names:
        hopeful = _restricted(table, name, values, ranked, limit)
        found = [rules for j in hopeful if (rules := list(_limits(table, name, numbers[j], limit)))]
        if found:
            findings += [rule for rule, _ in max(found, key=lambda rules: sum(excluded for _, excluded in rules))]
    return findings


def _restricted(table: Table, name: str, values: np.ndarray, ranked: list[np.ndarray], limit: float) -> list[int]:
    """Return the columns of ``values`` (N, n) of which a level has no number where chance would give it some."""
    codes = table.codes[name]
    order = np.argsort(codes, kind="stable")[int((codes < 0).sum()) :]
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    rows = values[order]
    low, high = np.fmin.reduceat(rows, starts), np.fmax.reduceat(rows, starts)
    sizes = np.add.reduceat(~np.isnan(rows), starts).astype("float64")
    hopeful = []
    for j, column in enumerate(ranked):
        below = np.searchsorted(column, low[:, j]).astype("float64")
        above = len(column) - np.searchsorted(column, high[:, j], side="right").astype("float64")
        most = np.maximum(below, above) * (sizes[:, j] > 0)
        if (never_meeting(len(column), most, sizes[:, j]) >= limit).any():
            hopeful.append(j)
    return hopeful


def _limits(table: Table, name: str, by: str, limit: float) -> Iterator[tuple[Finding, float]]:
    """Yield rules on a number for the levels of one variable, and the records that chance would put beyond them."""
    column, codes = table.numeric[by], table.codes[name]
    both = (codes >= 0) & ~np.isnan(column)
    total = float(both.sum())
    for sign in (1.0, -1.0):
        limits: dict[float, list[int]] = {}
        by_chance = 0.0
        for level in range(len(table.levels[name])):
            inside = sign * column[both & (codes == level)]
            if len(inside) < 5 * RANK:
                continue
            within = beyond(inside, RANK)
            outside = (sign * column)[both & (sign * column < within)]
            if not len(outside):
                continue
            evidence = never_meeting(total, len(outside), len(inside))
            if evidence * edge_rate(inside, (sign * column)[both], RANK) < limit:
                continue
            bound = _bound(column, sign, float(outside.max()), within, table.precision[by])
            if not (sign * column[both & (codes == level)] >= sign * bound).all():
                continue
            limits.setdefault(bound, []).append(level)
            by_chance += len(outside) * len(inside) / total
        for bound, levels in limits.items():
            yield _limited(table, name, by, levels, bound, sign), by_chance


def _bound(column: np.ndarray, sign: float, outside: float, within: float, unit: float | None) -> float:
    """Return a round number between what is outside and what is within; both are turned by ``sign``."""
    if sign > 0:
        return edge(column, outside, within, unit)[1]
    return edge(column, -within, -outside, unit)[0]


def _limited(table: Table, name: str, by: str, levels: list[int], bound: float, sign: float) -> Finding:
    lower, upper = (bound, None) if sign > 0 else (None, bound)
    missing = True if table.missing[by].any() else None
    when = Condition(variable=name, values=tuple(table.levels[name][q] for q in levels))
    then = Condition(variable=by, lower=lower, upper=upper, missing=missing)
    return Finding(ConditionalEdit(name=f"{by} by {name}", when=(when,), then=then))
