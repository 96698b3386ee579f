"""Assignment of records to levels with prescribed counts and the largest total score.

This is a transport problem whose dual has one price per level. An assignment that meets the counts is optimal
if and only if there are prices under which every record sits at a level of largest score minus price. The
code below keeps that second condition true throughout and works towards the counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.ties import order_with_ties

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Scores = NDArray[np.int64]

# Scores become integers of this many bits, so that prices and losses are exact and rounding decides no tie.
_BITS = 32
_FAR = np.int64(2**61)
# Shortlists have this many records more than their share of sqrt(N).
_SPARE = 16
# Up to here a problem is solved from zero prices.
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

    Notes
    -----
    Claim: counts exact; total score the largest possible, with scores rounded to 2^-32 of the largest
    difference between two scores of one record. Deterministic; which of several equally good assignments is
    returned depends on record order. No N x N array: memory grows with N q.

    Prices are first found for a quarter of the records, by the same function. Under them all but some sqrt(N)
    of the records already sit right. These are moved along shortest paths on the graph of the q levels, where
    the edge from a to b costs the least loss of a record at a that goes to b (successive shortest paths:
    Ahuja, Magnanti & Orlin, Network Flows, 1993, section 9.7). Only records of small loss are looked at; when
    they are used up, new ones are listed. Two levels need only a sort.

    Source: the calibrated release of nominal variables. Departs from Lasko & Vinterbo (2010), section IV-A,
    where the largest score decides and rare levels vanish.

    Examples
    --------
    >>> assign_levels(np.array([[3.0, 0.0], [2.0, 1.5], [1.0, 0.0]]), np.array([2, 1])).tolist()
    [0, 1, 0]
    """
    used = np.flatnonzero(counts)
    if used.size < 2:
        return np.repeat(used, counts[used])
    if used.size == 2:
        preference = scores[:, used[1]] - scores[:, used[0]]
        levels = np.empty(len(scores), dtype=np.intp)
        levels[order_with_ties(preference)] = np.repeat(used, counts[used])
        return levels
    levels, _ = _solve(_as_integers(scores[:, used]), counts[used].astype(np.int64))
    return used[levels]


def _as_integers(scores: Floats) -> Scores:
    """Turn (N, q) scores into (q, N) integers, 0 for each record's best level."""
    losses = np.ascontiguousarray(scores.T)
    losses = losses - losses.max(axis=0)
    largest = -losses.min()
    return np.rint(losses * (2.0**_BITS / largest if largest > 0 else 0.0)).astype(np.int64)


def _solve(scores: Scores, counts: Scores) -> tuple[Integers, Scores]:
    """Find optimal levels and prices for (q, N) integer scores and positive counts."""
    n_levels, n_records = scores.shape
    prices = np.zeros(n_levels, dtype=np.int64)
    if n_records > _SMALL:
        # Every fourth record on average, spread evenly whatever period the data have (Fibonacci hashing).
        hashed = np.arange(n_records, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        sample = np.flatnonzero(hashed < np.uint64(2**62))
        # In the order of the whole: for another one the kernel would be compiled once more.
        _, prices = _solve(np.ascontiguousarray(scores[:, sample]), _apportion(counts, sample.size))

    net = scores - prices[:, None]
    levels = net.argmax(axis=0)
    # Records between two best levels move free of charge, all others at a loss of at least 1.
    movable = np.flatnonzero((net == net.max(axis=0)).sum(axis=0) > 1)
    ceilings = prices[:, None] - prices + 1
    length = _SPARE + int(np.sqrt(n_records) / n_levels)
    while True:
        levels, prices = _balance(scores, levels, prices, counts, movable, ceilings)
        if np.array_equal(np.bincount(levels, minlength=n_levels), counts):
            return levels, prices
        movable, ceilings = _shortlist(scores, levels, length)
        length *= 2


def _apportion(counts: Scores, total: int) -> Scores:
    """Scale counts to a total, by largest remainders."""
    exact = counts * (total / counts.sum())
    result = np.floor(exact).astype(np.int64)
    result[np.argsort(result - exact, kind="stable")[: total - result.sum()]] += 1
    return result


def _shortlist(scores: Scores, levels: Integers, length: int) -> tuple[Integers, Scores]:
    """List, for every ordered pair of levels, the ``length`` records that lose least by going from a to b.

    Of equal losses the first records are listed. Also returned, (q, q): what the records not listed lose at least.
    """
    from anoncore.kernels._transport_compiled import shortlist

    wanted = np.zeros(levels.size, dtype=bool)
    ceilings = np.full((len(scores), len(scores)), _FAR)
    shortlist(scores, levels, length, wanted, ceilings)
    return np.flatnonzero(wanted), ceilings


def _balance(
    scores: Scores, levels: Integers, prices: Scores, counts: Scores, movable: Integers, ceilings: Scores
) -> tuple[Integers, Scores]:
    """Move movable records along shortest paths from overfull to underfull levels.

    Records that are not movable lose at least ``ceilings``. A shortest path that no movable record can follow
    at its cost ends the work. Levels and prices fit each other at any time.
    """
    from anoncore.kernels._transport_compiled import balance

    surplus = np.bincount(levels, minlength=len(counts)) - counts
    rows, at, prices = np.ascontiguousarray(scores[:, movable].T), levels[movable], prices.copy()
    balance(rows, at, surplus, prices, ceilings, _FAR)
    levels = levels.copy()
    levels[movable] = at
    return levels, prices
