"""The records of a table in partitions that hold the outermost numbers of its variables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anoncore.partitions.store import ColumnStore, Executor, work_name
from anoncore.partitions.table import PartitionedTable

# Records of each end of a variable: as many as `anoncore.risk.dominance` looks at.
OUTERMOST = 6


def outermost(run: Executor, table: PartitionedTable, names: Sequence[str]) -> NDArray[np.int64]:
    """Return the positions of records that hold the outermost numbers of a table in partitions.

    Parameters
    ----------
    run : Executor
    table : PartitionedTable
    names : variables, continuous ones

    Returns
    -------
    (q,) int64, increasing: among them, for each variable and end, the six records that are farthest out; q is at most
    twelve times the variables times the partitions

    Notes
    -----
    Claim: exact; of equal numbers those of the first records are taken.

    Examples
    --------
    See `anoncore.risk.dominance.dominance`, whose result for these records is that of all records.
    """
    count, work = len(table.rows), work_name("outermost")
    run.map(_find, table.partitions(), [table] * count, [tuple(names)] * count, [work] * count)
    starts = np.cumsum([0, *table.rows])
    found = [start + run.store.read(work, p) for p, start in zip(table.partitions(), starts, strict=False)]
    run.store.remove(work)
    return np.concatenate([*found, np.empty(0, dtype=np.int64)]).astype(np.int64)


def _find(store: ColumnStore, partition: int, table: PartitionedTable, names: tuple[str, ...], work: str) -> None:
    store.write(work, partition, at_ends([store.read(table.column(name), partition) for name in names]))


def at_ends(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    """Return the positions of the six outermost finite numbers at each end of each column, increasing, each once."""
    found = [np.empty(0, dtype=np.int64)]
    for values in columns:
        known = np.flatnonzero(np.isfinite(values))
        if len(known) > 2 * OUTERMOST:
            ends = np.partition(values[known], (OUTERMOST - 1, -OUTERMOST))[[OUTERMOST - 1, -OUTERMOST]]
            known = known[(values[known] <= ends[0]) | (values[known] >= ends[1])]
        order = known[np.argsort(values[known], kind="stable")]
        found += [order[:OUTERMOST], order[-OUTERMOST:]]
    return np.unique(np.concatenate(found))
