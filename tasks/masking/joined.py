"""Columns of blocks that were masked apart, joined into one table in partitions under one schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd

from anoncore.kernels.streams import Stream
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.exchange import permuted
from anoncore.partitions.store import ColumnStore, Executor, work_name
from anoncore.partitions.table import PartitionedTable, chunk_of
from tasks.common.errors import Refused, named
from tasks.common.partitions import recoded_to


@dataclass(frozen=True)
class JoinedColumns:
    """Where the columns of a table are written that blocks give, and where what must be made alike first.

    Levels are coded as in their partition, and groups numbered from 0 in each: a late task must not overwrite the final
    codes.

    Parameters
    ----------
    name : of the table in the store
    work : prefix of columns that are made alike
    group_number : variable that numbers groups of records; empty for none
    """

    name: str
    work: str
    group_number: str = ""

    def _kept_apart(self, variable: Variable) -> bool:
        return variable.levels is not None or variable.name == self.group_number

    def write(self, store: ColumnStore, partition: int, blocks: Sequence[Microdata], source: Schema) -> Part:
        """Write the blocks of one partition; return their schema, and how many groups they number."""
        schema, groups = union([one.schema for one in blocks], source), 0
        for variable in schema:
            chunk = _chunk(blocks, variable)
            if variable.name == self.group_number:
                chunk, groups = _numbered_on(blocks, variable.name)
            at = self.work if self._kept_apart(variable) else self.name
            store.write(f"{at}/{variable.name}", partition, chunk)
        return Part(schema, sum(map(len, blocks)), groups)

    def join(self, run: Executor, parts: Sequence[Part], source: Schema, stream: Stream) -> PartitionedTable:
        """Return the table under a schema that holds the levels of all parts, its groups numbered at random."""
        schema = union([part.schema for part in parts], source)
        table = PartitionedTable(self.name, schema, tuple(part.records for part in parts))
        for variable in filter(self._kept_apart, schema):
            columns = f"{self.work}/{variable.name}", table.column(variable.name)
            if variable.name == self.group_number:
                _renumber(run, columns, [part.groups for part in parts], stream)
            else:
                _recode(run, columns, variable, [part.schema for part in parts])
            run.store.remove(columns[0])
        return table


@dataclass(frozen=True)
class Part:
    """What was written of one partition: its schema, its records, and how many groups are numbered in it."""

    schema: Schema
    records: int
    groups: int


def union(schemas: Sequence[Schema], source: Schema) -> Schema:
    """Return the schema of several tables: of each variable the levels that any of them holds.

    Raises
    ------
    Refused
        When the tables do not hold the same variables with the same meaning, or order their levels differently.
    """
    every = {name for one in schemas for name in one.names}
    if lacking := sorted(name for name in every if any(name not in one for one in schemas)):
        raise Refused(
            f"some random blocks of the table are released without {named(lacking)}, which others have; state "
            "parameters of the steps by which every block of about 100 000 records has the same variables"
        )
    return Schema(_one(variable, [one[variable.name] for one in schemas], source) for variable in schemas[0])


def _one(variable: Variable, own: Sequence[Variable], source: Schema) -> Variable:
    if any((one.kind, one.description) != (variable.kind, variable.description) for one in own):
        raise Refused(
            f"variable {variable.name!r}: its values mean something else in some random blocks of the table; merge its "
            "levels in a step before (global-recoding), or leave it out"
        )
    if variable.kind == "continuous":
        units = [one.precision for one in own if one.precision is not None]
        return replace(variable, precision=min(units) if len(units) == len(own) else None)
    held = {level for one in own for level in one.levels or ()}
    if all(one.levels == variable.levels for one in own):
        return variable
    known = source[variable.name].levels or () if variable.name in source else ()
    new = sorted(held - set(known), key=str)
    if new and variable.kind == "ordinal":
        raise Refused(
            f"variable {variable.name!r}: the blocks of the table merged its levels differently; merge them in a step "
            "before (global-recoding), or choose engine: memory"
        )
    return replace(variable, levels=(*(level for level in known if level in held), *new))


def _chunk(blocks: Sequence[Microdata], variable: Variable) -> np.ndarray:
    """Return a variable of some blocks as one chunk."""
    if variable.kind == "continuous":
        return np.concatenate([chunk_of(block, variable.name) for block in blocks])
    kind = _codes(variable.levels or ())
    coded = (block.frame[variable.name].cat.set_categories(list(variable.levels or ())) for block in blocks)
    return np.concatenate([one.cat.codes.to_numpy(kind) for one in coded])


def _codes(levels: Sequence[Any]) -> str:
    """Return the smallest integer type that holds the codes of levels."""
    return str(pd.Categorical([], categories=list(levels)).codes.dtype)


def _recode(run: Executor, columns: tuple[str, str], variable: Variable, schemas: Sequence[Schema]) -> None:
    """Write a variable's codes, which are those of each partition's schema, as codes of all its levels."""
    levels = variable.levels or ()
    at = {level: code for code, level in enumerate(levels)}
    codes = [[at[level] for level in one[variable.name].levels or ()] for one in schemas]
    source, target = ([name] * len(schemas) for name in columns)
    recoded_to(run, (source, target), range(len(schemas)), codes, _codes(levels))


def _numbered_on(blocks: Sequence[Microdata], name: str) -> tuple[np.ndarray, int]:
    """Return the numbers of the groups of all blocks, those of one after those of the other, and how many there are."""
    own = [chunk_of(block, name) for block in blocks]
    counts = [int(numbers.max()) + 1 for numbers in own]
    starts = [0, *accumulate(counts)]
    return np.concatenate([numbers + start for numbers, start in zip(own, starts[:-1], strict=True)]), starts[-1]


def _renumber(run: Executor, columns: tuple[str, str], groups: Sequence[int], stream: Stream) -> None:
    """Write the numbers of groups, in one random order over all partitions and blocks."""
    count, numbers, new = len(groups), work_name("groups"), work_name("groups")
    starts = [0, *accumulate(groups)][:-1]
    run.map(_count_on, range(count), starts, groups, [numbers] * count)
    permuted(run, [(numbers, new)], groups, stream)
    source, target = ([name] * count for name in columns)
    run.map(_renumbered, range(count), source, [new] * count, target)
    for column in (numbers, new):
        run.store.remove(column)


def _count_on(store: ColumnStore, partition: int, start: int, groups: int, target: str) -> None:
    """Write so many numbers from ``start`` on."""
    store.write(target, partition, np.arange(start, start + groups, dtype=np.float64))


def _renumbered(store: ColumnStore, partition: int, source: str, numbers: str, target: str) -> None:
    """Write the new number of each record's group."""
    new = store.read(numbers, partition)
    store.write(target, partition, new[store.read(source, partition).astype(np.intp)])
