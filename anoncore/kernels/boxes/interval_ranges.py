"""Certified ranges of moments when each value is known only to lie inside its box.

A box of n records with weight w each counts as a mass W = n·w that may be spread over the box in any way
("relaxed"). Original values are one such spread, so the relaxed extremes enclose; and they hardly exceed
what the records can do: an extreme exists at which all boxes but one are concentrated on single points, at
that one the objective is stationary, and rounding its split to whole records costs at most a quarter of
(w·width)·(w·width'), that is O(1/N²).

All arrays are shifted and scaled by the caller to at most 1 in size.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Interval = tuple[float, float]

EPS = float(np.finfo(np.float64).eps)
_BRACKETS = 10.0 ** np.arange(-12, -2, 2)


def rounding(size: float, boxes: int) -> float:
    """Return what rounding can add to a sum over ``boxes`` of terms whose magnitudes sum to ``size``.

    γ_n = n·u/(1 − n·u) for a sum in any order, doubled, with 64 operations more for the terms themselves.
    """
    return (boxes + 64) * EPS * size


def total(mass: Floats, values: Floats) -> float:
    """Return Σ W x, without BLAS: its threads cost more than they bring and differ in their rounding."""
    return float(np.einsum("i,i->", mass, values))


# -- one variable


def mean_range(lower: Floats, upper: Floats, mass: Floats) -> Interval:
    """Return the exact range of Σ W x, outward by the rounding error; infinite faces make it infinite."""
    ends = []
    for face, sign in ((lower, -1.0), (upper, 1.0)):
        end = total(mass, face)
        ends.append(end + sign * rounding(total(mass, np.abs(face)), len(mass)) if math.isfinite(end) else end)
    return ends[0], ends[1]


def variance_range(lower: Floats, upper: Floats, mass: Floats) -> Interval:
    """Return the range of Σ W (x − Σ W x)²: the exact minimum and the relaxed maximum.

    V = min over μ of Σ W (x − μ)². Its minimum over the boxes is therefore the minimum of
    f(μ) = Σ W dist(μ, [lower, upper])², convex, found from sorted endpoints; what rounding has left of its
    slope is accounted for. Its maximum is at most F(μ) = Σ W max((lower−μ)², (upper−μ)²)
    for *every* μ. V is concave in the spread and convex in μ, so the minimum of F is the relaxed maximum:
    away from boxes whose mid-point is the minimiser every value stands on an endpoint.
    """
    boxes = len(mass)
    finite = np.concatenate([lower[np.isfinite(lower)], upper[np.isfinite(upper)]])
    if not len(finite):
        return 0.0, math.inf
    size = 4.0 * float(np.abs(finite).max()) ** 2
    mu = _nearest_point(lower, upper, mass)
    slope, _ = _slope(mu, lower, upper, mass)
    low = total(mass, (np.clip(mu, lower, upper) - mu) ** 2)
    # Convexity: f ≥ f(μ) − |f'(μ)|·(distance to the minimiser), and the slope's sign brackets that.
    span = float(np.ptp(finite))
    away = next((h for h in span * _BRACKETS if _brackets(mu, h, lower, upper, mass)), span)
    low = max(0.0, low - slope * away - rounding(low, boxes) - 4.0 * EPS**2 * size)
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        return low, math.inf
    mu = _farthest_point(lower, upper, mass)
    high = total(mass, np.maximum((lower - mu) ** 2, (upper - mu) ** 2))
    return low, high + rounding(high, boxes) + 4.0 * EPS**2 * size


def _slope(mu: float, lower: Floats, upper: Floats, mass: Floats) -> tuple[float, float]:
    """Return a bound of |f'(μ)|, and f'(μ) itself as computed."""
    at = np.clip(mu, lower, upper) - mu
    slope = -2.0 * total(mass, at)
    return abs(slope) + 2.0 * rounding(total(mass, np.abs(at)), len(mass)), slope


def _brackets(mu: float, h: float, lower: Floats, upper: Floats, mass: Floats) -> bool:
    """Return whether the minimiser of f is certainly within h of μ."""
    for sign in (-1.0, 1.0):
        most, slope = _slope(mu + sign * h, lower, upper, mass)
        if 2.0 * sign * slope <= most:  # the allowance for rounding exceeds the slope
            return False
    return True


def _nearest_point(lower: Floats, upper: Floats, mass: Floats) -> float:
    """Return μ = Σ W clip(μ, lower, upper), a point from which the squared distances are least."""
    left, right = np.isfinite(lower), np.isfinite(upper)
    ends = np.concatenate([lower[left], upper[right]])
    change = np.concatenate([mass[left], -mass[right]])
    order = np.argsort(ends, kind="stable")
    ends, change = ends[order], change[order]
    inside = float(mass[~left].sum()) + np.cumsum(change)
    outside = total(mass[left], lower[left]) - np.cumsum(change * ends)
    # Σ W clip(μ) − μ = outside + (inside − 1) μ from each endpoint to the next, falling.
    rising = np.flatnonzero(outside + (inside - 1.0) * ends >= 0)
    j = int(rising[-1]) if len(rising) else 0
    after = ends[min(j + 1, len(ends) - 1)]
    rest = 1.0 - inside[j]
    return float(np.clip(outside[j] / rest, ends[j], after)) if rest > 0 else float(ends[j])


def _farthest_point(lower: Floats, upper: Floats, mass: Floats) -> float:
    """Return the μ at which the sum of squared distances to the farther endpoints is least."""
    order = np.argsort(lower + upper, kind="stable")
    middle = (lower[order] + upper[order]) / 2
    flips = np.cumsum(mass[order] * (upper - lower)[order])
    # With the first j mid-points below μ the farther endpoints have this mean.
    means = total(mass, upper) - np.concatenate([[0.0], flips])
    above = np.flatnonzero(middle - means[1:] >= 0)
    j = int(above[0]) if len(above) else len(middle)
    if j == len(middle):
        return float(means[-1])
    below = middle[j - 1] if j else -math.inf
    return float(np.clip(means[j], below, middle[j]))
