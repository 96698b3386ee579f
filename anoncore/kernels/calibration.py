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
# By how many standard deviations a unit may move totals that are drawn: an area of 0.593 for who knows all others.
_SHOWN = 1 / 3
_ROUNDS = 8
# Of a column's length: what is left of one that follows from those before it.
_DEPENDENT = 1e-6


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


def hiding_columns(parts: Floats) -> list[int]:
    """Return the totals that can be drawn without showing a unit, see `drawn_parts`.

    Parameters
    ----------
    parts : (U, m), what each of U units adds to each of m totals, in columns of length 1

    Returns
    -------
    list of int
        Columns, of which none follows from those before it. While a unit has a leverage above 1/9 on them, one is
        left out: the last that lowers it at least half as much as any, lest single units decide between like ones.

    Examples
    --------
    >>> hiding_columns(np.stack([np.full(100, 0.1), np.eye(100)[0]], axis=1))
    [0]
    """
    upper = np.abs(np.diag(np.linalg.qr(parts, mode="r")))
    columns = [int(at) for at in np.flatnonzero(upper > _DEPENDENT)]
    while columns:
        own = parts[:, columns]
        inverse = np.linalg.inv(own.T @ own)
        slopes = own @ inverse
        leverage = (slopes * own).sum(axis=1)
        unit = int(leverage.argmax())
        if leverage[unit] <= _SHOWN**2:
            break
        less = np.square(slopes[unit]) / np.diag(inverse)
        columns.pop(int(np.flatnonzero(less >= less.max() / 2)[-1]))
    return columns


def drawn_parts(parts: Floats, rng: np.random.Generator) -> Floats:
    """Draw by which factor each unit enters totals, so that these show little of any single unit.

    Parameters
    ----------
    parts : (U, m), linearly independent columns, what each of U units adds to each of m totals
    rng : Generator

    Returns
    -------
    (U,) factors above 0, with a mean of 1 and standard deviations of at most 1

    Notes
    -----
    Totals of all units' parts times these factors vary by Σ τ²ᵤ xᵤxᵤᵀ = S. A unit moves them by δᵤ = √(xᵤᵀS⁻¹xᵤ)
    standard deviations, and where totals are nearly normal, an attacker who knows everyone else distinguishes whether
    it takes part with an area of Φ(δᵤ/√2). τ is enlarged where δ is above 1/3, but not above 1: with 1 for all, totals
    vary as those of another sample, and a unit with the leverage h moves them by √h. All totals have the same factors,
    so that those which belong together do not contradict each other.

    Source: Rubin 1981, The Bayesian bootstrap, *Annals of Statistics* 9, 130–134, with unequal spread.

    Examples
    --------
    >>> factors = drawn_parts(np.ones((900, 1)), np.random.default_rng(0))
    >>> abs(float(factors.sum()) - 900.0) < 15
    True
    """
    basis = np.linalg.qr(parts)[0]
    moved = np.sqrt(np.square(basis).sum(axis=1))
    spread = np.minimum(moved / _SHOWN, 1.0)
    for _ in range(_ROUNDS):
        inverse = np.linalg.pinv((basis.T * np.square(spread)) @ basis)
        moved = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", basis, inverse, basis), 0.0))
        spread = np.minimum(spread * np.maximum(moved / _SHOWN, 1.0), 1.0)
    # A unit that adds to no total has no spread.
    shape = 1.0 / np.square(np.maximum(spread, 1e-6))
    return np.where(spread > 0, rng.gamma(shape) / shape, 1.0)
