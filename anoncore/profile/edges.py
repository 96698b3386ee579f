"""Round numbers at which ranges end, away from values that few records hold."""

from __future__ import annotations

import math

import numpy as np

from anoncore.microdata.inference import MIN_COUNT


def edge(column: np.ndarray, low: float, high: float, unit: float | None) -> tuple[float, float]:
    """Return where a range that reaches to ``low`` ends, and where the next, from ``high``, begins.

    A round number between them and, on a grid of ``unit``, the next one; where that would write
    down a value that few records hold, the middle twice, which is on no grid.
    """
    middle = roundest(low, high)
    if unit is None:
        return middle, middle
    end = round(float(np.floor(round(middle / unit, 6)) * unit), 9)
    start = round(end + unit, 9)
    if any(0 < (column == v).sum() < MIN_COUNT for v in (end, start)):
        between = round((low + high) / 2, 2 + max(0, round(-math.log10(unit))))
        return between, between
    return end, start


def roundest(low: float, high: float) -> float:
    """Return the number in (low, high) with the fewest digits, or ``low`` where there is none."""
    for decimals in range(-9, 16):
        step = 10.0**-decimals
        candidate = round((math.floor(low / step) + 1) * step, max(0, decimals))
        if low < candidate < high:
            return candidate
    return low
