"""Statistics of values of which only boxes are known: an estimate and the range it is certain to lie in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes.interval_pairs import correlation_range, covariance_range
from anoncore.kernels.boxes.interval_ranges import (
    Floats,
    Interval,
    mean_range,
    rounding,
    total,
    variance_range,
)

Statistic = Literal["mean", "variance", "sd", "covariance", "correlation"]

OPEN_FACE = (
    "some boxes have no bound on one side; their values are taken at the other bound "
    "(at the mean of the rest where there is neither)"
)
CONSTANT = "a variable is constant, so the correlation is undefined; 0 stands for it"
FLAT = "the mid-points do not vary, so they carry no information on the {}"
_UNIT = float(np.finfo(np.float64).eps)
# The least double above 0, and below what a rounding error is less than that.
_TINY, _COARSE = math.ulp(0.0), 1e-290


@dataclass(frozen=True)
class Estimate:
    """A statistic computed from boxes.

    Parameters
    ----------
    statistic : str
        Its name, such as ``"mean(income)"``.
    value : float
        With every record at the mid-point of its box; never NaN. Spread inside the boxes is not in it.
    linearised : (float, float)
        value ± Δ, Δ = Σ |∂C/∂x| × half-width: the range to first order, good for small boxes, no guarantee.
    guaranteed : (float, float)
        Encloses the statistic of the values that were put into boxes, wherever in their boxes they are.
    records : int
        How many records it is about.
    note : str
        What a reader must know beside the figures; empty if nothing.
    """

    statistic: str
    value: float
    linearised: Interval
    guaranteed: Interval
    records: int
    note: str = ""

    def __str__(self) -> str:
        low, high = self.guaranteed
        width = high - low
        digits = 2 - math.floor(math.log10(width)) if 0 < width < math.inf else None
        value = _shown(self.value, digits, ROUND_HALF_EVEN)
        certain = f"{_shown(low, digits, ROUND_FLOOR)} to {_shown(high, digits, ROUND_CEILING)}"
        first = " to ".join(_shown(end, digits, ROUND_HALF_EVEN) for end in self.linearised)
        records = f"{self.records:_}".replace("_", " ")
        text = f"{self.statistic} = {value}, certainly within {certain} (to first order {first}; {records} records)"
        return f"{text}\nNote: {self.note}" if self.note else text


def _shown(value: float, digits: int | None, direction: str) -> str:
    if not math.isfinite(value):
        return {math.inf: "infinity", -math.inf: "-infinity"}.get(value, "undefined")
    if digits is None or not -12 < digits < 12:
        short = f"{value:.12g}"
        if float(short) == value:
            return short
        return f"{Context(prec=12, rounding=direction).create_decimal(Decimal(value)).normalize():g}"
    unit = Decimal(1).scaleb(-max(digits, 0))
    # A bound that is a hair beyond a round figure because of the allowance for rounding counts as round.
    hair = Decimal({ROUND_FLOOR: 1, ROUND_CEILING: -1}.get(direction, 0)) * unit / 1_000_000
    return f"{(Decimal(value) + hair).quantize(unit, direction, Context(prec=400)):f}"


def estimate(
    statistic: Statistic,
    lower: Floats,
    upper: Floats,
    counts: NDArray[np.integer],
    weights: Floats | None = None,
    *,
    unbiased: bool = False,
) -> Estimate:
    """Estimate a statistic from boxes, with its first-order and its guaranteed range.

    Parameters
    ----------
    statistic : {"mean", "variance", "sd", "covariance", "correlation"}
    lower, upper : (B, 1), or (B, 2) for covariance and correlation
        Faces of the boxes in the variables' units; lower ≤ upper, −∞ and ∞ where a box is open, no NaN.
        Boxes need not be distinct.
    counts : (B,) int
        Records per box.
    weights : (B,), optional
        Weight of each record of the box, any unit; 1 when None. 0 dismisses a box.
    unbiased : bool
        Divide by N − 1 instead of N (variance, sd, covariance; not with weights).

    Returns
    -------
    Estimate
        In the variables' units. The guaranteed range includes an allowance for rounding, (B + 64)·2⁻⁵² times
        the sum of the magnitudes of the terms of every sum over boxes, after taking off the mean.

    Raises
    ------
    AnonymizationError
        When no record has a positive weight, or N − 1 is asked for with weights or one record.

    Notes
    -----
    Claim: encloses. The range of the mean is exact, and so is the least variance; the largest is exact up to
    (w·width/2)² of one box, w = 1/N. The covariance's ends are exact up to the like and 0.2 % of the
    first-order half-width. The correlation's range takes covariance and both variances jointly and exceeds
    the reachable one by about 1 % of its half-width where no variance can be 0; where one can, it follows
    from the separate ranges. Tighter than interval arithmetic, `plain`, in any case. An open box leaves a
    pair undetermined: covariance −∞ to ∞, correlation −1 to 1.
    O(B log B) for a mean or variance; O(B) times some dozens of evaluations for a pair.

    Source: Xiang et al. (2013), section II for Δ; range of the variance after the sorted-endpoint algorithms
    that the paper cites (its ref. 3); the bounds are derived in `_interval_ranges` and
    `_interval_pairs`.

    Examples
    --------
    >>> faces = np.array([[0.0], [10.0]]), np.array([[2.0], [14.0]])
    >>> print(estimate("mean", *faces, counts=np.array([3, 1])))
    mean = 3.75, certainly within 2.50 to 5.00 (to first order 2.50 to 5.00; 4 records)
    """
    if statistic not in get_args(Statistic):
        raise AnonymizationError(f"statistic must be one of {', '.join(get_args(Statistic))}, got {statistic!r}")
    boxes = _prepare(lower, upper, counts, weights)
    value, delta, note = _AT_CENTRES[statistic](boxes)
    low, high = _guaranteed(statistic, boxes)
    outer = _plain(statistic, boxes)
    low, high = max(low, outer[0]), min(high, outer[1])
    value = min(max(value, low), high)
    linearised = (low, high) if math.isnan(delta) else (value - delta, value + delta)
    factor = _bessel(statistic, boxes, weights) if unbiased else 1.0
    ends = boxes.in_units(statistic, (value, *linearised, low, high), factor)
    guaranteed = _outward(ends[3], ends[4])
    if statistic == "correlation":
        guaranteed = max(guaranteed[0], -1.0), min(guaranteed[1], 1.0)
    if boxes.open:
        note = f"{OPEN_FACE}; {note}" if note else OPEN_FACE
    return Estimate(statistic, ends[0], (ends[1], ends[2]), guaranteed, boxes.records, note)


def plain(
    statistic: Statistic,
    lower: Floats,
    upper: Floats,
    counts: NDArray[np.integer],
    weights: Floats | None = None,
) -> Interval:
    """Evaluate the formula of a statistic in interval arithmetic, the yardstick of the guaranteed range.

    Parameters
    ----------
    statistic, lower, upper, counts, weights : as for `estimate`

    Returns
    -------
    (float, float)
        Encloses as well, but every occurrence of a value counts as a value of its own.

    Raises
    ------
    AnonymizationError
        When no record has a positive weight.

    Examples
    --------
    >>> faces = np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]])
    >>> [round(end, 6) for end in plain("variance", *faces, counts=np.array([1, 1]))]
    [0.0, 2.25]
    """
    boxes = _prepare(lower, upper, counts, weights)
    low, high = boxes.in_units(statistic, _plain(statistic, boxes))
    return _outward(low, high)


# -- boxes in units of their own


@dataclass(frozen=True, eq=False, repr=False)
class _Boxes:
    """Boxes with positive mass, shifted and scaled: finite faces lie in [−1, 1]."""

    lower: Floats  # (B, m)
    upper: Floats
    centre: Floats
    reach: Floats  # half-widths
    mass: Floats  # (B,), sums to 1
    records: int
    offset: Floats  # (m,)
    scale: Floats  # (m,), powers of 2
    constant: bool  # one variable is certainly the same for all records

    @property
    def open(self) -> bool:
        return not (np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    def in_units(self, statistic: str, values: Iterable[float], factor: float = 1.0) -> list[float]:
        """Return figures in the variables' units; one scale at a time, so that 0 stays 0."""
        scale = self.scale.tolist()
        factors = {
            "mean": scale[:1],
            "variance": [scale[0], scale[0]],
            "sd": scale[:1],
            "covariance": scale,
            "correlation": [],
        }[statistic]
        offset = float(self.offset[0]) if statistic == "mean" else 0.0
        products = [(value, math.prod(factors, start=float(value) * factor)) for value in values]
        # What is too small for a double is not nothing.
        return [offset + (math.copysign(_TINY, v) if v and not p else p) for v, p in products]


