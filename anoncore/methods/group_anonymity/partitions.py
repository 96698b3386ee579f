"""Exchange members of a group in a table in partitions: one task exchanges a pool, all others stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd

from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.encoding.moments import Moments, linear_encoder
from anoncore.kernels.wavelet.redistribution import Redistribution
from anoncore.kernels.wavelet.relocation import Moves
from anoncore.methods.group_anonymity.pool import Exchange, Exchanged, tallies
from anoncore.methods.group_anonymity.report import Changes, figures_from, others_in_areas, others_of
from anoncore.microdata import Microdata, Schema
from anoncore.partitions.store import ColumnStore, Executor, work_name
from anoncore.partitions.table import PartitionedTable, values_of
from anoncore.risk.group_masking import Group, Hidden


def computed_apart(table: PartitionedTable, edits: EditSet) -> PartitionedTable:
    """Return the table with the variables that edits compute as excluded ones: they are copied, and play no part."""
    computed = {e.dependent for e in edits.dependents}
    variables = (replace(v, role="excluded") if v.name in computed else v for v in table.schema)
    return replace(table, schema=Schema(variables))


def tallies_over(run: Executor, table: PartitionedTable, group: Group) -> np.ndarray:
    """Return the `tallies` of all partitions."""
    return np.asarray(np.sum(_of_each(run, table, _tally, group), axis=0))


def exchanged_over(
    run: Executor, table: PartitionedTable, exchange: Exchange, counted: np.ndarray, name: str
) -> tuple[PartitionedTable, Moves]:
    """Carry an exchange out on a table in partitions; the result is that of `exchanged` in memory.

    Parameters
    ----------
    run : Executor
    table : PartitionedTable, without households
    exchange : Exchange
    counted : (2, m + 2), the `tallies` of the table
    name : of the new table

    Raises
    ------
    InfeasibleError
        When too few records can move, or an edit or a kept group would be broken; or when some find no place in the
        largest pool.

    Notes
    -----
    Of each area at most about 20 000 members, or others, are gathered by the task that matches them, or twice those
    that move. Where some find no place among these, pools are larger, see `Exchange.shares`.
    """
    for shares in exchange.shares(counted):
        result = _exchanged_in_pool(run, table, exchange, shares, name)
        if result.is_complete:
            break
    exchange.check(result, in_households=False, everyone=exchange.covers(shares))
    return replace(table, name=name), result.moves


def _exchanged_in_pool(
    run: Executor, table: PartitionedTable, exchange: Exchange, shares: np.ndarray, name: str
) -> Exchanged:
    """Exchange records of a pool and, if all find a place, write the new table; return the sums."""
    pool = PartitionedTable(work_name("group pool"), table.schema.select(exchange.names(table.schema)), ())
    try:
        pool = replace(pool, rows=tuple(_of_each(run, table, _send, exchange, shares, pool.name)))
        (result,) = run.map(_exchange, [0], [pool], [exchange])
        if result.is_complete:
            _of_each(run, table, _receive, name, exchange.swapped, pool)
    finally:
        for column in (*pool.columns, _rows(pool), *(_received(pool, one) for one in exchange.swapped)):
            run.store.remove(column)
    return result


def figures_over(
    run: Executor,
    tables: tuple[PartitionedTable, PartitionedTable],
    hidden: Hidden,
    chosen: Redistribution,
    moves: Moves,
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Return what `figures_of` returns, of a table in partitions before and after the move."""
    before, group = tables[0], hidden.group
    parts: list[dict[str, Moments]] = _of_each(run, before, _others_in_areas, group)
    moments = {name: reduce(add, (part[name] for part in parts)) for name in parts[0]}
    encoder = linear_encoder(before.schema, moments)
    changes = Changes.summed(_of_each(run, before, _changes, tables[1], group, encoder))
    return figures_from(changes, hidden, chosen, moves)


def _of_each(run: Executor, table: PartitionedTable, task: Callable[..., Any], *values: Any) -> list[Any]:
    """Return what a task returns of each partition, which is given the table and the same other values."""
    return run.map(task, table.partitions(), *([value] * len(table.rows) for value in (table, *values)))


def _load(store: ColumnStore, partition: int, table: PartitionedTable, names: Sequence[str]) -> Microdata:
    return table.load(store, partition, [n for n in table.schema.names if n in names])


def _counting(group: Group) -> tuple[str, ...]:
    return group.parameter, *group.variables


def _tally(store: ColumnStore, partition: int, table: PartitionedTable, group: Group) -> np.ndarray:
    return tallies(group, _load(store, partition, table, _counting(group)).frame)


def _others_in_areas(store: ColumnStore, partition: int, table: PartitionedTable, group: Group) -> dict[str, Moments]:
    return others_in_areas(group, _load(store, partition, table, [group.parameter, *others_of(group, table.schema)]))


def _changes(
    store: ColumnStore,
    partition: int,
    before: PartitionedTable,
    after: PartitionedTable,
    group: Group,
    encoder: Encoder,
) -> Changes:
    names = (*_counting(group), *(block.variable.name for block in encoder.blocks))
    was, now = (_load(store, partition, table, names) for table in (before, after))
    return Changes.of(was, now, group, encoder)


def _rows(pool: PartitionedTable) -> str:
    return f"{pool.name}:rows"


def _received(pool: PartitionedTable, variable: str) -> str:
    return f"{pool.name}:received {variable}"


def _send(
    store: ColumnStore,
    partition: int,
    table: PartitionedTable,
    exchange: Exchange,
    shares: np.ndarray,
    name: str,
) -> int:
    """Write the records of the pool of one partition, and which they are; return how many there are."""
    frame = _load(store, partition, table, _counting(exchange.group)).frame
    pool = PartitionedTable(name, table.schema.select(exchange.names(table.schema)), ())
    rows = exchange.drawn(frame, sum(table.rows[:partition]), shares)
    store.write(_rows(pool), partition, rows)
    for variable in pool.schema.names:
        store.write(pool.column(variable), partition, store.read(table.column(variable), partition)[rows])
    return len(rows)


def _exchange(store: ColumnStore, _: int, pool: PartitionedTable, exchange: Exchange) -> Exchanged:
    """Exchange the records of the pool; write, for each partition, the values that its records get."""
    chunks = {
        name: np.concatenate([store.read(pool.column(name), partition) for partition in pool.partitions()])
        for name in pool.schema.names
    }
    frame = pd.DataFrame({variable.name: values_of(variable, chunks[variable.name]) for variable in pool.schema})
    result = exchange.within(Microdata.trusted(frame, pool.schema))
    ends = np.cumsum(pool.rows)[:-1]
    for name in exchange.swapped:
        for partition, values in enumerate(np.split(chunks[name][result.source], ends)):
            store.write(_received(pool, name), partition, values)
    # The row links are not returned.
    return replace(result, source=np.empty(0, dtype=np.intp))


def _receive(
    store: ColumnStore,
    partition: int,
    table: PartitionedTable,
    name: str,
    swapped: tuple[str, ...],
    pool: PartitionedTable,
) -> None:
    """Write one partition with the values that its records of the pool have received."""
    target, rows = replace(table, name=name), store.read(_rows(pool), partition)
    for source, column in zip(table.columns, target.columns, strict=True):
        values = store.read(source, partition)
        for one in swapped:
            if column == target.column(one):
                values[rows] = store.read(_received(pool, one), partition)
        store.write(column, partition, values)
