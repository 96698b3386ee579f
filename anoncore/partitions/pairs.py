"""Associations of every pair of variables before and after, from sums over partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from anoncore.kernels.threads import one_blas_thread
from anoncore.microdata import Variable
from anoncore.partitions.store import Chunk, ColumnStore, Executor
from anoncore.partitions.table import PartitionedTable
from anoncore.utility.pairs import (
    CARRIED,
    GROUPS,
    HELD,
    INFORMATIVE,
    Layout,
    PairUtility,
    changes_of,
    groups_of,
    sums_of,
)

Floats = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class _Number:
    """A number, or the places of ordered or two levels: in units of the original's spread about its mean."""

    name: str
    levels: tuple[object, ...] | None
    middle: float = 0.0
    scale: float = 1.0
    flagged: bool = False

    def of(self, chunk: Chunk, variable: Variable) -> Floats:
        """Return (n,) values, NaN where missing."""
        if self.levels is None:
            return (chunk - self.middle) / self.scale
        return np.array([*map(self.levels.index, variable.levels or ()), np.nan])[chunk]


@dataclass(frozen=True, eq=False, repr=False)
class _Nominal:
    """A nominal variable: the code of each level, those of rare ones being the same, and of a missing value."""

    name: str
    codes: dict[object, int]
    none: int
    size: int

    def of(self, chunk: Chunk, variable: Variable) -> np.ndarray:
        """Return (n,) codes."""
        return np.array([*(self.codes[level] for level in variable.levels or ()), self.none], dtype=np.intp)[chunk]


@dataclass(frozen=True, eq=False, repr=False)
class _Coding:
    numbers: tuple[_Number, ...]
    nominal: tuple[_Nominal, ...]

    @property
    def layout(self) -> Layout:
        flags = (f"{one.name} (missing)" for one in self.numbers if one.flagged)
        names = (*(one.name for one in self.numbers), *flags, *(one.name for one in self.nominal))
        return Layout(names, tuple(one.size for one in self.nominal))


def pair_changes(
    run: Executor, original: PartitionedTable, released: PartitionedTable, reference: PartitionedTable | None = None
) -> tuple[PairUtility, tuple[str, ...]]:
    """Compare the association of every pair of variables, as `anoncore.utility.pair_utility` does without weights.

    Parameters
    ----------
    run : Executor
    original, released, reference : tables in partitions

    Returns
    -------
    PairUtility, and the names of variables that were left out: numbers whose variance fewer than 100 records carry,
    which would enter by their ranks in the whole table

    Notes
    -----
    Claim: the figures of `pair_utility` for the same variables, up to rounding. A task returns sums of one partition.
    """
    tables = [table for table in (original, released, reference) if table is not None]
    coding, left_out = _coding(run, tables)
    parts = _summed(run, original, coding, by_group=True)
    sides = [_summed(run, table, coding, by_group=False)[0] for table in tables[1:]]
    units = [_units(run, table) for table in tables]
    return changes_of(coding.layout, parts, sides, units), left_out


def _coding(run: Executor, tables: list[PartitionedTable]) -> tuple[_Coding, tuple[str, ...]]:
    """Return how the variables that all tables have are coded, by the original's moments and counts."""
    original, numbers, nominal, left_out = tables[0], [], [], []
    for variable in original.schema:
        name = variable.name
        kinds = {t.schema[name].is_categorical if name in t.schema else None for t in tables}
        if not variable.is_masked or kinds != {variable.is_categorical}:
            continue
        levels = None
        if variable.is_categorical:
            levels = tuple(dict.fromkeys(chain.from_iterable(t.schema[name].levels or () for t in tables)))
        if variable.kind == "nominal" and len(variable.levels or ()) > 2:
            nominal.append(_nominal(variable, levels or (), _level_counts(run, original, variable)))
        elif (number := _number(run, original, variable, levels)) is not None:
            numbers.append(number)
        else:
            left_out.append(name)
    return _Coding(tuple(numbers), tuple(nominal)), tuple(left_out)


