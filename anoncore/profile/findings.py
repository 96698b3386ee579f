"""A rule that the records of a table never break, and the limits that the search for rules observes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from anoncore.edits.model import Edit

MIN_ROWS = 30  # complete records behind a sum
MAX_SUGGESTED = 20  # of each kind


@dataclass(frozen=True)
class Finding:
    """One rule, a remark, whether it is safe to use without asking, and how many records break it."""

    edit: Edit
    reason: str = ""
    active: bool = True
    broken: int = 0


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
