"""Records of all partitions in random order: one exchange of pieces between partitions, which moves each value once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.permutation import bucket_bits, buckets, permuted_in_buckets, unit_buckets
from anoncore.kernels.streams import Stream
from anoncore.partitions.store import ColumnStore, Executor, work_name

Integers = NDArray[np.intp]
# Partitions whose values one task receives: one of each would make as many files as the square of the partitions.
_TOGETHER, _TASKS = 16, 8


def receivers(partitions: int) -> int:
    """Return how many tasks receive the values of so many partitions: few, but enough for several processes."""
    return max(-(-partitions // _TOGETHER), min(partitions, _TASKS))


@dataclass(frozen=True)
class _Buckets:
    """How records find their bucket: by their number, or by that of their unit; and whether they are permuted there."""

    stream: Stream
    bits: int
    units: str | None = None
    permute: bool = True

    def of(self, store: ColumnStore, partition: int, start: int, records: int) -> NDArray[np.uint16]:
        """Return the bucket of each record of a partition, whose first has the number ``start``."""
        if self.units is None:
            return buckets(self.stream, start, start + records, self.bits)
        return unit_buckets(self.stream, store.read(self.units, partition), self.bits)


@dataclass(frozen=True, eq=False, repr=False)
class _Place:
    """What some partitions of the result are made of.

    Parameters
    ----------
    first : number of their first bucket
    counts : (sources, b) int, the records of their buckets in each partition that they come from
    start : their first record among those of their buckets
    partition : number of the first of them
    rows : records of each
    """

    first: int
    counts: Integers
    start: int
    partition: int
    rows: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class _Sent:
    """How records find their bucket, a column and the name of its pieces, and the buckets of each piece."""

    drawn: _Buckets
    column: tuple[str, str]
    spans: list[tuple[int, int]]


def permuted(
    run: Executor, columns: Sequence[tuple[str, str]], rows: Sequence[int], stream: Stream, *, out: Sequence[int] = ()
) -> None:
    """Put columns into a uniform random order, the same for all of them.

    Parameters
    ----------
    run : Executor
    columns : of pairs: the name of a column in the store, and that of its permutation
    rows : records per partition
    stream : Stream
    out : records per partition of the result; those of ``rows`` when not given

    Notes
    -----
    Claim: the order is that of `anoncore.kernels.permutation.permutation` under the same stream, hence uniform,
    whatever the partitions. Each value is written twice and read twice; a task holds one column of a few partitions.
    """
    drawn = _Buckets(stream, bucket_bits(sum(rows)))
    _exchange(run, columns, rows, drawn, np.array(out or rows))


def in_random_blocks(
    run: Executor,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[int],
    stream: Stream,
    *,
    units: str | None,
    block_rows: int,
) -> list[tuple[int, ...]]:
    """Put records into random blocks, whole blocks into each partition, and those of one unit into one block.

    Parameters
    ----------
    run : Executor
    columns : as for `permuted`
    rows : records per partition
    stream : Stream
    units : name of the column of statistical units, codes from 0; None where each record is one of its own
    block_rows : at most so many records per block on average

    Returns
    -------
    list of tuple of int, the records per block, for each partition of the result; those of a block in their order

    Notes
    -----
    Claim: each unit is in each of the blocks with the same probability, independently of the others; the blocks do not
    depend on the partitions.
    """
    drawn = _Buckets(stream, bucket_bits(sum(rows), block_rows), units, permute=False)
    sizes = _counts(run, rows, drawn).sum(axis=0)
    parts = _whole_blocks(sizes, max(rows))
    _exchange(run, columns, rows, drawn, np.array([sum(part) for part in parts]))
    return [tuple(size for size in part if size) for part in parts]


def _whole_blocks(sizes: Integers, rows: int) -> list[tuple[int, ...]]:
    """Divide blocks into runs of at most ``rows`` records, or one block; empty ones join the run before them."""
    parts: list[list[int]] = [[]]
    for size in sizes.tolist():
        if size and sum(parts[-1]) and sum(parts[-1]) + size > rows:
            parts.append([])
        parts[-1].append(size)
    return [tuple(part) for part in parts]


def _starts(rows: Sequence[int]) -> list[int]:
    return (np.cumsum(rows) - rows).tolist()


def _counts(run: Executor, rows: Sequence[int], drawn: _Buckets) -> Integers:
    partitions = range(len(rows))
    return np.array(run.map(_count, partitions, _starts(rows), rows, [drawn] * len(rows)))


def _count(store: ColumnStore, partition: int, start: int, records: int, drawn: _Buckets) -> Integers:
    return np.bincount(drawn.of(store, partition, start, records), minlength=1 << drawn.bits)


def _exchange(
    run: Executor, columns: Sequence[tuple[str, str]], rows: Sequence[int], drawn: _Buckets, out: Integers
) -> None:
    parts = len(rows)
    counts = _counts(run, rows, drawn)
    places = _places(counts, out)
    spans = [(place.first, place.first + place.counts.shape[1]) for place in places]
    for source, target in columns:
        # One column after the other: what is under way takes the room of one.
        work, count = work_name("exchange"), len(places)
        run.map(_send, range(parts), _starts(rows), rows, [_Sent(drawn, (source, work), spans)] * parts)
        run.map(_receive, range(count), places, *([value] * count for value in (drawn, work, target)))
        for part in range(parts):
            run.store.remove(_piece(work, part))


def _places(counts: Integers, out: Integers) -> list[_Place]:
    """Return what the partitions of the result are made of, some in a run, given (sources, buckets) counts."""
    edges = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    bounds = np.concatenate([[0], np.cumsum(out)])
    ends = len(out) * np.arange(receivers(len(out)) + 1) // max(receivers(len(out)), 1)
    places = []
    for one, end in pairwise(ends.tolist()):
        start, stop = int(bounds[one]), int(bounds[end])
        first = int(np.searchsorted(edges, start, side="right")) - 1
        last = int(np.searchsorted(edges, stop, side="left"))
        first = min(first, last)
        places.append(
            _Place(first, counts[:, first:last], start - int(edges[first]), one, tuple(out[one:end].tolist()))
        )
    return places


def _piece(work: str, source: int) -> str:
    return f"{work} {source}"


def _send(store: ColumnStore, partition: int, start: int, records: int, sent: _Sent) -> None:
    """Write, for each run of partitions of the result, the records of this one in their buckets, sorted by these."""
    own = sent.drawn.of(store, partition, start, records)
    order = np.argsort(own, kind="stable")
    source, work = sent.column
    values = store.read(source, partition)[order]
    edges = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=1 << sent.drawn.bits))])
    for place, (first, last) in enumerate(sent.spans):
        store.write(_piece(work, partition), place, values[edges[first] : edges[last]])


def _receive(store: ColumnStore, number: int, place: _Place, drawn: _Buckets, work: str, target: str) -> None:
    """Put the records of each bucket in order, and write those of each partition."""
    sources, count = place.counts.shape
    values = np.concatenate([store.read(_piece(work, source), number) for source in range(sources)])
    labels = np.repeat(np.tile(np.arange(count, dtype=np.uint16), sources), place.counts.ravel())
    order = np.argsort(labels, kind="stable")
    if drawn.permute:
        permuted_in_buckets(order, place.counts.sum(axis=0), place.first, drawn.stream)
    starts = place.start + np.concatenate([[0], np.cumsum(place.rows)])
    for partition, (start, stop) in enumerate(pairwise(starts.tolist()), place.partition):
        store.write(target, partition, values[order[start:stop]])
