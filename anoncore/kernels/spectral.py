"""Spectral anonymization: a table is masked along its own principal axes (Lasko & Vinterbo 2010).

The axes come from the n x n matrix of cross-products, summed over blocks of rows, so that no step needs more
than a few blocks beside its result. Loadings, scores and singular values are secrets: whoever has them can
undo most of the masking. They stay inside the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import InfeasibleError

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

_BLOCK_ROWS = 32_768
# What fits the processor's caches at some tens of columns.
_CACHED_ROWS = 8_192
_FOLDED_ROWS = 1_024
# Axes shorter than this, relative to the longest, are rounding noise of constant or dependent columns.
_NULL_AXIS = 1e-10
# Below this eigenvalue of the swapped scores' correlation matrix, whitening would only amplify noise.
_DEGENERATE = 1e-8


# No repr: loadings must not reach a log or a traceback.
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Basis:
    """The principal axes of a table: x = center + U D V^T.

    Parameters
    ----------
    center : (n,) float
        Column means, in the units of the columns.
    singular_values : (n,) float
        The diagonal of D, descending; the variance along an axis is its square over N.
    loadings : (n, n) float
        V, one axis per column; the largest entry of each axis is positive.
    """

    center: Floats
    singular_values: Floats
    loadings: Floats


def basis(x: Floats) -> Basis:
    """Principal axes of a table, from its n x n matrix of cross-products.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values; N >= 1.

    Returns
    -------
    Basis
        Center, singular values and loadings.

    Notes
    -----
    Claim: deterministic; memory beyond ``x`` is a few blocks of rows. Cross-products square the condition
    number, so an axis shorter than 1e-8 of the longest is found only up to rotation among such axes. The
    singular values do not suffer: they are measured again as the lengths of the score columns, to about 1e-15
    of the longest.

    Source: Lasko & Vinterbo (2010), section III-A. Departure: the paper calls singular values the squares of
    the eigenvalues of X^T X; they are the square roots.

    Examples
    --------
    >>> frame = basis(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]))
    >>> frame.singular_values.round(6).tolist(), frame.loadings[:, 0].round(6).tolist()
    ([7.071068, 0.0], [0.6, 0.8])
    """
    n_records, n_columns = x.shape
    center = np.sum([x[rows].sum(axis=0) for rows in _blocks(n_records)], axis=0) / n_records
    residual = np.zeros(n_columns)
    gram = np.zeros((n_columns, n_columns))
    for rows in _blocks(n_records):
        centred = x[rows] - center
        residual += centred.sum(axis=0)
        gram += centred.T @ centred
    # What the first pass lost to rounding in a long sum, the second pass sees.
    center = center + residual / n_records
    axes = _with_positive_peaks(np.linalg.eigh(gram)[1])

    squares = np.zeros(n_columns)
    for rows in _blocks(n_records):
        squares += np.square((x[rows] - center) @ axes).sum(axis=0)
    order = np.argsort(-squares, kind="stable")
    return Basis(center=center, singular_values=np.sqrt(squares[order]), loadings=axes[:, order])


def principal_scores(x: Floats, frame: Basis, *, order: Literal["C", "F"] = "C") -> Floats:
    """Coordinates of records on principal axes: T = U D.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, in the units of the basis.
    frame : Basis
        Center and loadings.
    order : {"C", "F"}
        Memory layout of the result: records contiguous, or axes contiguous.

    Returns
    -------
    (N, n) float
        One column per axis, longest axis first. A secret.

    Notes
    -----
    Claim: ``frame.center + principal_scores(x, frame) @ frame.loadings.T`` is ``x`` up to rounding.

    Source: Lasko & Vinterbo (2010), section III-A.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    >>> principal_scores(x, basis(x))[:, 0].round(6).tolist()
    [-5.0, 0.0, 5.0]
    """
    result = np.empty(x.shape, order=order)
    for rows in _blocks(len(x)):
        np.matmul(x[rows] - frame.center, frame.loadings, out=result[rows])
    return result


def swap(
    x: Floats,
    *,
    rng: np.random.Generator,
    exact_covariance: bool = False,
    jitter: int | None = None,
    within: NDArray[np.integer] | None = None,
) -> Floats:
    """Spectral swapping: every principal score is handed to another record, each axis on its own.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values.
    rng : numpy.random.Generator
        Source of the permutations and of the jitter. Its seed is a secret.
    exact_covariance : bool
        Whether the swapped scores are made exactly uncorrelated, so that covariances are exact.
    jitter : int, optional
        How many ranks (at least 1) scores move, either way, before they are permuted.
    within : (N,) int, optional
        Cluster of each record: each cluster is swapped by itself, about its own center and axes. A cluster of
        one record is released as it is; the caller keeps clusters large.

    Returns
    -------
    (N, n) float
        Masked records; row i has no tie to row i of ``x`` beyond its cluster.

    Raises
    ------
    InfeasibleError
        If ``exact_covariance`` is asked of so few or so tied records that their swapped scores are collinear.

    Notes
    -----
    Claim: means exact (1e-13); covariances in expectation, or with ``exact_covariance`` exact (1e-12 once
    records clearly outnumber columns); linear relations among columns exact. Not claimed: univariate
    distributions, and anything beyond second moments across axes.

    Without options each score column keeps its exact values, merely permuted, which a party who knows V can
    recognise. ``jitter=j`` releases, for the score of rank r, the sorted scores read at a random real place
    in (r-j, r+j) by linear interpolation: drawing an existing neighbour instead would let exact scores
    survive. At the ends places are reflected, not clamped, or the extremes would survive. Tied neighbours
    keep their common value. Variances shrink a little, by the distance of the extremes to their neighbours,
    and ``exact_covariance`` restores them.

    Source: Lasko & Vinterbo (2010), section III-B1. Departures, all optional: jitter; swapping within
    clusters; the symmetric orthonormalisation U (U^T U)^(-1/2) of the re-centred swapped U.

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=(1000, 3))
    >>> masked = swap(x, rng=np.random.default_rng(2), exact_covariance=True)
    >>> bool(np.allclose(np.cov(masked.T), np.cov(x.T), rtol=0, atol=1e-12))
    True
    """
    if within is None:
        return _swap(x, rng, exact_covariance, jitter)
    masked = np.empty(x.shape)
    order = np.argsort(within, kind="stable")
    starts = np.flatnonzero(np.diff(within[order])) + 1
    for members in np.split(order, starts):
        masked[members] = _swap(x[members], rng, exact_covariance, jitter)
    return masked


def rhs_groups(scores: Floats, k: int) -> Labels:
    """Recursive halving at the rank median of the widest axis, until a group has fewer than 2k records.

    Parameters
    ----------
    scores : (N, n) float
        Principal scores T = U D; records in rows, C-contiguous for speed.
    k : int
        Smallest group size, at least 1.

    Returns
    -------
    (N,) int
        Group of each record, 0..G-1; the numbers carry no order. With N < 2k there is one group.

    Notes
    -----
    Claim: every group has k..2k-1 records if N >= k. Deterministic: the first of equally wide axes is cut,
    and among tied scores earlier records go to the lower half, which has the odd record less.

    Large groups are halved one by one. Once a group fits the processor's cache, all groups below it are
    halved level by level: they are then s or s+1 records long, at most two regular arrays. Time grows with
    N n log(N/k); extra memory is one copy of the scores.

    Source: Lasko & Vinterbo (2010), section III-B2 and Fig. 1. Departure: the paper's code stops at ``<= 2k``
    as the recursion's other branch, which leaves groups of 2k; here groups of 2k are halved.

    Examples
    --------
    >>> labels = rhs_groups(np.array([[5.0], [1.0], [2.0], [9.0], [7.0]]), 2)
    >>> (labels == labels[1]).tolist()
    [False, True, True, False, False]
    """
    waiting, members, sizes = [np.arange(len(scores))], [], []
    while waiting:
        rows = waiting.pop()
        block = scores[rows]
        if rows.size >= max(2 * k, _CACHED_ROWS):
            lower, upper = _halves(block[None], rows[None])
            waiting += [upper[0], lower[0]]
        else:
            order, group_sizes = _halve_by_level(block, k)
            members.append(rows[order])
            sizes.append(group_sizes)
    all_sizes = np.concatenate(sizes)
    labels = np.empty(len(scores), dtype=np.intp)
    labels[np.concatenate(members)] = np.repeat(np.arange(all_sizes.size), all_sizes)
    return labels


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
        Row numbers of ``x``; of records computed to be equally near, the first.

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
    for rows in _blocks(len(x)):
        distances[rows] = np.square(x[rows] - means[labels[rows]]).sum(axis=1)
    nearest = np.full(len(means), np.inf)
    np.minimum.at(nearest, labels, distances)
    candidates = np.flatnonzero(distances == nearest[labels])
    medoids = np.full(len(means), len(x), dtype=np.intp)
    np.minimum.at(medoids, labels[candidates], candidates)
    return medoids


def rhs(x: Floats, *, k: int, representative: Literal["mean", "medoid"] = "mean") -> tuple[Floats, Labels]:
    """Spectral RHS: microaggregation of groups that are found along the principal axes.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values.
    k : int
        Smallest group size, at least 2 to protect anything.
    representative : {"mean", "medoid"}
        What every record of a group becomes: the group's mean, or its record nearest to the mean.

    Returns
    -------
    masked : (N, n) float
        Row i is the representative of record i's group.
    labels : (N,) int
        Group of each record, 0..G-1.

    Notes
    -----
    Claim: every masked record occurs at least k times (k-anonymity), if N >= k. With "mean" column means are
    exact. With "medoid" a real record is released, k times or more.

    Only the grouping needs the scores. Projecting back is linear and keeps distances, so means and medoids
    are taken from ``x`` itself: the same result with less work and less rounding.

    Source: Lasko & Vinterbo (2010), section III-B2 and Fig. 1; see `rhs_groups` for the departure.

    Examples
    --------
    >>> masked, labels = rhs(np.array([[0.0], [2.0], [10.0], [14.0]]), k=2)
    >>> masked.ravel().tolist()
    [1.0, 1.0, 12.0, 12.0]
    """
    labels = rhs_groups(principal_scores(x, basis(x)), k)
    representatives = group_means(x, labels) if representative == "mean" else x[group_medoids(x, labels)]
    return representatives[labels], labels


def _blocks(n_records: int) -> Iterator[slice]:
    for start in range(0, n_records, _BLOCK_ROWS):
        yield slice(start, min(start + _BLOCK_ROWS, n_records))


def _with_positive_peaks(axes: Floats) -> Floats:
    """Flip axes so that the largest entry of each is positive: signs are otherwise arbitrary."""
    peaks = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None, :], axis=0)
    return axes * np.where(peaks < 0, -1.0, 1.0)


def _swap(x: Floats, rng: np.random.Generator, exact_covariance: bool, jitter: int | None) -> Floats:
    frame = basis(x)
    # Axes contiguous: a permutation touches one column at a time.
    moved = principal_scores(x, frame, order="F")
    if jitter is not None:
        for column in moved.T:
            column[:] = _jittered(column, jitter, rng)
    rng.permuted(moved, axis=0, out=moved)

    back = frame.loadings.T
    if exact_covariance:
        back = _whitening(moved, frame.singular_values) @ back
    shift = frame.center - moved.mean(axis=0) @ back
    masked = np.empty(x.shape)
    for rows in _blocks(len(x)):
        np.matmul(moved[rows], back, out=masked[rows])
        masked[rows] += shift
    return masked


def _halve_by_level(table: Floats, k: int) -> tuple[Labels, Labels]:
    """Halve a group until all parts have fewer than 2k records; return rows part by part, and part sizes."""
    rows, level = np.arange(len(table)), [(1, len(table))]
    while level[-1][1] >= 2 * k:
        by_size: dict[int, list[Labels]] = {}
        start = 0
        for count, size in level:
            stop = start + count * size
            places = np.arange(start, stop).reshape(count, size)
            block = table[start:stop].reshape(count, size, -1)
            for part in _halves(block, places) if size >= 2 * k else (places,):
                by_size.setdefault(part.shape[1], []).append(part)
            start = stop
        merged = [np.concatenate(by_size[size]) for size in sorted(by_size)]
        level = [(part.shape[0], part.shape[1]) for part in merged]
        order = np.concatenate([part.ravel() for part in merged])
        table, rows = table[order], rows[order]
    return rows, np.concatenate([np.full(count, size) for count, size in level])


def _halves(block: Floats, places: Labels) -> tuple[Labels, Labels]:
    """Cut groups of one size, (groups, size, n), at the rank median of each one's widest axis."""
    n_groups, size = places.shape
    widest = _ranges(block).argmax(axis=1)
    keys = np.take_along_axis(block, widest[:, None, None], axis=2)[:, :, 0]
    half = size // 2
    median = np.partition(keys, half, axis=1)[:, half, None]
    lower = keys < median
    # Equal scores fill up the lower half in record order, as a stable sort would.
    tied = keys == median
    lower |= tied & (tied.cumsum(axis=1) <= half - lower.sum(axis=1, keepdims=True))
    return places[lower].reshape(n_groups, half), places[~lower].reshape(n_groups, size - half)


