"""Compiled part of `anoncore.kernels.rank_swap`: one pass over the ranks, in constant time for each."""

from __future__ import annotations

import numpy as np

from anoncore.kernels._compiled import compiled


@compiled
def pair_up(reach, draws, partner):  # type: ignore[no-untyped-def]
    """Write for every rank the rank it is exchanged with; ``partner`` comes in as each rank's own number."""
    n, size, ahead = len(partner), 0, 0
    pool = np.empty(n, dtype=np.intp)  # the ranks from here to the end of the window that are not exchanged yet
    place = np.full(n, -1, dtype=np.intp)
    for i in range(n):
        while ahead < n and ahead <= i + reach:
            pool[size], place[ahead] = ahead, size
            size, ahead = size + 1, ahead + 1
        if place[i] < 0:
            continue
        size = _removed(pool, place, size, i)
        if size > 0:
            j = pool[int(draws[i] * size)]
            size = _removed(pool, place, size, j)
            partner[i], partner[j] = j, i


@compiled
def _removed(pool, place, size, rank):  # type: ignore[no-untyped-def]
    """Put the last of the pool where ``rank`` was; return the new size."""
    last = pool[size - 1]
    pool[place[rank]], place[last] = last, place[rank]
    place[rank] = -1
    return size - 1
