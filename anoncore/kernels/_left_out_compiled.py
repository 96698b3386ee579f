"""Compiled part of `anoncore.kernels.left_out`: passes over tiles of rows for each record and column."""

from __future__ import annotations

import numpy as np

from anoncore.kernels._compiled import compiled

TILE = 2048  # rows at a time, so that sums and columns stay in the nearest cache


@compiled
def search(people, caps, rows, marks, best, place):  # type: ignore[no-untyped-def]
    """Write, for every record and column, the least distance without the column and the row it belongs to.

    ``marks`` are the code of a missing value and the distance where there is no row.
    """
    records, columns = people.shape
    most = min(rows.shape[1], TILE)
    all_sums, all_gaps = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    for start in range(0, rows.shape[1], TILE):
        end = min(start + TILE, rows.shape[1])
        sums, gaps = all_sums[: end - start], all_gaps[: end - start]
        for t in range(records):
            sums[:] = 0
            for j in range(columns):
                if caps[t, j] > 0:
                    _add(people[t, j], caps[t, j], rows[j][start:end], sums)
            for j in range(columns):
                least = _without(people[t, j], caps[t, j], rows[j][start:end], sums, marks, gaps)
                if least < best[t, j]:
                    best[t, j], place[t, j] = least, start + _first(gaps, least)


@compiled
def search_wider(people, known, cap, rows, best):  # type: ignore[no-untyped-def]
    """Write, for every record and column, the least distance by the known columns and the column."""
    records, columns = people.shape
    all_sums = np.empty(min(rows.shape[1], TILE), dtype=np.int32)
    for start in range(0, rows.shape[1], TILE):
        end = min(start + TILE, rows.shape[1])
        sums = all_sums[: end - start]
        for t in range(records):
            sums[:] = 0
            for j in range(columns):
                if known[j]:
                    _add(people[t, j], cap, rows[j][start:end], sums)
            alone = np.int32(sums.min())
            for j in range(columns):
                least = alone if known[j] else _least(people[t, j], cap, rows[j][start:end], sums)
                best[t, j] = min(best[t, j], least)


@compiled
def _least(value, cap, row, sums):  # type: ignore[no-untyped-def]
    """Return the least sum of a distance with that in one column more."""
    least = np.int32(2**31 - 1)
    for i in range(len(sums)):
        least = min(least, np.int32(sums[i] + _apart(row[i], value, cap)))
    return least


@compiled
def _apart(one, other, cap):  # type: ignore[no-untyped-def]
    """Return how far two codes are apart, at most the cap: in 32 bits, of which a vector holds twice as many."""
    apart = np.int32(one - other)
    apart = max(apart, np.int32(-apart))
    return min(apart, cap)


@compiled
def _add(value, cap, row, sums):  # type: ignore[no-untyped-def]
    for i in range(len(sums)):
        sums[i] = np.int32(sums[i] + _apart(row[i], value, cap))


@compiled
def _without(value, cap, row, sums, marks, gaps):  # type: ignore[no-untyped-def]
    """Write the distances without one column, ``none`` where its value is missing; return the least."""
    missing, none = marks
    least = none
    for i in range(len(sums)):
        gap = np.int32(sums[i] - _apart(row[i], value, cap))
        gaps[i] = none if row[i] == missing else gap
        least = min(least, gaps[i])
    return least


@compiled
def _first(gaps, least):  # type: ignore[no-untyped-def]
    for i in range(len(gaps)):
        if gaps[i] == least:
            return i
    return -1
