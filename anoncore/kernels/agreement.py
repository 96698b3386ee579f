"""Agreement of records on weighted columns: the largest and second largest sum over all rows of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels._compiled import compiled
from anoncore.kernels.threads import in_threads

Places = NDArray[np.int32]
Weights = NDArray[np.float32]

_PIECES = 8


def largest_agreement(lower: Places, upper: Places, weights: Weights, rows: Places) -> tuple[Weights, Weights]:
    """Return, for each record, the largest and second largest agreement with a row.

    The agreement of record t with row y is Σ_j w_tj · [lower_tj ≤ y_j < upper_tj].

    Parameters
    ----------
    lower, upper : (T, n) int32, half-open intervals of codes
    weights : (T, n) float32, at least 0; a weight of 0 leaves a column out
    rows : (n, M) int32, codes of the rows, one line per column

    Returns
    -------
    two (T,) float32 arrays; the second is 0 where there is a single row

    Notes
    -----
    O(T · M · n) operations on int32 vectors and O(M) memory per thread.
    """
    best, second = np.zeros(len(lower), dtype=np.float32), np.zeros(len(lower), dtype=np.float32)
    cuts = np.linspace(0, len(lower), _PIECES + 1).astype(int)

    def piece(number: int) -> None:
        part = slice(cuts[number], cuts[number + 1])
        _largest(lower[part], upper[part], weights[part], rows, best[part], second[part])

    for _ in in_threads(piece, range(_PIECES)):
        pass
    return best, second


@compiled
def _largest(lower, upper, weights, rows, best, second):  # type: ignore[no-untyped-def]
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
                second[t], best[t] = best[t], sums[i]
            elif sums[i] > second[t]:
                second[t] = sums[i]
