"""Minimal sample uniques: the smallest sets of variables on which a record is alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError

MOST_VARIABLES = 62


def minimal_uniques(
    codes: NDArray[np.integer], alone: NDArray[np.bool_], largest: int
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Find all minimal sample uniques of at most ``largest`` variables.

    Parameters
    ----------
    codes : (D, m) int
        Different records by variable, levels 0, 1, …; −1 equals no level and is in no unique.
    alone : (D,) bool
        Whether one record of the table alone is so.
    largest : int
        Most variables of a set, 1 … m.

    Returns
    -------
    rows : (U,) int
        The record of each minimal unique.
    sets : (U,) int
        Its variables, bit j standing for column j.

    Raises
    ------
    AnonymizationError
        When there are more than 62 variables.

    Notes
    -----
    Claim: exact. A record is alone on a set of variables when no other has its values there, and the set is minimal
    when it is alone on no proper subset. Groups that hold no record to be found are not divided further.

    Source: Manning, Haglin and Keane (2008), SUDA2, *Data Mining and Knowledge Discovery* 16, 165–196. Departs from it
    in the search: stripped partitions, those of TANE (Huhtala et al. 1999), refined in the order of the sets' masks.

    Examples
    --------
    >>> rows, sets = minimal_uniques(np.array([[0, 0], [0, 1], [1, 1]]), np.ones(3, dtype=bool), 2)
    >>> list(zip(rows.tolist(), sets.tolist()))
    [(2, 1), (0, 2), (1, 3)]
    """
    from anoncore.kernels._minimal_uniques_compiled import minimal_sets

    if codes.shape[1] > MOST_VARIABLES:
        raise AnonymizationError(
            f"at most {MOST_VARIABLES} variables can be searched, got {codes.shape[1]}; name fewer"
        )
    levels = int(codes.max(initial=-1)) + 1
    rows, sets = minimal_sets(np.ascontiguousarray(codes, dtype=np.int32), alone.astype(np.int32), largest, levels)
    return rows, sets
