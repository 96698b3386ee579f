"""The nearest of all records in partitions to some that are asked for, and records without a near one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anoncore.encoding import Encoder
from anoncore.kernels.isolation import without_neighbour
from anoncore.kernels.neighbors import Floats, nearest
from anoncore.kernels.streams import Stream
from anoncore.partitions.store import ColumnStore, Executor, work_name
from anoncore.partitions.table import PartitionedTable


@dataclass(frozen=True, eq=False, repr=False)
class Sought:
    """What is searched: a table in partitions as an encoder sees it, or a random part of its records.

    Parameters
    ----------
    table : PartitionedTable
    encoder : Encoder, fitted to variables that the table has
    share : of the records, those that are searched
    stream : decides which; needed where the share is below 1
    """

    table: PartitionedTable
    encoder: Encoder
    share: float = 1.0
    stream: Stream | None = None

    def rows(self, store: ColumnStore, partition: int) -> Floats:
        """Return the records of one partition, encoded."""
        rows = self.encoder.encode(self.table.load(store, partition, self.encoder.schema.masked))
        if self.stream is None or self.share >= 1.0:
            return rows
        return rows[self.stream.named(partition).uniform(0, len(rows)) < self.share]


def nearest_distances(run: Executor, asked: Floats, sought: Sought, k: int = 1) -> Floats:
    """Return how far the k nearest records of a table in partitions are from each that is asked for.

    Parameters
    ----------
    run : Executor
    asked : (q, m) float64, records as the encoder encodes them
    sought : what is searched
    k : at least 1

    Returns
    -------
    (q, k) float64, ascending, in standard deviations; infinite where there are fewer than k

    Notes
    -----
    Claim: exact, see `anoncore.kernels.neighbors.nearest`; each partition is encoded and searched by one task.
    """
    to, near = work_name("asked"), work_name("nearest")
    run.store.write(to, 0, asked)
    table = sought.table
    count = len(table.rows)
    run.map(_nearest, table.partitions(), *([value] * count for value in (sought, k, to, near)))
    least = np.full((len(asked), k), np.inf)
    for partition in table.partitions():
        both = np.hstack([least, run.store.read(near, partition)])
        least = np.partition(both, range(k), axis=1)[:, :k]
    for column in (to, near):
        run.store.remove(column)
    return least


def isolated_records(run: Executor, sought: Sought, reach: float) -> tuple[Floats, Floats]:
    """Return the records of a table in partitions that have no other one near them in their partition.

    Parameters
    ----------
    run : Executor
    sought : the whole table
    reach : in standard deviations

    Returns
    -------
    (q, m) float64, encoded, sorted by their values, and (q,) distances to the nearest other one of the partition

    Notes
    -----
    Claim: exact, see `anoncore.kernels.isolation.without_neighbour`. A record of the whole table without another one
    within reach has none in its partition either, so that all of these are returned.
    """
    table = sought.table
    count, work = len(table.rows), work_name("isolated")
    run.map(_isolated, table.partitions(), *([value] * count for value in (sought, reach, work)))
    found = np.concatenate([run.store.read(work, partition) for partition in table.partitions()])
    run.store.remove(work)
    found = found[np.lexsort(found.T)]
    return np.ascontiguousarray(found[:, :-1]), found[:, -1]


def _isolated(store: ColumnStore, partition: int, sought: Sought, reach: float, work: str) -> None:
    """Write the candidates of one partition, encoded, and how far their nearest one there is."""
    rows = sought.rows(store, partition)
    places, gaps = np.arange(len(rows)), np.full(len(rows), np.inf)
    if len(rows) > 1:
        places, gaps = without_neighbour(rows, reach)
    store.write(work, partition, np.column_stack([rows[places], gaps]))


def _nearest(store: ColumnStore, partition: int, sought: Sought, k: int, to: str, near: str) -> None:
    asked = store.read(to, 0)
    distances = np.full((len(asked), k), np.inf)
    rows = sought.rows(store, partition)
    if len(rows) and len(asked):
        found = nearest(asked, rows, min(k, len(rows)))[0]
        distances[:, : found.shape[1]] = found
    store.write(near, partition, distances)
