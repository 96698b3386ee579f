"""Weights that are as near as possible to given ones and add up to stated totals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import InfeasibleError

Floats = NDArray[np.float64]

_STEPS = 100
_TOLERANCE = 1e-9


def calibrated(weights: Floats, columns: Floats, totals: Floats, lower: float, upper: float) -> Floats:
    """Return weights of which every column's weighted sum is its total.

    Parameters
    ----------
    weights : (N,) above 0
    columns : (N, m) float64
    totals : (m,), reached up to 1e-9 of each column's weighted size
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
    u = xᵀλ: the logit distance. λ solves Σ w F(xᵀλ) x = totals, by Newton's method with halved steps; columns that
    follow from others are allowed where their totals do, too.

    Source: Deville and Särndal 1992, *JASA* 87, 376–382, case 6.

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

    at = np.zeros(columns.shape[1])
    value, slope = ratio(at)
    missing = wanted - (weights * value) @ x
    for _ in range(_STEPS):
        if np.abs(missing).max(initial=0.0) <= _TOLERANCE * weights.sum():
            return np.asarray(weights * value)
        step = np.linalg.lstsq((x.T * (weights * slope)) @ x, missing, rcond=1e-12)[0]
        for halving in range(40):
            trial = at + step * 0.5**halving
            value, slope = ratio(trial)
            left = wanted - (weights * value) @ x
            if left @ left < missing @ missing:
                break
        else:
            break
        at, missing = trial, left
    raise InfeasibleError(
        f"no weights between {lower:g} and {upper:g} times the present ones meet all totals; widen the bounds, state "
        "fewer totals, or check that they agree with each other"
    )
