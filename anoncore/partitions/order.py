"""Numbers of all partitions in order: each range of values is sorted and compared by one task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anoncore.partitions.exchange import receivers
from anoncore.partitions.store import ColumnStore, Executor, work_name

# Values of each partition from which the ends of ranges are chosen.
_SAMPLED = 64


@dataclass(frozen=True)
class Column:
    """A column of numbers in the store, NaN where missing: its name, and in how many partitions it lies."""

    name: str
    partitions: int


def kolmogorov_distance(run: Executor, one: Column, other: Column) -> float:
    """Return the largest difference between the distribution functions of two columns of numbers.

    Parameters
    ----------
    run : Executor
    one, other : columns; missing values are left out

    Returns
    -------
    float, 0 … 1; 1 where one of the two alone has no values

    Notes
    -----
    Claim: exact. Values are moved once, to the task that compares those of one range; the ends of ranges are order
    statistics of a sample from each partition and decide only how much work a task has.

    Source: sorting by regular sampling, Shi and Schaeffer (1992), Parallel sorting by regular sampling, Journal of
    Parallel and Distributed Computing 14.
    """
    sides = [(side.name, partition) for side in (one, other) for partition in range(side.partitions)]
    names, partitions = (list(values) for values in zip(*sides, strict=True))
    work, count = work_name("order"), len(names)
    run.map(_sample, partitions, names, [work] * count)
    sample = np.sort(np.concatenate([run.store.read(f"{work} sample {name}", p) for name, p in sides]))
    ranges = receivers(max(one.partitions, other.partitions))
    ends = np.unique(sample[len(sample) * np.arange(1, ranges) // ranges]) if len(sample) else sample
    run.store.write(work, 0, ends)
    counts = np.array(run.map(_send, partitions, names, [work] * count))
    held = counts[: one.partitions].sum(axis=0), counts[one.partitions :].sum(axis=0)
    totals = [int(side.sum()) for side in held]
    if not all(totals):
        largest = float(totals[0] != totals[1])
    else:
        below = [np.cumsum(side) - side for side in held]
        parts = len(below[0])
        lower = [(int(a), int(b)) for a, b in zip(*below, strict=True)]
        same = ([value] * parts for value in ((one, other), tuple(totals), work))
        largest = max(run.map(_largest, range(parts), lower, *same))
    for column in {f"{work} {p} {name}" for name, p in sides} | {f"{work} sample {name}" for name in names} | {work}:
        run.store.remove(column)
    return largest


def _sample(store: ColumnStore, partition: int, column: str, work: str) -> None:
    values = _present(store, column, partition)
    at = len(values) * np.arange(_SAMPLED) // _SAMPLED
    store.write(
        f"{work} sample {column}", partition, np.partition(values, np.unique(at))[at] if len(values) else values
    )


def _send(store: ColumnStore, partition: int, column: str, work: str) -> list[int]:
    """Write the values of each range, and return how many there are."""
    values, ends = np.sort(_present(store, column, partition)), store.read(work, 0)
    pieces = np.split(values, np.searchsorted(values, ends))
    for place, piece in enumerate(pieces):
        store.write(f"{work} {partition} {column}", place, piece)
    return [len(piece) for piece in pieces]


def _present(store: ColumnStore, column: str, partition: int) -> np.ndarray:
    values = store.read(column, partition)
    return values[~np.isnan(values)]


def _largest(
    store: ColumnStore,
    place: int,
    below: tuple[int, int],
    columns: tuple[Column, Column],
    totals: tuple[int, int],
    work: str,
) -> float:
    """Return the largest difference at the values of one range, given how many values lie below it, and are in all."""
    sides = [
        np.sort(np.concatenate([store.read(f"{work} {p} {side.name}", place) for p in range(side.partitions)]))
        for side in columns
    ]
    at = np.unique(np.concatenate(sides))
    if not len(at):
        return 0.0
    shares = [
        (np.searchsorted(side, at, "right") + lower) / total
        for side, lower, total in zip(sides, below, totals, strict=True)
    ]
    return float(np.abs(shares[0] - shares[1]).max())
