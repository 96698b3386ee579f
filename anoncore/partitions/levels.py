"""How many records hold each level of a variable, and which levels too few statistical units hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anoncore.microdata import Microdata
from anoncore.partitions.store import Chunk, ColumnStore, Executor
from anoncore.partitions.table import PartitionedTable


@dataclass(frozen=True, eq=False, repr=False)
class LevelTally:
    """The records at each level of a variable.

    Parameters
    ----------
    counts : (q + 1,) int, the records at each level, and last those without a value
    few : (q + 1,) bool, whether fewer units than asked for hold it
    """

    counts: NDArray[np.int64]
    few: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class _Part:
    """The same for a part of the records: their counts, and, where these are few, the units that hold a level."""

    counts: NDArray[np.int64]
    many: NDArray[np.bool_]
    holders: tuple[frozenset[int], ...]


def level_tally(data: Microdata, name: str, k: int) -> LevelTally:
    """Return how many records hold each level of a categorical variable, and which are held by fewer than k units.

    Parameters
    ----------
    data : Microdata, N records
    name : a categorical variable
    k : int
    """
    codes = np.asarray(data.frame[name].cat.codes)
    return _merged([_part(codes, data.units, len(data.schema[name].levels or ()), k)], k)


def level_tallies(run: Executor, table: PartitionedTable, names: Sequence[str], k: int) -> dict[str, LevelTally]:
    """Return the tallies of categorical variables of a table in partitions, as `level_tally` does; exact."""
    tallies = {}
    for name in names:
        levels, parts = len(table.schema[name].levels or ()), len(table.rows)
        columns = [[value] * parts for value in (table.column(name), table.units, levels, k)]
        tallies[name] = _merged(run.map(_part_of, table.partitions(), *columns), k)
    return tallies


def _part_of(store: ColumnStore, partition: int, column: str, units: str | None, levels: int, k: int) -> _Part:
    return _part(store.read(column, partition), None if units is None else store.read(units, partition), levels, k)


def _part(codes: Chunk, units: NDArray[np.int64] | None, levels: int, k: int) -> _Part:
    counts = np.bincount(codes.astype(np.int64) % (levels + 1), minlength=levels + 1)
    if units is None:
        return _Part(counts, counts >= k, ())
    holders, many = [], np.zeros(levels + 1, dtype=bool)
    for level in range(levels + 1):
        held = np.unique(units[codes == (level if level < levels else -1)])
        many[level] = len(held) >= k
        holders.append(frozenset(() if many[level] else held.tolist()))
    return _Part(counts, many, tuple(holders))


def _merged(parts: list[_Part], k: int) -> LevelTally:
    counts = np.sum([part.counts for part in parts], axis=0)
    if not parts[0].holders:
        return LevelTally(counts, counts < k)
    held = [len(frozenset().union(*sets)) for sets in zip(*(part.holders for part in parts), strict=True)]
    many = np.any([part.many for part in parts], axis=0)
    return LevelTally(counts, ~many & (np.array(held) < k))
