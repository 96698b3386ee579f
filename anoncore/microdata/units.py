"""Statistical units: which records belong together, and are protected together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from anoncore.errors import AnonymizationError

Units = NDArray[np.int64]


def joined_units(keys: Sequence[ArrayLike], records: int) -> Units:
    """Return the unit of each record, where records that share a value of any key belong together.

    Parameters
    ----------
    keys : of (N,) int, the code of each record's value of one key, −1 where it is missing
    records : N

    Returns
    -------
    (N,) int64, the units numbered in the order of their first records

    Raises
    ------
    AnonymizationError
        When a key has not one code for each record.

    Notes
    -----
    Units are the connected components of the graph of records and values. A missing value joins nothing.

    Source: connected components of a bipartite graph, scipy.sparse.csgraph.

    Examples
    --------
    >>> joined_units([[0, 0, 1, -1, -1], [0, 1, 1, 2, -1]], 5).tolist()
    [0, 0, 0, 1, 2]
    """
    rows, values, size = [], [], records
    for key in keys:
        codes = np.asarray(key, dtype=np.intp)
        if codes.shape != (records,):
            raise AnonymizationError(f"a key of statistical units needs a code for each of {records} records")
        present = np.flatnonzero(codes >= 0)
        rows.append(present)
        values.append(codes[present] + size)
        size += int(codes.max(initial=-1)) + 1
    if not rows:
        return np.arange(records)
    at, to = np.concatenate(rows), np.concatenate(values)
    graph = csr_array((np.ones(len(at), dtype=np.int8), (at, to)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1][:records]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


def unit_codes(units: NDArray[np.integer[Any]] | None, records: int) -> NDArray[np.intp]:
    """Return (N,) codes of the units from 0, the unit of each of N records; without units each record is its own.

    Examples
    --------
    >>> unit_codes(np.array([7, 7, 2]), 3).tolist(), unit_codes(None, 2).tolist()
    ([1, 1, 0], [0, 1])
    """
    return np.arange(records) if units is None else np.unique(units, return_inverse=True)[1]


@dataclass(frozen=True, eq=False, repr=False)
class ComparedUnits:
    """The statistical units of records that are compared: people of the original, and of a reference sample.

    Parameters
    ----------
    members, nonmembers : (m,) and (n,) unit of each record; None where each is a unit of its own
    """

    members: Units | None = None
    nonmembers: Units | None = None

    def take(self, members: NDArray[np.intp], nonmembers: NDArray[np.intp] | None = None) -> ComparedUnits:
        """Return the units of some of the members, and of some or all of the non-members."""
        sides = (self.members, members), (self.nonmembers, nonmembers)
        return ComparedUnits(*(units if units is None or rows is None else units[rows] for units, rows in sides))

    def together(self, members: int, nonmembers: int) -> NDArray[np.intp] | None:
        """Return the unit of each of all records, of whom no two of different sides share one; None where none do."""
        if self.members is None and self.nonmembers is None:
            return None
        one, other = unit_codes(self.members, members), unit_codes(self.nonmembers, nonmembers)
        return np.concatenate([one, other + int(one.max(initial=-1)) + 1])

    def means(self, members: NDArray[np.float64], nonmembers: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return the mean score of each unit of both sides."""
        return [unit_means(*side) for side in ((members, self.members), (nonmembers, self.nonmembers))]

    def forms(
        self, members: NDArray[np.float64], nonmembers: NDArray[np.float64]
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return the scores of the units of both sides: their means, and their best where units have several records.

        A mean sees what is a little wrong with all records of a unit; the best one, what reveals it by a single record.
        """
        sides = (members, self.members), (nonmembers, self.nonmembers)
        means, best = ([kind(*side) for side in sides] for kind in (unit_means, unit_maxima))
        forms = [(means[0], means[1]), (best[0], best[1])]
        return forms if len(members) + len(nonmembers) > sum(map(len, means)) else forms[:1]


EACH_RECORD = ComparedUnits()


def unit_means(scores: NDArray[np.float64], units: Units | None) -> NDArray[np.float64]:
    """Return the mean score of each unit; the scores themselves where each record is a unit of its own.

    Examples
    --------
    >>> unit_means(np.array([1.0, 3.0, 5.0]), np.array([7, 7, 2])).tolist()
    [5.0, 2.0]
    """
    if units is None:
        return scores
    codes = unit_codes(units, len(scores))
    return np.bincount(codes, scores) / np.bincount(codes)


def unit_maxima(scores: NDArray[np.float64], units: Units | None) -> NDArray[np.float64]:
    """Return the largest score of each unit; the scores themselves where each record is a unit of its own.

    Examples
    --------
    >>> unit_maxima(np.array([1.0, 3.0, 5.0]), np.array([7, 7, 2])).tolist()
    [5.0, 3.0]
    """
    if units is None:
        return scores
    codes = unit_codes(units, len(scores))
    largest = np.full(int(codes.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(largest, codes, scores)
    return largest
