"""Compiled part of `anoncore.kernels.mdav`: groups are peeled off records that are kept in blocks.

A block holds up to B neighbouring records, columns first. Its bounding box gives limits on the distances of
all its records to any point. The limits are sums of squares in the order of the distances themselves, and
rounding is monotone: they hold for the computed distances exactly, and no block is skipped that could matter.

Distances are compared as the integers of the same bits, which order non-negative floats alike and whose
extremes are found several times as fast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anoncore.kernels._compiled import compiled

WIDTH = 8  # distances are computed in full vectors; what lies behind the last record is not looked at
SLACK = 1.0 + 1e-9  # above the rounding error of a distance
TINY = 1e-150  # above the underflow of a distance


class Blocks(NamedTuple):
    """Records in blocks, all changed in place as groups are taken.

    data : (blocks, t, B) float, index : (blocks, B) int, counts : (blocks,) int
        Records, their row numbers and how many there are in each block.
    where : (N,) int
        Place of each row, block * B + slot.
    sums : (t,) int, factors : (t,) float
        Sums of the records that are left, in units of 1 / factors.
    labels : (N,) int
        Filled for the groups taken.
    """

    data: Any
    index: Any
    counts: Any
    where: Any
    sums: Any
    factors: Any
    labels: Any


@compiled
def peel(blocks, low, high, k, floor, label):  # type: ignore[no-untyped-def]
    """Take pairs of groups off until fewer than ``floor`` records are left; return the next free label.

    Parameters
    ----------
    blocks : Blocks
    low, high : (t, blocks) float
        Bounding boxes of the blocks.
    k, floor : int
        Group size, at least 2, and at least 3k.
    label : int
        Of the first group.
    """
    number, columns, size = blocks.data.shape
    distances = np.empty(size)
    nearest, farthest = np.empty(number), np.empty(number)
    reach, seen_from = np.full(number, np.inf), np.zeros((columns, number))
    keys, rows = np.empty(k - 1, np.int64), np.empty(k - 1, np.int64)
    point, unused = np.empty(columns), np.empty(columns)
    left = np.int64(0)
    for b in range(number):
        left += blocks.counts[b]
    while left >= floor:
        for j in range(columns):
            point[j] = blocks.sums[j] / left / blocks.factors[j]
        row = _farthest_from_centroid(blocks, point, reach, seen_from, farthest, distances)
        for second in range(2):
            home = blocks.where[row] // size
            _take(row, label, blocks, point)
            _box_limits(low, high, point, nearest, farthest)
            if second == 0:
                row = _farthest_and_nearest(blocks, point, home, (nearest, farthest), distances, (keys, rows))
            else:
                _nearest(blocks, point, home, nearest, distances, (keys, rows))
            for i in range(k - 1):
                _take(rows[i], label, blocks, unused)
                if second == 0 and rows[i] == row:
                    # All the others are just as far away.
                    row = np.int64(-1)
            if row < 0:
                row = _first(blocks.index, blocks.counts)
            label += 1
        left -= 2 * k
    return label


@compiled
def _take(row, label, blocks, point):  # type: ignore[no-untyped-def]
    """Remove a record, whose values go to ``point``; the last one of its block moves to its place."""
    data, index, counts, where, sums, factors, labels = blocks
    size = index.shape[1]
    block, slot = where[row] // size, where[row] % size
    counts[block] -= 1
    last = counts[block]
    for j in range(data.shape[1]):
        value = data[block, j, slot]
        point[j] = value
        sums[j] -= np.int64(np.rint(value * factors[j]))
        data[block, j, slot] = data[block, j, last]
    moved = index[block, last]
    index[block, slot] = moved
    where[moved] = block * size + slot
    labels[row] = label


@compiled
def _first(index, counts):  # type: ignore[no-untyped-def]
    first = np.int64(-1)
    for b in range(len(counts)):
        for i in range(counts[b]):
            if first < 0 or index[b, i] < first:
                first = index[b, i]
    return first


@compiled
def _measure(block, point, count, out):  # type: ignore[no-untyped-def]
    """Squared distances, added up column by column; return the least and the greatest as integers."""
    full = (count + WIDTH - 1) // WIDTH * WIDTH
    for i in range(full):
        delta = block[0, i] - point[0]
        out[i] = delta * delta
    for j in range(1, len(point)):
        for i in range(full):
            delta = block[j, i] - point[j]
            out[i] += delta * delta
    keys = out.view(np.int64)
    least = greatest = keys[0]
    for i in range(count):
        least = min(least, keys[i])
        greatest = max(greatest, keys[i])
    return least, greatest


@compiled
def _box_limits(low, high, point, nearest, farthest):  # type: ignore[no-untyped-def]
    """Least and greatest squared distance that a record in each block can have."""
    nearest[:] = 0.0
    farthest[:] = 0.0
    for j in range(len(point)):
        for b in range(len(nearest)):
            below, above = low[j, b] - point[j], point[j] - high[j, b]
            outside = below if below > above else above
            outside = outside if outside > 0.0 else 0.0
            across = above if above < below else below
            nearest[b] += outside * outside
            farthest[b] += across * across


@compiled
def _farthest_from_centroid(blocks, point, reach, seen_from, limits, distances):  # type: ignore[no-untyped-def]
    """Row of the farthest record, the first of equals.

    A block's farthest record was at distance ``reach`` of ``seen_from``: it is now at most as much farther
    away as the centroid has moved.
    """
    data, index, counts = blocks.data, blocks.index, blocks.counts
    number = len(counts)
    limits[:] = 0.0
    for j in range(len(point)):
        for b in range(number):
            delta = seen_from[j, b] - point[j]
            limits[b] += delta * delta
    for b in range(number):
        limits[b] = ((np.sqrt(limits[b]) + reach[b]) * SLACK + TINY) ** 2
    keys, far = distances.view(np.int64), limits.view(np.int64)
    start = 0
    for b in range(1, number):
        if far[b] > far[start]:
            start = b
    most, row = np.int64(-1), np.int64(-1)
    for step in range(number):
        b = (start + step) % number
        count = counts[b]
        if count == 0 or far[b] < most:
            continue
        greatest = _measure(data[b], point, count, distances)[1]
        if greatest >= most:
            row = _first_at(keys, index[b], count, greatest, most, row)
            most = greatest
        reach[b] = np.sqrt(_as_float(greatest))
        for j in range(len(point)):
            seen_from[j, b] = point[j]
    return row


@compiled
def _as_float(key):  # type: ignore[no-untyped-def]
    return np.array([key], np.int64).view(np.float64)[0]


@compiled
def _first_at(keys, index, count, greatest, most, row):  # type: ignore[no-untyped-def]
    """First of the rows at ``greatest``, and of ``row`` if that is at the same distance."""
    if greatest > most:
        row = np.int64(-1)
    for i in range(count):
        if keys[i] == greatest and (row < 0 or index[i] < row):
            row = index[i]
    return row


@compiled
def _farthest_and_nearest(blocks, point, home, limits, distances, heap):  # type: ignore[no-untyped-def]
    """Fill the heap with the nearest records, return the farthest: the first of equals in both."""
    data, index, counts = blocks.data, blocks.index, blocks.counts
    (nearest, farthest), (best, rows) = limits, heap
    keys, near, far = distances.view(np.int64), nearest.view(np.int64), farthest.view(np.int64)
    held, most, row = 0, np.int64(-1), np.int64(-1)
    for step in range(-1, len(counts)):
        b = home if step < 0 else step
        count = counts[b]
        if step == home or count == 0:
            continue
        if held == len(best) and near[b] > best[0] and far[b] < most:
            continue
        least, greatest = _measure(data[b], point, count, distances)
        if greatest >= most:
            row = _first_at(keys, index[b], count, greatest, most, row)
            most = greatest
        if held < len(best) or least <= best[0]:
            held = _hold(keys, index[b], count, best, rows, held)
    return row


@compiled
def _nearest(blocks, point, home, nearest, distances, heap):  # type: ignore[no-untyped-def]
    """Fill the heap with the nearest records, the first of equals."""
    data, index, counts, (best, rows) = blocks.data, blocks.index, blocks.counts, heap
    keys, near = distances.view(np.int64), nearest.view(np.int64)
    held = 0
    for step in range(-1, len(counts)):
        b = home if step < 0 else step
        count = counts[b]
        if step == home or count == 0 or (held == len(best) and near[b] > best[0]):
            continue
        least = _measure(data[b], point, count, distances)[0]
        if held < len(best) or least <= best[0]:
            held = _hold(keys, index[b], count, best, rows, held)


@compiled
def _hold(keys, index, count, best, rows, held):  # type: ignore[no-untyped-def]
    """Keep the nearest in a heap with the farthest on top, the last of equals; return how many there are."""
    for i in range(count):
        if held < len(best):
            _rise(best, rows, held, keys[i], index[i])
            held += 1
        elif _before(keys[i], index[i], best[0], rows[0]):
            _sink(best, rows, keys[i], index[i])
    return held


@compiled
def _before(key, row, other_key, other_row):  # type: ignore[no-untyped-def]
    return key < other_key or (key == other_key and row < other_row)


@compiled
def _rise(best, rows, place, key, row):  # type: ignore[no-untyped-def]
    """Add to the heap at its end."""
    while place > 0:
        parent = (place - 1) // 2
        if _before(key, row, best[parent], rows[parent]):
            break
        best[place], rows[place] = best[parent], rows[parent]
        place = parent
    best[place], rows[place] = key, row


@compiled
def _sink(best, rows, key, row):  # type: ignore[no-untyped-def]
    """Replace the top of the heap."""
    place, size = 0, len(best)
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _before(best[child], rows[child], best[child + 1], rows[child + 1]):
            child += 1
        if _before(best[child], rows[child], key, row):
            break
        best[place], rows[place] = best[child], rows[child]
        place = child
    best[place], rows[place] = key, row
