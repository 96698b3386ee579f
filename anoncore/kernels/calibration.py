"""Weights that are as near as possible to given ones and add up to stated totals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import InfeasibleError

Floats = NDArray[np.float64]

_STEPS = 100
_TOLERANCE = 1e-9
# What a unit of λ may miss of a total, as a share of all weights; and by what share a total may be missed in the end.
_RIDGE = 1e-7
MISSED = 1e-2


def calibrated(weights: Floats, columns: Floats, totals: Floats, lower: float, upper: float) -> Floats:
    """Return weights of which every column's weighted sum is its total.

    Parameters
    ----------
    weights : (N,) above 0
    columns : (N, m) float64
    totals : (m,), reached up to 1e-2 of each column's weighted size, or 1e-6 where they agree with each other
    lower, upper : of the ratio of new and given weights, 0 ≤ lower < 1 < upper

    Returns
    -------
    (N,) weights, between ``lower`` and ``upper`` times the given ones

    Raises
    ------
    InfeasibleError
        When no such weights meet all totals.

    Notes
    -----
    The ratio is F(u) = (L(U − 1) + U(1 − L)e^{Au}) / (U − 1 + (1 − L)e^{Au}), A = (U − L)/((1 − L)(U − 1)), of
    u = xᵀλ: the logit distance. λ solves Σ w F(xᵀλ) x + cλ = totals, by Newton's method with halved steps. Where
    columns follow from others, and their rounded totals do not quite, the small ridge c shares out the contradiction.

    Source: Deville and Särndal 1992, *JASA* 87, 376–382, case 6; Rao and Singh 1997, *Proceedings of the Section on
    Survey Research Methods*, American Statistical Association, 57–65 (ridge).

    Examples
    --------
    >>> calibrated(np.ones(4), np.array([[1.0, 1], [1, 1], [1, 0], [1, 0]]), np.array([4.0, 3.0]), 0.1, 5.0).round(3)
    array([1.5, 1.5, 0.5, 0.5])
    """
    size = np.maximum(np.abs(columns).T @ weights, np.finfo(np.float64).tiny)
    x, wanted = columns / size * weights.sum(), totals / size * weights.sum()
    scale = (upper - lower) / ((1.0 - lower) * (upper - 1.0))

    def ratio(at: Floats) -> tuple[Floats, Floats]:
        """Return (N,) ratios and their derivatives."""
        # Of e^{Au} the logistic share, without overflow.
        share = 0.5 * (1.0 + np.tanh(0.5 * (scale * (x @ at) + np.log((1.0 - lower) / (upper - 1.0)))))
        return lower + (upper - lower) * share, (upper - lower) * scale * share * (1.0 - share)

    ridge = _RIDGE * weights.sum()

    def missing(at: Floats, value: Floats) -> Floats:
        """Return (m,) what λ misses."""
        return wanted - (weights * value) @ x - ridge * at

    at = np.zeros(columns.shape[1])
    value, slope = ratio(at)
    left = missing(at, value)
    for _ in range(_STEPS):
        if np.abs(left).max(initial=0.0) <= _TOLERANCE * weights.sum():
            break
        information = (x.T * (weights * slope)) @ x + ridge * np.eye(len(at))
        step = np.linalg.solve(information, left)
        for halving in range(40):
            trial = at + step * 0.5**halving
            value, slope = ratio(trial)
            after = missing(trial, value)
            if after @ after < left @ left:
                break
        at, left = trial, after
    if np.abs(wanted - (weights * value) @ x).max(initial=0.0) <= MISSED * weights.sum():
        return np.asarray(weights * value)
    raise InfeasibleError(
        f"no weights between {lower:g} and {upper:g} times the present ones meet all totals; widen the bounds, state "
        "fewer totals, or check that they agree with each other"
    )
