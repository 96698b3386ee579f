"""Agreement of records with the rows of a table: weighted columns that agree, summed; and counts of agreeing rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels._compiled import compiled
from anoncore.kernels.threads import in_threads

Places = NDArray[np.int32]
Weights = NDArray[np.float32]

_PIECES = 8


def largest_agreement(lower: Places, upper: Places, weights: Weights, rows: Places) -> tuple[Weights, Weights, Places]:
    """Return, for each record, the largest and second largest agreement with a row, and the row of the largest.

    The agreement of record t with row y is Σ_j w_tj · [lower_tj ≤ y_j < upper_tj].

    Parameters
    ----------
    lower, upper : (T, n) int32, half-open intervals of codes
    weights : (T, n) float32, at least 0; a weight of 0 leaves a column out
    rows : (n, M) int32, codes of the rows, one line per column

    Returns
    -------
    best, second : (T,) float32; the second is 0 where there is a single row, and equals the best where rows tie
    place : (T,) int32, the first row with the best agreement

    Notes
    -----
    O(T · M · n) operations on int32 vectors and O(M) memory per thread.
    """
    best, second = np.zeros(len(lower), dtype=np.float32), np.zeros(len(lower), dtype=np.float32)
    place = np.zeros(len(lower), dtype=np.int32)
    cuts = np.linspace(0, len(lower), _PIECES + 1).astype(int)

    def piece(number: int) -> None:
        part = slice(cuts[number], cuts[number + 1])
        _largest(lower[part], upper[part], weights[part], rows, best[part], second[part], place[part])

    for _ in in_threads(piece, range(_PIECES)):
        pass
    return best, second, place


@compiled
def _largest(lower, upper, weights, rows, best, second, place):  # type: ignore[no-untyped-def]
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


def rows_inside(lower: Places, upper: Places, columns: Places, rows: Places) -> Places:
    """Return how many rows satisfy each predicate; counting stops at two.

    Parameters
    ----------
    lower, upper : (T, d) int32, half-open intervals of codes, all of which must hold
    columns : (T, d) int32, the columns they speak of; −1 where a predicate has fewer conditions
    rows : (n, M) int32, codes of the rows, one line per column

    Returns
    -------
    (T,) int32, 0, 1 or 2 (two or more)
    """
    counts = np.zeros(len(lower), dtype=np.int32)
    cuts = np.linspace(0, len(lower), _PIECES + 1).astype(int)

    def piece(number: int) -> None:
        part = slice(cuts[number], cuts[number + 1])
        _count(lower[part], upper[part], columns[part], rows, counts[part])

    for _ in in_threads(piece, range(_PIECES)):
        pass
    return counts


@compiled
def _count(lower, upper, columns, rows, counts):  # type: ignore[no-untyped-def]
    for t in range(len(lower)):
        for i in range(rows.shape[1]):
            inside = True
            for j in range(lower.shape[1]):
                column = columns[t, j]
                if column >= 0 and not lower[t, j] <= rows[column, i] < upper[t, j]:
                    inside = False
                    break
            if inside:
                counts[t] += 1
                if counts[t] == 2:
                    break
