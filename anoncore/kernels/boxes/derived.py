"""Statistics that follow from means, variances and order: ratios, slopes and quantiles of values known by boxes."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes import intervals
from anoncore.kernels.boxes.interval_ranges import Interval
from anoncore.kernels.boxes.intervals import Estimate

Floats = NDArray[np.float64]
Derived = Literal["ratio", "slope", "lower_quartile", "median", "upper_quartile"]

QUANTILES = {"lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75}
PAIRED = ("covariance", "correlation", "ratio", "slope")
UNBOUNDED = "what it is divided by may be 0, so nothing is certain"
_OUTWARD = 8 * float(np.finfo(np.float64).eps)


def quantile_kernel(x: Floats, at: float, mass: Floats) -> Floats:
    """Return how much a quantile moves with each value, 1 on average: the derivative of the smoothed quantile.

    Parameters
    ----------
    x : (N,) finite values in any units
    at : the quantile, in their units
    mass : (N,) positive, summing to 1

    Returns
    -------
    (N,)
        φ((x − q)/h), divided by its mean; h by Silverman's rule for the records that the masses amount to.

    Notes
    -----
    Claim: N·∂q/∂x_k of the q that solves Σ W Φ((q − x)/h) = p, whatever p; equal shifts of all values move it by as
    much.

    Source: implicit differentiation; Silverman 1986, *Density Estimation*, eq. 3.31, with the standard deviation.

    Examples
    --------
    >>> quantile_kernel(np.array([0.0, 1.0, 9.0]), 1.0, np.full(3, 1 / 3)).round(2).tolist()
    [1.44, 1.53, 0.03]
    """
    width = _bandwidth(x, mass)
    if not width > 0:
        return np.ones(len(x))
    distance = np.square((x - at) / width)
    weight = np.exp(-0.5 * (distance - distance.min()))
    return weight / (mass @ weight)


def density(x: Floats, at: float, mass: Floats) -> float:
    """Return the density of (N,) values at a place, per unit, by the kernel of `quantile_kernel`."""
    width = _bandwidth(x, mass)
    if not width > 0:
        return math.inf
    return float(mass @ np.exp(-0.5 * np.square((x - at) / width))) / (width * math.sqrt(2 * math.pi))


def _bandwidth(x: Floats, mass: Floats) -> float:
    return 0.9 * math.sqrt(float(mass @ np.square(x - mass @ x))) * float(np.square(mass).sum()) ** 0.2


def quantile(x: Floats, mass: Floats, p: float) -> float:
    """Return the least value at or below which a share p of the mass lies."""
    order = np.argsort(x, kind="stable")
    at = int(np.searchsorted(np.cumsum(mass[order]), p * mass.sum() * (1 - _OUTWARD)))
    return float(x[order[min(at, len(x) - 1)]])


def estimate(
    statistic: Derived, lower: Floats, upper: Floats, counts: NDArray[np.integer], weights: Floats | None = None
) -> Estimate:
    """Estimate a derived statistic from boxes, with its first-order and its guaranteed range.

    Parameters
    ----------
    statistic : {"ratio", "slope", "lower_quartile", "median", "upper_quartile"}
        Σy/Σx; the slope of the regression of y on x; or the least value that a share of the records do not exceed.
    lower, upper : (B, 2), y before x; (B, 1) for a quantile
    counts, weights : as for `anoncore.kernels.boxes.intervals.estimate`

    Returns
    -------
    Estimate
        In the variables' units.

    Raises
    ------
    AnonymizationError
        When no record has a positive weight.

    Notes
    -----
    Claim: encloses. The range of a quantile is exact, since it rises with every value, and that of a ratio too, since
    y and x are anywhere in their faces independently. The slope's is the smaller of covariance by variance and
    correlation by standard deviations, in interval arithmetic: not exact.

    Source: Xiang et al. 2013, section II, for the first-order range; interval arithmetic.

    Examples
    --------
    >>> faces = np.array([[0.0, 1.0], [4.0, 1.0]]), np.array([[2.0, 1.0], [6.0, 3.0]])
    >>> found = estimate("ratio", *faces, counts=np.array([1, 1]))
    >>> found.value, [round(end, 6) for end in found.guaranteed]
    (2.0, [1.0, 4.0])
    """
    if statistic in QUANTILES:
        return _quantile(statistic, lower[:, 0], upper[:, 0], counts, weights)
    asked = ("mean", "mean") if statistic == "ratio" else ("covariance", "variance")
    columns = ([0], [1]) if statistic == "ratio" else ([0, 1], [1])
    above, below = (
        intervals.estimate(name, lower[:, at], upper[:, at], counts, weights)  # type: ignore[arg-type]
        for name, at in zip(asked, columns, strict=True)
    )
    value = above.value / below.value if below.value else 0.0
    guaranteed = _divided(above.guaranteed, below.guaranteed)
    if statistic == "slope":
        guaranteed = _within(guaranteed, _by_correlation(lower, upper, counts, weights))
    note = above.note or below.note
    if not np.isfinite(guaranteed).all():
        note = f"{note}; {UNBOUNDED}" if note else UNBOUNDED
    delta = _first_order(statistic, value, lower, upper, counts, weights)
    value = min(max(value, guaranteed[0]), guaranteed[1])
    return Estimate(statistic, value, (value - delta, value + delta), guaranteed, above.records, note)


def _quantile(
    statistic: str, lower: Floats, upper: Floats, counts: NDArray[np.integer], weights: Floats | None
) -> Estimate:
    mass = _mass(counts, weights)
    centre, reach = _centre_and_reach(lower, upper)
    low, value, high = (quantile(face, mass, QUANTILES[statistic]) for face in (lower, centre, upper))
    with np.errstate(invalid="ignore"):
        delta = float(np.nansum(mass * quantile_kernel(centre, value, mass) * reach))
    value = min(max(value, low), high)
    note = intervals.OPEN_FACE if not np.isfinite(lower + upper).all() else ""
    records = int(np.asarray(counts)[mass > 0].sum())
    return Estimate(statistic, value, (value - delta, value + delta), (low, high), records, note)


def _mass(counts: NDArray[np.integer], weights: Floats | None) -> Floats:
    mass = np.asarray(counts, dtype=float) * (1.0 if weights is None else weights)
    if not mass.sum() > 0:
        raise AnonymizationError("no record with a positive weight is left to compute a statistic from")
    return mass / mass.sum()


def _centre_and_reach(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return mid-points, the other face where one is infinite, and half-widths."""
    with np.errstate(invalid="ignore"):
        centre = np.where(np.isinf(lower), upper, np.where(np.isinf(upper), lower, lower / 2 + upper / 2))
    return np.where(np.isinf(centre), 0.0, centre), upper / 2 - lower / 2


