"""A table whose columns lie in partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Chunk, ColumnStore


@dataclass(frozen=True)
class PartitionedTable:
    """A reference to microdata in partitions: its schema, its name in the store, and how many rows each part has.

    A chunk of a continuous variable holds float64 with NaN for missing; of any other, the smallest signed integer
    type that holds its level codes, with -1 for missing. The order of rows is that of the partitions.

    Parameters
    ----------
    name : str
        Prefix of its columns in the store.
    schema : Schema
        Completed: every level is known.
    rows : tuple of int
        Records per partition.
    has_units : bool
        Whether a column holds the statistical unit of each record, int64 codes from 0.
    """

    name: str
    schema: Schema
    rows: tuple[int, ...]
    has_units: bool = False

    def __len__(self) -> int:
        return sum(self.rows)

    def column(self, variable: str) -> str:
        """Return the name of a variable's column in the store."""
        return f"{self.name}/{variable}"

    @property
    def units(self) -> str | None:
        """The name of the column of statistical units; None where each record is a unit of its own."""
        return f"{self.name}:units" if self.has_units else None

    @property
    def columns(self) -> list[str]:
        """The names of all its columns in the store, the units last."""
        return [*map(self.column, self.schema.names), *([self.units] if self.units else [])]

    def partitions(self) -> range:
        """Return the numbers of the partitions."""
        return range(len(self.rows))

    def load(
        self,
        store: ColumnStore,
        partition: int,
        names: Sequence[str] | None = None,
        rows: NDArray[np.integer[Any]] | slice = slice(None),
    ) -> Microdata:
        """Return the records of one partition as microdata: the variables ``names``, or all; all ``rows`` or some."""
        schema = self.schema if names is None else self.schema.select(names)
        columns = {v.name: values_of(v, store.read(self.column(v.name), partition)[rows]) for v in schema}
        units = None if self.units is None else store.read(self.units, partition)[rows]
        return Microdata.trusted(pd.DataFrame(columns), schema, units)

    def remove(self, store: ColumnStore) -> None:
        """Remove its columns from the store."""
        for column in self.columns:
            store.remove(column)


def chunk_of(data: Microdata, name: str) -> Chunk:
    """Return a variable of microdata as a chunk."""
    column = data.frame[name]
    if data.schema[name].kind == "continuous":
        return column.to_numpy(np.float64)
    return np.asarray(column.cat.codes)


def values_of(variable: Variable, chunk: Chunk) -> pd.Series | pd.Categorical:
    """Return a chunk as a column of microdata."""
    if variable.kind == "continuous":
        return pd.Series(chunk)
    return pd.Categorical.from_codes(chunk, pd.Index(variable.levels or ()), ordered=variable.kind == "ordinal")


def keep(store: ColumnStore, name: str, partition: int, data: Microdata) -> None:
    """Write microdata as one partition of the table ``name``; units are codes from 0 over all partitions."""
    table = PartitionedTable(name, data.schema, (), data.units is not None)
    for variable in data.schema.names:
        store.write(table.column(variable), partition, chunk_of(data, variable))
    if table.units is not None and data.units is not None:
        store.write(table.units, partition, data.units)


def partitioned(store: ColumnStore, name: str, data: Microdata, rows: int) -> PartitionedTable:
    """Put microdata into a store, in partitions of at most ``rows`` records."""
    if data.units is not None:
        data = data.with_units(data.unit_codes)
    parts = tuple(_parts(len(data), rows))
    for number, (start, stop) in enumerate(parts):
        keep(store, name, number, data.take(np.arange(start, stop)))
    return PartitionedTable(name, data.schema, tuple(stop - start for start, stop in parts), data.units is not None)


def _parts(records: int, rows: int) -> Iterator[tuple[int, int]]:
    for start in range(0, records, rows):
        yield start, min(start + rows, records)
