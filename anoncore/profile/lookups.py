"""Functional dependencies: variables whose values another variable determines."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from anoncore.microdata.inference import MAX_CODES, MAX_LISTED, MIN_RECORDS
from anoncore.profile.support import arrangements, choices, needed
from anoncore.profile.tables import Table

SCREENED = 128  # records in groups, on which all pairs are tried first
FEWEST = 5.0  # records of a value, on average, unless levels occupy ranges of a number
MAX_NUMBERS = 100  # between which the nearest value would say little, unless levels occupy ranges
LEFT_EMPTY = 0.02  # of the records: cells that a lookup may fill


@dataclass(frozen=True)
class Dependency:
    """``dependent`` has one value at each value of ``determinant``."""

    dependent: str
    determinant: str


def lookups(table: Table, computed: Collection[str], determined: Collection[str] = ()) -> list[Dependency]:
    """Find for each variable the coarsest other one that determines it; the result has no cycles.

    Of variables that determine each other the one that holds few numbers, or else the first one with levels,
    determines the others. Variables in ``computed`` take no part, and those in ``determined`` follow from no other one;
    others may follow from them (products and their factors). Where a determinant is missing, so is its dependent.
    """
    barred = table.weights.union(computed)
    names = [n for n in table.values if n not in barred and len(np.unique(table.values[n])) > 1]
    if len(names) < 2:
        return []
    codes = np.column_stack([np.unique(table.values[n], return_inverse=True)[1] for n in names])
    codes[np.column_stack([table.missing[n] for n in names])] = -1
    sizes = np.array([len(np.unique(column[column >= 0])) for column in codes.T])
    numeric = np.array([n in table.numeric for n in names])
    # The order of few levels is that of the numbers beside them; many levels are names.
    preferred = np.where(numeric, np.where(sizes <= MAX_LISTED, 0, 2), 1)
    order = np.lexsort((np.arange(len(names)), preferred, -sizes))
    free = (sizes > 1) & ~np.isin(names, list(determined))
    chosen: dict[int, int] = {}
    limit = needed(len(names) ** 2)
    for place, at in enumerate(order.tolist()):
        later = order[place + 1 :][free[order[place + 1 :]]]
        for to in _screened(codes, at, later):
            if _depends(codes[:, at], codes[:, to], bool(numeric[at]), limit / table.weight):
                chosen[to] = at  # a later determinant is coarser
    return [Dependency(names[to], names[at]) for to, at in sorted(chosen.items())]


def _screened(codes: np.ndarray, at: int, later: np.ndarray) -> Iterator[int]:
    """Yield those of ``later`` that some records, grouped by column ``at``, do not refute."""
    some = np.argsort(codes[:, at], kind="stable")
    start = int((codes[:, at] < 0).sum())
    some = some[start:] if len(some) - start <= 2 * SCREENED else np.r_[some[start:][:SCREENED], some[-SCREENED:]]
    same = codes[some[1:], at] == codes[some[:-1], at]
    one, other = codes[np.ix_(some[1:][same], later)], codes[np.ix_(some[:-1][same], later)]
    yield from later[~((one != other) & (one >= 0) & (other >= 0)).any(axis=0)].tolist()


def _depends(codes: np.ndarray, target: np.ndarray, numeric: bool, limit: float) -> bool:
    """Whether ``target`` (N,) has one value at each of ``codes`` (N,), and chance does not explain it."""
    both = (codes >= 0) & (target >= 0)
    if both.sum() < MIN_RECORDS or (target[codes < 0] >= 0).any():
        return False
    order = np.lexsort((target[both], codes[both]))
    group, value = codes[both][order], target[both][order]
    starts = np.r_[True, group[1:] != group[:-1]]
    if (value[1:] != value[:-1])[~starts[1:]].any():
        return False
    counts = np.unique(value, return_counts=True)[1]
    groups, levels = int(starts.sum()), len(counts)
    if levels < 2 or np.isin(codes[(codes >= 0) & (target < 0)], group).sum() > LEFT_EMPTY * len(codes):
        return False
    runs = 1 + int((value[starts][1:] != value[starts][:-1]).sum())
    maps = groups * np.log(levels)
    if numeric:
        maps = min(maps, choices(groups - 1, runs - 1) + runs * np.log(levels))
    in_ranges = numeric and levels <= MAX_CODES and runs == levels
    if not in_ranges and (len(value) < FEWEST * groups or (numeric and groups > MAX_NUMBERS)):
        return False
    return arrangements(counts) - maps >= limit