def _first_order(
    statistic: str,
    value: float,
    lower: Floats,
    upper: Floats,
    counts: NDArray[np.integer],
    weights: Floats | None,
) -> float:
    """Return Σ W Σ |b_i| Δ_i; infinite where a face or the value is."""
    mass = _mass(counts, weights)
    centre, reach = _centre_and_reach(lower, upper)
    if statistic == "ratio":
        mean = float(mass @ centre[:, 1])
        b = np.tile([1.0 / mean, -value / mean] if mean else [np.inf, np.inf], (len(mass), 1))
    else:
        y, x = (centre - mass @ centre).T
        variance = float(mass @ np.square(x))
        b = np.column_stack([x, y - 2 * value * x]) / variance if variance else np.full(centre.shape, np.inf)
    with np.errstate(invalid="ignore"):
        return float(mass @ np.nan_to_num(np.abs(b) * reach, nan=0.0, posinf=np.inf).sum(axis=1))


def _by_correlation(lower: Floats, upper: Floats, counts: NDArray[np.integer], weights: Floats | None) -> Interval:
    """Return the range of the correlation times that of the standard deviation of y, by that of x."""
    correlation = intervals.estimate("correlation", lower, upper, counts, weights).guaranteed
    of_y, of_x = (intervals.estimate("sd", lower[:, [j]], upper[:, [j]], counts, weights).guaranteed for j in (0, 1))
    with np.errstate(invalid="ignore"):
        ends = np.nan_to_num(np.multiply.outer(correlation, of_y), nan=0.0, posinf=np.inf, neginf=-np.inf)
    return _divided((float(ends.min()), float(ends.max())), of_x)


def _divided(above: Interval, below: Interval) -> Interval:
    """Divide ranges, outward by rounding; everything is possible where the divisor may be 0."""
    if below[0] <= 0 <= below[1] or not np.isfinite(below).all():
        return -math.inf, math.inf
    ends = [a / b for a in above for b in below]
    low, high = min(ends), max(ends)
    return low - abs(low) * _OUTWARD, high + abs(high) * _OUTWARD


def _within(one: Interval, other: Interval) -> Interval:
    return max(one[0], other[0]), min(one[1], other[1])
