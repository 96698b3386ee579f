"""Compiled part of `anoncore.kernels.donor_tree`: trees grown from counted cells, and the leaves of records."""

from __future__ import annotations

import numpy as np

from anoncore.kernels._compiled import compiled


@compiled
def leaves(predictors, feature, threshold, left, right):  # type: ignore[no-untyped-def]
    """Return the leaf of each row of ``predictors`` (N, p)."""
    found = np.zeros(len(predictors), np.intp)
    for i in range(len(predictors)):
        node = 0
        while left[node] >= 0:
            node = left[node] if predictors[i, feature[node]] <= threshold[node] else right[node]
        found[i] = node
    return found


@compiled
def cells(values, cuts, starts):  # type: ignore[no-untyped-def]
    """Return (N,) uint8, how many of the ascending ``cuts`` lie below each value; at most 255 cuts.

    ``starts`` says for equal parts of the range of the cuts how many of them lie before the part.
    """
    placed, last, parts = np.zeros(len(values), np.uint8), len(cuts), len(starts)
    scale = parts / (cuts[last - 1] - cuts[0]) if cuts[last - 1] > cuts[0] else 0.0
    for i in range(len(values)):
        if values[i] > cuts[last - 1]:
            placed[i] = last
            continue
        at = starts[min(max(int((values[i] - cuts[0]) * scale), 0), parts - 1)]
        while at > 0 and cuts[at - 1] >= values[i]:
            at -= 1
        while cuts[at] < values[i]:
            at += 1
        placed[i] = at
    return placed


@compiled
def grown(table, target, weights, classes, least):  # type: ignore[no-untyped-def]
    """Grow a tree from (p, N) uint8 cells; every split is the best of all between cells.

    Parameters
    ----------
    table : (p, N) uint8
    target : (N,) float64, numbers, or classes 0 … q − 1
    weights : (N,) float64
    classes : q, or 0 for numbers
    least : smallest weight of a leaf

    Returns
    -------
    left, right (−1 in a leaf), feature, cell (rows in it and before go left), weight, and impurity of each node: the
    mean squared distance from the mean, or Gini's
    """
    n = len(target)
    # Leaves hold at least ``least``, and there is one node less inside than there are leaves.
    capacity = 2 * min(n, int(weights.sum() / least) + 1)
    left, right = np.empty(capacity, np.intp), np.empty(capacity, np.intp)
    feature, cell = np.empty(capacity, np.intp), np.empty(capacity, np.intp)
    size, impurity = np.empty(capacity), np.empty(capacity)
    spans = np.empty((capacity, 2), np.intp)
    order, spare = np.arange(n), np.empty(n, np.intp)
    sums = np.zeros((256, max(classes, 1) + 1))
    spans[0, 0], spans[0, 1], nodes, node = 0, n, 1, 0
    while node < nodes:
        rows = order[spans[node, 0] : spans[node, 1]]
        values, w = target[rows], weights[rows]
        size[node], impurity[node] = _impurity(values, w, sums[0], classes)
        left[node], right[node], feature[node], cell[node] = -1, -1, 0, 0
        if size[node] >= 2.0 * least and impurity[node] > 1e-12:
            feature[node], cell[node] = _best(table, (rows, values, w), sums, classes, least)
            if feature[node] >= 0:
                middle = spans[node, 0] + _divided(table[feature[node]], rows, cell[node], spare)
                left[node], right[node] = nodes, nodes + 1
                spans[nodes, 0], spans[nodes, 1] = spans[node, 0], middle
                spans[nodes + 1, 0], spans[nodes + 1, 1] = middle, spans[node, 1]
                nodes += 2
        node += 1
    return left[:nodes], right[:nodes], feature[:nodes], cell[:nodes], size[:nodes], impurity[:nodes]


@compiled
def _impurity(target, weights, sums, classes):  # type: ignore[no-untyped-def]
    """Return the weight of rows, and their impurity."""
    sums[:] = 0.0
    size, squares = 0.0, 0.0
    for i in range(len(target)):
        size += weights[i]
        if classes == 0:
            sums[0] += weights[i] * target[i]
            squares += weights[i] * target[i] ** 2
        else:
            sums[int(target[i])] += weights[i]
    total = squares / size if classes == 0 else 1.0
    for c in range(max(classes, 1)):
        total -= (sums[c] / size) ** 2
    sums[:] = 0.0
    return size, max(total, 0.0)


@compiled
def _best(table, sample, sums, classes, least):  # type: ignore[no-untyped-def]
    """Return the predictor and the cell of the best split, −1 where no split leaves enough on both sides.

    ``sample`` holds rows, and the targets and weights of these. ``sums`` is zero before and after.
    """
    rows, target, weights = sample
    width = max(classes, 1)
    before, whole = np.zeros(width + 1), np.zeros(width + 1)
    feature, cell, best = -1, 0, -np.inf
    for j in range(len(table)):
        low, high = _counted(table[j], rows, target, weights, sums, classes)
        if j == 0:
            for at in range(low, high + 1):
                for c in range(width + 1):
                    whole[c] += sums[at, c]
        before[:] = 0.0
        for at in range(low, high + 1):
            for c in range(width + 1):
                before[c] += sums[at, c]
                sums[at, c] = 0.0
            after = whole[width] - before[width]
            if at < high and before[width] >= least and after >= least:
                value = 0.0
                for c in range(width):
                    value += before[c] ** 2 / before[width] + (whole[c] - before[c]) ** 2 / after
                if value > best:
                    feature, cell, best = j, at, value
    return feature, cell


@compiled
def _counted(column, rows, target, weights, sums, classes):  # type: ignore[no-untyped-def]
    """Add rows to the sums of their cells, the weight last; return the lowest and the highest of the cells."""
    low, high, last = 255, 0, max(classes, 1)
    for place in range(len(rows)):
        at, w = column[rows[place]], weights[place]
        low, high = min(low, at), max(high, at)
        sums[at, last] += w
        if classes == 0:
            sums[at, 0] += w * target[place]
        else:
            sums[at, int(target[place])] += w
    return low, high


@compiled
def _divided(column, rows, cell, spare):  # type: ignore[no-untyped-def]
    """Move rows up to a cell before the others, each part in its order; return how many they are."""
    first, last = 0, 0
    for i in rows:
        if column[i] <= cell:
            rows[first] = i
            first += 1
        else:
            spare[last] = i
            last += 1
    for i in range(last):
        rows[first + i] = spare[i]
    return first