def _prepare(lower: Floats, upper: Floats, counts: NDArray[np.integer], weights: Floats | None) -> _Boxes:
    counts = np.asarray(counts)
    given = np.ones(len(counts)) if weights is None else np.asarray(weights, dtype=float)
    keep = (counts > 0) & (given > 0)
    if not keep.any():
        raise AnonymizationError("no record with a positive weight is left to compute a statistic from")
    lower = np.asfortranarray(np.asarray(lower, dtype=float).reshape(len(counts), -1)[keep])
    upper = np.asfortranarray(np.asarray(upper, dtype=float).reshape(len(counts), -1)[keep])
    mass = counts[keep] * (given[keep] / given[keep].max())
    mass = mass / mass.sum()
    records = int(counts[keep].sum())
    constant = records == 1 or bool((lower.min(axis=0) == upper.max(axis=0)).any())
    with np.errstate(invalid="ignore"):
        centre = lower / 2 + upper / 2
    centre = np.where(np.isfinite(lower), np.where(np.isfinite(upper), centre, lower), upper)
    both = np.isinf(centre)
    for j in np.flatnonzero(both.any(axis=0)):
        known = ~both[:, j]
        # A mean of nothing is a matter of taste; 0 keeps it a number.
        centre[~known, j] = np.average(centre[known, j], weights=mass[known]) if known.any() else 0.0
    # Faces are mostly near the centres, so that the offset takes off what rounding errors grow with.
    offset = _over_boxes(mass, centre)
    lower, upper = np.nextafter(lower - offset, -np.inf), np.nextafter(upper - offset, np.inf)
    size = np.maximum(*(np.where(np.isfinite(f), np.abs(f), 0.0).max(axis=0) for f in (lower, upper)))
    scale = np.ldexp(1.0, np.frexp(size)[1])
    lower, upper = lower / scale, upper / scale
    return _Boxes(
        lower=lower,
        upper=upper,
        centre=(centre - offset) / scale,
        reach=(upper - lower) / 2,
        mass=mass,
        records=records,
        offset=offset,
        scale=scale,
        constant=constant,
    )


