"""Points without another one near, found without comparing all points with all."""

from __future__ import annotations

import itertools
import math

import numpy as np

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import Floats, Indices, nearest, nearest_of_others

_ROUNDS = 4  # divisions into cells, each around other points
_FEW = 4000  # points that are compared with all without a further division: that takes as long


def without_neighbour(points: Floats, reach: float, units: Indices | None = None) -> tuple[Indices, Floats]:
    """Find the points whose nearest other point is farther than ``reach``, exactly.

    Points are divided into cells around √N of them, and compared within their cells: a point with another one within
    reach there is none of those sought. What is left after some divisions is compared with all points, so that cells
    decide on the time alone and never on the result.

    Parameters
    ----------
    points : (N, n), finite, at least two
    reach : at least 0, in the units of the points
    units : (N,) whose point each is: only points of other units count; without them each is of its own

    Returns
    -------
    (q,) indices, ascending, and (q,) distances to the nearest other point

    Raises
    ------
    AnonymizationError
        When there are fewer than two points.

    Notes
    -----
    Claim: the same as ``nearest(points, points, 1, skip_self=True)`` cut at ``reach``; O(N·√N·n) where nearly all
    points have a neighbour within reach, O(N²·n) at worst. Source: elementary (pruning by upper bounds).

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [1.5], [9.0]])
    >>> without_neighbour(line, 2.0)
    (array([3]), array([7.5]))
    """
    if len(points) < 2:
        raise AnonymizationError(f"at least two points are needed, got {len(points)}")
    left = np.arange(len(points))
    for turn in range(_ROUNDS):
        if len(left) <= _FEW:
            break
        left = left[_nearest_in_cells(points, left, turn, units) > reach]
    if not len(left):
        return left, np.empty(0)
    distance = _nearest_other(points, left, units)
    far = distance > reach
    return left[far], distance[far]


def _nearest_other(points: Floats, asked: Indices, units: Indices | None) -> Floats:
    """Return (q,) distances of points to their nearest others, infinite where there is none."""
    if units is None:
        return nearest(points[asked], points, 1, skip_self=asked)[0][:, 0]
    if (units == units[0]).all():
        return np.full(len(asked), np.inf)
    return nearest_of_others(points[asked], points, 1, own=units[asked], units=units)[0][:, 0]


def _distance_to_one_near(points: Floats, asked: Indices, units: Indices | None, members: Indices) -> Floats:
    """Return (q,) distances of points to a near other among ``members``, infinite where there is none.

    Single precision decides which one is near, double precision how far that one is.
    """
    rows, others = points[asked], points[members]
    left, right = ((table - others[0]).astype(np.float32) for table in (rows, others))
    values = np.einsum("ij,ij->i", right, right) - 2.0 * (left @ right.T)
    own = np.arange(len(points)) if units is None else units
    values[own[asked][:, None] == own[members]] = np.inf
    chosen = values.argmin(axis=1)
    apart = rows - others[chosen]
    distance = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    return np.where(np.isinf(values[np.arange(len(asked)), chosen]), np.inf, distance)


def _nearest_in_cells(points: Floats, asked: Indices, turn: int, units: Indices | None) -> Floats:
    """Return (q,) upper bounds of the distances from the points asked about to their nearest others."""
    n = len(points)
    number = math.ceil(math.sqrt(n))
    # Every √N-th point, in each turn others: files are often sorted.
    centres = points[(np.arange(number) * n // number + turn * number // _ROUNDS) % n]
    cell = nearest(points, centres, 1)[1][:, 0]
    order = np.argsort(cell, kind="stable")
    bounds = np.full(n, np.inf)
    wanted = np.zeros(n, dtype=bool)
    wanted[asked] = True
    # Parts of crowded cells: a bound need not be the least one.
    ends = np.searchsorted(cell[order], np.arange(number + 1))
    starts = [place for a, b in itertools.pairwise(ends) for place in range(a, b, 4 * number)]
    for start, end in zip(starts, [*starts[1:], n], strict=True):
        members = np.sort(order[start:end])
        rows = members[wanted[members]]
        if len(members) > 1 and len(rows):
            bounds[rows] = _distance_to_one_near(points, rows, units, members)
    return bounds[asked]
