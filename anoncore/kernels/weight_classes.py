"""Classes of records of similar weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]


def weight_classes(weights: Floats, count: int, *, least: int, units: Labels) -> Labels:
    """Cut records into classes of consecutive weights, near the quantiles of the weights.

    Parameters
    ----------
    weights : (N,) float
        Above 0, none missing.
    count : int
        Classes wanted, 1..N.
    least : int
        Statistical units of which records are in a class, at least; smaller classes are joined with the next.
    units : (N,) int
        Statistical unit of each record.

    Returns
    -------
    (N,) int
        Labels 0..C-1, C at most ``count``, by increasing weight.

    Notes
    -----
    Claim: a record of a higher label has a larger weight; records of one weight share a label, whatever their order;
    if there are ``least`` units, every class has records of so many.

    Source: adjustment cells by quantiles of a score (Little 1986, *Int. Stat. Rev.* 54, 139-157), here of the weights.

    Examples
    --------
    >>> weight_classes(np.array([9.0, 1.0, 1.0, 2.0, 8.0]), 2, least=2, units=np.arange(5)).tolist()
    [1, 0, 0, 1, 1]
    """
    starts = np.arange(1, count) * len(weights) // count
    cells = np.searchsorted(np.unique(np.sort(weights)[starts]), weights, side="right")
    labels, label = np.full(len(weights), -1), 0
    for cell in range(cells.max() + 1):
        labels[cells == cell] = label
        label += int(len(np.unique(units[labels == label])) >= least)
    last = int(labels.max())
    if last and len(np.unique(units[labels == last])) < least:
        labels[labels == last] = last - 1
    return labels