def _over_boxes(mass: Floats, columns: Floats) -> Floats:
    return np.array([total(mass, columns[:, j]) for j in range(columns.shape[1])])


def _outward(low: float, high: float) -> Interval:
    """Widen by the rounding of the last few operations; 0 stays 0."""
    margins = [4 * _UNIT * abs(end) if math.isfinite(end) else 0.0 for end in (low, high)]
    least = [_TINY if 0 < abs(end) < _COARSE else 0.0 for end in (low, high)]
    return low - max(margins[0], least[0]), high + max(margins[1], least[1])


def _bessel(statistic: str, boxes: _Boxes, weights: Floats | None) -> float:
    if statistic not in ("variance", "sd", "covariance"):
        return 1.0
    if weights is not None:
        raise AnonymizationError("dividing by N − 1 needs equal weights; leave out unbiased or the weights")
    if boxes.records < 2:
        raise AnonymizationError(f"dividing by N − 1 needs at least 2 records, got {boxes.records}")
    factor = boxes.records / (boxes.records - 1)
    return math.sqrt(factor) if statistic == "sd" else factor


# -- at the mid-points: value and first-order half-width (NaN where there is no derivative)

At = tuple[float, float, str]


def _delta(boxes: _Boxes, *coefficients: Floats) -> float:
    """Return Σ W Σ |b_i| Δ_i; an open box counts unless its coefficient is 0."""
    delta = 0.0
    for j, b in enumerate(coefficients):
        b = np.abs(b)
        delta += total(boxes.mass, np.where(b > 0, b * np.where(b > 0, boxes.reach[:, j], 0.0), 0.0))
    return delta


def _deviations(boxes: _Boxes) -> Floats:
    return boxes.centre - _over_boxes(boxes.mass, boxes.centre)


def _mean_at(boxes: _Boxes) -> At:
    return total(boxes.mass, boxes.centre[:, 0]), _delta(boxes, np.ones(len(boxes.mass))), ""


def _variance_at(boxes: _Boxes) -> At:
    a = _deviations(boxes)[:, 0]
    return total(boxes.mass, a**2), _delta(boxes, 2 * a), ""


