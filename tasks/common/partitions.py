"""A reference to microdata in partitions, beside `StoredMicrodata` for tables in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata, Schema
from anoncore.partitions.store import ColumnStore, Executor, work_name
from anoncore.partitions.table import PartitionedTable, keep, partitioned
from anoncore.recoding import Recoding, recoded
from tasks.common.errors import Fault
from tasks.common.workspace import StoredRecords

# Columns beside the variables: 64 bits of what names a record's unit and whether that is an identifier, 64 bits of
# its values, and a side of a division.
NAME, IDENTIFIED, VALUES, SIDE = "__name__", "__identified__", "__values__", "__side__"


@dataclass(frozen=True, eq=False, repr=False)
class StoredPartitions:
    """A reference to microdata in partitions.

    Parameters
    ----------
    table : its schema, and the names of its columns in the store
    executor : carries out tasks on the store
    hidden : columns beside the variables, which are never released
    """

    table: PartitionedTable
    executor: Executor
    hidden: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """The completed schema."""
        return self.table.schema

    def __len__(self) -> int:
        return len(self.table)

    def parts(self) -> Iterator[Microdata]:
        """Yield the records, a partition at a time; the index is their position in the whole table."""
        start = 0
        for partition in self.table.partitions():
            part = self.table.load(self.executor.store, partition)
            part.frame.index = pd.RangeIndex(start, start + len(part))
            start += len(part)
            yield part

    def load(self) -> Microdata:
        """Refuse: a step that was not written for partitions would need all records in memory."""
        raise Fault("a step needs all records in memory, which tables in partitions do not have; choose engine: memory")

    def chunks(self, column: str) -> Iterator[np.ndarray]:
        """Yield one column, a partition at a time."""
        name = self.table.column(column)
        return (self.executor.store.read(name, partition) for partition in self.table.partitions())

    def level_counts(self, name: str) -> dict[Any, int]:
        """Return the number of records at each level of a variable."""
        levels = self.schema[name].levels or ()
        counts = np.zeros(len(levels), dtype=np.intp)
        for codes in self.chunks(name):
            counts += np.bincount(codes[codes >= 0], minlength=len(levels))
        return dict(zip(levels, counts.tolist(), strict=True))

    def missing_values(self, name: str) -> int:
        """Return the number of records that lack a variable."""
        numbers = self.schema[name].kind == "continuous"
        return sum(int((np.isnan(chunk) if numbers else chunk < 0).sum()) for chunk in self.chunks(name))

    def whole(self, column: str) -> np.ndarray:
        """Return (N,) one column of all partitions."""
        return np.concatenate(list(self.chunks(column)))

    def with_column(self, column: str, values: np.ndarray) -> StoredPartitions:
        """Keep a hidden column of all records, and return the table with it."""
        return self.with_chunks(column, np.split(values, np.cumsum(self.table.rows)[:-1]))

    def with_chunks(self, column: str, chunks: Iterable[np.ndarray]) -> StoredPartitions:
        """Keep a hidden column that is given a partition at a time, and return the table with it."""
        for partition, part in enumerate(chunks):
            self.executor.store.write(self.table.column(column), partition, part)
        return replace(self, hidden=tuple(dict.fromkeys((*self.hidden, column))))

    def at(self, rows: np.ndarray, names: Sequence[str] | None = None) -> Microdata:
        """Return the records at some positions, in the order of the table, in memory: some variables, or all."""
        rows, start, parts = np.sort(rows), 0, []
        for partition, size in enumerate(self.table.rows):
            own = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + size)]
            part = self.table.load(self.executor.store, partition, names, own - start)
            part.frame.index = pd.Index(own)
            parts.append(part)
            start += size
        return Microdata.trusted(pd.concat([part.frame for part in parts]), parts[0].schema)

    def where(self, name: str, side: int) -> StoredPartitions:
        """Return the records of one side, by the hidden column of sides, as a table of another name."""
        columns = [column for column in (*self.schema.names, *self.hidden) if column != SIDE]
        target = replace(self.table, name=name)
        parts = [(partition, column) for partition in self.table.partitions() for column in columns]
        count = len(parts)
        rows = self.executor.map(
            _keep_side,
            [partition for partition, _ in parts],
            [self.table.column(column) for _, column in parts],
            [target.column(column) for _, column in parts],
            [self.table.column(SIDE)] * count,
            [side] * count,
        )
        target = replace(target, rows=tuple(rows[:: len(columns)]))
        return StoredPartitions(target, self.executor, tuple(column for column in self.hidden if column != SIDE))


def in_partitions(data: StoredRecords, name: str, executor: Executor, rows: int) -> StoredPartitions:
    """Return microdata as a table in partitions: as they are, or put into the executor's store under a name."""
    if isinstance(data, StoredPartitions):
        return data
    return StoredPartitions(partitioned(executor.store, name, data.load(), rows), executor)


def recoded_partitions(data: StoredPartitions, recodings: tuple[Recoding, ...], name: str) -> StoredPartitions:
    """Return a table with several recodings carried out, under another name; as it is without any."""
    if not recodings:
        return data
    count = len(data.table.rows)
    schemas = data.executor.map(
        _recode_records, data.table.partitions(), *([value] * count for value in (data.table, recodings, name))
    )
    return StoredPartitions(replace(data.table, name=name, schema=schemas[0]), data.executor)


def _recode_records(
    store: ColumnStore, partition: int, table: PartitionedTable, recodings: tuple[Recoding, ...], name: str
) -> Schema:
    """Write the records of one partition recoded; return their schema."""
    records = recoded(table.load(store, partition), recodings)
    keep(store, name, partition, records)
    return records.schema


def _keep_side(store: ColumnStore, partition: int, source: str, target: str, sides: str, side: int) -> int:
    """Copy the records of one side; return how many they are."""
    kept = store.read(source, partition)[store.read(sides, partition) == side]
    store.write(target, partition, kept)
    return len(kept)


def recode(
    executor: Executor, columns: Sequence[str], partitions: Sequence[int], codes: Sequence[Sequence[int]], kind: str
) -> None:
    """Replace level codes of chunks by those at their positions, in an integer type; missing ones stay missing.

    In two steps, so that neither replaces what it reads: either may be carried out again.
    """
    work = work_name("recoded")
    beside = [f"{work} {column}" for column in columns]
    recoded_to(executor, (columns, beside), partitions, codes, kind)
    executor.map(_copied, partitions, beside, columns)
    for column in set(beside):
        executor.store.remove(column)


def recoded_to(
    executor: Executor,
    columns: tuple[Sequence[str], Sequence[str]],
    partitions: Sequence[int],
    codes: Sequence[Sequence[int]],
    kind: str,
) -> None:
    """Write level codes of chunks of some columns, as `recode` replaces them, to other columns."""
    executor.map(_recoded, partitions, *columns, codes, [kind] * len(codes))


def _recoded(store: ColumnStore, partition: int, source: str, target: str, codes: Sequence[int], kind: str) -> None:
    new = np.array([*codes, -1], dtype=kind)
    store.write(target, partition, new[store.read(source, partition)])


def _copied(store: ColumnStore, partition: int, source: str, target: str) -> None:
    store.write(target, partition, store.read(source, partition))
