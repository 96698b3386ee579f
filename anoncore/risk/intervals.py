"""Interval disclosure: how often a person's number lies in a narrow interval about the one that was released for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._proportions import Proportion, proportion


@dataclass(frozen=True)
class IntervalDisclosure:
    """The share of the numbers of one variable that lie near the number released for their record.

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
        """The share beyond chance."""
        return self.within.value - self.chance


def interval_disclosure(
    original: Microdata, released: Microdata, own: Indices, *, width: float = 0.05, confidence: float = 0.99
) -> tuple[IntervalDisclosure, ...]:
    """Compare each number with the one released for its record.

    Parameters
    ----------
    original, released : Microdata, N and M records
    own : (N,) position of each record's released row, −1 where there is none
    width : half of an interval's width, in standard deviations of the original, above 0
    confidence : of the shares, between 0 and 1

    Returns
    -------
    One IntervalDisclosure for each continuous variable that both have and that varies; records without a number on
    either side are not counted.

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
    found = []
    for name in original.schema.masked:
        if original.schema[name].is_categorical or name not in released.schema or released.schema[name].is_categorical:
            continue
        x = original.frame[name].to_numpy(dtype="float64")
        y = released.frame[name].to_numpy(dtype="float64")
        spread = float(np.nanstd(x)) if np.isfinite(x).any() else 0.0
        mine = np.where(own >= 0, y[own], np.nan) if len(y) else np.full(len(x), np.nan)
        both = np.isfinite(x) & np.isfinite(mine)
        if spread > 0 and both.any():
            near = int((np.abs(x - mine)[both] <= width * spread).sum())
            share = proportion(near, int(both.sum()), confidence)
            found.append(IntervalDisclosure(name, share, _by_chance(x[both], y[np.isfinite(y)], width * spread)))
    return tuple(found)


def _by_chance(x: Floats, y: Floats, reach: float) -> float:
    """Return the share of all pairs that are so near."""
    ordered = np.sort(y)
    above = np.searchsorted(ordered, x + reach, side="right")
    return float((above - np.searchsorted(ordered, x - reach, side="left")).mean() / len(y))
