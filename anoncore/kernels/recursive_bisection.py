"""Recursive histogram sanitization on the columns as they are: every column is bisected at once."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.groups import by_first_record
from anoncore.kernels.ties import order_with_ties

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]


def recursive_bisection(x: Floats, k: int, *, small: Literal["join", "keep"] = "join") -> Labels:
    """Group records by the cells of a histogram that is refined where it holds 2k records or more.

    Parameters
    ----------
    x : (N, n) float
        Records in rows; values are compared within columns, ranges between columns.
    k : int
        Smallest group size, at least 1.
    small : {"join", "keep"}
        "keep" cuts a group at the medians of all its columns, into as many as 2^n cells. "join" carries out
        these cuts one after the other, the column with the largest range in ``x`` first, and leaves out those
        that would part fewer than k records from the rest.

    Returns
    -------
    (N,) int
        Labels 0..G-1, in order of first record.

    Notes
    -----
    Claim: with "keep" a group has 1 to 2k - 1 records, or is identical records. With "join" it has k records
    or more, if N >= k; and 2k or more only where no median of its columns has k of its records on either
    side, which takes ties. Equal values of a column never part. Deterministic.

    Time is a few passes over ``x``, each of them n refinements and one sort of every group of 2k or more;
    memory a few copies of ``x``.

    Source: Chawla et al. (2005) as described by Lasko & Vinterbo (2010), section III-B2. Departures: groups
    of 2k are split too, as in `spectral_groups`; "join" is ours, since the published algorithm leaves
    nearly every record alone in its cell.

    Examples
    --------
    >>> corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> recursive_bisection(corners, 2, small="keep").tolist(), recursive_bisection(corners, 2).tolist()
    ([0, 1, 2, 3], [0, 0, 1, 1])
    """
    least = k if small == "join" else 1
    columns = order_with_ties(-np.ptp(x, axis=0)) if x.size else np.empty(0, np.intp)
    labels = np.zeros(len(x), dtype=np.intp)
    # Records whose groups may still be cut; groups that withstood every cut are left alone.
    active = np.arange(len(x)) if len(x) >= 2 * k else np.empty(0, dtype=np.intp)
    done = 1
    while active.size:
        parts, groups = _renumbered(labels[active])
        above = _above_median(x[active], parts, groups)
        cut, n_cut = _refined(parts, groups, above, columns, least)
        labels[active] = done + cut
        done += n_cut
        sizes, pieces = np.bincount(cut, minlength=n_cut), np.zeros(groups, dtype=np.intp)
        parent = np.empty(n_cut, dtype=np.intp)
        parent[cut] = parts
        np.add.at(pieces, parent, 1)
        open_still = (sizes >= 2 * k) & (pieces[parent] > 1)
        active = active[open_still[cut]]
    return by_first_record(labels)


def _refined(parts: Labels, n_parts: int, above: NDArray[np.bool_], columns: Labels, least: int) -> tuple[Labels, int]:
    """Cut parts by one column after the other where both sides keep ``least`` records."""
    for column in columns:
        codes = 2 * parts + above[:, column]
        counts = np.bincount(codes, minlength=2 * n_parts).reshape(-1, 2)
        splits = counts.min(axis=1) >= least
        if not splits.any():
            continue
        # The upper side of a part that is cut becomes a new part at the end.
        upper = np.where(splits, n_parts + np.cumsum(splits) - 1, np.arange(n_parts))
        parts = np.where(above[:, column], upper[parts], parts)
        n_parts += int(splits.sum())
    return parts, n_parts


def _above_median(x: Floats, parts: Labels, n_parts: int) -> NDArray[np.bool_]:
    """Return which values lie above the median of their group, column by column.

    Where nothing lies above the median, because the largest value is tied, the cut goes below it. Groups are
    laid side by side, padded to the next power of 2, so that all groups of about one size sort at once.
    """
    sizes = np.bincount(parts, minlength=n_parts)
    order = np.argsort(parts, kind="stable")
    starts = np.cumsum(sizes) - sizes
    cuts = np.empty((n_parts, x.shape[1]))
    widths = np.int64(1) << np.ceil(np.log2(sizes)).astype(np.int64)
    for width in np.unique(widths):
        groups = np.flatnonzero(widths == width)
        places = starts[groups, None] + np.arange(width)
        beyond = np.arange(width) >= sizes[groups, None]
        rows = order[np.where(beyond, starts[groups, None], places)]
        for column, values in enumerate(x.T):
            block = np.where(beyond, np.inf, values[rows])
            block.sort(axis=1)
            cuts[groups, column] = _cuts(block, sizes[groups])
    return np.asarray(x > cuts[parts])


def _cuts(block: Floats, sizes: Labels) -> Floats:
    """Return the value above which each sorted, padded row is cut."""
    rows = np.arange(len(block))
    median = block[rows, (sizes - 1) // 2]
    largest = block[rows, sizes - 1]
    # The largest value below the median, for rows whose median is their largest; itself if there is none.
    below = (block < median[:, None]).sum(axis=1)
    return np.where(median < largest, median, block[rows, np.maximum(below - 1, 0)])


def _renumbered(labels: Labels) -> tuple[Labels, int]:
    used, parts = np.unique(labels, return_inverse=True)
    return parts, len(used)
