"""Points without another one near, found without comparing all points with all."""

from __future__ import annotations

import itertools
import math

import numpy as np

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import Floats, Indices, nearest, nearest_of_others

_FEW = 4000  # points that are not divided into cells: comparing all with all takes as long
_PARTS = 8  # of the points, with one after the other of which those are compared that no cell has settled


def without_neighbour(points: Floats, reach: float, units: Indices | None = None) -> tuple[Indices, Floats]:
    """Find the points whose nearest other point is farther than ``reach``, exactly.

    Points are divided into cells around √N of them, and compared within their cells: a point with another one within
    reach there is none of those sought. What is left is compared with one part of all points after the other, until a
    part holds another one within reach, so that cells and parts decide on the time alone and never on the result.

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
    if len(points) > _FEW:
        left = left[_nearest_in_cells(points, units) > reach]
    distance = np.full(len(left), np.inf)
    # Each part spans the file, since files are often sorted, and holds at least two points.
    parts = min(_PARTS, len(points) // 2) if 2 * len(left) < len(points) else 1
    for start in range(parts if len(left) else 0):
        distance = np.minimum(distance, _nearest_other(points, left, np.arange(start, len(points), parts), units))
        far = distance > reach
        left, distance = left[far], distance[far]
        if not len(left):
            break
    return left, distance


def far_from(points: Floats, others: Floats, reach: float) -> tuple[Indices, Floats]:
    """Find the points whose nearest one of another table is farther than ``reach``, exactly.

    Parameters
    ----------
    points, others : (N, n) and (M, n), finite, at least one each
    reach : at least 0, in the units of the points

    Returns
    -------
    (q,) indices, ascending, and (q,) distances to the nearest of the others

    Notes
    -----
    Claim: the same as ``nearest(points, others, 1)`` cut at ``reach``; see `without_neighbour`.

    Examples
    --------
    >>> far_from(np.array([[0.0], [9.0]]), np.array([[1.0], [2.0]]), 2.0)
    (array([1]), array([7.]))
    """
    left = np.arange(len(points))
    if len(points) > _FEW:
        left = left[_nearest_of_cells(points, others) > reach]
    distance = np.full(len(left), np.inf)
    parts = min(_PARTS, len(others)) if 2 * len(left) < len(points) else 1
    for start in range(parts if len(left) else 0):
        distance = np.minimum(distance, nearest(points[left], others[start::parts], 1)[0][:, 0])
        far = distance > reach
        left, distance = left[far], distance[far]
        if not len(left):
            break
    return left, distance


def _nearest_of_cells(points: Floats, others: Floats) -> Floats:
    """Return (N,) upper bounds of the distances from the points to the nearest of the others."""
    n = len(points)
    number = math.ceil(math.sqrt(n))
    centres = points[np.arange(number) * n // number]
    cells = [nearest(side, centres, 1)[1][:, 0] for side in (points, others)]
    orders = [np.argsort(cell, kind="stable") for cell in cells]
    ends = [np.searchsorted(cell[order], np.arange(number + 1)) for cell, order in zip(cells, orders, strict=True)]
    bounds = np.full(n, np.inf)
    for cell in range(number):
        # Of a crowded cell a part: a bound need not be the least one.
        there = others[orders[1][ends[1][cell] : min(ends[1][cell + 1], ends[1][cell] + 4 * number)]]
        for start in range(ends[0][cell], ends[0][cell + 1], 4 * number) if len(there) else ():
            members = orders[0][start : min(start + 4 * number, ends[0][cell + 1])]
            bounds[members] = nearest(points[members], there, 1)[0][:, 0]
    return bounds


def _nearest_other(points: Floats, asked: Indices, part: Indices, units: Indices | None) -> Floats:
    """Return (q,) distances of points to their nearest others in a part, infinite where there is none."""
    rows, others = points[asked], points[part]
    if units is None:
        place = np.searchsorted(part, asked)
        own = np.where(part[np.minimum(place, len(part) - 1)] == asked, place, -1)
        return nearest(rows, others, 1, skip_self=own)[0][:, 0]
    held = units[part]
    if (held != held[0]).any():
        return nearest_of_others(rows, others, 1, own=units[asked], units=held)[0][:, 0]
    distance, strangers = np.full(len(asked), np.inf), units[asked] != held[0]
    if strangers.any():
        distance[strangers] = nearest(rows[strangers], others, 1)[0][:, 0]
    return distance


def _distance_to_one_near(points: Floats, members: Indices, units: Indices | None) -> Floats:
    """Return (q,) distances of the members of a cell to a near other one, infinite where there is none.

    Single precision decides which one is near, double precision how far that one is.
    """
    rows = points[members]
    single = (rows - rows[0]).astype(np.float32)
    values = np.einsum("ij,ij->i", single, single) - 2.0 * (single @ single.T)
    own = members if units is None else units[members]
    values[own[:, None] == own] = np.inf
    chosen = values.argmin(axis=1)
    apart = rows - rows[chosen]
    distance = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    return np.where(np.isinf(values[np.arange(len(rows)), chosen]), np.inf, distance)


def _nearest_in_cells(points: Floats, units: Indices | None) -> Floats:
    """Return (N,) upper bounds of the distances from the points to their nearest others."""
    n = len(points)
    number = math.ceil(math.sqrt(n))
    # Every √N-th point: files are often sorted.
    centres = points[np.arange(number) * n // number]
    cell = nearest(points, centres, 1)[1][:, 0]
    order = np.argsort(cell, kind="stable")
    bounds = np.full(n, np.inf)
    # Parts of crowded cells: a bound need not be the least one.
    ends = np.searchsorted(cell[order], np.arange(number + 1))
    starts = [place for a, b in itertools.pairwise(ends) for place in range(a, b, 4 * number)]
    for start, end in zip(starts, [*starts[1:], n], strict=True):
        members = np.sort(order[start:end])
        if len(members) > 1:
            bounds[members] = _distance_to_one_near(points, members, units)
    return bounds
