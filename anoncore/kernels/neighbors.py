"""Exact nearest neighbours: a tree for few columns, screened matrix products for many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from anoncore.errors import AnonymizationError
from anoncore.kernels import threads
from anoncore.kernels.indicators import Indicators, indicators

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.intp]
Pair = tuple[Floats, Indices]

_TREE_COLUMNS = 8  # at 10 columns brute force won by half at 5000, 20 000 and 100 000 points
_BLOCK = 512  # queries per block; with _CHUNK points a block stays in the L2 cache
_CHUNK = 512
_GROUP = 64  # what the number of screened points is filled up to a multiple of
_SPREAD = 1024  # points, evenly spread over the file, that are screened first
_CROWD = 1024  # candidates per query from which the direct route is cheaper
_ENTRIES = 1 << 20  # distances computed at a time on the direct route
_SEPARATE = 1.0 + 1e-12  # a ratio of distances that rounding in double precision cannot reverse
_CODED = 10_000_000  # pairs from which on it pays to look for indicators of levels
_KEYED = 256  # points whose keys are computed at a time, in the cache
_TINY = 1e-30  # covers underflow of single precision, in units of the largest coordinate
_BLAS = threads.BLAS
_threads = threads.available


def nearest(queries: Floats, points: Floats, k: int, *, skip_self: bool | Indices = False) -> tuple[Floats, Indices]:
    """Find the k nearest points of every query, exactly.

    Ties in the computed distance go to the lowest index, and rows that are duplicates of one another
    count as separate neighbours. Every distance is the directly computed √Σ(x−y)², never the expanded
    ‖x‖²+‖y‖²−2x·y, which loses its digits near zero.

    Up to 8 columns a k-d tree is searched. Beyond that, blocks of the expanded form in *single* precision
    only screen: with u = 2⁻²⁴, the computed ‖y‖²−2x·y is off by at most (n+4)u(2‖x‖‖y‖+‖y‖²) to first
    order, so every point whose value is within twice that bound of the k-th is kept and measured directly
    in double precision. No true neighbour can be lost by rounding; where single precision cannot
    separate the candidates, the row is measured directly against all points. Of many pairs, columns that indicate the
    levels of nominal variables are not multiplied: the variables in which two rows differ are counted.

    Parameters
    ----------
    queries : (M, n), finite
    points : (N, n), finite, same columns and units
    k : 1 … N, or N − 1 with ``skip_self``
    skip_self : ``True`` when ``queries`` is ``points`` and no row may be its own neighbour; or an (M,)
        array of the index that each query has among ``points``, −1 for none. The row is left out by index,
        so its duplicates still count.

    Returns
    -------
    (M, k) Euclidean distances, ascending, and the (M, k) indices of the points.

    Raises
    ------
    AnonymizationError
        When fewer than k neighbours exist.

    Notes
    -----
    Source: the error bound is Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., eq. 3.5,
    with rounding of the inputs added. Memory: O((M + N)·n + M·k) and one block per thread. While it runs,
    BLAS is limited to one thread in this process, the query blocks being shared among threads instead.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [3.0]])
    >>> nearest(line, line, 1, skip_self=True)[0].ravel()
    array([1., 1., 2.])
    """
    queries = np.ascontiguousarray(queries, dtype=np.float64)
    points = np.ascontiguousarray(points, dtype=np.float64)
    skipping = skip_self is not False
    wanted = k + skipping
    if not 1 <= k <= len(points) - skipping:
        raise AnonymizationError(f"k must be between 1 and {len(points) - skipping}, got {k}")
    distinct = _distinct(points)
    if distinct is None:
        distances, indices = _search(queries, points, wanted)
    else:
        result = _search(queries, points[distinct.first], min(wanted, len(distinct.first)))
        distances, indices = _expand(result, distinct, wanted)
    if skipping:
        own = np.arange(len(queries)) if skip_self is True else np.asarray(skip_self)
        return _drop_own(distances, indices, own)
    return distances, indices


def nearest_of_others(queries: Floats, points: Floats, k: int, *, own: Indices, units: Indices) -> Pair:
    """Find the k nearest points of every query among those of other statistical units, exactly.

    Parameters
    ----------
    queries : (M, n), finite
    points : (N, n), finite, same columns and units
    k : 1 … the points of other units
    own : (M,) unit of each query
    units : (N,) unit of each point

    Returns
    -------
    (M, k) Euclidean distances, ascending, and the (M, k) indices of the points.

    Raises
    ------
    AnonymizationError
        When a query has fewer than k points of other units.

    Notes
    -----
    Ever more neighbours are searched, until k of them are of other units. Source: elementary.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [3.0]])
    >>> nearest_of_others(line, line, 1, own=np.array([0, 0, 1]), units=np.array([0, 0, 1]))[0].ravel()
    array([3., 2., 2.])
    """
    _, sizes = np.unique(units, return_counts=True)
    if not 1 <= k <= len(points) - int(sizes.max(initial=0)):
        raise AnonymizationError(f"k must be between 1 and {len(points) - int(sizes.max(initial=0))}, got {k}")
    distances, indices = np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.intp)
    pending, wide = np.arange(len(queries)), k + 1
    while len(pending):
        wide = min(4 * wide, len(points))
        far, near = nearest(queries[pending], points, wide)
        other = units[near] != own[pending, None]
        # Those of other units first, each part in its order.
        order = np.argsort(~other, axis=1, kind="stable")[:, :k]
        settled = other.sum(axis=1) >= k
        done = pending[settled]
        distances[done] = np.take_along_axis(far, order, axis=1)[settled]
        indices[done] = np.take_along_axis(near, order, axis=1)[settled]
        pending = pending[~settled]
    return distances, indices


def _drop_own(distances: Floats, indices: Indices, own: Indices) -> Pair:
    drop = indices == own[:, None]
    # With more than k duplicates of lower index the row itself is not among its k + 1 nearest.
    drop[~drop.any(axis=1), -1] = True
    shape = (len(indices), indices.shape[1] - 1)
    return distances[~drop].reshape(shape), indices[~drop].reshape(shape)


@dataclass(frozen=True, eq=False)
class _Distinct:
    """Distinct rows: index of the first of each, and all members grouped, ascending within a group."""

    first: Indices
    members: Indices
    start: Indices
    count: Indices


def distinct_rows(points: Floats) -> tuple[Indices, Indices, Indices]:
    """Give each distinct row a number, in the order of the first copies; +0 and −0 are the same.

    Parameters
    ----------
    points : (N, n), finite

    Returns
    -------
    (D,) index of the first copy, (N,) number of each row's distinct row, (D,) copies

    Notes
    -----
    Claim: O(N·n + N·log N). Source: elementary.

    Examples
    --------
    >>> distinct_rows(np.array([[2.0], [1.0], [2.0]]))[1]
    array([0, 1, 0])
    """
    found = _distinct(np.asarray(points, dtype=np.float64))
    if found is None:
        every = np.arange(len(points))
        return every, every, np.ones_like(every)
    number = np.empty_like(found.members)
    number[found.members] = np.repeat(np.arange(len(found.first)), found.count)
    return found.first, number, found.count


def _distinct(points: Floats) -> _Distinct | None:
    """Group identical rows; None when there are none."""
    keys = np.empty(len(points), dtype=np.uint64)
    weights = np.cumprod(np.full(points.shape[1], 0x9E3779B97F4A7C15, dtype=np.uint64))
    for start in range(0, len(points), _KEYED):
        rows = slice(start, start + _KEYED)
        bits = (points[rows] + 0.0).view(np.uint64)  # −0 becomes +0
        bits ^= bits >> np.uint64(32)
        keys[rows] = bits @ weights
    _, first, inverse, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    if len(first) == len(points):
        return None
    if any(not np.array_equal(column, column[first][inverse]) for column in points.T):
        # Two different rows have one key.
        _, first, inverse, count = np.unique(
            points + 0.0, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        inverse = inverse.reshape(-1)
        if len(first) == len(points):
            return None
    # Groups in order of their first member: ties between groups then go to the lowest index.
    rank = np.argsort(first)
    place = np.empty_like(rank)
    place[rank] = np.arange(len(rank))
    count = count[rank]
    members = np.argsort(place[inverse], kind="stable")
    return _Distinct(first[rank], members, np.cumsum(count) - count, count)


def _expand(result: Pair, distinct: _Distinct, k: int) -> Pair:
    """Replace distinct rows by their members and keep the k nearest, lowest index first."""
    distances = np.empty((len(result[0]), k))
    indices = np.empty((len(result[0]), k), dtype=np.intp)
    copies = np.arange(min(k, int(distinct.count.max())))
    step = max(1, _ENTRIES // (result[1].shape[1] * len(copies)))
    for begin in range(0, len(distances), step):
        rows = slice(begin, begin + step)
        groups = result[1][rows, :, None]
        exists = copies < distinct.count[groups]
        member = distinct.members[np.where(exists, distinct.start[groups] + copies, 0)]
        spread = np.where(exists, result[0][rows, :, None], np.inf)
        member, spread = (part.reshape(len(part), -1) for part in (member, spread))
        order = np.lexsort((member, spread))[:, :k]
        distances[rows] = np.take_along_axis(spread, order, axis=1)
        indices[rows] = np.take_along_axis(member, order, axis=1)
    return distances, indices


def _search(queries: Floats, points: Floats, k: int) -> Pair:
    if queries.shape[1] <= _TREE_COLUMNS:
        return _tree(queries, points, k)
    return _brute(queries, points, k)


def _in_blocks(find: Callable[[slice], Pair], rows: int, k: int) -> Pair:
    distances = np.empty((rows, k))
    indices = np.empty((rows, k), dtype=np.intp)

    def fill(start: int) -> None:
        block = slice(start, start + _BLOCK)
        distances[block], indices[block] = find(block)

    for _ in threads.in_threads(fill, range(0, rows, _BLOCK)):
        pass
    return distances, indices


def _tree(queries: Floats, points: Floats, k: int) -> Pair:
    tree = cKDTree(points)

    def find(block: slice) -> Pair:
        rows = queries[block]
        distances = np.empty((len(rows), k))
        indices = np.empty((len(rows), k), dtype=np.intp)
        pending, wide = np.arange(len(rows)), k + 3
        while len(pending) and wide < len(points) and wide <= _CROWD:
            far, near = map(np.asarray, tree.query(rows[pending], wide))
            # Only then does everything left out lie beyond every tie with the k-th.
            settled = far[:, -1] > far[:, k - 1] * _SEPARATE
            done = pending[settled]
            pairs = np.repeat(np.arange(len(done)), wide), near[settled].ravel()
            distances[done], indices[done] = _measure(rows[done], points, *pairs, k)
            pending, wide = pending[~settled], 4 * wide
        distances[pending], indices[pending] = _direct(rows[pending], points, k)
        return distances, indices

    return _in_blocks(find, len(queries), k)


def _direct(queries: Floats, points: Floats, k: int) -> Pair:
    """Measure every pair, some rows at a time."""
    distances = np.empty((len(queries), k))
    indices = np.empty((len(queries), k), dtype=np.intp)
    step = max(1, _ENTRIES // len(points))
    for begin in range(0, len(queries), step):
        block = slice(begin, begin + step)
        squares = cdist(queries[block], points, "sqeuclidean")
        kth = np.partition(squares, k - 1, axis=1)[:, k - 1 : k]
        rows, columns = np.nonzero(squares <= kth * _SEPARATE)
        distances[block], indices[block] = _measure(queries[block], points, rows, columns, k)
    return distances, indices


def _measure(queries: Floats, points: Floats, rows: Indices, columns: Indices, k: int) -> Pair:
    """Measure candidate pairs directly; return the k nearest of each row, lowest index first."""
    squares = np.empty(len(rows))
    step = max(1, _ENTRIES // (8 * queries.shape[1]))
    for begin in range(0, len(rows), step):
        part = slice(begin, begin + step)
        gap = queries[rows[part]] - points[columns[part]]
        squares[part] = np.einsum("ij,ij->i", gap, gap)
    order = np.lexsort((columns, squares, rows))
    best = order[np.searchsorted(rows[order], np.arange(len(queries)))[:, None] + np.arange(k)]
    return np.sqrt(squares[best]), columns[best]


@dataclass(frozen=True, eq=False, repr=False)
class _Screen:
    """Points centred, scaled to at most 1 and rounded to single precision: rows (y, ‖y‖²), then (0, ∞).

    ``columns`` are those that are multiplied, ``levels`` indicates levels by the others; ``codes`` (groups, N) are the
    points' levels, of which each that differs adds ``weight``. ``tiny`` covers what does not depend on the norms.
    """

    columns: Indices
    levels: Indicators
    centre: Floats
    scale: float
    right: Singles
    norms: Floats
    order: Indices
    codes: NDArray[np.uint8]

    @property
    def weight(self) -> float:
        return 2.0 * (self.levels.gap / self.scale) ** 2

    @property
    def tiny(self) -> float:
        """Twice what adding the weights of differing levels can be off by, three roundings, and one to spare."""
        return _TINY + 8.0 * 2.0**-24 * self.weight * len(self.codes)


def _screen(queries: Floats, points: Floats) -> _Screen:
    stride = -(-len(points) // _SPREAD)
    # Strided order: every chunk spans the file, so that sorted files give good first bounds too.
    order = np.concatenate([np.arange(start, len(points), stride) for start in range(stride)])
    levels = Indicators((), np.zeros(0), 0.0)
    if len(queries) * len(points) >= _CODED:
        levels = indicators(queries, points)
    columns = np.setdiff1d(np.arange(points.shape[1]), levels.columns)
    codes = np.take(levels.codes(points), order, axis=1)
    queries, points = (rows[:, columns] if levels.groups else rows for rows in (queries, points))
    # The median, because a far record would draw the mean away and with it the precision.
    centre = np.median(points[::stride], axis=0)
    ends = np.stack([part for rows in (queries, points) for part in (rows.min(axis=0), rows.max(axis=0))])
    scale = float(np.abs(ends - centre).max(initial=levels.gap)) or 1.0
    centred = (points[order] - centre) / scale
    squares = np.einsum("ij,ij->i", centred, centred)
    right = np.zeros((-(-len(points) // _GROUP) * _GROUP, points.shape[1] + 1), dtype=np.float32)
    right[: len(points), :-1] = centred
    right[:, -1] = np.inf
    right[: len(points), -1] = squares
    return _Screen(columns, levels, centre, scale, right, np.sqrt(squares), order, codes)


def _brute(queries: Floats, points: Floats, k: int) -> Pair:
    if not len(queries):
        return np.empty((0, k)), np.empty((0, k), dtype=np.intp)
    screen = _screen(queries, points)

    def find(block: slice) -> Pair:
        rows, columns, crowded = _candidates(screen, queries[block], k)
        distances, indices = _measure(queries[block], points, rows, screen.order[columns], k)
        if crowded.any():
            distances[crowded], indices[crowded] = _direct(queries[block][crowded], points, k)
        return distances, indices

    return _in_blocks(find, len(queries), k)


def _candidates(screen: _Screen, queries: Floats, k: int) -> tuple[Indices, Indices, NDArray[np.bool_]]:
    """Screen one block: (rows, screen positions) of all that can be neighbours, and the rows given up."""
    from anoncore.kernels._neighbors_compiled import add_differing, collect, settle

    own, weight, tiny = screen.levels.codes(queries), np.float32(screen.weight), screen.tiny
    x = (queries[:, screen.columns] - screen.centre) / screen.scale
    left = np.ones((len(x), x.shape[1] + 1), dtype=np.float32)
    left[:, :-1] = -2.0 * x
    norms = np.sqrt(np.einsum("ij,ij->i", x, x))
    unit = 2.0 * (left.shape[1] + 5) * 2.0**-24
    room = min(2 * (_CROWD + k), len(screen.norms))
    positions, kept = np.empty((len(x), room), dtype=np.int32), np.empty((len(x), room), dtype=np.float32)
    filled, heap = np.zeros(len(x), dtype=np.intp), np.full((len(x), k), np.inf)
    limit = np.full(len(x), np.finfo(np.float32).max)
    values = np.empty((len(x), _CHUNK), dtype=np.float32)
    for start in range(0, len(screen.right), _CHUNK):
        chunk = screen.right[start : start + _CHUNK]
        value = np.matmul(left, chunk.T, out=values if len(chunk) == _CHUNK else None)
        if len(own):
            add_differing(value, screen.codes[:, start : start + _CHUNK], own, weight)
        collect(value, start, screen.norms, norms, unit, tiny, limit, heap, positions, kept, filled)
    rows, columns = settle(limit, positions, kept, filled, k)
    return rows, columns, filled < 0
