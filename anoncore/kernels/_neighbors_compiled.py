"""Compiled part of `anoncore.kernels.neighbors`: what can be a neighbour is picked out of screened values.

Columns are looked at in groups. Counting a group's hits needs no branch and runs in full vectors; only the
rare group with a hit is gone through value by value.
"""

from __future__ import annotations

import math

import numpy as np

from anoncore.kernels._compiled import compiled

GROUP = 64  # the number of columns is a multiple of it


@compiled
def _within(columns, kept, n, top):  # type: ignore[no-untyped-def]
    """Close the ranks of the first n candidates that are within the limit; return how many those are."""
    m = 0
    for j in range(n):
        if kept[j] <= top:
            columns[m], kept[m] = columns[j], kept[j]
            m += 1
    return m


@compiled
def _replace_largest(heap, value):  # type: ignore[no-untyped-def]
    """Put a smaller value in the place of the heap's largest."""
    at = 0
    while 2 * at + 1 < len(heap):
        child = 2 * at + 1
        if child + 1 < len(heap) and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value


@compiled
def _take(group, begin, far, x, unit, tiny, top, heap, columns, kept, n):  # type: ignore[no-untyped-def]
    """Add one row's hits of one group; return how many candidates there are, and the limit."""
    room = len(columns)
    for j in range(GROUP):
        if group[j] > top:
            continue
        if n == room:
            n = _within(columns, kept, n, top)
            if n > room // 2:
                return -1, top
        columns[n], kept[n] = begin + j, group[j]
        n += 1
        y = far[begin + j]
        upper = group[j] + (unit * y * (2.0 * x + y) + tiny)
        if upper < heap[0]:
            _replace_largest(heap, upper)
            if heap[0] < np.inf:
                # No neighbour lies farther from the centre than this.
                y = x + math.sqrt(max(heap[0] + x * x, 0.0))
                top = min(top, np.float32(heap[0] + (unit * y * (2.0 * x + y) + tiny)))
    return n, top


@compiled
def collect(  # type: ignore[no-untyped-def]
    values, begin, far, own, unit, tiny, limit, heap, columns, kept, filled
):
    """Collect the values within each row's limit, and lower the limit to the k-th smallest so far.

    Parameters
    ----------
    values : (b, c) float32, ‖y‖²−2x·y of c points, c a multiple of 64; infinite where there is no point
    begin : position of the first of these points
    far, own : (N,) and (b,) float64, norms of the points and of the queries
    unit, tiny : float64, twice the error of a value is unit·‖y‖·(2‖x‖ + ‖y‖) + tiny
    limit : (b,) float32, finite. Changed in place.
    heap : (b, k) float64, the k smallest upper bounds, largest first. Changed in place.
    columns, kept : (b, r) int32 and float32, positions and values of candidates. Changed in place.
    filled : (b,) int, how many candidates; −1 once they were too many. Changed in place.
    """
    for i in range(values.shape[0]):
        n, top = filled[i], limit[i]
        for start in range(0, values.shape[1], GROUP):
            if n < 0:
                break
            group = values[i, start : start + GROUP]
            hits = np.int32(0)
            for j in range(GROUP):
                hits += np.int32(group[j] <= top)
            if hits > 0:
                n, top = _take(group, begin + start, far, own[i], unit, tiny, top, heap[i], columns[i], kept[i], n)
        filled[i], limit[i] = n, top


@compiled
def add_differing(values, codes, own, weight):  # type: ignore[no-untyped-def]
    """Add to each value ``weight`` times the number of levels in which query and point differ.

    Parameters
    ----------
    values : (b, c) float32. Changed in place.
    codes, own : (g, m) and (g, b) uint8, levels of m points, at most c, and of the queries; g at most 255
    weight : float32
    """
    differing = np.empty(codes.shape[1], dtype=np.uint8)
    for i in range(values.shape[0]):
        differing[:] = 0
        for group in range(codes.shape[0]):
            level, levels = own[group, i], codes[group]
            for j in range(len(differing)):
                differing[j] += np.uint8(levels[j] != level)
        for j in range(len(differing)):
            values[i, j] += weight * np.float32(differing[j])


@compiled
def settle(limit, columns, kept, filled, k):  # type: ignore[no-untyped-def]
    """Return the pairs (row, position) within the final limits; k positions as they come where too many."""
    total = 0
    for i in range(len(filled)):
        if filled[i] < 0:
            total += k
        else:
            filled[i] = _within(columns[i], kept[i], filled[i], limit[i])
            total += filled[i]
    rows, neighbours = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    at = 0
    for i in range(len(filled)):
        for j in range(k if filled[i] < 0 else filled[i]):
            rows[at], neighbours[at] = i, j if filled[i] < 0 else columns[i, j]
            at += 1
    return rows, neighbours
