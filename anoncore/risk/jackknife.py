"""How far a distribution function would move had other records been drawn into the searched set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anoncore.risk._checks import Floats, Indices

_LARGEST = 0.25  # no variable between 0 and 1 varies more


@dataclass(frozen=True, eq=False, repr=False)
class Deletions:
    """What each query's measures become when one draw leaves the searched set.

    A draw is a record, or a whole group of identical records that masking made. Only the d nearest of each
    query are listed: without any other, its measures stay as they are.

    Parameters
    ----------
    n_draws : R
    draw : (n, d) number of the draw that leaves, 0 … R − 1
    distance, ambiguity, uncertainty : (n, d) the measures without it, infinite when nothing is left
    """

    n_draws: int
    draw: Indices
    distance: Floats
    ambiguity: Floats
    uncertainty: Floats


def set_variance(values: Floats, without: Floats, draw: Indices, n_draws: int, grid: Floats) -> Floats:
    """Estimate the variance that a measure's distribution function owes to the draw of the searched set.

    F(x) = (1/n) Σ_j 1[m_j ≤ x]. With Δ_ij(x) the change of query j's indicator when draw i of the R leaves
    the set, and S_i = Σ_j Δ_ij the change of n·F,

        v(x) = (R−1)/R · (1/n²) · [ Σ_i (S_i² − Σ_j Δ_ij²) − (Σ_i S_i)²/R ].

    Σ_i S_i² − (Σ_i S_i)²/R alone is the delete-one jackknife of F. The terms Σ_j Δ_ij² of a query with
    itself are taken out, because they measure the sampling of the queries, which the paired standard error
    has counted. What remains is the jackknife of G(x) = P(m ≤ x | set), the distribution function of
    endlessly many queries, estimated from n of them without bias but for a factor 1 − 1/n and the cut at
    zero. For independent draws its mean is no less than the variance of G at R − 1 draws, however rough G
    may be (Efron and Stein); measured, it lies near that variance.

    Parameters
    ----------
    values : (n,) the measure of each query
    without : (n, d) the same without each of d draws
    draw : (n, d) their numbers
    n_draws : R; from fewer than 2 nothing can be learnt, and the largest possible variance is returned
    grid : (g,) ascending

    Returns
    -------
    (g,) v at each grid point, 0 … ¼

    Notes
    -----
    Source: Shao and Tu 1995, *The Jackknife and Bootstrap*, section 2.1; Efron and Stein 1981, *Annals of
    Statistics* 9, 586–596. Departs from them in leaving the terms of a query with itself out. Exact, in
    O(nd·log nd): each pair (i, j) changes at two points at most.

    Examples
    --------
    >>> grid = np.array([0.0, 1.0])
    >>> set_variance(np.zeros(2), np.ones((2, 1)), np.zeros((2, 1), dtype=int), 4, grid)
    array([0.1875, 0.    ])
    """
    if n_draws < 2:
        return np.full(len(grid), _LARGEST)
    # Places on the grid from which m_j ≤ x, with the draw and without it: Δ_ij is ±1 between the two.
    query, column = np.nonzero(without != values[:, None])
    present = np.searchsorted(grid, values)[query]
    absent = np.searchsorted(grid, without[query, column])
    places = len(grid) + 1
    total = _up_to(absent, places) - _up_to(present, places)
    own = _up_to(np.minimum(absent, present), places) - _up_to(np.maximum(absent, present), places)
    # The jumps of every S_i, as one sortable number each: draw, place, direction.
    start = draw[query, column] * places
    jumps = np.concatenate([2 * (start + absent) + 1, 2 * (start + present)])
    jumps.sort()
    step = 2 * (jumps & 1) - 1
    after = np.cumsum(step)  # S_i: the jumps of one draw add up to zero, so the next one starts from zero
    squares = _up_to(jumps // 2 % places, places, after**2 - (after - step) ** 2)
    spread = squares - own - total**2 / n_draws
    return np.clip(spread * ((n_draws - 1) / n_draws) / len(values) ** 2, 0.0, _LARGEST)


def _up_to(at: Indices, places: int, weights: Indices | None = None) -> Floats:
    """Count, or add the weights of, what lies at or before each place but the last, which is beyond all."""
    return np.cumsum(np.bincount(at, weights, minlength=places)[:-1]).astype(np.float64)
