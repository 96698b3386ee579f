"""Compiled part of `anoncore.kernels.left_out`: one pass over all rows for each record, and one for each column."""

from __future__ import annotations

import numpy as np

from anoncore.kernels._compiled import compiled


@compiled
def search(people, caps, rows, missing, best, place):  # type: ignore[no-untyped-def]
    """Write, for every record and column, the least distance without the column and the row it belongs to."""
    records, columns = people.shape
    sums, gaps = np.empty(rows.shape[1], dtype=np.int32), np.empty(rows.shape[1], dtype=np.int32)
    for t in range(records):
        sums[:] = 0
        for j in range(columns):
            if caps[t, j] > 0:
                _add(people[t, j], caps[t, j], rows[j], sums)
        for j in range(columns):
            least = _without(people[t, j], caps[t, j], rows[j], sums, missing, best[t, j], gaps)
            if least < best[t, j]:
                best[t, j], place[t, j] = least, _first(gaps, least)


@compiled
def _add(value, cap, row, sums):  # type: ignore[no-untyped-def]
    for i in range(len(sums)):
        sums[i] += min(abs(row[i] - value), cap)


@compiled
def _without(value, cap, row, sums, missing, none, gaps):  # type: ignore[no-untyped-def]
    """Write the distances without one column, ``none`` where its value is missing; return the least."""
    least = none
    for i in range(len(sums)):
        gaps[i] = sums[i] - min(abs(row[i] - value), cap)
        if row[i] == missing:
            gaps[i] = none
        least = min(least, gaps[i])
    return least


@compiled
def _first(gaps, least):  # type: ignore[no-untyped-def]
    for i in range(len(gaps)):
        if gaps[i] == least:
            return i
    return -1
