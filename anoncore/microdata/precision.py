"""The unit to which numbers were recorded, and rounding to it."""

from __future__ import annotations

import math

import numpy as np

MAX_DECIMALS = 9
MIN_COUNT = 5  # records, or units, that must share a value before it is written anywhere


def observed_precision(values: np.ndarray) -> float | None:
    """Return the coarsest unit 10^-d, d = 0…9, of which every value is a multiple, else None.

    Parameters
    ----------
    values : (N,) float64, NaN where missing

    Examples
    --------
    >>> observed_precision(np.array([1.5, np.nan, 2.0]))
    0.1
    """
    present = values[~np.isnan(values)]
    if present.size == 0:
        return None
    exact = (d for d in range(MAX_DECIMALS + 1) if np.array_equal(np.round(present, d), present))
    return next((float(10.0**-decimals) for decimals in exact), None)


def round_to(values: np.ndarray, unit: float | None) -> np.ndarray:
    """Round to multiples of ``unit``; None leaves the values as they are.

    Values are rounded to a millionth of the unit first: whether one that lies half-way between two multiples
    goes up or down is then no matter of rounding errors, which differ between processors. No zero is negative: files
    would show -0.0.

    Examples
    --------
    >>> round_to(np.array([7.4, 8.1]), 5.0)
    array([ 5., 10.])
    """
    if unit is None:
        return values
    decimals = -np.log10(unit)
    if abs(decimals - round(decimals)) < 1e-12:
        return np.round(np.round(values, round(decimals) + 6), round(decimals)) + 0.0
    return np.round(np.round(values / unit, 6)) * unit + 0.0


def outward(value: float, *, upward: bool) -> float:
    """Return the next 1, 2 or 5 × 10ᵉ beyond ``value``, never ``value`` itself; 0 stays 0.

    Examples
    --------
    >>> outward(74, upward=True), outward(25, upward=False), outward(100, upward=True)
    (100.0, 20.0, 200.0)
    """
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = math.floor(math.log10(size))
    ladder = [float(f"{s}e{e}") for e in range(exponent - 1, exponent + 2) for s in (1, 2, 5)]
    if (value > 0) == upward:
        return math.copysign(min(v for v in ladder if v > size * (1 + 1e-9)), value)
    return math.copysign(max(v for v in ladder if v < size * (1 - 1e-9)), value)


def outer_limits(values: np.ndarray, units: np.ndarray | None = None) -> tuple[float, float]:
    """Return limits of numbers: the extreme where at least five units hold it, else the next 1, 2 or 5 × 10ᵉ beyond.

    Parameters
    ----------
    values : (N ≥ 1,) float64, none missing
    units : (N,) the statistical unit of each; None where each record is one of its own

    Examples
    --------
    >>> outer_limits(np.array([12.0] + [100.0] * 5))
    (10.0, 100.0)
    """

    def limit(extreme: float, *, upward: bool) -> float:
        at = values == extreme
        held = int(at.sum()) if units is None else len(np.unique(units[at]))
        return extreme if held >= MIN_COUNT else outward(extreme, upward=upward)

    return limit(float(values.min()), upward=False), limit(float(values.max()), upward=True)
