"""Numbers of all partitions in order: each range of values is sorted and compared by one task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anoncore.partitions.store import ColumnStore, Executor

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
    run.map(_sample, partitions, names)
    sample = np.sort(np.concatenate([run.store.read(f"{name}~sample", p) for name, p in sides]))
    ranges = max(one.partitions, other.partitions)
    ends = np.unique(sample[len(sample) * np.arange(1, ranges) // ranges]) if len(sample) else sample
    run.store.write("ends", 0, ends)
    counts = np.array(run.map(_send, partitions, names))
    held = counts[: one.partitions].sum(axis=0), counts[one.partitions :].sum(axis=0)
    totals = [int(side.sum()) for side in held]
    if not all(totals):
        largest = float(totals[0] != totals[1])
    else:
        below = [np.cumsum(side) - side for side in held]
        count = len(below[0])
        lower = [(int(a), int(b)) for a, b in zip(*below, strict=True)]
        largest = max(run.map(_largest, range(count), [one] * count, [other] * count, lower, [tuple(totals)] * count))
    for column in {f"{name}~{p}" for name, p in sides} | {f"{name}~sample" for name in names} | {"ends"}:
        run.store.remove(column)
    return largest


def _sample(store: ColumnStore, partition: int, column: str) -> None:
    values = _present(store, column, partition)
    at = len(values) * np.arange(_SAMPLED) // _SAMPLED
    store.write(f"{column}~sample", partition, np.partition(values, np.unique(at))[at] if len(values) else values)


def _send(store: ColumnStore, partition: int, column: str) -> list[int]:
    """Write the values of each range, and return how many there are."""
    values, ends = np.sort(_present(store, column, partition)), store.read("ends", 0)
    pieces = np.split(values, np.searchsorted(values, ends))
    for place, piece in enumerate(pieces):
        store.write(f"{column}~{partition}", place, piece)
    return [len(piece) for piece in pieces]


def _present(store: ColumnStore, column: str, partition: int) -> np.ndarray:
    values = store.read(column, partition)
    return values[~np.isnan(values)]


def _largest(
    store: ColumnStore, place: int, one: Column, other: Column, below: tuple[int, int], totals: tuple[int, int]
) -> float:
    """Return the largest difference at the values of one range, given how many values lie below it, and are in all."""
    sides = [
        np.sort(np.concatenate([store.read(f"{side.name}~{source}", place) for source in range(side.partitions)]))
        for side in (one, other)
    ]
    at = np.unique(np.concatenate(sides))
    if not len(at):
        return 0.0
    shares = [
        (np.searchsorted(side, at, "right") + lower) / total
        for side, lower, total in zip(sides, below, totals, strict=True)
    ]
    return float(np.abs(shares[0] - shares[1]).max())
