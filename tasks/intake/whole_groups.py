"""Whole groups of records from a table that is read in pieces, to look for what was computed of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from anoncore.risk import GroupFigure, find_group_figures

# Records from which on only some groups of each column are kept: so many of a column, with so many records together at
# most, and none with more records than one.
SETTLED, GROUPS, RECORDS, ONE = 100_000, 200, 10_000, 1250
NONE = np.iinfo(np.uint64).max


class WholeGroups:
    """For each column, all records of a random part of its values; all records of a table with few.

    Kept are the values whose hashes are the smallest of their column, so that no record of a kept value has been passed
    over, wherever the table is cut. Source: bottom-k sketches, Cohen and Kaplan 2007, *PODC*, 225-234.
    """

    def __init__(self) -> None:
        self._frames: list[pd.DataFrame] = []
        self._hashes: list[np.ndarray] = []
        self._bounds: np.ndarray | None = None
        # Of each column the hashes of values with too many records.
        self._large: list[np.ndarray] = []

    def add(self, frame: pd.DataFrame, hashes: Sequence[np.ndarray]) -> None:
        """Add some records with (N,) uint64 hashes of each column's values."""
        names = self._frames[0].columns if self._frames else frame.columns
        table = np.column_stack([hashes[at] for at in frame.columns.get_indexer(names).tolist()])
        frame = frame[names]
        table[frame.isna().to_numpy()] = NONE
        if self._bounds is not None:
            for column, large in zip(table.T, self._large, strict=True):
                column[np.isin(column, large)] = NONE
            kept = np.flatnonzero((table < self._bounds).any(axis=1))
            frame, table = frame.iloc[kept], table[kept]
        self._frames.append(frame.reset_index(drop=True))
        self._hashes.append(table)
        if sum(map(len, self._hashes)) > SETTLED:
            self._settle()

    def figures(self, names: Collection[str]) -> tuple[GroupFigure, ...]:
        """Return which of some columns hold what was computed from all records of a group, see `find_group_figures`."""
        if self._bounds is None:
            return find_group_figures(pd.concat(self._frames, ignore_index=True), names)
        self._settle()
        (frame,), (table,) = self._frames, self._hashes
        found: dict[str, GroupFigure] = {}
        for own in (False, True):  # by another column first, as in a whole table
            for group, hashes, bound in zip(map(str, frame.columns), table.T, self._bounds, strict=True):
                asked = [name for name in names if name not in found and (name == group) == own]
                if asked:
                    whole = frame.iloc[np.flatnonzero(hashes < bound)].reset_index(drop=True)
                    found |= {one.variable: one for one in find_group_figures(whole, asked, group=group)}
        return tuple(found[name] for name in map(str, frame.columns) if name in found)

    def _settle(self) -> None:
        """Keep fewer values of each column."""
        frame, table = pd.concat(self._frames, ignore_index=True), np.concatenate(self._hashes)
        before = np.full(table.shape[1], NONE) if self._bounds is None else self._bounds
        self._large = self._large or [np.empty(0, dtype=np.uint64)] * table.shape[1]
        bounds = []
        for at, (column, bound) in enumerate(zip(table.T, before, strict=True)):
            values, records = np.unique(column[column < bound], return_counts=True)
            large = values[records > ONE]
            self._large[at] = np.union1d(self._large[at], large)
            column[np.isin(column, large)] = NONE
            bounds.append(_bound(values[records <= ONE], records[records <= ONE], bound))
        self._bounds = np.array(bounds, dtype=np.uint64)
        kept = np.flatnonzero((table < self._bounds).any(axis=1))
        self._frames, self._hashes = [frame.iloc[kept]], [table[kept]]


def _bound(values: np.ndarray, records: np.ndarray, bound: np.uint64) -> np.uint64:
    """Return the hash from which on a column's values are not kept, at most the one of before."""
    number = min(GROUPS, int(np.searchsorted(np.cumsum(records), RECORDS, side="right")))
    return np.uint64(values[number]) if number < len(values) else bound
