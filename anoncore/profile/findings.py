"""What a profile hands back, and the limits that all its parts keep to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from anoncore.edits.model import Edit
from anoncore.microdata import Variable

MIN_COUNT = 5  # records that must share a value before it is written anywhere
MAX_LISTED = 20  # levels that are listed
MAX_CODES = 12  # whole numbers that may be codes of an ordinal variable
MIN_RECORDS = 20  # before uniqueness says anything
MIN_ROWS = 30  # complete records behind a sum
MAX_SUGGESTED = 20  # of each kind


@dataclass(frozen=True)
class Guess:
    """What one column seems to be.

    Parameters
    ----------
    variable : Variable
        Its role is "identifier" wherever releasing the column would be unsafe or impossible.
    reason : str
        Why, in words that hold no value.
    confirm : bool
        Whether a person should look at it before anything else.
    codes : values that may mean "missing", each with the number of records; proposed, not applied
    """

    variable: Variable
    reason: str
    confirm: bool = False
    codes: tuple[tuple[Any, int], ...] = ()


@dataclass(frozen=True)
class Finding:
    """One rule, why it is proposed, and whether it is safe to use without asking."""

    edit: Edit
    reason: str
    active: bool


@dataclass(frozen=True)
class Profile:
    """Guesses in column order, and the sums found among the columns."""

    guesses: tuple[Guess, ...]
    sums: tuple[Finding, ...]


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
