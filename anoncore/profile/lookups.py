"""Functional dependencies: variables whose values another variable determines."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from anoncore.edits.functions import function_of
from anoncore.microdata.inference import MAX_CODES, MAX_LISTED, MIN_RECORDS
from anoncore.profile.support import arrangements, choices, needed
from anoncore.profile.tables import Table

FIRST = 40  # records, on which functions are tried first
SCREENED = 128  # records in groups, on which all pairs are tried first
FEWEST = 5.0  # records of a value, on average beside the most frequent one, unless levels occupy ranges of a number
MAX_NUMBERS = 200  # between which the nearest value would say little, unless levels occupy ranges
LEFT_EMPTY = 0.02  # of the records: cells that a lookup may fill


@dataclass(frozen=True)
class Dependency:
    """``dependent`` has one value at each value of ``determinant``."""

    dependent: str
    determinant: str


def lookups(table: Table, computed: Collection[str], determined: Collection[str] = ()) -> list[Dependency]:
    """Find for each variable the coarsest other one that determines it; the result has no cycles.

    Of variables that determine each other the one that holds few numbers, or else the first one with levels, determines
    the others. Variables in ``computed`` take no part, but that numbers may be functions of them, and those in
    ``determined`` follow from no other one; others may follow from them, also those that determine them as well
    (products and their factors), and from survey weights, which are those of strata, but weights from nothing. Where a
    determinant is missing, so is its dependent.
    A number that is a function of another one follows from it, however many there are.
    """
    names = [n for n in table.values if len(np.unique(table.values[n])) > 1]
    if len(names) < 2:
        return []
    codes = np.column_stack([np.unique(table.values[n], return_inverse=True)[1] for n in names])
    codes[np.column_stack([table.missing[n] for n in names])] = -1
    sizes = np.array([len(np.unique(column[column >= 0])) for column in codes.T])
    numeric = np.array([n in table.numeric for n in names])
    # The order of few levels is that of the numbers beside them; many levels are names.
    preferred = np.where(numeric, np.where(sizes <= MAX_LISTED, 0, 2), 1)
    preferred = np.where(np.isin(names, list(determined)), -1, preferred)
    order = np.lexsort((np.arange(len(names)), preferred, -sizes))
    summed = np.isin(names, list(computed))
    free = (sizes > 1) & ~np.isin(names, [*determined, *table.weights]) & ~summed
    functions = _functions(table, names, numeric & free)
    free[list(functions)] = False
    chosen = dict(functions)
    limit = needed(len(names) ** 2)
    for place, at in enumerate(order.tolist()):
        if at in functions or summed[at]:
            continue
        later = order[place + 1 :][free[order[place + 1 :]]]
        grouped = np.argsort(codes[:, at], kind="stable")
        own = codes[grouped, at]
        for to in _screened(codes, at, later, grouped):
            if _depends(own, codes[grouped, to], bool(numeric[at]), limit / table.weight):
                chosen[to] = at  # a later determinant is coarser
    return [Dependency(names[to], names[at]) for to, at in sorted(chosen.items())]


def _functions(table: Table, names: list[str], free: np.ndarray) -> dict[int, int]:
    """Return the places of the numbers among ``names`` that are a function of another one, with that one's place.

    Only those in ``free`` (n,) bool follow; what others follow from follows from nothing.
    """
    places = [at for at, name in enumerate(names) if name in table.numeric]
    chosen: dict[int, int] = {}
    # Of two units of measurement the later column follows.
    for to in (at for at in reversed(places) if free[at]):
        y = table.numeric[names[to]]
        some = np.flatnonzero(~np.isnan(y))
        some = some[:: max(1, len(some) // FIRST)]
        for at in places:
            x = table.numeric[names[at]]
            if to in _chain(chosen, at) or function_of(x[some], y[some], 2) is None:
                continue
            if function_of(x, y) is not None:
                chosen[to] = at
                break
    return chosen


def _chain(chosen: dict[int, int], at: int) -> list[int]:
    """Return the places from which ``at`` follows, itself first."""
    chain = [at]
    while chain[-1] in chosen:
        chain.append(chosen[chain[-1]])
    return chain


def _screened(codes: np.ndarray, at: int, later: np.ndarray, some: np.ndarray) -> Iterator[int]:
    """Yield those of ``later`` that some records do not refute, of ``some`` (N,) in the order of column ``at``."""
    start = int((codes[:, at] < 0).sum())
    some = some[start:] if len(some) - start <= 2 * SCREENED else np.r_[some[start:][:SCREENED], some[-SCREENED:]]
    same = codes[some[1:], at] == codes[some[:-1], at]
    one, other = codes[np.ix_(some[1:][same], later)], codes[np.ix_(some[:-1][same], later)]
    yield from later[~((one != other) & (one >= 0) & (other >= 0)).any(axis=0)].tolist()


def _depends(codes: np.ndarray, target: np.ndarray, numeric: bool, limit: float) -> bool:
    """Whether ``target`` (N,) has one value at each of ``codes`` (N,), which rise, and chance does not explain it."""
    both = (codes >= 0) & (target >= 0)
    if both.sum() < MIN_RECORDS or (target[codes < 0] >= 0).any():
        return False
    group, value = codes[both], target[both]
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
    # Beside zeros of nearly everybody, a number of one record each determines all others.
    beside = len(value) - int(np.diff(np.flatnonzero(np.r_[starts, True])).max())
    if not in_ranges and (beside < FEWEST * (groups - 1) or (numeric and groups > MAX_NUMBERS)):
        return False
    return arrangements(counts) - maps >= limit
