"""Levels that follow from the range of a number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import ConditionalEdit
from anoncore.microdata.inference import MAX_CODES, MIN_COUNT, MIN_RECORDS
from anoncore.profile.findings import Finding
from anoncore.profile.tables import Table


def cuts(table: Table) -> Iterator[Finding]:
    """Find variables whose levels occupy separate ranges of a number."""
    names = [n for n, column in table.numeric.items() if len(np.unique(column[~np.isnan(column)])) >= 5]
    if not names:
        return
    numbers = np.column_stack([table.numeric[n] for n in names])
    step = max(1, table.records // 1000)
    for name, codes in table.codes.items():
        q = len(table.levels[name])
        if not 2 <= (table.counts(name) > 0).sum() <= MAX_CODES:
            continue
        candidates = _separate(codes[::step], numbers[::step], q)
        confirmed = [j for j in candidates if _is_cut(codes, numbers[:, j], q)]
        for rank, j in enumerate(confirmed):
            yield from _cut(table, name, names[j], active=rank == 0)


def _is_cut(codes: np.ndarray, number: np.ndarray, q: int) -> bool:
    """Whether the levels have separate ranges, each with at least `MIN_RECORDS` records."""
    counts = np.bincount(codes[(codes >= 0) & ~np.isnan(number)], minlength=q)
    enough = counts[counts > 0].min(initial=len(codes)) >= MIN_RECORDS
    return bool(enough and len(_separate(codes, number[:, None], q)))


def _ranges(codes: np.ndarray, numbers: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Return lowest and highest (q, n) number at each level; NaN where a level has none."""
    order = np.argsort(codes, kind="stable")
    rows = numbers[order]
    edges = np.searchsorted(codes[order], np.arange(q + 1))
    low, high = np.full((q, numbers.shape[1]), np.nan), np.full((q, numbers.shape[1]), np.nan)
    for level, (start, stop) in enumerate(pairwise(edges)):
        if stop > start:
            low[level] = np.fmin.reduce(rows[start:stop], axis=0)
            high[level] = np.fmax.reduce(rows[start:stop], axis=0)
    return low, high


def _separate(codes: np.ndarray, numbers: np.ndarray, q: int) -> np.ndarray:
    """Return the columns of ``numbers`` (N, n) in which at least 2 of q levels have separate ranges."""
    low, high = _ranges(codes, numbers, q)
    order = np.argsort(low, axis=0, kind="stable")
    low, high = np.take_along_axis(low, order, axis=0), np.take_along_axis(high, order, axis=0)
    apart = (high[:-1] < low[1:]) | np.isnan(low[1:])
    return np.flatnonzero(apart.all(axis=0) & ~np.isnan(low[1]))


def _cut(table: Table, name: str, number: str, *, active: bool) -> Iterator[Finding]:
    """Return one rule for each level that a range of ``number`` fixes."""
    codes, column, unit = table.codes[name], table.numeric[number], table.precision[number]
    low, high = (side[:, 0] for side in _ranges(codes, column[:, None], len(table.levels[name])))
    order = [int(v) for v in np.argsort(low, kind="stable") if not np.isnan(low[v])]
    edges = [_edge(column, float(high[a]), float(low[b]), unit) for a, b in pairwise(order)]
    lowers, uppers = [None, *(start for _, start in edges)], [*(end for end, _ in edges), None]
    missing = True if (codes[~np.isnan(column)] < 0).any() else None
    why = "each level has its own range; cut at a round number where there is one"
    for level, lower, upper in zip(order, lowers, uppers, strict=True):
        then = Condition(variable=name, values=(table.levels[name][level],), missing=missing)
        when = (Condition(variable=number, lower=lower, upper=upper),)
        yield Finding(ConditionalEdit(name=f"{name} follows from {number}", when=when, then=then), why, active)


def _edge(column: np.ndarray, low: float, high: float, unit: float | None) -> tuple[float, float]:
    """Return where a range that reaches to ``low`` ends, and where the next, from ``high``, begins.

    A round number between them and, on a grid of ``unit``, the next one; where that would write
    down a value that few records hold, the middle twice, which is on no grid.
    """
    middle = _roundest(low, high)
    if unit is None:
        return middle, middle
    end = round(float(np.floor(round(middle / unit, 6)) * unit), 9)
    start = round(end + unit, 9)
    if any(0 < (column == v).sum() < MIN_COUNT for v in (end, start)):
        return (low + high) / 2, (low + high) / 2
    return end, start


def _roundest(low: float, high: float) -> float:
    """Return the number in (low, high) with the fewest digits, or ``low`` where there is none."""
    for decimals in range(-9, 16):
        step = 10.0**-decimals
        candidate = round((math.floor(low / step) + 1) * step, max(0, decimals))
        if low < candidate < high:
            return candidate
    return low
