"""Which values the records of a table in partitions lack together, and how many records lack them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anoncore.partitions.store import ColumnStore, Executor, work_name
from anoncore.partitions.table import PartitionedTable


def missing_patterns(
    run: Executor, table: PartitionedTable, names: Sequence[str]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which of some variables are missing together, and in how many records.

    Parameters
    ----------
    run : Executor
    table : PartitionedTable
    names : m variables

    Returns
    -------
    (p, m) bool, the different patterns, and (p,) int64, the records with each

    Notes
    -----
    Claim: exact. Source: elementary.
    """
    count, work = len(table.rows), work_name("patterns")
    columns = tuple(table.column(name) for name in names)
    run.map(_find, table.partitions(), [columns] * count, [work] * count)
    packed, held = np.empty((0, -(-len(names) // 8)), dtype=np.uint8), np.empty(0, dtype=np.int64)
    for partition in table.partitions():
        found = run.store.read(work, partition)
        both = np.concatenate([held, np.ascontiguousarray(found[:, :8]).view(np.int64).ravel()])
        packed, held = _counted(np.concatenate([packed, found[:, 8:]]), both)
    run.store.remove(work)
    return np.unpackbits(packed, axis=1, count=len(names)).astype(bool), held


def _counted(packed: NDArray[np.uint8], records: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the different patterns, and the sums of the records with each."""
    patterns, of_each = np.unique(packed, axis=0, return_inverse=True)
    held = np.zeros(len(patterns), dtype=np.int64)
    np.add.at(held, of_each.ravel(), records)
    return patterns, held


def _find(store: ColumnStore, partition: int, columns: tuple[str, ...], work: str) -> None:
    """Write the patterns of one partition behind the eight bytes of their counts."""
    chunks = (store.read(column, partition) for column in columns)
    gaps = np.column_stack([np.isnan(chunk) if chunk.dtype.kind == "f" else chunk < 0 for chunk in chunks])
    patterns, held = np.unique(np.packbits(gaps, axis=1), axis=0, return_counts=True)
    store.write(work, partition, np.hstack([held.astype(np.int64)[:, None].view(np.uint8), patterns]))
