"""Scores that few others come near."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def isolated(column: Floats, reach: float, k: int, units: NDArray[np.intp] | None = None) -> NDArray[np.bool_]:
    """Say which scores of an axis fewer than k units have within a distance.

    Parameters
    ----------
    column : (N,) float
        Scores on one axis.
    reach : float
        Distance, either way, in the units of the scores.
    k : int
        Units, the own one included, of which as many make a score common.
    units : (N,) int, optional
        Statistical unit of each score; by default each is of a unit of its own.

    Returns
    -------
    (N,) bool

    Notes
    -----
    Claim: exact. Time grows with N log N, and with units of several records with the records near the scores that may
    be isolated. Source: elementary.

    Examples
    --------
    >>> isolated(np.array([0.0, 0.1, 0.2, 5.0]), 0.5, 2).tolist()
    [False, False, False, True]
    """
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    first = np.searchsorted(ordered, ordered - reach, side="left")
    end = np.searchsorted(ordered, ordered + reach, side="right")
    few = end - first < k
    if units is not None:
        held = units[order]
        most = int(np.unique(units, return_counts=True)[1].max())
        # Records of one unit may fill the window: where there are few enough, its units are counted.
        for at in np.flatnonzero(end - first < k * most):
            few[at] = len(np.unique(held[first[at] : end[at]])) < k
    result = np.empty(len(column), dtype=bool)
    result[order] = few
    return result
