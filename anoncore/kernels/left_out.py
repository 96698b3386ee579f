"""Nearest rows of a table by some columns less one, or with one more, for every column at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.threads import in_threads

Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

MISSING = np.int32(-(2**30))  # farther from every value than any cap
NONE = np.int32(2**31 - 1)  # the distance where there is no row
_PIECES = 8


def nearest_without_each(people: Codes, caps: Codes, rows: Codes) -> tuple[Codes, Codes]:
    """Return, for each record and column, the row nearest by all other columns that has a value there.

    The distance is Σ_j min(|x_j − y_j|, cap_j): Gower's where numbers are shares of a distribution, codes of levels are
    farther apart than the cap, and caps are equal; a weighted count of disagreements where all codes are.

    Parameters
    ----------
    people : (T, n) int32, 0 … 2²⁹; `MISSING` where missing
    caps : (T, n) int32, at least 0, their sum over a record below 2³¹; a cap of 0 leaves a column out
    rows : (n, M) int32, one line per column, in the codes of ``people``

    Returns
    -------
    distance : (T, n) int32, without column j; `NONE` where no row has a value there
    place : (T, n) int32, the first of the nearest rows; −1 for none

    Notes
    -----
    Source: Gower 1971, *Biometrics* 27, 857–871. O(T · M · n) operations and O(M) memory per thread.

    Examples
    --------
    >>> people, rows = np.int32([[0, 500]]), np.int32([[1000, 0], [500, 900]])
    >>> nearest_without_each(people, np.full_like(people, 1000), rows)[1]
    array([[0, 1]], dtype=int32)
    """
    from anoncore.kernels._left_out_compiled import search

    best = np.full(people.shape, NONE, dtype=np.int32)
    place = np.full(people.shape, -1, dtype=np.int32)
    cuts = np.linspace(0, len(people), _PIECES + 1).astype(int)

    def piece(number: int) -> None:
        part = slice(cuts[number], cuts[number + 1])
        search(people[part], caps[part], rows, (MISSING, NONE), best[part], place[part])

    for _ in in_threads(piece, range(_PIECES)):
        pass
    return best, place


def nearest_with_each(people: Codes, known: Flags, cap: int, rows: Codes) -> Codes:
    """Return, for each record and column, the distance to the row nearest by the known columns and this one.

    Parameters
    ----------
    people : (T, n) int32, 0 … 2²⁹; `MISSING` where missing
    known : (n,) columns whose distances are added to that of every column
    cap : largest distance in one column, at least 1; n times as much below 2³¹
    rows : (n, M) int32, one line per column, in the codes of ``people``

    Returns
    -------
    (T, n) int32, of a known column by the known ones alone; `NONE` where there are no rows

    Notes
    -----
    The distance is that of `nearest_without_each`. O(T · M · n) operations and O(M) memory per thread.

    Examples
    --------
    >>> people, rows = np.int32([[0, 500]]), np.int32([[1000, 0], [500, 900]])
    >>> nearest_with_each(people, np.array([True, False]), 1000, rows)
    array([[  0, 400]], dtype=int32)
    """
    from anoncore.kernels._left_out_compiled import search_wider

    best = np.full(people.shape, NONE, dtype=np.int32)
    cuts = np.linspace(0, len(people), _PIECES + 1).astype(int)

    def piece(number: int) -> None:
        part = slice(cuts[number], cuts[number + 1])
        search_wider(people[part], known, np.int32(cap), rows, best[part])

    for _ in in_threads(piece, range(_PIECES)):
        pass
    return best
