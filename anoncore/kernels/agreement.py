"""Agreement of records with the rows of a table: weighted columns that agree, summed; and counts of agreeing rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
    from anoncore.kernels._agreement_compiled import largest

    best, second = np.zeros(len(lower), dtype=np.float32), np.zeros(len(lower), dtype=np.float32)
    place = np.zeros(len(lower), dtype=np.int32)
    cuts = np.linspace(0, len(lower), _PIECES + 1).astype(int)

    def piece(number: int) -> None:
        part = slice(cuts[number], cuts[number + 1])
        largest(lower[part], upper[part], weights[part], rows, best[part], second[part], place[part])

    for _ in in_threads(piece, range(_PIECES)):
        pass
    return best, second, place


def log_mean_evidence(
    lower: Places, upper: Places, weights: Weights, columns: NDArray[np.intp], rows: Places, *, parts: bool = False
) -> tuple[Weights, Weights]:
    """Return, for each record, the log of the mean over the rows of exponentiated sums of weights.

    Record t and row y have the sum Σ_j w_tj · [lower_tj ≤ y_c(j) < upper_tj].

    Parameters
    ----------
    lower, upper : (T, d) int32, half-open intervals of codes
    weights : (T, d) float32
    columns : (d,) int, the column of the rows that each interval is of
    rows : (n, M) int32, codes of the rows, one line per column
    parts : whether the second result is wanted

    Returns
    -------
    mean : (T,) float32, log (1/M) Σ_y exp(sum)
    inside : (T, d) float32, the share of the mean that rows inside each interval have; empty unless wanted

    Notes
    -----
    O(T · M · d) operations and O(M) memory per thread.
    """
    from anoncore.kernels._agreement_compiled import evidence

    mean = np.zeros(len(lower), dtype=np.float32)
    inside = np.zeros(lower.shape if parts else (0, lower.shape[1]), dtype=np.float32)
    cuts = np.linspace(0, len(lower), _PIECES + 1).astype(int)

    def piece(number: int) -> None:
        part = slice(cuts[number], cuts[number + 1])
        # Contiguous, whatever they are cut of: for another layout the kernel would be compiled once more.
        asked = (np.ascontiguousarray(one[part]) for one in (lower, upper, weights))
        evidence(*asked, columns, rows, mean[part], inside[part])

    for _ in in_threads(piece, range(_PIECES)):
        pass
    return mean, inside


def agreement_sums(asked: Places, parents: Places, rows: Places, weights: Weights, none: Weights) -> Weights:
    """Return (T, M) sums of what agreement of each record with each row weighs, by columns and by pairs of them.

    Record t and row y have the sum none_y + Σ_j a_j · (w_0jy + a_p · w_1jy), with a_j = [x_tj = y_j] and p the parent
    of column j.

    Parameters
    ----------
    asked : (T, n) int32, codes of the records
    parents : (n,) int32, a column for each; of one without parent −1, and w_1j is 0
    rows : (n, M) int32, codes of the rows, one line per column
    weights : (2, n, M) float32
    none : (M,) float32

    Notes
    -----
    O(T · M · n) operations.
    """
    from anoncore.kernels._agreement_compiled import paired

    sums = np.tile(none, (len(asked), 1))
    cuts = np.linspace(0, len(asked), _PIECES + 1).astype(int)

    def piece(number: int) -> None:
        part = slice(cuts[number], cuts[number + 1])
        paired(asked[part], parents, rows, weights, sums[part])

    for _ in in_threads(piece, range(_PIECES)):
        pass
    return sums


def sole_units(
    lower: Places, upper: Places, columns: Places, rows: Places, units: NDArray[np.integer] | None = None
) -> NDArray[np.int64]:
    """Return the only statistical unit with a row that satisfies each predicate.

    Parameters
    ----------
    lower, upper : (T, d) int32, half-open intervals of codes, all of which must hold
    columns : (T, d) int32, the columns they speak of; −1 where a predicate has fewer conditions
    rows : (n, M) int32, codes of the rows, one line per column
    units : (M,) statistical unit of each row, at least 0; each row its own by default

    Returns
    -------
    (T,) int64, −1 where there is none and −2 where there are several
    """
    from anoncore.kernels._agreement_compiled import sole

    found = np.empty(len(lower), dtype=np.int64)
    own = np.arange(rows.shape[1]) if units is None else np.ascontiguousarray(units, dtype=np.int64)
    cuts = np.linspace(0, len(lower), _PIECES + 1).astype(int)

    def piece(number: int) -> None:
        part = slice(cuts[number], cuts[number + 1])
        sole(lower[part], upper[part], columns[part], rows, own, found[part])

    for _ in in_threads(piece, range(_PIECES)):
        pass
    return found
