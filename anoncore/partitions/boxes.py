"""One row per box of a table of boxes in partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anoncore.boxes.reader import BOX, Boxes, read_boxes
from anoncore.partitions.store import ColumnStore, Executor, work_name
from anoncore.partitions.table import PartitionedTable


@dataclass(frozen=True, eq=False, repr=False)
class BoxRows:
    """A reference to some columns of a table of boxes, one row per box, and how many records each box has.

    Parameters
    ----------
    store : holds them
    table : the rows, in the partitions of the records
    """

    store: ColumnStore
    table: PartitionedTable

    @classmethod
    def of(cls, run: Executor, released: PartitionedTable, names: Sequence[str]) -> BoxRows:
        """Take the columns ``names`` from a table whose boxes lie in one partition each, and have different numbers."""
        count = len(released.rows)
        schema = released.schema.select(list(dict.fromkeys((BOX, *names))))
        target = work_name("boxes")
        arguments = ([value] * count for value in (released, schema.names, target))
        rows = run.map(_first_rows, released.partitions(), *arguments)
        return cls(run.store, PartitionedTable(target, schema, tuple(rows)))

    def read(self, names: Sequence[str]) -> Boxes:
        """Return the boxes with some columns, in the order of their numbers."""
        partitions = self.table.partitions()
        parts = [self.table.load(self.store, at, [BOX, *names]).frame for at in partitions]
        sizes = np.concatenate([self.store.read(_sizes(self.table.name), at) for at in partitions])
        frame = pd.concat(parts, ignore_index=True)
        order = np.argsort(frame[BOX].to_numpy(), kind="stable")
        return read_boxes(frame.iloc[order], sizes[order])

    def present(self, name: str) -> bool:
        """Return whether any box has a value in a column of numbers."""
        chunks = (self.store.read(self.table.column(name), at) for at in self.table.partitions())
        return any(not np.isnan(chunk).all() for chunk in chunks)

    def remove(self) -> None:
        """Remove them from the store."""
        self.table.remove(self.store)
        self.store.remove(_sizes(self.table.name))


def _sizes(table: str) -> str:
    return f"{table}:sizes"


def _first_rows(
    store: ColumnStore, partition: int, released: PartitionedTable, names: Sequence[str], target: str
) -> int:
    """Write the first record of each box of a partition, and its number of records; return how many boxes there are."""
    numbers = store.read(released.column(BOX), partition)
    _, first, sizes = np.unique(numbers, return_index=True, return_counts=True)
    for name in names:
        store.write(f"{target}/{name}", partition, store.read(released.column(name), partition)[first])
    store.write(_sizes(target), partition, sizes)
    return len(first)
