"""Statements about one cell, that it holds a level or is missing, and how often two hold together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from anoncore.profile.tables import Table


class Marks:
    """The marks of a table: first the levels, variable by variable, then the gaps.

    Attributes
    ----------
    own : (m,) the place of each mark's variable in the table
    level : (m,) the level, -1 for a gap
    counts : (m, m) the records in which two marks hold together
    sizes : (m,) the records in which each holds
    gap : (n,) the mark that says that a variable is missing, -1 where it never is
    empty : (n,) the records in which a variable is missing
    levels : the marks of each variable with levels, by its place
    """

    def __init__(self, table: Table) -> None:
        marks = [(n, q) for n, levels in table.levels.items() for q in range(len(levels))]
        marks += [(n, -1) for n, gap in table.gaps.items() if gap.any()]
        self.own = np.array([table.place[n] for n, _ in marks], dtype=int)
        self.level = np.array([q for _, q in marks], dtype=int)
        kind = "float32" if table.records < 2**24 else "float64"  # whole numbers are exact below
        self.counts = np.zeros((len(marks), len(marks)), dtype=kind)
        for start in range(0, table.records if marks else 0, 20_000):
            rows = slice(start, start + 20_000)
            held = [table.gaps[n][rows] if q < 0 else table.codes[n][rows] == q for n, q in marks]
            block = np.column_stack(held).astype("float32")
            self.counts += block.T @ block
        self.sizes = np.diag(self.counts).astype("float64")
        self.gap, self.empty = np.full(len(table.gaps), -1), np.zeros(len(table.gaps))
        empty = np.flatnonzero(self.level < 0)
        self.gap[self.own[empty]], self.empty[self.own[empty]] = empty, self.sizes[empty]
        starts = np.cumsum([0, *(len(levels) for levels in table.levels.values())]).tolist()
        self.levels = {table.place[n]: slice(*at) for n, at in zip(table.levels, pairwise(starts), strict=True)}

    def __len__(self) -> int:
        return len(self.own)

    def missing_beside(self) -> np.ndarray:
        """Return (m, n) the records in which a mark holds and a variable is missing."""
        beside = np.zeros((len(self), len(self.gap)))
        empty = self.level < 0
        beside[:, self.own[empty]] = self.counts[:, empty]
        return beside

    def deciding(self, beside: np.ndarray) -> np.ndarray:
        """Return (m, n): whether each level of a mark's variable has a cell always or never missing.

        Both must happen, in ``beside``, the records in which the cell is missing. False for gaps.
        """
        found = np.zeros(beside.shape, dtype=bool)
        for at in self.levels.values():
            part, size = beside[at], self.sizes[at, None]
            never, always = (part == 0) & (size > 0), (part == size) & (size > 0)
            found[at] = (never | always | (size == 0)).all(axis=0) & never.any(axis=0) & always.any(axis=0)
        return found
