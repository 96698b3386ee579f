"""Prediction distance, ambiguity and uncertainty of every record, given a released table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest
from anoncore.risk._checks import Floats, Indices, between, frozen, matrix
from anoncore.risk.jackknife import Deletions

_ENTRIES = 1 << 21  # neighbours' values held at a time


@dataclass(frozen=True, eq=False)
class PredictionMeasures:
    """The three measures of Lasko and Vinterbo for each queried record; small values mean risk.

    They mean nothing alone: :func:`anoncore.risk.compare` sets them beside the reference's.

    Parameters
    ----------
    distance : (n_queries,), in the encoding's units (standard deviations), root mean square over columns
    ambiguity : (n_queries,), 0 … 1
    uncertainty : (n_queries,), in squared units of the encoding
    k : neighbours looked at
    n_queries, n_released, n_original : records queried, records in the released set, records in A
    """

    distance: Floats = field(repr=False)
    ambiguity: Floats = field(repr=False)
    uncertainty: Floats = field(repr=False)
    k: int
    n_queries: int
    n_released: int
    n_original: int
    deletions: Deletions | None = field(default=None, repr=False)

    def cdf_error(self, delta: float = 0.01) -> float:
        """Bound the error of each distribution function, exceeded with probability below ``delta``.

        Zero when every record was queried, else √(ln(2/δ)/(2 n_queries)).
        """
        if self.n_queries >= self.n_original:
            return 0.0
        return math.sqrt(math.log(2.0 / between("delta", delta, 0, 1)) / (2 * self.n_queries))


def prediction_measures(
    original: ArrayLike,
    released: ArrayLike | None,
    k: int = 5,
    *,
    leave_one_out: bool = False,
    queries: ArrayLike | None = None,
) -> PredictionMeasures:
    """Measure how well a released table predicts the records of the original one.

    With s(x, y) = √(mean_i (x_i − y_i)²) and the released records ordered by s from record j: distance is
    s₍₁₎; ambiguity s₍₁₎/s₍ₖ₎, and 1 where s₍ₖ₎ = 0; uncertainty the mean over columns of the variance
    (divisor k) among the k nearest. Equally near records are taken lowest index first.

    Parameters
    ----------
    original : (N, n), encoded, in standard deviations
    released : (M, n), in the same encoding, discrete values decoded and encoded again; ``None`` with
        ``leave_one_out``
    k : 2 … M
    leave_one_out : measure each record against A without it (A − A_j), the reference when no A* exists
    queries : (q,) row numbers of ``original`` to measure; all by default. Sample the queries with
        :func:`sample_queries`, never the released set

    Returns
    -------
    PredictionMeasures

    Raises
    ------
    AnonymizationError
        When shapes, values or k do not allow the measures.

    Notes
    -----
    Exact: the neighbours are the true nearest ones. Source: Lasko and Vinterbo 2010, section II.A and
    eq. 1. The paper leaves 0/0 in the ambiguity undefined, and the variance's divisor open.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [3.0]])
    >>> prediction_measures(line, line, 2).distance
    array([0., 0., 0.])
    """
    rows = matrix("original", original)
    if leave_one_out:
        if released is not None and released is not original:
            raise AnonymizationError("released must be None with leave_one_out, got another table")
        points = rows
    elif released is None:
        raise AnonymizationError("released must be a matrix, got None; set leave_one_out to use the original")
    else:
        points = matrix("released", released, rows.shape[1])
    chosen = chosen_rows(queries, len(rows))
    return measure(rows, chosen, points, k, chosen if leave_one_out else None)


def measure(rows: Floats, chosen: Indices, points: Floats, k: int, own: Indices | None) -> PredictionMeasures:
    """Measure the chosen rows against checked points, without ``own`` (index among points, or −1)."""
    available = len(points) - (own is not None)
    if k < 2:
        raise AnonymizationError(f"k must be at least 2, got {k}")
    if k > available:
        raise AnonymizationError(
            f"k must be at most {available}, the number of neighbours there are, got {k}"
        )
    asked = rows[chosen]
    distinct = _distinct(points)
    # The k nearest records lie among the k nearest distinct ones; one more may leave, one more is j itself.
    wide = min(k + 1 + (own is not None), len(distinct.first))
    far, near = nearest(asked, points[distinct.first], wide)
    copies = distinct.copies[near]
    if own is not None:
        copies -= (near == distinct.number[own][:, None]) & (own >= 0)[:, None]
    far /= math.sqrt(points.shape[1])
    measures = np.empty((3, len(asked)))
    without = np.empty((3, len(asked), wide))
    step = max(1, _ENTRIES // (wide * (wide + points.shape[1])))
    for begin in range(0, len(asked), step):
        block = slice(begin, begin + step)
        gaps = _gaps(points[distinct.first[near[block]]])
        measures[:, block] = _three(far[block], copies[block], gaps, k)
        for left_out in range(wide):
            others = copies[block].copy()
            others[:, left_out] = 0
            without[:, block, left_out] = _three(far[block], others, gaps, k)
    return PredictionMeasures(
        *map(frozen, measures),
        k=k,
        n_queries=len(asked),
        n_released=available,
        n_original=len(rows),
        deletions=Deletions(near, *without, n_records=len(distinct.first)),
    )


@dataclass(frozen=True, eq=False)
class _Distinct:
    """Distinct rows in order of their first copy: its index, their copies, and each row's number, (M,)."""

    first: Indices
    copies: Indices
    number: Indices


