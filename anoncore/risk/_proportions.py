"""Shares with their intervals, and the difference of two of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from scipy.stats import norm

from anoncore.parameters import between


@dataclass(frozen=True)
class Proportion:
    """A share with Wilson's interval.

    Parameters
    ----------
    value, lower, upper : 0 … 1; with no records 0 between 0 and 1
    n : records that the share is of
    """

    value: float
    lower: float
    upper: float
    n: int


@dataclass(frozen=True)
class Difference:
    """A difference of two independent shares with Newcombe's interval.

    Parameters
    ----------
    value, lower, upper : −1 … 1; where a side has no records 0 between −1 and 1
    """

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class IdentifierMatches:
    """How many values of a column that looks like an identifier are values of the original.

    Parameters
    ----------
    variable : the column; no one has confirmed that it is an identifier
    released, reference : shares of the different values of either file; None without a reference sample
    """

    variable: str
    released: Proportion
    reference: Proportion | None


@cache
def normal_quantile(confidence: float) -> float:
    """Return z of a two-sided interval with the given coverage."""
    return float(norm.ppf(0.5 + between("confidence", confidence, 0, 1) / 2.0))


def proportion(successes: float, n: float, confidence: float = 0.95) -> Proportion:
    """Return successes / n with the score interval of Wilson 1927.

    Successes may be fractions, expected ones where a tie is shared: their variance is below a binomial's,
    and the interval errs towards width; n may be what records that succeed together amount to.

    Examples
    --------
    >>> [round(bound, 3) for bound in (proportion(0, 20).lower, proportion(0, 20).upper)]
    [0.0, 0.161]
    """
    z = normal_quantile(confidence)
    if n == 0:
        return Proportion(0.0, 0.0, 1.0, 0)
    share = min(1.0, max(0.0, successes / n))
    scale = 1.0 + z * z / n
    centre = (share + z * z / (2.0 * n)) / scale
    reach = z / scale * math.sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n))
    return Proportion(share, max(0.0, min(share, centre - reach)), min(1.0, max(share, centre + reach)), round(n))


def difference(one: Proportion, other: Proportion) -> Difference:
    """Return one − other with the hybrid score interval of Newcombe 1998 (method 10).

    Examples
    --------
    >>> round(difference(proportion(56, 70), proportion(48, 80)).lower, 4)
    0.0524
    """
    if not one.n or not other.n:
        return Difference(0.0, -1.0, 1.0)
    value = one.value - other.value
    down = math.hypot(one.value - one.lower, other.upper - other.value)
    up = math.hypot(one.upper - one.value, other.value - other.lower)
    return Difference(value, max(-1.0, value - down), min(1.0, value + up))