def _ranges(block: Floats) -> Floats:
    """Return the range of every column in every group, (groups, n).

    Folding a group onto itself works on long runs of memory, three times as fast as a reduction over rows.
    """
    highs, lows = [], []
    for start in range(0, block.shape[1], _FOLDED_ROWS):
        high = low = block[:, start : start + _FOLDED_ROWS]
        while high.shape[1] > 1:
            # The halves share the middle record of an odd number.
            half = (high.shape[1] + 1) // 2
            high = np.maximum(high[:, :half], high[:, -half:])
            low = np.minimum(low[:, :half], low[:, -half:])
        highs.append(high)
        lows.append(low)
    return np.concatenate(highs, axis=1).max(axis=1) - np.concatenate(lows, axis=1).min(axis=1)


def _jittered(column: Floats, ranks: int, rng: np.random.Generator) -> Floats:
    """Read sorted scores at random places within ``ranks`` of each rank; in rank order, not record order."""
    last = len(column) - 1
    reach = min(ranks, last)
    places = np.arange(last + 1) + rng.uniform(-reach, reach, last + 1)
    places = last - np.abs(last - np.abs(places))
    ordered = np.sort(column)
    floor = places.astype(np.intp)
    step = ordered[np.minimum(floor + 1, last)] - ordered[floor]
    return ordered[floor] + (places - floor) * step


def _whitening(moved: Floats, lengths: Floats) -> Floats:
    """Turn swapped scores U D into U (U^T U)^(-1/2) D, U re-centred, by the (n, n) matrix returned.

    Null axes (zero singular value) are sent to zero: they carry nothing but rounding.
    """
    live = lengths > _NULL_AXIS * lengths.max(initial=0.0)
    means = moved.mean(axis=0)
    gram = moved.T @ moved - len(moved) * np.outer(means, means)
    unit = lengths[live]
    values, vectors = np.linalg.eigh(gram[np.ix_(live, live)] / np.outer(unit, unit))
    if values.min(initial=1.0) < _DEGENERATE:
        raise InfeasibleError(
            f"exact_covariance needs swapped scores that are not collinear, which {len(moved)} records on "
            f"{unit.size} axes did not give; use more records, larger clusters or exact_covariance=False"
        )
    whitening = np.zeros((lengths.size, lengths.size))
    inverse_root = (vectors / np.sqrt(values)) @ vectors.T
    whitening[np.ix_(live, live)] = inverse_root * (unit[None, :] / unit[:, None])
    return whitening
