"""Statements about one cell, that it holds a level or is missing, and how often two hold jointly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from anoncore.profile.tables import Table

BLOCK = 20_000  # records whose marks are made at a time


class Marks:
    """The marks of a table: first the levels, variable by variable, then the missing values.

    Attributes
    ----------
    own : (m,) the position of each mark's variable in the table
    level : (m,) the level, -1 for a missing value
    counts : (m, m) the records in which two marks hold jointly
    sizes : (m,) the records in which each holds
    missing_mark : (n,) the mark that says that a variable is missing, -1 where it never is
    empty : (n,) the records in which a variable is missing
    levels : the marks of each variable with levels, by its position
    """

    def __init__(self, table: Table) -> None:
        marks = [(n, q) for n, levels in table.levels.items() for q in range(len(levels))]
        marks += [(n, -1) for n, missing in table.missing.items() if missing.any()]
        self.own = np.array([table.position[n] for n, _ in marks], dtype=int)
        self.level = np.array([q for _, q in marks], dtype=int)
        kind = "float32" if table.records < 2**24 else "float64"  # whole numbers are exact below
        self.counts = np.zeros((len(marks), len(marks)), dtype=kind)
        for start in range(0, table.records if marks else 0, BLOCK):
            rows = slice(start, start + BLOCK)
            holds = [table.missing[n][rows] if q < 0 else table.codes[n][rows] == q for n, q in marks]
            block = np.column_stack(holds).astype("float32")
            self.counts += block.T @ block
        self.sizes = np.diag(self.counts).astype("float64")
        self.missing_mark, self.empty = np.full(len(table.missing), -1), np.zeros(len(table.missing))
        empty = np.flatnonzero(self.level < 0)
        self.missing_mark[self.own[empty]], self.empty[self.own[empty]] = empty, self.sizes[empty]
        starts = np.cumsum([0, *(len(levels) for levels in table.levels.values())]).tolist()
        self.levels = {table.position[n]: slice(*at) for n, at in zip(table.levels, pairwise(starts), strict=True)}

    def __len__(self) -> int:
        return len(self.own)

    def always_missing_with(self, place: int) -> np.ndarray:
        """Return (n,) bool: the variables that are sometimes missing, and the one at ``place`` in all these records."""
        if self.missing_mark[place] < 0:
            return np.zeros(len(self.missing_mark), dtype=bool)
        both = self.counts[self.missing_mark, self.missing_mark[place]]
        return np.asarray((self.missing_mark >= 0) & (both == self.empty))

    def missing_beside(self) -> np.ndarray:
        """Return (m, n) the records in which a mark holds and a variable is missing."""
        beside = np.zeros((len(self), len(self.missing_mark)))
        empty = self.level < 0
        beside[:, self.own[empty]] = self.counts[:, empty]
        return beside