def _distinct(points: Floats) -> _Distinct:
    _, first, number, copies = np.unique(
        points, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    return _Distinct(first[order], copies[order], np.argsort(order)[number])


def _three(far: Floats, copies: Indices, gaps: Floats, k: int) -> Floats:
    """Distance, ambiguity, uncertainty of queries whose neighbours have so many copies; infinite if none.

    far : (q, d) ascending; copies : (q, d), zero where a neighbour does not count; gaps : (q, d, d)
    """
    taken = np.clip(k - (np.cumsum(copies, axis=1) - copies), 0, copies).astype(np.float64)
    first = np.min(far, axis=1, where=taken > 0, initial=np.inf)
    last = np.max(far, axis=1, where=taken > 0, initial=0.0)
    ambiguity = np.where(last > 0.0, first / np.where(last > 0.0, last, 1.0), 1.0)
    # Variance = half the mean squared difference of all pairs: identical ones vary by exactly zero.
    found = taken.sum(axis=1)
    spread = np.einsum("qa,qa->q", np.matmul(taken[:, None], gaps)[:, 0], taken)
    uncertainty = spread / (2.0 * np.maximum(found, 1.0) ** 2)
    return np.where(found > 0.0, [first, ambiguity, uncertainty], np.inf)


def _gaps(rows: Floats) -> Floats:
    """Mean squared difference over the columns, of every pair of neighbours, (q, d, n) → (q, d, d)."""
    gaps = np.zeros((len(rows), rows.shape[1], rows.shape[1]))
    for a in range(1, rows.shape[1]):
        difference = rows[:, :a] - rows[:, a : a + 1]
        gaps[:, :a, a] = gaps[:, a, :a] = np.einsum("qbi,qbi->qb", difference, difference)
    return gaps / rows.shape[2]


def measure_part(
    rows: Floats,
    chosen: Indices,
    points: Floats,
    k: int,
    size: int,
    leave_one_out: bool,
    rng: np.random.Generator,
) -> PredictionMeasures:
    """Measure against ``points``, or a random ``size`` of them when they are more."""
    if len(points) <= size:
        return measure(rows, chosen, points, k, chosen if leave_one_out else None)
    subset = rng.choice(len(points), size, replace=False)
    own = None
    if leave_one_out:
        place = np.full(len(rows), -1)
        place[subset] = np.arange(size)
        own = place[chosen]
    return measure(rows, chosen, points[subset], k, own)


def chosen_rows(queries: ArrayLike | None, n: int) -> Indices:
    """Return the checked row numbers to query, all of them for ``None``."""
    if queries is None:
        return np.arange(n)
    chosen = np.asarray(queries)
    if chosen.ndim != 1 or not len(chosen) or chosen.dtype.kind not in "iu":
        raise AnonymizationError("queries must be row numbers, got something else; use sample_queries")
    if chosen.min() < 0 or chosen.max() >= n or len(np.unique(chosen)) < len(chosen):
        raise AnonymizationError(
            f"queries must be distinct row numbers from 0 to {n - 1}; use sample_queries"
        )
    return chosen.astype(np.intp)


def sample_size(epsilon: float = 0.01, delta: float = 0.01) -> int:
    """Return how many queries bound a distribution function's error by epsilon, at confidence 1 − delta.

    Parameters
    ----------
    epsilon, delta : between 0 and 1

    Returns
    -------
    ⌈ln(2/δ)/(2ε²)⌉ records

    Raises
    ------
    AnonymizationError
        When a parameter is out of range.

    Notes
    -----
    Source: Dvoretzky, Kiefer and Wolfowitz 1956, with the constant of Massart 1990, for independent
    draws; :func:`sample_queries` draws without replacement, which varies less.

    Examples
    --------
    >>> sample_size()
    26492
    """
    between("epsilon", epsilon, 0, 1)
    between("delta", delta, 0, 1)
    return math.ceil(math.log(2.0 / delta) / (2.0 * epsilon**2))


def sample_queries(
    n: int, *, epsilon: float = 0.01, delta: float = 0.01, rng: np.random.Generator
) -> Indices:
    """Draw the row numbers to query: all when the table is no larger than the sample needed.

    Parameters
    ----------
    n : records in the original
    epsilon, delta : see :func:`sample_size`
    rng : generator

    Returns
    -------
    (q,) row numbers, ascending, without repetition

    Raises
    ------
    AnonymizationError
        When a parameter is out of range.

    Examples
    --------
    >>> sample_queries(3, rng=np.random.default_rng(1))
    array([0, 1, 2])
    """
    if n < 1:
        raise AnonymizationError(f"n must be at least 1, got {n}")
    size = sample_size(epsilon, delta)
    if n <= size:
        return np.arange(n)
    return np.sort(rng.choice(n, size, replace=False)).astype(np.intp)