def _sd_at(boxes: _Boxes) -> At:
    a = _deviations(boxes)[:, 0]
    sd = math.sqrt(total(boxes.mass, a**2))
    return (sd, _delta(boxes, a / sd), "") if sd > 0 else (0.0, math.nan, FLAT.format("spread"))


def _covariance_at(boxes: _Boxes) -> At:
    a = _deviations(boxes)
    return total(boxes.mass, a[:, 0] * a[:, 1]), _delta(boxes, a[:, 1], a[:, 0]), ""


def _correlation_at(boxes: _Boxes) -> At:
    if boxes.constant:
        return 0.0, math.nan, CONSTANT
    a = _deviations(boxes)
    sd = np.sqrt(_over_boxes(boxes.mass, a**2))
    # Rounding leaves equal mid-points a deviation of this size.
    if (sd <= 8 * _UNIT).any():
        return 0.0, math.nan, FLAT.format("correlation")
    u, v = (a / sd).T
    r = total(boxes.mass, u * v)
    return r, _delta(boxes, (v - r * u) / sd[0], (u - r * v) / sd[1]), ""


_AT_CENTRES: dict[str, Callable[[_Boxes], At]] = {
    "mean": _mean_at,
    "variance": _variance_at,
    "sd": _sd_at,
    "covariance": _covariance_at,
    "correlation": _correlation_at,
}


# -- guaranteed ranges


def _guaranteed(statistic: str, boxes: _Boxes) -> Interval:
    faces = boxes.lower, boxes.upper
    if statistic == "mean":
        return mean_range(faces[0][:, 0], faces[1][:, 0], boxes.mass)
    if statistic == "correlation":
        return (-1.0, 1.0) if boxes.open or boxes.constant else correlation_range(*faces, boxes.mass)
    if boxes.constant:
        return 0.0, 0.0
    if statistic == "covariance":
        return (-math.inf, math.inf) if boxes.open else covariance_range(*faces, boxes.mass)
    low, high = variance_range(faces[0][:, 0], faces[1][:, 0], boxes.mass)
    return (low, high) if statistic == "variance" else (math.sqrt(low), math.sqrt(high))


# -- plain interval arithmetic


def _plain(statistic: str, boxes: _Boxes) -> Interval:
    if statistic == "mean":
        return mean_range(boxes.lower[:, 0], boxes.upper[:, 0], boxes.mass)
    about = [_about_mean(boxes, j) for j in range(boxes.lower.shape[1])]
    if statistic in ("variance", "sd"):
        low, high = _plain_variance(about[0], boxes.mass)
        return (low, high) if statistic == "variance" else (math.sqrt(low), math.sqrt(high))
    covariance = _plain_covariance(about[0], about[1], boxes.mass)
    if statistic == "covariance":
        return covariance
    spans = [_plain_variance(a, boxes.mass) for a in about]
    low, high = (math.sqrt(spans[0][i] * spans[1][i]) for i in range(2))
    if low <= 0 or not math.isfinite(high):
        return -1.0, 1.0
    ends = [c / d for c in covariance for d in (low, high)]
    return max(-1.0, min(ends) - 8 * _UNIT), min(1.0, max(ends) + 8 * _UNIT)


def _about_mean(boxes: _Boxes, j: int) -> tuple[Floats, Floats]:
    low, high = mean_range(boxes.lower[:, j], boxes.upper[:, j], boxes.mass)
    return boxes.lower[:, j] - high, boxes.upper[:, j] - low


def _plain_variance(about: tuple[Floats, Floats], mass: Floats) -> Interval:
    low, high = about
    nearest = np.maximum(np.maximum(low, -high), 0.0)
    farthest = np.maximum(-low, high)
    least, most = total(mass, nearest**2), total(mass, farthest**2)
    return max(0.0, least - rounding(least, len(mass))), most + rounding(most, len(mass))


def _plain_covariance(x: tuple[Floats, Floats], y: tuple[Floats, Floats], mass: Floats) -> Interval:
    # 0 · ∞ stands for 0 here, as it does in interval arithmetic.
    with np.errstate(invalid="ignore"):
        corners = [np.nan_to_num(a * b, nan=0.0, posinf=np.inf, neginf=-np.inf) for a in x for b in y]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    noise = rounding(total(mass, np.maximum(np.abs(low), np.abs(high))), len(mass))
    return (
        total(mass, low) - (noise if math.isfinite(noise) else 0.0),
        total(mass, high) + (noise if math.isfinite(noise) else 0.0),
    )
