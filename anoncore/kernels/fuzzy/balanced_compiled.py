"""Compiled inner loops of balanced entropy c-means: costs, one scaling pass, dependent rounding."""

from __future__ import annotations

import numpy as np

from anoncore.kernels._compiled import compiled

FAINT = 60.0  # exponents this far below a row's largest count as no mass
SNAP = 1e-9  # a value this close to 0 or 1 is 0 or 1


@compiled
def fill_costs(x, centers, indptr, columns, costs):  # type: ignore[no-untyped-def]
    """Fill ``costs`` (E,) with the squared distances of the graph's edges."""
    for j in range(len(indptr) - 1):
        for e in range(indptr[j], indptr[j + 1]):
            i = columns[e]
            total = 0.0
            for s in range(x.shape[1]):
                total += (x[j, s] - centers[i, s]) ** 2
            costs[e] = total


@compiled
def scale_rows(indptr, columns, costs, lam, prices, plan, column_sums):  # type: ignore[no-untyped-def]
    """Fill ``plan`` with the rows' softmax of prices - lam costs and its column sums; return Σ logs."""
    total = 0.0
    column_sums[:] = 0.0
    for j in range(len(indptr) - 1):
        start, stop = indptr[j], indptr[j + 1]
        largest = -np.inf
        for e in range(start, stop):
            plan[e] = prices[columns[e]] - lam * costs[e]
            largest = max(largest, plan[e])
        mass = 0.0
        for e in range(start, stop):
            gap = plan[e] - largest
            plan[e] = np.exp(gap) if gap > -FAINT else 0.0
            mass += plan[e]
        for e in range(start, stop):
            plan[e] /= mass
            column_sums[columns[e]] += plan[e]
        total += largest + np.log(mass)
    return total


@compiled
def logs(values):  # type: ignore[no-untyped-def]
    """Return the logarithms (c,): those of numpy differ between processors in the last digit."""
    result = np.empty(len(values))
    for i in range(len(values)):
        result[i] = np.log(values[i])
    return result


@compiled
def column_logs(indptr, columns, costs, lam, prices):  # type: ignore[no-untyped-def]
    """Return the logs (c,) of the column sums of that softmax, without underflow."""
    tops = np.full(len(prices), -np.inf)
    sums = np.zeros(len(prices))
    logs = np.empty(len(indptr) - 1)
    for j in range(len(indptr) - 1):
        largest = -np.inf
        for e in range(indptr[j], indptr[j + 1]):
            largest = max(largest, prices[columns[e]] - lam * costs[e])
        mass = 0.0
        for e in range(indptr[j], indptr[j + 1]):
            gap = prices[columns[e]] - lam * costs[e] - largest
            mass += np.exp(gap) if gap > -FAINT else 0.0
        logs[j] = largest + np.log(mass)
        for e in range(indptr[j], indptr[j + 1]):
            i = columns[e]
            tops[i] = max(tops[i], prices[i] - lam * costs[e] - logs[j])
    for j in range(len(indptr) - 1):
        for e in range(indptr[j], indptr[j + 1]):
            i = columns[e]
            gap = prices[i] - lam * costs[e] - logs[j] - tops[i]
            if gap > -FAINT:
                sums[i] += np.exp(gap)
    return tops + np.log(sums)


@compiled
def _next_edge(edges, starts, alive, values, vertex, arrived):  # type: ignore[no-untyped-def]
    """Return a fractional edge of the vertex other than ``arrived``, or -1; dead edges are dropped."""
    start = starts[vertex]
    last = start + alive[vertex] - 1
    while last >= start:
        e = edges[last]
        if values[e] == 0.0 or values[e] == 1.0:
            alive[vertex] -= 1
            last -= 1
            continue
        if e != arrived:
            return e
        # The edge arrived by goes to the front of the list, so that it is met only once.
        if last == start:
            return -1
        edges[last], edges[start] = edges[start], edges[last]
        if edges[last] == arrived:
            return -1
    return -1


@compiled
def _push(path_edges, first, length, values, uniform):  # type: ignore[no-untyped-def]
    """Push mass round the cycle in an unbiased way; return the place of the first edge made integral."""
    up, down = 1.0, 1.0
    for p in range(first, length):
        value = values[path_edges[p]]
        if (p - first) % 2 == 0:
            up, down = min(up, 1.0 - value), min(down, value)
        else:
            up, down = min(up, value), min(down, 1.0 - value)
    change = up if uniform * (up + down) < down else -down
    settled = length
    for p in range(first, length):
        e = path_edges[p]
        value = values[e] + (change if (p - first) % 2 == 0 else -change)
        if value < SNAP:
            value = 0.0
        elif value > 1.0 - SNAP:
            value = 1.0
        values[e] = value
        if settled == length and (value == 0.0 or value == 1.0):
            settled = p
    return settled


@compiled
def round_edges(rows, columns, values, edges, starts, uniforms):  # type: ignore[no-untyped-def]
    """Round ``values`` (E,) in place to 0 and 1.

    Vertices are the records, then the clusters; ``edges[starts[v]:starts[v + 1]]`` are those at v.
    ``columns`` holds vertex numbers.
    """
    vertices = len(starts) - 1
    alive = starts[1:] - starts[:-1]
    place = np.full(vertices, -1)
    path, path_edges = np.empty(vertices + 1, np.int64), np.empty(vertices + 1, np.int64)
    for e in range(len(values)):
        if values[e] < SNAP:
            values[e] = 0.0
        elif values[e] > 1.0 - SNAP:
            values[e] = 1.0
    drawn = 0
    for origin in range(vertices):
        path[0], place[origin], length = origin, 0, 0
        while True:
            vertex = path[length]
            arrived = path_edges[length - 1] if length else -1
            e = _next_edge(edges, starts, alive, values, vertex, arrived)
            if e < 0:
                place[vertex] = -1
                if length == 0:
                    break
                # A vertex with one fractional edge: its sum is whole, so only rounding errors are lost.
                values[arrived] = 1.0 if values[arrived] > 0.5 else 0.0
                length -= 1
                continue
            other = columns[e] if rows[e] == vertex else rows[e]
            path_edges[length] = e
            if place[other] < 0:
                length += 1
                path[length], place[other] = other, length
                continue
            settled = _push(path_edges, place[other], length + 1, values, uniforms[drawn])
            drawn += 1
            for p in range(settled + 1, length + 1):
                place[path[p]] = -1
            length = min(length, settled)
