"""The nearest of all records in partitions to some that are asked for, and records without a near one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anoncore.encoding import Encoder
from anoncore.kernels.isolation import far_from, without_neighbour
from anoncore.kernels.neighbors import Floats, nearest
from anoncore.kernels.streams import Stream
from anoncore.partitions.store import ColumnStore, Executor, work_name
from anoncore.partitions.table import PartitionedTable

# Records among which isolated ones are sought, by their places: what is found must not depend on partitions.
WINDOW = 100_000
# Records of each window by which a reach is chosen, beyond which so many times as many as are wanted are expected.
_ASKED, _SPARE = 300, 2.0


@dataclass(frozen=True, eq=False, repr=False)
class Sought:
    """What is searched: a table in partitions as an encoder sees it, or a random part of its records.

    Parameters
    ----------
    table : PartitionedTable
    encoder : Encoder, fitted to variables that the table has
    share : of the records, those that are searched
    stream : decides which; needed where the share is below 1
    moved : what is done to encoded records before they are searched; None for nothing
    """

    table: PartitionedTable
    encoder: Encoder
    share: float = 1.0
    stream: Stream | None = None
    moved: Callable[[Floats], Floats] | None = None

    def rows(self, store: ColumnStore, partition: int) -> Floats:
        """Return the records of one partition, encoded; of a part, those that the stream draws by their places."""
        rows = self._encoded(store, partition)
        if self.stream is None or self.share >= 1.0:
            return rows
        start = sum(self.table.rows[:partition])
        return rows[self.stream.uniform(start, start + len(rows)) < self.share]

    def windows(self) -> range:
        """Return the numbers of the windows of the table."""
        return range(max(1, -(-len(self.table) // WINDOW)))

    def window(self, store: ColumnStore, number: int) -> Floats:
        """Return the records of one window, encoded, of whichever partitions."""
        ends = np.cumsum(self.table.rows)
        low, high = number * WINDOW, min((number + 1) * WINDOW, len(self.table))
        first, last = np.searchsorted(ends, [low, max(high - 1, low)], side="right")
        places = range(int(first), min(int(last), len(ends) - 1) + 1)
        starts = ends - np.array(self.table.rows)
        parts = [self._encoded(store, p, slice(max(low - starts[p], 0), high - starts[p])) for p in places]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _encoded(self, store: ColumnStore, partition: int, rows: slice = slice(None)) -> Floats:
        encoded = self.encoder.encode(self.table.load(store, partition, self.encoder.schema.masked, rows))
        return encoded if self.moved is None else self.moved(encoded)


def nearest_distances(run: Executor, asked: Floats, sought: Sought, k: int = 1) -> Floats:
    """Return how far the k nearest records of a table in partitions are from each that is asked for.

    Parameters
    ----------
    run : Executor
    asked : (q, m) float64, records as the encoder encodes them
    sought : what is searched
    k : at least 1

    Returns
    -------
    (q, k) float64, ascending, in standard deviations; infinite where there are fewer than k

    Notes
    -----
    Claim: exact, see `anoncore.kernels.neighbors.nearest`; each partition is encoded and searched by one task.
    """
    if not len(asked):
        return np.empty((0, k))
    to, near = work_name("asked"), work_name("nearest")
    run.store.write(to, 0, asked)
    table = sought.table
    count = len(table.rows)
    run.map(_nearest, table.partitions(), *([value] * count for value in (sought, k, to, near)))
    least = np.full((len(asked), k), np.inf)
    for partition in table.partitions():
        both = np.hstack([least, run.store.read(near, partition)])
        least = np.partition(both, range(k), axis=1)[:, :k]
    for column in (to, near):
        run.store.remove(column)
    return least


def isolated_records(
    run: Executor, sought: Sought, most: int, far: float, *, beside: Sought | None = None
) -> tuple[Floats, Floats]:
    """Return the records of a table in partitions that are farthest from all others of their window.

    With another table those are as well that are farthest from all of its records in the window of the same number,
    and the larger of both distances counts.

    Parameters
    ----------
    run : Executor
    sought : the whole table
    most : so many records, and all that tie with the last; none that another one equals
    far : in standard deviations; all records that are farther from others, too
    beside : another whole table, encoded alike

    Returns
    -------
    (q, m) float64, encoded, sorted by their values, and (q,) distances to the nearest other one of the window

    Notes
    -----
    Claim: exact, see `anoncore.kernels.isolation.without_neighbour`. A record of the whole table without another one
    within a distance has none in its window of `WINDOW` records either. Each window gives its own farthest records, and
    no more of them are held at a time than are wanted, and one window's.
    """
    # Whatever the reach is, all that are farther are found: it decides on the time alone.
    wanted, reach = _Wanted(most, far), _reach(run, sought, most)
    found = _beyond(run, sought, wanted, reach, beside)
    for smaller in (reach / 2.0, 0.0) if reach > 0.0 else ():
        if len(found) < min(most, len(sought.table)):
            found = _beyond(run, sought, wanted, smaller, beside)
    found = found[np.lexsort(found.T)]
    return np.ascontiguousarray(found[:, :-1]), found[:, -1]


def _reach(run: Executor, sought: Sought, most: int) -> float:
    """Return a distance that more records than are wanted, and not many more, are from all others, by a sample."""
    share = _SPARE * most / len(sought.table)
    if share >= 1.0:
        return 0.0
    work = work_name("gaps")
    windows = sought.windows()
    run.map(_gaps, windows, *([value] * len(windows) for value in (sought, work)))
    gaps = np.concatenate([run.store.read(work, window) for window in windows])
    run.store.remove(work)
    return float(np.quantile(gaps, 1.0 - share)) if len(gaps) else 0.0


def _gaps(store: ColumnStore, window: int, sought: Sought, work: str) -> None:
    """Write how far some records of one window are from all others of it."""
    rows = sought.window(store, window)
    asked = np.unique(np.linspace(0, len(rows) - 1, _ASKED).astype(np.intp)) if len(rows) > 1 else np.arange(0)
    gaps = nearest(rows[asked], rows, 1, skip_self=asked)[0][:, 0] if len(asked) else np.empty(0)
    store.write(work, window, gaps)


@dataclass(frozen=True)
class _Wanted:
    """How many of the farthest records are wanted, and from which distance on all of them."""

    most: int
    far: float

    def among(self, found: Floats) -> Floats:
        """Return those of some records, whose distances are their last column."""
        gaps = found[:, -1]
        return found[largest(gaps, self.most) | (gaps > self.far)]


def _beyond(run: Executor, sought: Sought, wanted: _Wanted, reach: float, beside: Sought | None) -> Floats:
    """Return the farthest of the records without another one within reach in their window, with that distance."""
    windows, work = sought.windows(), work_name("isolated")
    same = ([value] * len(windows) for value in ((sought, beside), wanted, min(reach, wanted.far), work))
    run.map(_isolated, windows, *same)
    found = run.store.read(work, 0)
    for window in windows[1:]:
        found = wanted.among(np.concatenate([found, run.store.read(work, window)]))
    run.store.remove(work)
    return found


def largest(distances: Floats, most: int) -> NDArray[np.bool_]:
    """Return (q,) whether a distance is one of the largest, ties with the least of them included."""
    return np.asarray(distances >= np.sort(distances)[::-1][:most].min(initial=np.inf))


def _isolated(
    store: ColumnStore, window: int, tables: tuple[Sought, Sought | None], wanted: _Wanted, reach: float, work: str
) -> None:
    """Write the farthest records of one window, encoded, and how far their nearest one there is."""
    sought, beside = tables
    rows = sought.window(store, window)
    gaps = np.full(len(rows), -np.inf if len(rows) > 1 else np.inf)
    found = [without_neighbour(rows, reach)] if len(rows) > 1 else []
    if beside is not None and len(rows):
        others = beside.window(store, window % len(beside.windows()))
        found += [far_from(rows, others, reach)] if len(others) else []
    for places, distances in found:
        gaps[places] = np.maximum(gaps[places], distances)
    far = np.flatnonzero(gaps >= 0.0)
    store.write(work, window, wanted.among(np.column_stack([rows[far], gaps[far]])))


def _nearest(store: ColumnStore, partition: int, sought: Sought, k: int, to: str, near: str) -> None:
    asked = store.read(to, 0)
    distances = np.full((len(asked), k), np.inf)
    rows = sought.rows(store, partition)
    if len(rows):
        found = nearest(asked, rows, min(k, len(rows)))[0]
        distances[:, : found.shape[1]] = found
    store.write(near, partition, distances)
