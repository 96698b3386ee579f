"""Interval disclosure: how often a person's number lies in a narrow interval about the one that was released for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from anoncore.errors import AnonymizationError
from anoncore.microdata import SPIKE, Microdata
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._proportions import Proportion, proportion


@dataclass(frozen=True)
class IntervalDisclosure:
    """The share of the numbers of one variable that lie near the number released for their record.

    The most frequent number is left out where at least 5 % of the records hold it: it would make a share of chance.

    Parameters
    ----------
    name : the variable
    within : the share that lies within
    chance : the same share where each record is paired with every released one
    """

    meaning: ClassVar[str] = (
        "How often an attacker who has found a person's row, and gives a narrow interval about its number, is right."
    )

    name: str
    within: Proportion
    chance: float

    @property
    def excess(self) -> float:
        """The share beyond chance, of what is possible beyond chance: 1 where every number is released as it is."""
        return self._beyond_chance(self.within.value)

    @property
    def lower(self) -> float:
        """The lower bound of the excess."""
        return self._beyond_chance(self.within.lower)

    @property
    def upper(self) -> float:
        """The upper bound of the excess."""
        return self._beyond_chance(self.within.upper)

    def _beyond_chance(self, share: float) -> float:
        return (share - self.chance) / (1.0 - self.chance) if self.chance < 1.0 else 0.0


def interval_disclosure(
    original: Microdata, released: Microdata, own: Indices, *, width: float = 0.05, confidence: float = 0.99
) -> tuple[IntervalDisclosure, ...]:
    """Compare each number with the one released for its record.

    Parameters
    ----------
    original, released : Microdata, N and M records
    own : (N,) position of each record's released row, −1 where there is none
    width : half of an interval's width, in standard deviations of the original, above 0
    confidence : of the shares of all variables together, between 0 and 1

    Returns
    -------
    One IntervalDisclosure for each continuous variable that both have and that varies; records without a number on
    either side are not counted, nor the most frequent number of the original where at least 5 % of the numbers are it.

    Raises
    ------
    AnonymizationError
        When the width is not above 0.

    Notes
    -----
    Claim: the share by chance is exact. O(N log M) for each variable.

    Source: Mateo-Sanz, Sebé and Domingo-Ferrer (2004), Outlier Protection in Continuous Microdata Masking, *Privacy in
    Statistical Databases*, 201–215, with intervals about the released number as Templ, Kowarik and Meindl (2015).

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> data = Microdata(pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}), Schema([Variable("x", "continuous")]))
    >>> (found,) = interval_disclosure(data, data, np.arange(4))
    >>> found.within.value, found.chance
    (1.0, 0.25)
    """
    if not width > 0:
        raise AnonymizationError(f"width must be above 0, got {width}")
    found, schemas = [], (original.schema, released.schema)
    names = [n for n in schemas[0].masked if n in schemas[1] and not any(one[n].is_categorical for one in schemas)]
    for name in names:
        x = original.frame[name].to_numpy(dtype="float64")
        y = released.frame[name].to_numpy(dtype="float64")
        spread = float(np.nanstd(x)) if np.isfinite(x).any() else 0.0
        if not spread > 0:
            continue
        mine = np.where(own >= 0, y[own], np.nan) if len(y) else np.full(len(x), np.nan)
        both = np.isfinite(x) & np.isfinite(mine) & (x != _spike(x))
        if both.any():
            near = int((np.abs(x - mine)[both] <= width * spread).sum())
            share = proportion(near, int(both.sum()), 1.0 - (1.0 - confidence) / len(names))
            found.append(IntervalDisclosure(name, share, _by_chance(x[both], y[np.isfinite(y)], width * spread)))
    return tuple(found)


def _spike(x: Floats) -> float:
    """Return the most frequent number where at least 5 % of the numbers are it, else none."""
    values, held = np.unique(x[np.isfinite(x)], return_counts=True)
    most = int(held.argmax())
    return float(values[most]) if held[most] >= max(SPIKE * held.sum(), 2) and len(values) > 2 else np.nan


def _by_chance(x: Floats, y: Floats, reach: float) -> float:
    """Return the share of all pairs that are so near."""
    ordered = np.sort(y)
    above = np.searchsorted(ordered, x + reach, side="right")
    return float((above - np.searchsorted(ordered, x - reach, side="left")).mean() / len(y))
