"""Prediction distance, ambiguity and uncertainty of every record, given a released table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from anoncore.errors import AnonymizationError
from anoncore.microdata.units import unit_codes
from anoncore.parameters import between, not_below
from anoncore.risk._checks import Floats, Indices, frozen, matrix
from anoncore.risk.jackknife import Deletions
from anoncore.risk.neighbourhoods import measured


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
    deletions : the measures without each record they rest on, from which the comparison learns how much
        they owe to the draw of the released set; about 200 bytes per query at k = 5
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
    units: Indices | None = None,
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
    units : (N,) statistical unit of each record of the original: with ``leave_one_out`` all records of the own unit
        are left out

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
    if not leave_one_out:
        return measure(rows, chosen, points, k, None)
    return measure(rows, chosen, points, k, chosen if units is None else units[chosen], units)


def weighted_measures(
    original: ArrayLike,
    released: ArrayLike,
    k: int = 5,
    *,
    similarity: ArrayLike,
    variation: ArrayLike | None = None,
    queries: ArrayLike | None = None,
) -> PredictionMeasures:
    """Measure as :func:`prediction_measures` does, where columns count differently.

    s(x, y) = √(Σ_i w_i (x_i − y_i)² / Σ_i w_i), and uncertainty is Σ_i v_i·(variance of column i) / Σ_i v_i. With
    weights of the columns that an attacker knows in w, and of those he does not know in v, uncertainty is how much what
    he is after varies among the records that look like the one he knows.

    Parameters
    ----------
    original : (N, n), encoded, in standard deviations
    released : (M, n), in the same encoding
    k : 2 … M
    similarity : (n,) weights w, 0 or more, one at least above 0
    variation : (n,) weights v, likewise; those of ``similarity`` by default
    queries : as of :func:`prediction_measures`

    Returns
    -------
    PredictionMeasures, to be compared with those of the reference under the same weights

    Raises
    ------
    AnonymizationError
        When shapes, values or k do not allow the measures.

    Notes
    -----
    Equal weights give the measures without weights; records that are alike in the weighted columns count one by one,
    also where all of them are. Source: Lasko and Vinterbo 2010, section II.A, where s and v are any measures of
    similarity and variation, such as "the (possibly weighted) average variance of each column".

    Examples
    --------
    >>> table = np.array([[0.0, 0.0], [0.0, 4.0], [9.0, 9.0]])
    >>> weighted_measures(table, table, 2, similarity=[1, 0], variation=[0, 1]).uncertainty[:2]
    array([4., 4.])
    """
    rows = matrix("original", original)
    points = matrix("released", released, rows.shape[1])
    near = _column_scales("similarity", similarity, rows.shape[1])
    spread = near if variation is None else _column_scales("variation", variation, rows.shape[1])
    chosen = chosen_rows(queries, len(rows))
    if not 2 <= k <= len(points):
        raise AnonymizationError(f"k must be 2 to {len(points)}, the number of neighbours there are, got {k}")
    found, deletions = measured(rows[chosen] * near, points * near, k, None, None, points * spread)
    return _of(found, deletions, k, len(points), len(rows))


def measures_by_groups(rows: Floats, points: Floats, k: int, units: Indices, groups: int = 10) -> PredictionMeasures:
    """Measure rows against a set, and again without each of some groups of its units; fewer where units are few.

    Where records of a unit are alike, deleting one of them changes nothing, and other units would have changed much.

    Parameters
    ----------
    rows : (q, n) of other people
    points : (M, n)
    k : 2 … 9/10 of the points, about
    units : (M,) statistical unit of each point
    groups : into which units are divided, by their codes
    """
    codes = unit_codes(units, len(points))
    groups = min(groups, int(codes.max()) + 1)
    whole, _ = measured(rows, points, k, None)
    without = [measured(rows, points[codes % groups != at], k, None)[0] for at in range(groups)]
    draw = np.broadcast_to(np.arange(groups), (len(rows), groups))
    left = Deletions(groups, frozen(draw), *(frozen(np.stack(side, axis=1)) for side in zip(*without, strict=True)))
    return _of(whole, left, k, len(points), len(rows))


def _of(found: Floats, deletions: Deletions, k: int, released: int, original: int) -> PredictionMeasures:
    distance, ambiguity, uncertainty = map(frozen, found)
    return PredictionMeasures(
        distance=distance,
        ambiguity=ambiguity,
        uncertainty=uncertainty,
        k=k,
        n_queries=len(distance),
        n_released=released,
        n_original=original,
        deletions=deletions,
    )


def _column_scales(name: str, weights: ArrayLike, columns: int) -> Floats:
    """Return what columns are multiplied by, so that plain means over them are weighted ones."""
    checked = np.asarray(weights, dtype=np.float64)
    if checked.shape != (columns,) or not np.isfinite(checked).all() or (checked < 0).any() or not checked.any():
        raise AnonymizationError(f"{name} must hold {columns} weights, one per column, 0 or more and not all 0")
    return np.sqrt(checked * (columns / checked.sum()))


def measure(
    rows: Floats, chosen: Indices, points: Floats, k: int, own: Indices | None, units: Indices | None = None
) -> PredictionMeasures:
    """Measure the chosen rows against checked points, without ``own``; as for :func:`measured`."""
    available = len(points) - (own is not None)
    if own is not None and units is not None:
        available = len(points) - int(np.unique(units, return_counts=True)[1].max())
    not_below(2, k=k)
    if k > available:
        raise AnonymizationError(f"k must be at most {available}, the number of neighbours there are, got {k}")
    found, deletions = measured(rows[chosen], points, k, own, units)
    return _of(found, deletions, k, len(points) - (own is not None), len(rows))


def chosen_rows(queries: ArrayLike | None, n: int) -> Indices:
    """Return the checked row numbers to query, all of them for ``None``."""
    if queries is None:
        return np.arange(n)
    chosen = np.asarray(queries)
    if chosen.ndim != 1 or not len(chosen) or chosen.dtype.kind not in "iu":
        raise AnonymizationError("queries must be row numbers, got something else; use sample_queries")
    if chosen.min() < 0 or chosen.max() >= n or len(np.unique(chosen)) < len(chosen):
        raise AnonymizationError(f"queries must be distinct row numbers from 0 to {n - 1}; use sample_queries")
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


def sample_queries(n: int, *, epsilon: float = 0.01, delta: float = 0.01, rng: np.random.Generator) -> Indices:
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
    not_below(1, n=n)
    size = sample_size(epsilon, delta)
    if n <= size:
        return np.arange(n)
    return np.sort(rng.choice(n, size, replace=False)).astype(np.intp)
