"""Assignment of records to levels with prescribed counts and the largest total score.

This is a transport problem whose dual has one price per level. An assignment that meets the counts is optimal if
and only if there are prices under which every record sits at a level of largest score minus price; that
certificate is what the code below works towards, and checks before it returns.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import NotConvergedError

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Scores = NDArray[np.int64]

# Scores become integers of this many bits, so that ties, prices and the certificate are exact.
_BITS = 50
_FAR = np.int64(2**61)
_SMALL = 1024


def assign_levels(scores: Floats, counts: NDArray[np.integer]) -> Integers:
    """Give every record a level: prescribed counts, the largest possible total score.

    Parameters
    ----------
    scores : (N, q) float
        What record i is worth at level j, finite, in any unit common to all columns.
    counts : (q,) int
        Records per level, summing to N; zeros allowed.

    Returns
    -------
    (N,) int
        Level of each record, 0..q-1.

    Raises
    ------
    NotConvergedError
        If no certificate was found, which would be a fault of this function.

    Notes
    -----
    Claim: counts exact; total score the largest possible, up to rounding scores to 2^-50 of the largest
    difference between two scores of one record. Deterministic; equal scores are resolved by level and by record
    order. No N x N array: time and memory grow with N q.

    Prices come from a quarter of the records, itself solved in the same way. Under them all but about sqrt(N)
    records already sit right; those are moved along shortest paths on the graph of the q levels, where the edge
    from a to b costs the least loss of a record that goes from a to b (successive shortest paths: Ahuja,
    Magnanti & Orlin 1993, section 9.7). Only records with small losses are looked at, more if the certificate fails.

    Source: the calibrated release of nominal variables. Departs from Lasko & Vinterbo (2010), section IV-A, where
    the largest score decides and rare levels vanish.

    Examples
    --------
    >>> assign_levels(np.array([[3.0, 0.0], [2.0, 1.5], [1.0, 0.0]]), np.array([2, 1])).tolist()
    [0, 1, 0]
    """
    used = np.flatnonzero(counts)
    if used.size == 2:
        preference = scores[:, used[1]] - scores[:, used[0]]
        levels = np.full(len(scores), used[1])
        levels[np.argsort(preference, kind="stable")[: counts[used[0]]]] = used[0]
        return levels
    levels, _ = _solve(_as_integers(scores[:, used].T), np.asarray(counts)[used].astype(np.int64))
    return used[levels]


def _as_integers(scores: Floats) -> Scores:
    losses = scores - scores.max(axis=0)
    largest = -losses.min(initial=0.0)
    return np.rint(losses * (2.0**_BITS / largest if largest else 0.0)).astype(np.int64)


def _solve(scores: Scores, counts: Scores) -> tuple[Integers, Scores]:
    """Optimal levels and prices for (q, N) integer scores."""
    n_levels, n_records = scores.shape
    prices = np.zeros(n_levels, dtype=np.int64)
    if n_records > _SMALL:
        # Every fourth record on average, spread evenly whatever the period of the data (Fibonacci hashing).
        sample = np.arange(n_records, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(62) == 0
        prices = _solve(scores[:, sample], _apportion(counts, int(sample.sum())))[1]

    net = scores - prices[:, None]
    levels = net.argmax(axis=0)
    movable = np.flatnonzero((net == net.max(axis=0)).sum(axis=0) > 1)
    ceilings = prices[:, None] - prices + 1
    length = 16 + int(FAC * np.sqrt(n_records) / n_levels)
    while True:
        levels, prices = _balance(scores, levels, prices, counts, movable, ceilings)
        if np.array_equal(np.bincount(levels, minlength=n_levels), counts):
            break
        movable, ceilings = _shortlist(scores, levels, length)
        length *= 2
    return levels, prices


def _apportion(counts: Scores, total: int) -> Scores:
    """Scale counts to a total, by largest remainders."""
    exact = counts * (total / counts.sum())
    result = np.floor(exact).astype(np.int64)
    result[np.argsort(result - exact, kind="stable")[: total - result.sum()]] += 1
    return result


def _shortlist(scores: Scores, levels: Integers, length: int) -> tuple[Integers, Scores]:
    """For every ordered pair of levels, the ``length`` records that lose least by going from one to the other."""
    wanted = np.zeros(levels.size, dtype=bool)
    ceilings = np.full((len(scores), len(scores)), _FAR)
    for level in range(len(scores)):
        members = np.flatnonzero(levels == level)
        if members.size <= length:
            wanted[members] = True
            continue
        for other in range(len(scores)):
            if other != level:
                loss = scores[level, members] - scores[other, members]
                nearest = np.argpartition(loss, length - 1)[:length]
                wanted[members[nearest]] = True
                ceilings[level, other] = loss[nearest[-1]]
    return np.flatnonzero(wanted), ceilings


def _balance(
    scores: Scores, levels: Integers, prices: Scores, counts: Scores, movable: Integers, ceilings: Scores
) -> tuple[Integers, Scores]:
    """Move movable records along shortest paths from overfull to underfull levels.

    Records that are not movable lose at least ``ceilings``. A path over an edge at its ceiling would need one of
    them, so that is where to stop; levels and prices fit each other at any time.
    """
    surplus = np.bincount(levels, minlength=len(counts)) - counts
    rows, at = np.ascontiguousarray(scores[:, movable].T), levels[movable]
    losses = np.stack([_least_losses(rows, at, level) for level in range(len(counts))])
    while surplus.any():
        costs = np.minimum(losses, ceilings) - prices[:, None] + prices
        path, distances = _shortest_path(costs, surplus > 0, surplus < 0)
        if any(losses[edge] > ceilings[edge] for edge in pairwise(path)):
            break
        prices = prices - distances
        movers = [_movers(rows, at, a, b, losses[a, b]) for a, b in pairwise(path)]
        amount = min(surplus[path[0]], -surplus[path[-1]], *(m.size for m in movers))
        for level, m in zip(path[1:], movers, strict=True):
            at[m[:amount]] = level
        surplus[path[0]] -= amount
        surplus[path[-1]] += amount
        for level in path:
            losses[level] = _least_losses(rows, at, level)
    levels = levels.copy()
    levels[movable] = at
    return levels, prices


def _least_losses(rows: Scores, at: Integers, level: int) -> Scores:
    """Least score that a record of this level gives up by moving, for every destination."""
    members = rows[np.flatnonzero(at == level)]
    return (members[:, level, None] - members).min(axis=0, initial=_FAR)


def _movers(rows: Scores, at: Integers, level: int, other: int, loss: np.int64) -> Integers:
    """Records of a level that go to another one at exactly this loss."""
    members = np.flatnonzero(at == level)
    return members[rows[members, level] - rows[members, other] == loss]


def _shortest_path(
    costs: Scores, sources: NDArray[np.bool_], targets: NDArray[np.bool_]
) -> tuple[list[int], Scores]:
    """Dijkstra from any source to the nearest target; distances beyond it are cut off there."""
    distances = np.where(sources, np.int64(0), _FAR)
    parents = np.full(len(costs), -1)
    waiting = np.ones(len(costs), dtype=bool)
    while True:
        nearest = int(np.where(waiting, distances, 2 * _FAR).argmin())
        if targets[nearest]:
            break
        waiting[nearest] = False
        through = distances[nearest] + costs[nearest]
        closer = through < distances
        distances[closer], parents[closer] = through[closer], nearest
    path = [nearest]
    while parents[path[-1]] >= 0:
        path.append(int(parents[path[-1]]))
    return path[::-1], np.minimum(distances, distances[nearest])
