"""Compiled part of `anoncore.kernels.transport`: records move along shortest paths on the graph of levels."""

from __future__ import annotations

import numpy as np

from anoncore.kernels._compiled import compiled


@compiled
def balance(rows, at, surplus, prices, ceilings, far):  # type: ignore[no-untyped-def]
    """Move records from overfull to underfull levels, until none is left or a path needs records that are not here.

    Parameters
    ----------
    rows : (m, q) int64, scores
    at : (m,) int, the level of each record. Changed in place.
    surplus : (q,) int64, records that are too many at each level, negative where too few. Changed in place.
    prices : (q,) int64. Changed in place.
    ceilings : (q, q) int64, what records that are not here lose at least
    far : int64, more than any loss
    """
    q = rows.shape[1]
    losses = np.empty((q, q), dtype=np.int64)
    path, distances = np.empty(q, dtype=np.int64), np.empty(q, dtype=np.int64)
    for level in range(q):
        _least_losses(rows, at, level, far, losses[level])
    while surplus.any():
        steps = _shortest_path((losses, ceilings, prices, surplus), far, path, distances)
        for i in range(steps, 0, -1):
            if losses[path[i], path[i - 1]] > ceilings[path[i], path[i - 1]]:
                return
        for level in range(q):
            prices[level] -= min(distances[level], distances[path[0]])
        amount = min(surplus[path[steps]], -surplus[path[0]])
        for i in range(steps, 0, -1):
            amount = min(amount, _movers(rows, at, path[i], path[i - 1], losses[path[i], path[i - 1]]))
        surplus[path[steps]] -= amount
        surplus[path[0]] += amount
        # The last edge first: who arrives at a level is not among those who leave it.
        for i in range(1, steps + 1):
            _move(rows, at, path[i], path[i - 1], losses[path[i], path[i - 1]], amount)
        for i in range(steps + 1):
            _least_losses(rows, at, path[i], far, losses[path[i]])


@compiled
def _least_losses(rows, at, level, far, least):  # type: ignore[no-untyped-def]
    """Write the least score that a record at this level gives up by moving, for every destination."""
    for other in range(len(least)):
        least[other] = far
    for i in range(len(at)):
        if at[i] == level:
            own = rows[i, level]
            for other in range(rows.shape[1]):
                least[other] = min(least[other], own - rows[i, other])


@compiled
def _movers(rows, at, a, b, loss):  # type: ignore[no-untyped-def]
    """Count the records that go from level a to level b at exactly this loss."""
    count = 0
    for i in range(len(at)):
        if at[i] == a and rows[i, a] - rows[i, b] == loss:
            count += 1
    return count


@compiled
def _move(rows, at, a, b, loss, amount):  # type: ignore[no-untyped-def]
    """Move the first ``amount`` of them."""
    for i in range(len(at)):
        if amount == 0:
            return
        if at[i] == a and rows[i, a] - rows[i, b] == loss:
            at[i] = b
            amount -= 1


@compiled
def _shortest_path(state, far, path, distances):  # type: ignore[no-untyped-def]
    """Find the nearest level with too few records by Dijkstra's algorithm; write the path backwards, and distances.

    Return how many steps the path has.
    """
    losses, ceilings, prices, surplus = state
    q = len(prices)
    parents, waiting = np.empty(q, dtype=np.int64), np.empty(q, dtype=np.bool_)
    for level in range(q):
        distances[level], parents[level], waiting[level] = 0 if surplus[level] > 0 else far, -1, True
    while True:
        nearest = -1
        for level in range(q):
            if waiting[level] and (nearest < 0 or distances[level] < distances[nearest]):
                nearest = level
        if surplus[nearest] < 0:
            break
        waiting[nearest] = False
        for level in range(q):
            cost = min(losses[nearest, level], ceilings[nearest, level]) - prices[nearest] + prices[level]
            if distances[nearest] + cost < distances[level]:
                distances[level] = distances[nearest] + cost
                parents[level] = nearest
    path[0], steps = nearest, 0
    while parents[path[steps]] >= 0:
        path[steps + 1] = parents[path[steps]]
        steps += 1
    return steps


@compiled
def shortlist(scores, levels, length, wanted, ceilings):  # type: ignore[no-untyped-def]
    """Mark, for every two levels a and b, the ``length`` records at a that lose least by going to b, the first of ties.

    Parameters
    ----------
    scores : (q, N) int64
    levels : (N,) int, the level of each record
    length : at least 1; of a level that no more records hold, all are marked
    wanted : (N,) bool, False. Changed in place.
    ceilings : (q, q) int64, what records that are not marked lose at least. Changed in place where there are such.
    """
    q = len(scores)
    losses, rows = np.empty((q, length), dtype=np.int64), np.empty((q, length), dtype=np.int64)
    held = np.zeros(q, dtype=np.int64)
    for i in range(len(levels)):
        held[levels[i]] += 1
    for a in range(q):
        seen = 0
        for i in range(len(levels)):
            if levels[i] == a and held[a] <= length:
                wanted[i] = True
            elif levels[i] == a:
                _listed(scores, a, i, seen, losses, rows)
                seen += 1
        for b in range(q if seen else 0):
            if b != a:
                ceilings[a, b] = losses[b, 0]
                for i in range(length):
                    wanted[rows[b, i]] = True


@compiled
def _listed(scores, a, row, seen, losses, rows):  # type: ignore[no-untyped-def]
    """Put one more record at a, after ``seen`` others, into the list of each level."""
    for b in range(len(losses)):
        loss = scores[a, row] - scores[b, row]
        if seen < losses.shape[1]:
            _raise(losses[b], rows[b], seen, loss, row)
        elif loss < losses[b, 0]:
            _lower(losses[b], rows[b], loss, row)


@compiled
def _raise(losses, rows, at, loss, row):  # type: ignore[no-untyped-def]
    """Add to a heap whose first element is the largest loss, of equal ones that of the last record."""
    while at > 0:
        above = (at - 1) // 2
        # Records come in their order: the new one is the last.
        if losses[above] > loss:
            break
        losses[at], rows[at] = losses[above], rows[above]
        at = above
    losses[at], rows[at] = loss, row


@compiled
def _lower(losses, rows, loss, row):  # type: ignore[no-untyped-def]
    """Put a smaller loss in the place of the largest of such a heap."""
    at = 0
    while 2 * at + 1 < len(losses):
        child = 2 * at + 1
        if child + 1 < len(losses):
            other = child + 1
            if losses[other] > losses[child] or (losses[other] == losses[child] and rows[other] > rows[child]):
                child = other
        if losses[child] < loss or (losses[child] == loss and rows[child] < row):
            break
        losses[at], rows[at] = losses[child], rows[child]
        at = child
    losses[at], rows[at] = loss, row