def _number(
    run: Executor, table: PartitionedTable, variable: Variable, levels: tuple[object, ...] | None
) -> _Number | None:
    """Return how a number is coded; None where a few records carry its variance."""
    if levels is not None:
        missing = _level_counts(run, table, variable)[-1] / len(table)
        return _Number(variable.name, levels, flagged=INFORMATIVE <= missing <= 1 - INFORMATIVE)
    held, total, *_ = _powers(run, table, variable.name, 0.0)
    missing = 1 - held / len(table)
    flagged = INFORMATIVE <= missing <= 1 - INFORMATIVE
    if not held:
        return _Number(variable.name, None, flagged=flagged)
    middle = total / held
    _, _, square, biquadrate = _powers(run, table, variable.name, middle)
    if square**2 < CARRIED * biquadrate:
        return None
    return _Number(variable.name, None, middle, float(np.sqrt(square / held)) or 1.0, flagged)


def _nominal(variable: Variable, levels: tuple[object, ...], counts: np.ndarray) -> _Nominal:
    held = dict(zip(variable.levels or (), counts.tolist(), strict=False))
    frequent = [level for level in levels if held.get(level, 0) >= HELD]
    codes = {level: frequent.index(level) if level in frequent else len(frequent) for level in levels}
    with_missing = bool(counts[-1] / counts.sum() >= INFORMATIVE)
    size = len(frequent) + 1
    return _Nominal(variable.name, codes, size if with_missing else -1, size + with_missing)


def _powers(run: Executor, table: PartitionedTable, name: str, middle: float) -> list[float]:
    """Return how many values there are, and the sums of their differences' first, second and fourth powers."""
    count = len(table.rows)
    parts = run.map(_powers_of, table.partitions(), [table.column(name)] * count, [middle] * count)
    return [float(value) for value in np.sum(parts, axis=0)]


def _powers_of(store: ColumnStore, partition: int, column: str, middle: float) -> list[float]:
    away = store.read(column, partition) - middle
    away = away[~np.isnan(away)]
    return [len(away), *(float((away**power).sum()) for power in (1, 2, 4))]


def _level_counts(run: Executor, table: PartitionedTable, variable: Variable) -> np.ndarray:
    """Return (q + 1,) the records at each level, and last those without one."""
    count, levels = len(table.rows), len(variable.levels or ())
    columns = [table.column(variable.name)] * count
    return np.sum(run.map(_level_counts_of, table.partitions(), columns, [levels] * count), axis=0)


def _level_counts_of(store: ColumnStore, partition: int, column: str, levels: int) -> np.ndarray:
    return np.bincount(store.read(column, partition).astype(np.intp) % (levels + 1), minlength=levels + 1)


def _units(run: Executor, table: PartitionedTable) -> float:
    if table.units is None:
        return float(len(table))
    return 1.0 + max(run.map(_largest, table.partitions(), [table.units] * len(table.rows)))


def _largest(store: ColumnStore, partition: int, column: str) -> int:
    return int(store.read(column, partition).max(initial=-1))


def _summed(run: Executor, table: PartitionedTable, coding: _Coding, *, by_group: bool) -> list[Floats]:
    """Return the sums of products over all records, or over those of each group, added in the partitions' order."""
    count, starts = len(table.rows), (np.cumsum(table.rows) - table.rows).tolist()
    parts = run.map(_summed_of, table.partitions(), starts, *([value] * count for value in (table, coding, by_group)))
    return list(np.sum(parts, axis=0))


def _summed_of(
    store: ColumnStore, partition: int, start: int, table: PartitionedTable, coding: _Coding, by_group: bool
) -> list[Floats]:
    """Return the sums of products of one partition, whose first record has the number ``start``."""
    rows = table.rows[partition]
    columns = [one.of(store.read(table.column(one.name), partition), table.schema[one.name]) for one in coding.numbers]
    columns += [np.isnan(v).astype(float) for one, v in zip(coding.numbers, columns, strict=True) if one.flagged]
    levels = [one.of(store.read(table.column(one.name), partition), table.schema[one.name]) for one in coding.nominal]
    values = np.column_stack([np.zeros((rows, 0)), *columns])
    codes = np.column_stack([np.zeros((rows, 0)), *levels]).astype(np.intp)
    groups, members = np.zeros(rows, dtype=np.intp), 1
    if by_group:
        units = np.arange(start, start + rows) if table.units is None else store.read(table.units, partition)
        groups, members = groups_of(units), GROUPS
    with one_blas_thread():
        return [_sums(values, codes, coding.layout.sizes, groups == group) for group in range(members)]


def _sums(values: Floats, codes: np.ndarray, sizes: Sequence[int], chosen: np.ndarray) -> Floats:
    rows = np.flatnonzero(chosen)
    return sums_of(values[rows], codes[rows], tuple(sizes), None)
