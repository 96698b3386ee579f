"""64-bit hashes of all records of a table in partitions, in memory that does not grow with the number of records.

A table's hashes are given as a function that yields them anew, a partition at a time: several passes over the disk take
the place of one array. They are spread evenly but for values that recur; one that most records have is in memory once
for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from anoncore.kernels.rows import row_blocks

# Hashes in memory at once, about: few beside a partition, and so many that a hundred million take ten passes.
AT_ONCE = 10_000_000
# Hashes are counted by so many of their first bits, to find those at some places of their order.
FIRST_BITS = 16

Hashes = Callable[[], Iterable[np.ndarray]]


def in_ranges(hashes: Hashes, records: int) -> Iterator[np.ndarray]:
    """Yield the hashes in ranges of equal width, the lowest first; within a range in the order of the table.

    How many ranges there are depends on ``records`` alone: those of two tables can be compared one by one.
    """
    return ranges_of(hashes, ranges_for(records, AT_ONCE))


def ranges_for(records: int, at_once: int) -> int:
    """Return into how many ranges of equal width so many hashes are cut for about ``at_once`` in each."""
    return max(1, -(-records // at_once))


def ranges_of(hashes: Hashes, count: int) -> Iterator[np.ndarray]:
    """Yield the hashes in so many ranges, as `in_ranges` does."""
    for number in range(count):
        low, high = (np.uint64(of * 2**64 // count - (of > number)) for of in (number, number + 1))
        yield np.concatenate([part[(part >= low) & (part <= high)] for part in hashes()])


def ascending(hashes: Hashes, records: int) -> Iterator[np.ndarray]:
    """Yield so many hashes in ascending order, some at a time."""
    for own in in_ranges(hashes, records):
        own.sort()
        yield own


def repeated(hashes: Hashes, records: int) -> np.ndarray:
    """Return (R,) in ascending order which of so many hashes occur more than once."""
    pieces = ascending(hashes, records)
    return np.concatenate([np.unique(own[1:][own[1:] == own[:-1]]) for own in pieces])


def placed(hashes: Hashes, *places: slice) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for each slice, (n,) rows and (n,) hashes at these places of the stable ascending order of all."""
    shift = np.uint64(64 - FIRST_BITS)
    ends = np.cumsum(sum(np.bincount((part >> shift).astype(np.intp), minlength=2**FIRST_BITS) for part in hashes()))
    return [_at(hashes, ends, shift, *place.indices(int(ends[-1]))[:2]) for place in places]


def _at(hashes: Hashes, ends: np.ndarray, shift: np.uint64, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and hashes from one place to another, where so many hashes are up to each of their first bits."""
    low, high = np.searchsorted(ends, [start, stop - 1], side="right").astype(np.uint64)
    rows, found, passed = [], [], 0
    for part in hashes():
        own = np.flatnonzero((part >> shift >= low) & (part >> shift <= high))
        rows.append(passed + own)
        found.append(part[own])
        passed += len(part)
    all_rows, all_found = np.concatenate(rows), np.concatenate(found)
    before = int(ends[int(low) - 1]) if low else 0
    order = np.argsort(all_found, kind="stable")[start - before : max(stop, start) - before]
    return all_rows[order], all_found[order]


def sides(hashes: Hashes, bounds: Iterable[tuple[int, np.uint64]]) -> Iterator[np.ndarray]:
    """Yield for each partition (rows,) int8 how many bounds, each a row and its hash, do not come after a record.

    Records come after each other by their hashes, and those of equal ones by their rows, as in a stable order.
    """
    bounds, passed = list(bounds), 0
    for part in hashes():
        rows = np.arange(passed, passed + len(part))
        side = np.zeros(len(part), dtype=np.int8)
        for row, own in bounds:
            side += (part > own) | ((part == own) & (rows >= row))
        passed += len(part)
        yield side


def numbered(values: np.ndarray) -> np.ndarray:
    """Return (N,) uint64 numbers that keep equal values apart: the second of them is one more, and so on."""
    (names,) = numbered_parts(lambda: [values], len(values))
    return names


def numbered_parts(hashes: Hashes, records: int) -> Iterator[np.ndarray]:
    """Yield what `numbered` returns of so many values in partitions, a partition at a time."""
    recur = repeated(hashes, records)
    seen = np.zeros(len(recur), dtype=np.uint64)
    for values in hashes():
        names, rows = values.copy(), np.flatnonzero(among(values, recur))
        order = rows[np.argsort(values[rows], kind="stable")]
        ordered = values[order]
        at = np.searchsorted(recur, ordered)
        names[order] += seen[at] + (np.arange(len(order)) - np.searchsorted(ordered, ordered)).astype(np.uint64)
        np.add.at(seen, at, np.uint64(1))
        yield names


def among(values: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Return (N,) bool: which values stand in an array in ascending order; with little memory beside both."""
    stands = np.zeros(len(values), dtype=bool)
    for rows in row_blocks(len(values)) if len(ordered) else ():
        at = np.searchsorted(ordered, values[rows])
        stands[rows] = ordered[np.minimum(at, len(ordered) - 1)] == values[rows]
    return stands
