"""Compiled part of `anoncore.kernels.indicators`: one pass over the rows of a table."""

from __future__ import annotations

from anoncore.kernels._compiled import compiled


@compiled
def contradict(table, low, high, columns, ends, valid):  # type: ignore[no-untyped-def]
    """Say which groups some row contradicts: with another value in it, or with none or several high ones.

    Parameters
    ----------
    table : (N, n) float64, C order
    low, high : (n,) float64
    columns : (c,) int64, of all groups
    ends : (q + 1,) int64, where each group begins among them, and where the last one ends
    valid : (q,) bool. Changed in place.
    """
    for i in range(table.shape[0]):
        for g in range(len(valid)):
            if not valid[g]:
                continue
            highs, others = 0, 0
            for at in range(ends[g], ends[g + 1]):
                value, column = table[i, columns[at]], columns[at]
                highs += value == high[column]
                others += (value != high[column]) & (value != low[column])
            if highs != 1 or others > 0:
                valid[g] = False


@compiled
def code(table, middle, columns, ends, codes):  # type: ignore[no-untyped-def]
    """Write (q, N) uint8 which column of each group is above the middle; for the rest see `contradict`."""
    for i in range(table.shape[0]):
        for g in range(len(codes)):
            for at in range(ends[g], ends[g + 1]):
                if table[i, columns[at]] > middle[columns[at]]:
                    codes[g, i] = at - ends[g]
