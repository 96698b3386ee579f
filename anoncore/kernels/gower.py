"""MDAV microaggregation of mixed data by Gower's distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.intp]
Codes = NDArray[np.int32]
ONE = 2**28  # the distance of two values that differ as much as they can


def gower_groups(x: Codes, number: NDArray[np.bool_], k: int) -> Labels:
    """Group records by MDAV-generic with Gower's distance.

    Parameters
    ----------
    x : (N, p) int32
        Records in rows, N >= k: numbers and places of ordered levels from 0 to 2^28, codes of other levels from 0;
        −1 where missing.
    number : (p,) bool
        Whether a column holds numbers or places.
    k : int
        Smallest group size, at least 2.

    Returns
    -------
    (N,) int
        Group of each record, 0..G-1, in the order in which the groups are formed.

    Notes
    -----
    Claim: every group has k..2k-1 records; with N < 2k there is one group. The same on every machine: distances are
    sums of integers, and of records that are equally far away the first is taken.

    The distance of two records is the sum over the variables of their difference as a share of the range, or 0 where
    levels are equal and else 1. A missing value is at distance 1 of every other, 0 of a missing one. The centre of the
    records that are left has the mean of numbers and places, missing where most are, and the commonest other level.
    Groups are formed as in `anoncore.kernels.mdav`. Time grows with N² p / k.

    Source: Gower 1971, A general coefficient of similarity and some of its properties, Biometrics 27(4); Domingo-Ferrer
    and Torra 2005, algorithm MDAV-generic. Departs from Gower, who leaves out variables that are missing in a record.

    Examples
    --------
    >>> x = np.array([[0, 0], [0, 1], [0, 0], [0, 1]], dtype=np.int32)
    >>> gower_groups(x, np.array([True, False]), 2).tolist()
    [1, 0, 1, 0]
    """
    from anoncore.kernels._gower_compiled import form_groups

    labels = np.zeros(len(x), dtype=np.intp)
    levels = int(x[:, ~number].max(initial=0)) + 1
    form_groups(np.array(x.T, order="C"), number, levels, np.int64(ONE), k, labels)
    return labels


def group_medians(values: NDArray[np.float64], labels: Labels, *, lower: bool = False) -> NDArray[np.float64]:
    """Return (G,) the median of each group's values (N,), NaN left out; the lower of two middle ones, or their mean.

    Examples
    --------
    >>> group_medians(np.array([1.0, 9.0, 2.0, 4.0]), np.array([0, 0, 0, 1])).tolist()
    [2.0, 4.0]
    """
    present = ~np.isnan(values)
    held = np.bincount(labels, present).astype(np.intp)
    order = np.lexsort((values, labels))  # NaN is last in its group
    start = np.concatenate([[0], np.cumsum(np.bincount(labels))[:-1]])
    below, above = (values[order[start + np.maximum(at, 0)]] for at in ((held - 1) // 2, held // 2))
    return np.where(held > 0, below if lower else (below + above) / 2, np.nan)


def group_modes(codes: NDArray[np.integer], labels: Labels) -> NDArray[np.intp]:
    """Return (G,) the commonest of each group's codes (N,), the lowest of equally common ones.

    Examples
    --------
    >>> group_modes(np.array([2, 0, 2, -1]), np.array([0, 0, 0, 1])).tolist()
    [2, -1]
    """
    levels = int(codes.max(initial=0)) + 2
    pairs, counts = np.unique(labels.astype(np.int64) * levels + codes + 1, return_counts=True)
    order = np.lexsort((pairs, -counts, pairs // levels))
    first = np.unique(pairs[order] // levels, return_index=True)[1]
    return np.asarray(pairs[order[first]] % levels - 1)
