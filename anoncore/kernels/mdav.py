"""MDAV microaggregation: groups of k or more similar records, from the outside of the data inwards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.spectral_groups import halved_groups
from anoncore.kernels.ties import snapped

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]
Integers = NDArray[np.int64]

_BLOCK = 128  # most records in a block, a multiple of 8
_REBUILD = 2  # blocks are built anew when this many times fewer records are left
_BITS = 62  # of the sums that centroids are made of
_LARGEST_FACTOR = 1000  # binary exponent; columns that would need more underflow in any case


def mdav(x: Floats, k: int) -> Labels:
    """Group records by MDAV-generic, exactly, without comparing all pairs.

    Parameters
    ----------
    x : (N, t) float
        Records in rows, columns of comparable scale (standardised), finite; N >= k.
    k : int
        Smallest group size, at least 2.

    Returns
    -------
    (N,) int
        Group of each record, 0..G-1, in the order in which the groups are formed.

    Notes
    -----
    Claim: every group has k..2k-1 records; with N < 2k there is one group.

    While 3k or more records are left: r is the record farthest from their centroid, and its group r and the
    k-1 records nearest to it; s is the record farthest from r outside that group, and its group s and the
    k-1 records nearest to it of those left. Of 2k..3k-1 records, r's group is taken as before and the rest
    is the last group; fewer than 2k are one group.

    The labels depend on ``x`` and ``k`` alone, on every machine: values are rounded to about 1e-10 of a column's
    largest first, so that rounding errors in ``x`` decide no tie. Squared distances are added up in the order of
    the columns, in double precision; of records at the same computed distance the first row is taken, as the
    farthest or as the nearer. Identical records are always at the same distance. Centroids do not depend on the
    order of summation: values are rounded to multiples of a power of 2 so small that their sum just fits 62 bits
    (relative to the largest value, 3e-14 at 100 000 records), summed exactly, and divided once.

    Time grows with N^2 t / k at worst, less with few columns; memory with N t.

    Source: Domingo-Ferrer & Torra (2005), algorithm MDAV-generic, after Domingo-Ferrer & Mateo-Sanz (2002).
    There s is the farthest of all records. It is the same one unless all records outside r's group are
    equally far from r as the farthest inside, when s could be in r's group. Losses published since 2006 are
    often those of a variant that spreads the last records, fewer than k, over the nearest groups; where k
    divides N the groups are the same.

    Examples
    --------
    >>> mdav(np.array([[1.0], [9.0], [2.0], [8.0], [1.5], [5.0], [9.5]]), 2).tolist()
    [1, 0, 2, 2, 1, 2, 0]
    """
    from anoncore.kernels._mdav_compiled import Blocks, peel

    x = snapped(x)
    n_records = len(x)
    labels = np.zeros(n_records, dtype=np.intp)
    factors = _factors(x)
    sums = _sums(x, factors)
    left, label = np.arange(n_records), 0
    where = np.empty(n_records, dtype=np.int64)
    while len(left) >= 3 * k:
        data, index, counts, low, high = _blocks(x, left, where)
        blocks = Blocks(data, index, counts, where, sums, factors, labels)
        floor = max(3 * k, len(left) // _REBUILD)
        label = peel(blocks, low, high, k, floor, label)
        left = np.sort(index[np.arange(index.shape[1]) < counts[:, None]])
    if len(left) >= 2 * k:
        point = sums / len(left) / factors
        far = _distances(x[left], point).argmax()
        distances = _distances(x[left], x[left[far]])
        distances[far] = -1.0
        near = distances.argsort(kind="stable")[:k]
        labels[left[near]] = label
        left, label = np.delete(left, near), label + 1
    labels[left] = label
    return labels


def information_loss(x: Floats, masked: Floats) -> float:
    """Share of the variation of the records that masking has taken away, in percent.

    Parameters
    ----------
    x, masked : (N, t) float
        Records in rows, in the same order and in the units in which they were grouped (standardised).

    Returns
    -------
    float
        100 SSE / SST: squared differences between original and masked, over squared differences between
        original and column means. 0 when all records are the same.

    Notes
    -----
    Claim: between 0 and 100 when every masked record is the mean of its group.

    Source: Domingo-Ferrer & Mateo-Sanz (2002).

    Examples
    --------
    >>> information_loss(np.array([[0.0], [2.0], [6.0], [8.0]]), np.array([[1.0], [1.0], [7.0], [7.0]]))
    10.0
    """
    total = float(np.square(x - x.mean(axis=0)).sum())
    # A column's mean may be off by a rounding error.
    if total == 0 or (x == x[0]).all():
        return 0.0
    return 100 * float(np.square(x - masked).sum()) / total


def _factors(x: Floats) -> Floats:
    """Return (t,) powers of 2 by which columns are multiplied before they are rounded and summed."""
    exponents = np.frexp(np.abs(x).max(axis=0))[1]
    room = _BITS - len(x).bit_length()
    return np.ldexp(1.0, np.minimum(room - exponents, _LARGEST_FACTOR))


def _sums(x: Floats, factors: Floats) -> Integers:
    return np.rint(x * factors).astype(np.int64).sum(axis=0)


def _distances(x: Floats, point: Floats) -> Floats:
    """Squared distances (N,) to a point, added up column by column."""
    distances = np.zeros(len(x))
    for column, value in zip(x.T, point, strict=True):
        distances += (column - value) ** 2
    return distances


def _blocks(x: Floats, left: Labels, where: Integers) -> tuple[Floats, Integers, Integers, Floats, Floats]:
    """Arrange the records ``left`` in blocks of neighbours, as the compiled part wants them."""
    records = x[left]
    group = halved_groups(records, _BLOCK // 2)
    order = group.argsort(kind="stable")
    counts = np.bincount(group)
    starts = counts.cumsum() - counts
    slot = np.empty(len(left), dtype=np.int64)
    slot[order] = np.arange(len(left)) - starts[group[order]]
    data = np.zeros((len(counts), x.shape[1], _BLOCK))
    data[group, :, slot] = records
    index = np.full((len(counts), _BLOCK), -1, dtype=np.int64)
    index[group, slot] = left
    where[left] = group * _BLOCK + slot
    low = np.minimum.reduceat(records[order], starts).T.copy()
    high = np.maximum.reduceat(records[order], starts).T.copy()
    return data, index, counts.astype(np.int64), low, high
