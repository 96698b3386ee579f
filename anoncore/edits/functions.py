"""Numbers that are a simple function of another number: a logarithm, a square, another unit of measurement."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from anoncore.microdata.precision import observed_precision

FEWEST = 30  # different numbers, before a function explains them
NOISE = 2e-6  # relative: what single precision leaves of a number

Function: TypeAlias = Callable[[np.ndarray], np.ndarray]


def _log_or_zero(x: np.ndarray) -> np.ndarray:
    """Return the logarithm, and 0 where ``x`` is 0, as amounts with zeros are often given."""
    return np.asarray(np.where(x == 0, 0.0, np.log(x)))


KNOWN: tuple[Function, ...] = (np.log, np.log1p, np.log10, np.square, _log_or_zero)


def function_of(x: np.ndarray, y: np.ndarray, fewest: int = FEWEST) -> Function | None:
    """Return the function by which ``y`` (N,) follows from ``x`` (N,) up to rounding, in every record; None without.

    Tried are the logarithms of x (also with 0 where x is 0) and of 1 + x, the decimal logarithm, the square, and
    straight lines that give each number a value of its own; x must have at least ``fewest`` different numbers. Where y
    is missing nothing is said; where x is, or has no value, y must be missing.
    """
    both = ~np.isnan(y)
    x, y = x[both], y[both]
    if np.isnan(x).any() or (different := len(np.unique(x))) < fewest:
        return None
    # Numbers far from zero that differ little, such as times in seconds, are all alike but for such noise.
    within = 0.501 * (observed_precision(y) or 0.0) + NOISE * np.minimum(np.abs(y), np.ptp(y))
    low, high = int(x.argmin()), int(x.argmax())
    slope = (y[high] - y[low]) / (x[high] - x[low])
    line = partial(_line, slope=slope, at=x[low], value=y[low])
    # The ends are rounded themselves, so that the line may be off by as much again.
    tried: list[tuple[Function, np.ndarray]] = [(function, within) for function in KNOWN]
    if len(np.unique(y)) == different:
        tried.append((line, 2 * within))
    with np.errstate(all="ignore"):
        return next((f for f, most in tried if (np.abs(f(x) - y) <= most).all()), None)


def _line(x: np.ndarray, slope: float, at: float, value: float) -> np.ndarray:
    return np.asarray(value + slope * (x - at))
