"""Whole groups of records from a table that is read in pieces, to look for what was computed of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from anoncore.risk import GroupFigure, find_group_figures

# Records from which on only some groups of each column are kept: so many, with so many records together at most.
SETTLED, GROUPS, RECORDS = 100_000, 200, 10_000
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

    def add(self, frame: pd.DataFrame, hashes: Sequence[np.ndarray]) -> None:
        """Add some records with (N,) uint64 hashes of each column's values."""
        names = self._frames[0].columns if self._frames else frame.columns
        places = frame.columns.get_indexer(names).tolist()
        kept = np.ones(len(frame), dtype=bool)
        if self._bounds is not None:
            kept = np.logical_or.reduce([hashes[at] < bound for at, bound in zip(places, self._bounds, strict=True)])
        frame = frame.loc[kept, names].reset_index(drop=True)
        table = np.column_stack([hashes[at][kept] for at in places])
        table[frame.isna().to_numpy()] = NONE
        self._frames.append(frame)
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
        for group, hashes, bound in zip(frame.columns, table.T, self._bounds, strict=True):
            whole = frame.iloc[np.flatnonzero(hashes < bound)].reset_index(drop=True)
            asked = [name for name in names if name not in found]
            found |= {one.variable: one for one in find_group_figures(whole, asked, group=str(group))}
        return tuple(found[name] for name in map(str, frame.columns) if name in found)

    def _settle(self) -> None:
        """Keep fewer values of each column."""
        frame, table = pd.concat(self._frames, ignore_index=True), np.concatenate(self._hashes)
        before = np.full(table.shape[1], NONE) if self._bounds is None else self._bounds
        self._bounds = np.array([_bound(*one) for one in zip(table.T, before, strict=True)], dtype=np.uint64)
        kept = np.flatnonzero((table < self._bounds).any(axis=1))
        self._frames, self._hashes = [frame.iloc[kept]], [table[kept]]


def _bound(hashes: np.ndarray, bound: np.uint64) -> np.uint64:
    """Return the hash from which on a column's values are not kept, at most the one of before."""
    values, records = np.unique(hashes[hashes < bound], return_counts=True)
    number = min(GROUPS, int(np.searchsorted(np.cumsum(records), RECORDS, side="right")))
    return np.uint64(values[number]) if number < len(values) else bound
