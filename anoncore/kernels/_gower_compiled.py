"""Compiled part of `anoncore.kernels.gower`: groups are taken off the records that are left, which keep their order."""

from __future__ import annotations

import numpy as np

from anoncore.kernels._compiled import compiled


@compiled
def form_groups(x, number, levels, one, k, labels):  # type: ignore[no-untyped-def]
    """Write to ``labels`` (n,) the groups of the records ``x`` (p, n), which is changed; see `anoncore.kernels.gower`.

    ``number`` (p,) says which columns hold numbers, ``levels`` is above every other code.
    """
    p, left = x.shape
    rows = np.arange(left)
    away, taken = np.empty(left, dtype=np.int64), np.zeros(left, dtype=np.bool_)
    point, near = np.empty(p, dtype=np.int64), np.empty(k - 1, dtype=np.int64)
    # Of numbers how many are missing, and the sum of the others; of levels how many records hold each, missing first.
    held = np.zeros((p, max(levels + 1, 2)), dtype=np.int64)
    for v in range(p):
        for i in range(left):
            _count(held[v], number[v], x[v, i], 1)
    label = 0
    while left >= 2 * k:
        _centre(held, number, left, point)
        _distances(x, number, one, left, point, away)
        at = away[:left].argmax()
        for _ in range(2 if left >= 3 * k else 1):
            for v in range(p):
                point[v] = x[v, at]
            taken[at] = True
            _distances(x, number, one, left, point, away)
            _nearest(away, taken, left, near)
            labels[rows[at]] = label
            for i in near:
                taken[i] = True
                labels[rows[i]] = label
            label += 1
            at = _farthest(away, taken, left)
        left = _compact(x, number, held, rows, taken, left)
    for i in range(left):
        labels[rows[i]] = label


@compiled
def _count(held, number, value, sign):  # type: ignore[no-untyped-def]
    if not number:
        held[value + 1] += sign
    elif value < 0:
        held[0] += sign
    else:
        held[1] += sign * value


@compiled
def _centre(held, number, left, point):  # type: ignore[no-untyped-def]
    """Write the mean of each number, missing where most are, and the commonest level of the others."""
    for v in range(len(point)):
        if number[v]:
            missing = held[v, 0]
            point[v] = -1 if 2 * missing > left else held[v, 1] // (left - missing)
        else:
            point[v] = held[v].argmax() - 1


@compiled
def _distances(x, number, one, left, point, away):  # type: ignore[no-untyped-def]
    """Write the distances of the records from a point, in units of 1 / ``one``; missing is a value of its own."""
    away[:left] = 0
    for v in range(len(point)):
        column, value = x[v], point[v]
        if not number[v]:
            for i in range(left):
                away[i] += one if column[i] != value else 0
        elif value < 0:
            for i in range(left):
                away[i] += one if column[i] >= 0 else 0
        else:
            for i in range(left):
                away[i] += one if column[i] < 0 else abs(column[i] - value)


@compiled
def _nearest(away, taken, left, near):  # type: ignore[no-untyped-def]
    """Write the nearest records that are not taken, of equally near ones the first."""
    size, most = 0, np.int64(2**62)
    for i in range(left):
        if away[i] >= most or taken[i]:
            continue
        j = size if size < len(near) else len(near) - 1
        while j > 0 and away[near[j - 1]] > away[i]:
            near[j] = near[j - 1]
            j -= 1
        near[j] = i
        size = min(size + 1, len(near))
        if size == len(near):
            most = away[near[size - 1]]


@compiled
def _farthest(away, taken, left):  # type: ignore[no-untyped-def]
    """Return the farthest record that is not taken, of equally far ones the first."""
    best = np.int64(-1)
    for i in range(left):
        if not taken[i] and (best < 0 or away[i] > away[best]):
            best = np.int64(i)
    return best


@compiled
def _compact(x, number, held, rows, taken, left):  # type: ignore[no-untyped-def]
    """Remove the records that are taken; return how many are left."""
    to = 0
    for i in range(left):
        if taken[i]:
            for v in range(len(number)):
                _count(held[v], number[v], x[v, i], -1)
        else:
            rows[to] = rows[i]
            to += 1
    for v in range(len(number)):
        at = 0
        for i in range(left):
            if not taken[i]:
                x[v, at] = x[v, i]
                at += 1
    taken[:left] = False
    return to
