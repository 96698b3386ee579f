"""The measures of a query from its nearest records, and what they become when one of those leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from anoncore.kernels.neighbors import distinct_rows, nearest, nearest_of_others
from anoncore.risk._checks import Floats, Indices, frozen
from anoncore.risk.jackknife import Deletions

_ENTRIES = 1 << 17  # values of neighbours held at a time: the arrays of a block stay in the cache
_FEW = 0.05  # share of records; with fewer than that without a twin, the set is one of groups


@dataclass(frozen=True, eq=False)
class _Draws:
    """What the searched set is made of, in the order of the first copy.

    Parameters
    ----------
    first : (R,) index of the first copy
    copies : (R,) how many there are
    number : (M,) the draw that each record belongs to
    """

    first: Indices
    copies: Indices
    number: Indices

    @classmethod
    def each(cls, points: Floats) -> _Draws:
        """Take every record for a draw."""
        every = np.arange(len(points))
        return cls(every, np.ones_like(every), every)


def measured(
    asked: Floats,
    points: Floats,
    k: int,
    own: Indices | None,
    units: Indices | None = None,
    varied: Floats | None = None,
) -> tuple[Floats, Deletions]:
    """Measure queries against a set, and again without each record that the measures rest on.

    Parameters
    ----------
    asked : (q, n)
    points : (M, n)
    k : 2 … M, or M − 1 with ``own``
    own : (q,) index among the points of the record that the query is, −1 for none; with ``units`` its unit
    units : (M,) statistical unit of each point; all of the own unit are left out then
    varied : (M, v) the points as their variation is measured; ``points`` by default

    Returns
    -------
    (3, q) distance, ambiguity, uncertainty; and the same without each neighbour in turn
    """
    # Points that are alike may vary in what only ``varied`` holds.
    draws = _Draws.each(points) if units is not None or varied is not None else _draws(points)
    varied = points if varied is None else varied
    itself = own is not None and units is None
    # The k nearest records lie among the k nearest draws; one of these may leave, and one is the query.
    wide = min(k + 1 + itself, len(draws.first))
    if own is None or units is None:
        searched = points if len(draws.first) == len(points) else points[draws.first]
        far, near = nearest(asked, searched, wide)
    else:
        wide = min(wide, len(points) - int(np.unique(units, return_counts=True)[1].max()))
        far, near = nearest_of_others(asked, points, wide, own=own, units=units)
    far /= math.sqrt(points.shape[1])
    copies = draws.copies[near]
    if own is not None and units is None:
        copies -= (near == draws.number[own][:, None]) & (own >= 0)[:, None]
    measures = np.empty((3, len(asked)))
    leaving = min(k + itself, wide)  # a query rests on no others
    without = np.empty((3, len(asked), leaving))
    step = max(1, _ENTRIES // (wide * (wide + varied.shape[1])))
    for begin in range(0, len(asked), step):
        block = slice(begin, begin + step)
        gaps = _gaps(varied[draws.first[near[block]]])
        measures[:, block] = _measures(far[block], copies[block], gaps, k)
        for column in range(leaving):
            others = copies[block].copy()
            others[:, column] = 0
            without[:, block, column] = _measures(far[block], others, gaps, k)
    return measures, Deletions(len(draws.first), frozen(near[:, :leaving]), *map(frozen, without))


def _draws(points: Floats) -> _Draws:
    """Take every record for a draw, or every group of identical ones where hardly any is without a twin.

    Groups made by masking were drawn once, and deleting one copy would change nothing. Identical records
    of a discrete table were drawn one by one.
    """
    first, number, copies = distinct_rows(points)
    if (copies == 1).sum() >= _FEW * len(points):
        return _Draws.each(points)
    return _Draws(first, copies, number)


def _measures(far: Floats, copies: Indices, gaps: Floats, k: int) -> Floats:
    """Return (3, q) distance, ambiguity, uncertainty, from the k nearest or as many as there are.

    far : (q, d) distances, ascending; copies : (q, d), 0 where a neighbour does not count; gaps : (q, d, d)
    """
    taken = np.clip(k - (np.cumsum(copies, axis=1) - copies), 0, copies).astype(np.float64)
    first = np.min(far, axis=1, where=taken > 0.0, initial=np.inf)
    last = np.max(far, axis=1, where=taken > 0.0, initial=0.0)
    ambiguity = np.where(last > 0.0, first / np.where(last > 0.0, last, 1.0), 1.0)
    # Half the mean squared difference of all pairs, so that identical ones vary by exactly zero.
    records = taken.sum(axis=1)
    spread = np.einsum("qa,qab,qb->q", taken, gaps, taken)
    uncertainty = spread / (2.0 * np.maximum(records, 1.0) ** 2)
    return np.where(records > 0.0, [first, ambiguity, uncertainty], np.inf)


def _gaps(rows: Floats) -> Floats:
    """Mean squared difference over the columns, of every pair of neighbours, (q, d, n) → (q, d, d)."""
    gaps = np.zeros((len(rows), rows.shape[1], rows.shape[1]))
    for a in range(1, rows.shape[1]):
        difference = rows[:, :a] - rows[:, a : a + 1]
        gaps[:, :a, a] = gaps[:, a, :a] = np.einsum("qbi,qbi->qb", difference, difference)
    return gaps / rows.shape[2]
