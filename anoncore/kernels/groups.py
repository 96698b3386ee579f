"""Groups of records: their numbering, and what represents each."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest
from anoncore.kernels.rows import row_blocks
from anoncore.kernels.ties import TIED

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]
Representative = Literal["mean", "medoid"]


def group_means(x: Floats, labels: NDArray[np.integer]) -> Floats:
    """Mean record of every group.

    Parameters
    ----------
    x : (N, n) float
        Records in rows.
    labels : (N,) int
        Group of each record, every number 0..G-1 in use.

    Returns
    -------
    (G, n) float
        Row g is the mean of group g, in the units of ``x``.

    Notes
    -----
    Claim: weighted by group size, the means average to the mean of ``x``.

    Source: Lasko & Vinterbo (2010), section IV-B: MASK replaces a group by its mean.

    Examples
    --------
    >>> group_means(np.array([[1.0], [3.0], [8.0]]), np.array([0, 0, 1])).tolist()
    [[2.0], [8.0]]
    """
    sizes = np.bincount(labels)
    means = np.empty((len(sizes), x.shape[1]))
    for column, values in zip(means.T, x.T, strict=True):
        column[:] = np.bincount(labels, weights=values) / sizes
    return means


def group_medoids(x: Floats, labels: NDArray[np.integer]) -> Labels:
    """Row of the record nearest to the mean of its group, for every group.

    Parameters
    ----------
    x : (N, n) float
        Records in rows; distances are Euclidean in these units.
    labels : (N,) int
        Group of each record, every number 0..G-1 in use.

    Returns
    -------
    (G,) int
        Row numbers of ``x``; of records that are equally near up to rounding, the first.

    Notes
    -----
    Claim: the chosen record also has the least sum of squared distances to its group.

    Source: Lasko & Vinterbo (2010), section III-B2: the representative may be a member of the group.

    Examples
    --------
    >>> group_medoids(np.array([[1.0], [2.0], [9.0], [5.0]]), np.array([0, 0, 0, 1])).tolist()
    [1, 3]
    """
    means = group_means(x, labels)
    distances = np.empty(len(x))
    for rows in row_blocks(len(x)):
        distances[rows] = np.sqrt(np.square(x[rows] - means[labels[rows]]).sum(axis=1))
    nearest = np.full(len(means), np.inf)
    np.minimum.at(nearest, labels, distances)
    tolerance = TIED * max(float(x.max(initial=0.0)), -float(x.min(initial=0.0)))
    candidates = np.flatnonzero(distances <= nearest[labels] + tolerance)
    medoids = np.full(len(means), len(x), dtype=np.intp)
    np.minimum.at(medoids, labels[candidates], candidates)
    return medoids


def by_first_record(labels: NDArray[np.integer]) -> Labels:
    """Return the groups numbered in the order of their first records.

    Parameters
    ----------
    labels : (N,) int
        Group of each record, any numbers.

    Returns
    -------
    (N,) int
        The same groups, 0..G-1.

    Notes
    -----
    Claim: depends on the groups and not on their numbers.

    Source: elementary.

    Examples
    --------
    >>> by_first_record(np.array([7, 2, 7, 5])).tolist()
    [0, 1, 0, 2]
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def distinct_counts(labels: NDArray[np.integer], values: NDArray[np.integer]) -> Labels:
    """Count the different values in every group.

    Parameters
    ----------
    labels : (N,) int
        Group of each record, every number 0..G-1 in use.
    values : (N,) int
        Any numbers, such as statistical units.

    Returns
    -------
    (G,) int

    Notes
    -----
    Claim: at most the group's records. Source: elementary.

    Examples
    --------
    >>> distinct_counts(np.array([0, 0, 1, 1]), np.array([7, 7, 7, 9])).tolist()
    [1, 2]
    """
    kinds, codes = np.unique(values, return_inverse=True)
    return np.bincount(np.unique(labels.astype(np.int64) * len(kinds) + codes) // max(len(kinds), 1))


def joined_groups(x: Floats, labels: NDArray[np.integer], units: NDArray[np.integer], k: int) -> Labels:
    """Join groups of fewer than k statistical units with the groups nearest to them.

    Parameters
    ----------
    x : (N, n) float
        Records in rows; distances between group means are Euclidean in these units.
    labels : (N,) int
        Group of each record, every number 0..G-1 in use.
    units : (N,) int
        Statistical unit of each record.
    k : int
        Units that every group needs.

    Returns
    -------
    (N,) int
        Every group holds k units or more, and whole groups of ``labels``.

    Raises
    ------
    AnonymizationError
        When there are fewer than k units.

    Notes
    -----
    Claim: groups of k units or more to which no small one is nearest stay as they are. Each round joins every small
    group with its nearest, so that rounds are few; groups become larger than k units need.

    Source: elementary.

    Examples
    --------
    >>> x = np.array([[0.0], [0.1], [0.3], [9.0], [9.1]])
    >>> joined_groups(x, np.array([0, 0, 1, 2, 2]), np.array([7, 7, 8, 5, 6]), 2).tolist()
    [0, 0, 0, 1, 1]
    """
    if len(np.unique(units)) < k:
        raise AnonymizationError(f"groups of {k} units need as many, got {len(np.unique(units))}; lower k")
    groups = by_first_record(labels)
    while True:
        small = np.flatnonzero(distinct_counts(groups, units) < k)
        if not len(small):
            return groups
        means = group_means(x, groups)
        nearest_group = nearest(means[small], means, 1, skip_self=small)[1][:, 0]
        graph = csr_array((np.ones(len(small), dtype=np.int8), (small, nearest_group)), shape=(len(means), len(means)))
        groups = by_first_record(connected_components(graph, directed=False)[1][groups])
