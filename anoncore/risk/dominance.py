"""Numbers that a single unit dominates, and releases whose largest number follows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from anoncore.microdata import Microdata
from anoncore.microdata.units import unit_codes
from anoncore.risk.verdicts import Verdict

# By how many times the spread of the second to sixth unit the outermost must exceed the second to dominate.
_FACTOR = 10.0
_SPREAD = 5
# Units whose numbers have a spread beside the outermost.
_FEWEST = 3


@dataclass(frozen=True)
class Dominance:
    """Ends of variables at which one unit's number exceeds all others' by far.

    Parameters
    ----------
    looked_at : ends of numbers, two of each variable
    dominated : those that one unit dominates; confidential
    followed : variables in which the release reaches as far as nothing but that unit explains
    as_far : whether the reference, too, reaches as far in every one of them, and the release has no number of that
        unit that the reference lacks
    """

    meaning: ClassVar[str] = (
        "Numbers that one unit dominates and whose largest released value follows that unit: known constants of the "
        "masking turn it into the unit's own."
    )

    looked_at: int
    dominated: int
    followed: tuple[str, ...]
    as_far: bool

    @property
    def verdict(self) -> Verdict:
        """Fail where the release follows a unit; inconclusive where the reference reaches as far."""
        if not self.followed:
            return "pass"
        return "inconclusive" if self.as_far else "fail"


def dominance(original: Microdata, released: Microdata, reference: Microdata | None = None) -> Dominance:
    """Look for numbers that one unit dominates, and for releases that follow them.

    A unit dominates an end of a variable where its outermost value is at least ten times as far from the second unit's
    as that is from the sixth's, or the last of at least three. Where these are equal, the range of all other units' is
    taken, and where those are equal too, the variable's unit (1 of whole numbers). The release follows it where a value
    lies beyond the second unit's by more than that distance: averages, noise and copies do, since nothing else reaches
    there.

    Parameters
    ----------
    original, released, reference : Microdata; without a reference no one else is said to reach as far

    Returns
    -------
    Dominance

    Notes
    -----
    Claim: none. Who knows that an average of k values has one that dominates computes it from the average. Source: the
    dominance rules for magnitude tables, Hundepool et al. 2012, *Statistical Disclosure Control*, section 4.2.2.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> wealth = np.append(np.arange(50.0), 9000.0)
    >>> data = Microdata(pd.DataFrame({"wealth": wealth}), Schema([Variable("wealth", "continuous")]))
    >>> means = Microdata(pd.DataFrame({"wealth": np.append(np.arange(46.0), np.full(5, 1838.0))}), data.schema)
    >>> dominance(data, means).followed
    ('wealth',)
    """
    names = [v.name for v in original.schema if v.kind == "continuous" and v.name in released.schema]
    dominated, followed, as_far = 0, [], True
    for name in names:
        for sign in (1.0, -1.0):
            limit = _limit(original, name, sign)
            if limit is None:
                continue
            dominated += 1
            own, far, others = (_beyond(data, name, sign, limit) for data in (original, released, reference))
            if len(far):
                followed.append(name)
                as_far &= bool(len(others)) and not np.isin(far, np.setdiff1d(own, others)).any()
    return Dominance(2 * len(names), dominated, tuple(dict.fromkeys(followed)), as_far and bool(followed))


def _limit(data: Microdata, name: str, sign: float) -> float | None:
    """Return how far a release may reach where one unit dominates, else None."""
    values = sign * data.frame[name].to_numpy(dtype=np.float64)
    known = ~np.isnan(values)
    if not known.any():
        return None
    codes = unit_codes(data.units, len(values))[known]
    largest = np.full(int(codes.max()) + 1, -np.inf)
    np.maximum.at(largest, codes, values[known])
    outermost = np.sort(largest[np.isfinite(largest)])[::-1]
    if len(outermost) < _FEWEST:
        return None
    gap = outermost[0] - outermost[1]
    spread = outermost[1] - outermost[min(_SPREAD, len(outermost) - 1)] or outermost[1] - outermost[-1]
    if not spread:
        spread = data.schema[name].precision or float(float(gap).is_integer())
    if gap <= 0 or gap < _FACTOR * spread:
        return None
    return float(outermost[1] + spread)


def _beyond(data: Microdata | None, name: str, sign: float, limit: float) -> NDArray[np.float64]:
    """Return (q,) the values that lie further out than the limit."""
    if data is None or name not in data.schema:
        return np.empty(0)
    values = data.frame[name].to_numpy(dtype=np.float64)
    return values[sign * values > limit]
