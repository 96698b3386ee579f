"""How much a record should count: weights that balance the width of its box against sampling error."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def optimal_weights(c: Floats, n: int, A: float) -> tuple[Floats, float]:
    """Weigh records so that privacy range and sampling error together are least.

    Parameters
    ----------
    c : (N,), half-range per record and column, in units of the statistic; infinite ones get weight 0
    n : columns
    A : standard deviation of a single record's contribution, >= 0, in units of the statistic

    Returns
    -------
    (N,) weights summing to 1, and λ in units of the statistic: w = K·max(0, λ − n·c).

    Raises
    ------
    AnonymizationError
        Every c is infinite.

    Notes
    -----
    Claim: the exact minimum of n·Σ w·c + A·√Σw² over w >= 0, Σw = 1; its value is λ. With A = 0 all
    weight is spread evenly over the smallest c. The weights depend on the data, so a weighted mean is
    biased for the population mean.

    Source: Xiang et al. 2013, section III. Departs from eq. 3 and what follows it: w = K·(λ − c),
    K = 1/(Ñλ − Σc) there lacks the factor n of their own condition (1). λ solves
    F(λ) = Σ max(0, λ − n·c)² = A²: F rises, piece by piece a square, found from one sort and sums of
    positive terms only. Their iteration starts from a square root that is not real if A² < n²·N·Var(c).

    Examples
    --------
    >>> weights, lam = optimal_weights(np.array([0.0, 1.0, 9.0]), 1, 5.0**0.5)
    >>> weights.round(4).tolist(), round(lam, 6)
    ([0.6667, 0.3333, 0.0], 2.0)
    """
    cost = n * c
    finite = np.isfinite(cost)
    if not finite.any():
        raise AnonymizationError("weights: every record's half-range is infinite; give the boxes finite limits")
    u = np.sort(cost[finite])
    step = np.diff(u)
    before = np.arange(1, len(u))
    # G and F at λ = u_j: Σ (u_j − u_i) and Σ (u_j − u_i)² over i < j.
    G = np.append(0.0, np.cumsum(before * step))
    F = np.append(0.0, np.cumsum(step * (2.0 * G[:-1] + before * step)))
    j = int(np.searchsorted(F, A * A, side="right"))
    rest = A * A - F[j - 1]
    beyond = rest / (G[j - 1] + np.sqrt(G[j - 1] ** 2 + j * rest)) if rest > 0 else 0.0
    weights = np.where(finite, np.maximum(beyond + (u[j - 1] - cost), 0.0), 0.0)
    if not weights.sum() > 0:
        weights = (cost == u[0]).astype(float)
    return weights / weights.sum(), float(u[j - 1] + beyond)


def crisp_rule(c: Floats, n: int, A: float) -> tuple[Flags, float]:
    """Choose the threshold below which records are kept, all with the same weight.

    Parameters
    ----------
    c, n, A : as for `optimal_weights`

    Returns
    -------
    (N,) bool, c <= c₀, and c₀ in the units of c; the larger c₀ of equals.

    Raises
    ------
    AnonymizationError
        Every c is infinite.

    Notes
    -----
    Claim: the least n·mean(c) + A/√(records kept) over all thresholds. Never better than `optimal_weights`.

    Source: Xiang et al. 2013, section II.

    Examples
    --------
    >>> crisp_rule(np.array([0.0, 1.0, 9.0]), 1, 2.0)[0].tolist()
    [True, True, False]
    """
    u = np.sort(c[np.isfinite(c)])
    if not len(u):
        raise AnonymizationError("weights: every record's half-range is infinite; give the boxes finite limits")
    kept = np.arange(1, len(u) + 1)
    value = n * np.cumsum(u) / kept + A / np.sqrt(kept)
    value[:-1][u[:-1] == u[1:]] = np.inf
    threshold = float(u[len(u) - 1 - value[::-1].argmin()])
    return c <= threshold, threshold


def objective(weights: Floats, c: Floats, n: int, A: float) -> float:
    """Return n·Σ w·c + A·√Σw², what `optimal_weights` minimises.

    Parameters
    ----------
    weights : (N,), summing to 1
    c, n, A : as for `optimal_weights`

    Returns
    -------
    float
        Privacy half-range plus sampling error, in units of the statistic.

    Notes
    -----
    Source: Xiang et al. 2013, section III.

    Examples
    --------
    >>> objective(np.array([0.5, 0.5, 0.0]), np.array([1.0, 3.0, np.inf]), 1, 2.0**0.5)
    3.0
    """
    used = weights > 0
    return float(n * (weights[used] @ c[used]) + A * np.sqrt((weights**2).sum()))
