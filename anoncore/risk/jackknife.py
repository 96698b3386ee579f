"""How much a distribution function would move had other records been drawn into the searched set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anoncore.risk._checks import Floats, Indices

MOST = 0.25  # no variable between 0 and 1 varies more


@dataclass(frozen=True, eq=False)
class Deletions:
    """What each query's measures become when one distinct record leaves the searched set.

    Only the d nearest distinct records of a query are listed: without any other, nothing changes.

    Parameters
    ----------
    record : (n_queries, d) number of the distinct record that leaves
    distance, ambiguity, uncertainty : (n_queries, d) the measures without it, infinite if none is left
    n_records : distinct records in the set
    """

    record: Indices
    distance: Floats
    ambiguity: Floats
    uncertainty: Floats
    n_records: int


def set_variance(values: Floats, without: Floats, record: Indices, n_records: int, grid: Floats) -> Floats:
    """Estimate the variance of a measure's distribution function over draws of the searched set.

    F(x) = (1/n) Σ_j 1[m_j ≤ x] depends on the set through the values m_j. With Δ_ij(x) the change of query
    j's indicator when distinct record i of the R leaves the set, and S_i = Σ_j Δ_ij,

        v(x) = (R−1)/R · (1/n²) · [ Σ_i (S_i² − Σ_j Δ_ij²) − (Σ_i S_i)²/R ].

    Σ_i S_i² − (Σ_i S_i)²/R is the delete-one jackknife. The terms of a query with itself, Σ_j Δ_ij², are
    taken out because they measure the sampling of the queries, which the paired standard error counts
    already: what remains estimates, without bias over queries, the jackknife variance of
    G(x) = P(m ≤ x | set), the distribution function of infinitely many queries. On average over
    independent sets that is no less than the variance of G (Efron and Stein), however rough G may be.

    Identical records are one record here and leave together: in groups made by masking they are one
    draw, and a jackknife that removed one copy at a time would see no change at all. Where
    they coincide by chance this errs towards a larger variance.

    Parameters
    ----------
    values : (n,) the measure of each query
    without : (n, d) the same without each of its d nearest distinct records
    record : (n, d) numbers of these
    n_records : R; with fewer than 2 nothing is known and the largest possible variance, ¼, is returned
    grid : (g,) ascending

    Returns
    -------
    (g,) v at each grid point, 0 … ¼

    Notes
    -----
    Source: Shao and Tu 1995, *The Jackknife and Bootstrap*, section 2.1; Efron and Stein 1981, *Annals of
    Statistics* 9, 586–596. Exact, O(nd·log nd): each pair (i, j) changes Δ_ij at two points at most.

    Examples
    --------
    >>> set_variance(np.zeros(2), np.ones((2, 1)), np.zeros((2, 1), dtype=int), 4, np.array([0.0, 1.0]))
    array([0.1875, 0.    ])
    """
    size = len(grid)
    if n_records < 2:
        return np.full(size, MOST)
    # Δ_ij is −1 from m_j on and 0 again from the value without i on, or +1 between them the other way.
    leaves = np.broadcast_to(np.searchsorted(grid, values)[:, None], record.shape)
    enters = np.searchsorted(grid, without)
    moved = leaves != enters
    leaves, enters, record = leaves[moved], enters[moved], record[moved]
    total = _running(enters, size) - _running(leaves, size)
    alone = _running(np.minimum(enters, leaves), size) - _running(np.maximum(enters, leaves), size)
    # One sortable number per jump: record, place, direction.
    jumps = np.concatenate([2 * (record * (size + 1) + enters) + 1, 2 * (record * (size + 1) + leaves)])
    jumps.sort()
    step = 2 * (jumps & 1) - 1
    after = np.cumsum(step)  # S_i; each record's jumps sum to zero, so the next record starts from zero
    growth = after**2 - (after - step) ** 2
    squares = _running(jumps // 2 % (size + 1), size, growth)
    spread = squares - alone - total**2 / n_records
    scale = (n_records - 1) / n_records / len(values) ** 2
    return np.clip(spread * scale, 0.0, MOST)


def _running(places: Indices, size: int, weights: NDArray[np.int64] | None = None) -> Floats:
    """Cumulative count, or weight, of what lies at or before each of ``size`` places."""
    return np.cumsum(np.bincount(places, weights, minlength=size + 1)[:size]).astype(np.float64)
