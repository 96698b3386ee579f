"""k-means clusters with a smallest size, the same on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from anoncore.kernels.groups import by_first_record
from anoncore.kernels.rows import row_blocks
from anoncore.kernels.ties import first_largest

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

_STARTS = 4
_ROUNDS = 300
# A start must lower the sum of squares by more than this share to be preferred.
_BETTER = 1e-9


def k_means(x: Floats, count: int, *, least: int, rng: np.random.Generator) -> Labels:
    """Partition records into clusters by k-means, joining clusters that are too small with their neighbours.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values.
    count : int
        Clusters wanted, 1..N.
    least : int
        Smallest cluster size; smaller clusters are joined with the one whose centre is nearest.
    rng : numpy.random.Generator
        Source of the first centres.

    Returns
    -------
    (N,) int
        Labels 0..C-1, C at most ``count``, in order of first record.

    Notes
    -----
    Claim: every cluster has ``least`` records or more, if N >= ``least``. Of centres that are equally near up to
    rounding the first is taken, and of starts that are equally good the first. A local optimum of four starts,
    each 300 rounds at most.

    Source: Lloyd (1982) with the first centres of k-means++ (Arthur & Vassilvitskii 2007).

    Examples
    --------
    >>> x = np.array([[0.0], [9.0], [0.1], [9.1], [5.0]])
    >>> k_means(x, 2, least=2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 1]
    """
    best, lowest = np.zeros(len(x), dtype=np.intp), np.inf
    for _ in range(_STARTS):
        labels, total = _lloyd(x, _first_centres(x, count, rng))
        if total < lowest * (1 - _BETTER):
            best, lowest = labels, total
    return by_first_record(_joined(x, best, least))


def _first_centres(x: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Draw records as centres, each in proportion to the squared distance from those before it (k-means++)."""
    chosen = [int(rng.integers(len(x)))]
    squares = np.full(len(x), np.inf)
    while len(chosen) < count:
        squares = np.minimum(squares, np.square(x - x[chosen[-1]]).sum(axis=1))
        places = np.cumsum(squares)
        chosen.append(int(np.searchsorted(places, rng.random() * places[-1], side="right").clip(0, len(x) - 1)))
    return x[chosen]


def _lloyd(x: Floats, centres: Floats) -> tuple[Labels, float]:
    """Move centres to the means of their records until no record changes its cluster; return the loss too."""
    labels = np.full(len(x), -1)
    for _ in range(_ROUNDS):
        squares = np.empty(len(x))
        now = np.empty_like(labels)
        for rows in row_blocks(len(x)):
            distances = cdist(x[rows], centres, "sqeuclidean")
            now[rows] = first_largest(-distances)
            squares[rows] = distances[np.arange(len(distances)), now[rows]]
        if np.array_equal(now, labels):
            break
        labels = now
        centres = _means(x, labels, centres)
    return labels, float(squares.sum())


def _means(x: Floats, labels: Labels, centres: Floats) -> Floats:
    """Return the mean of every cluster; an empty one keeps its centre."""
    sizes = np.bincount(labels, minlength=len(centres))
    sums = np.column_stack([np.bincount(labels, column, len(centres)) for column in x.T])
    return np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)


def _joined(x: Floats, labels: Labels, least: int) -> Labels:
    """Join the smallest cluster with the one whose centre is nearest until none is smaller than ``least``."""
    centres = _means(x, labels, np.zeros((labels.max() + 1, x.shape[1])))
    sizes = np.bincount(labels)
    while sizes[sizes > 0].min() < min(least, len(x)):
        smallest = int(np.where(sizes > 0, sizes, len(x) + 1).argmin())
        gaps = np.square(centres - centres[smallest]).sum(axis=1)
        gaps[(sizes == 0) | (np.arange(len(sizes)) == smallest)] = gaps.max() * 2 + 1
        labels = np.where(labels == smallest, first_largest(-gaps), labels)
        sizes = np.bincount(labels, minlength=len(sizes))
    return labels
