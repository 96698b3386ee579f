"""Groups of k or more records along the principal axes of a table (Lasko & Vinterbo 2010)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.principal_axes import basis, principal_scores
from anoncore.kernels.ties import TIED, first_largest

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

# What fits the processor's caches at some tens of columns.
_CACHED_ROWS = 8_192
_FOLDED_ROWS = 1_024


def spectral_groups(x: Floats, k: int, emphasis: float = 1.0) -> Labels:
    """Group records by halving them at the rank median of the longest principal axis, again and again.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values.
    k : int
        Smallest group size, at least 1.
    emphasis : float
        Power of their lengths with which axes count: 1 as they are, 0 all alike, more the longer ones more.

    Returns
    -------
    (N,) int
        Group of each record, 0..G-1.

    Notes
    -----
    Claim: every group has k..2k-1 records if N >= k. The same groups on every machine, see `halved_groups`.

    Source: Lasko & Vinterbo (2010), section III-B2 and Fig. 1, "spectral RHS"; III-A says that axes may be emphasised.

    Examples
    --------
    >>> spectral_groups(np.array([[0.0], [2.0], [10.0], [14.0]]), k=2).tolist()
    [0, 0, 1, 1]
    """
    frame = basis(x)
    scores = principal_scores(x, frame)
    if emphasis != 1:
        lengths = np.where(frame.live, frame.singular_values / (frame.singular_values.max() or 1.0), 1.0)
        scores *= np.where(frame.live, lengths ** (emphasis - 1.0), 0.0)
    return halved_groups(scores, k)


def halved_groups(scores: Floats, k: int) -> Labels:
    """Recursive halving at the rank median of the widest column, until a group has fewer than 2k records.

    Parameters
    ----------
    scores : (N, n) float
        Principal scores T = U D, or other coordinates; records in rows, C-contiguous for speed.
    k : int
        Smallest group size, at least 1.

    Returns
    -------
    (N,) int
        Group of each record, 0..G-1; the numbers carry no order. With N < 2k there is one group.

    Notes
    -----
    Claim: every group has k..2k-1 records if N >= k. Deterministic: the first of equally wide columns is cut,
    and among tied scores earlier records go to the lower half, which has the odd record less. Scores that
    differ by at most 1e-11 of the largest are tied, so that rounding decides nothing.

    Large groups are halved one by one. Once a group fits the processor's cache, all groups below it are
    halved level by level: they are then s or s+1 records long, at most two regular arrays. Time grows with
    N n log(N/k); extra memory is one copy of the scores.

    Source: Lasko & Vinterbo (2010), section III-B2 and Fig. 1. Departure: the paper's code stops at ``<= 2k``
    as the recursion's other branch, which leaves groups of 2k; here groups of 2k are halved.

    Examples
    --------
    >>> labels = halved_groups(np.array([[5.0], [1.0], [2.0], [9.0], [7.0]]), 2)
    >>> (labels == labels[1]).tolist()
    [False, True, True, False, False]
    """
    tolerance = TIED * max(float(scores.max(initial=0.0)), -float(scores.min(initial=0.0)))
    waiting, members, sizes = [np.arange(len(scores))], [], []
    while waiting:
        rows = waiting.pop()
        block = scores[rows]
        if rows.size >= max(2 * k, _CACHED_ROWS):
            lower, upper = _halves(block[None], rows[None], tolerance)
            waiting += [upper[0], lower[0]]
        else:
            order, group_sizes = _halve_by_level(block, k, tolerance)
            members.append(rows[order])
            sizes.append(group_sizes)
    all_sizes = np.concatenate(sizes)
    labels = np.empty(len(scores), dtype=np.intp)
    labels[np.concatenate(members)] = np.repeat(np.arange(all_sizes.size), all_sizes)
    return labels


def _halve_by_level(table: Floats, k: int, tolerance: float) -> tuple[Labels, Labels]:
    """Halve a group until all parts have fewer than 2k records; return rows part by part, and part sizes."""
    rows, level = np.arange(len(table)), [(1, len(table))]
    while level[-1][1] >= 2 * k:
        by_size: dict[int, list[Labels]] = {}
        start = 0
        for count, size in level:
            stop = start + count * size
            places = np.arange(start, stop).reshape(count, size)
            block = table[start:stop].reshape(count, size, -1)
            for part in _halves(block, places, tolerance) if size >= 2 * k else (places,):
                by_size.setdefault(part.shape[1], []).append(part)
            start = stop
        merged = [np.concatenate(by_size[size]) for size in sorted(by_size)]
        level = [(part.shape[0], part.shape[1]) for part in merged]
        order = np.concatenate([part.ravel() for part in merged])
        table, rows = table[order], rows[order]
    return rows, np.concatenate([np.full(count, size) for count, size in level])


def _halves(block: Floats, places: Labels, tolerance: float) -> tuple[Labels, Labels]:
    """Cut groups of one size, (groups, size, n), at the rank median of each one's widest column."""
    n_groups, size = places.shape
    widest = first_largest(_ranges(block))
    keys = np.take_along_axis(block, widest[:, None, None], axis=2)[:, :, 0]
    half = size // 2
    median = np.partition(keys, half, axis=1)[:, half, None]
    lower = keys < median - tolerance
    # Tied scores fill up the lower half in record order, as a stable sort would.
    tied = ~lower & (keys <= median + tolerance)
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
