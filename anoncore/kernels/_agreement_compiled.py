"""Compiled part of `anoncore.kernels.agreement`: one pass over all rows for each record."""

from __future__ import annotations

import numpy as np

from anoncore.kernels._compiled import compiled


@compiled
def largest(lower, upper, weights, rows, best, second, place):  # type: ignore[no-untyped-def]
    """Write the two largest sums of agreeing columns' weights, and the row of the largest, for every record."""
    records, columns = lower.shape
    sums = np.empty(rows.shape[1], dtype=np.float32)
    for t in range(records):
        sums[:] = 0.0
        for j in range(columns):
            weight, low, width = weights[t, j], lower[t, j], upper[t, j] - lower[t, j]
            if weight <= 0.0 or width <= 0:
                continue
            row = rows[j]
            for i in range(len(sums)):
                sums[i] += weight if np.uint32(row[i] - low) < np.uint32(width) else np.float32(0.0)
        for i in range(len(sums)):
            if sums[i] > best[t]:
                second[t], best[t], place[t] = best[t], sums[i], i
            elif sums[i] > second[t]:
                second[t] = sums[i]


@compiled
def count(lower, upper, columns, rows, units, counts):  # type: ignore[no-untyped-def]
    """Count the units whose rows satisfy every condition of each predicate, up to two."""
    for t in range(len(lower)):
        first = units[0]
        for i in range(rows.shape[1]):
            inside = True
            for j in range(lower.shape[1]):
                column = columns[t, j]
                if column >= 0 and not lower[t, j] <= rows[column, i] < upper[t, j]:
                    inside = False
                    break
            if inside and counts[t] == 0:
                counts[t], first = 1, units[i]
            elif inside and units[i] != first:
                counts[t] = 2
                break
