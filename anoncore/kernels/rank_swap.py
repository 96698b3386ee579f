"""Rank swapping: every value is exchanged with one of nearly equal rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


def rank_swap(x: Floats, reach: int, *, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Exchange records in pairs whose ranks differ by at most ``reach``.

    Parameters
    ----------
    x : (N,) float
        Values in any units, none missing; only their order matters.
    reach : int, at least 1
        The largest difference of ranks.
    rng : numpy Generator

    Returns
    -------
    order : (N,) int
        The records by rank.
    partner : (N,) int
        For each rank the one whose value it receives, in pairs; few keep their own.

    Notes
    -----
    Claim: ``x[order[partner]]`` are the values that the records ``order`` receive; none moves by more than ``reach``
    ranks, equal values ranked at random.

    From the lowest rank upwards, each value that has no partner yet is exchanged with one drawn uniformly from those
    above it, within reach, that have none. O(N log N).

    Source: Moore 1996, Controlled data-swapping techniques for masking public use microdata sets, U.S. Bureau of the
    Census, report rr96/04, after Greenberg's unpublished procedure of 1987.

    Examples
    --------
    >>> x = np.array([7.0, 1.0, 9.0, 3.0])
    >>> order, partner = rank_swap(x, 1, rng=np.random.default_rng(0))
    >>> x[order].tolist(), x[order[partner]].tolist()
    ([1.0, 3.0, 7.0, 9.0], [3.0, 1.0, 9.0, 7.0])
    """
    from anoncore.kernels._rank_swap_compiled import pair_up

    order = rng.permutation(len(x))
    order = order[np.argsort(x[order], kind="stable")]
    partner = np.arange(len(x))
    pair_up(reach, rng.random(len(x)), partner)
    return order, partner
