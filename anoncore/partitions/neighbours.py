"""The nearest of all records in partitions to some that are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anoncore.encoding import Encoder
from anoncore.kernels.neighbors import nearest
from anoncore.partitions.store import ColumnStore, Executor
from anoncore.partitions.table import PartitionedTable


def nearest_distances(
    run: Executor, asked: np.ndarray, table: PartitionedTable, names: Sequence[str], encoder: Encoder
) -> np.ndarray:
    """Return how far the nearest record of a table in partitions is from each that is asked for.

    Parameters
    ----------
    run : Executor
    asked : (q, m) float64, records as ``encoder`` encodes them
    table : PartitionedTable, at least one record
    names : the variables that ``encoder`` was fitted to
    encoder : Encoder

    Returns
    -------
    (q,) float64, in standard deviations

    Notes
    -----
    Claim: exact, see `anoncore.kernels.neighbors.nearest`; each partition is encoded and searched by one task.
    """
    run.store.write("asked", 0, asked)
    count = len(table.rows)
    run.map(_nearest, table.partitions(), [table] * count, [tuple(names)] * count, [encoder] * count)
    least = np.full(len(asked), np.inf)
    for partition in table.partitions():
        least = np.minimum(least, run.store.read("asked~nearest", partition))
    for column in ("asked", "asked~nearest"):
        run.store.remove(column)
    return least


def _nearest(
    store: ColumnStore, partition: int, table: PartitionedTable, names: tuple[str, ...], encoder: Encoder
) -> None:
    asked, distances = store.read("asked", 0), np.full(0, np.inf)
    if table.rows[partition]:
        rows = encoder.encode(table.load(store, partition, names))
        distances = nearest(asked, rows, 1)[0][:, 0]
    store.write("asked~nearest", partition, distances if len(distances) else np.full(len(asked), np.inf))
