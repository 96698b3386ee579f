"""Groups of columns of which every row has one at a high value: the indicators of a nominal variable's levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

_FEWEST = 3  # columns of a group: two are multiplied as fast as they are compared
_MOST = 255  # groups, and columns of one: codes and counts of differences are bytes
_SAMPLED = 1024  # rows of each table from which groups are guessed, before all rows decide


@dataclass(frozen=True, eq=False, repr=False)
class Indicators:
    """Columns of some tables that are indicators, group by group.

    Parameters
    ----------
    groups : of (q,) int, the columns of each group
    middle : (n,) float, above which a column is high
    gap : float, between the two values of every such column; two rows that differ in a group are 2 gap² apart by it
    """

    groups: tuple[Integers, ...]
    middle: Floats
    gap: float

    @property
    def columns(self) -> Integers:
        """The columns of all groups."""
        return np.concatenate([*self.groups, np.empty(0, dtype=np.intp)])

    def codes(self, table: Floats) -> NDArray[np.uint8]:
        """Return (groups, N) which column of each group is high."""
        from anoncore.kernels._indicators_compiled import code

        result = np.zeros((len(self.groups), len(table)), dtype=np.uint8)
        if self.groups:
            code(table, self.middle, *_flat(self.groups), result)
        return result


def indicators(*tables: Floats) -> Indicators:
    """Find groups of columns that hold the same two values, of which every row of all tables has one at the higher.

    Parameters
    ----------
    tables : (N, n) float, finite, none empty, of the same columns

    Returns
    -------
    Indicators, without groups where there are none of at least three columns

    Notes
    -----
    Claim: what is returned holds of every row. A group may consist of indicators of several variables.

    Source: elementary.

    Examples
    --------
    >>> table = np.array([[0.3, 1, -1, -1], [0.1, -1, -1, 1], [0.2, -1, 1, -1]])
    >>> [group.tolist() for group in indicators(table).groups]
    [[1, 2, 3]]
    """
    from anoncore.kernels._indicators_compiled import contradict

    low = np.min([table.min(axis=0) for table in tables], axis=0)
    high = np.max([table.max(axis=0) for table in tables], axis=0)
    middle = low / 2 + high / 2
    sample = np.concatenate([table[:: -(-len(table) // _SAMPLED)] for table in tables])
    two = (low < middle) & (middle < high) & ((sample == low) | (sample == high)).all(axis=0)
    gaps, often = np.unique((high - low)[two], return_counts=True)
    if not len(gaps):
        return Indicators((), middle, 0.0)
    gap = gaps[often.argmax()]
    groups = _guessed(sample > middle, np.flatnonzero(two & (high - low == gap)))
    valid = np.ones(len(groups), dtype=bool)
    for table in tables if groups else ():
        contradict(np.ascontiguousarray(table), low, high, *_flat(groups), valid)
    kept = [group for group, holds in zip(groups, valid, strict=True) if holds]
    return Indicators(tuple(kept[:_MOST]), middle, float(gap))


def _flat(groups: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Return the columns of all groups, and where each group begins and the last one ends among them."""
    return np.concatenate(groups), np.cumsum([0, *map(len, groups)])


def _guessed(is_high: NDArray[np.bool_], columns: Integers) -> list[Integers]:
    """Return runs of columns of which every row has one that is high."""
    groups, start = [], 0
    total = np.zeros(len(is_high), dtype=np.int64)
    for stop, column in enumerate(columns, start=1):
        total += is_high[:, column]
        while total.max() > 1 or stop - start > _MOST:
            total -= is_high[:, columns[start]]
            start += 1
        if total.min() == 1:
            if stop - start >= _FEWEST:
                groups.append(columns[start:stop])
            total[:] = 0
            start = stop
    return groups
