"""Totals of amounts: what share of each a release keeps, beside what a bootstrap of the source shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anoncore.microdata import Microdata, Variable
from anoncore.microdata.units import unit_codes
from anoncore.utility._sides import Floats, numbers


@dataclass(frozen=True)
class TotalKept:
    """What share of the total of a non-negative number another table keeps.

    Parameters
    ----------
    released, reference : share of the original's total, of as many records; 1 is unchanged, None without a reference
    error : standard error of the original's total when its units are drawn again, as a share of it; where each record
        is a unit, no less than ``largest`` less one average record
    largest : largest part of the original's total that is of one unit
    """

    released: float
    reference: float | None
    error: float
    largest: float = 0.0


def total_kept(tables: Sequence[Microdata], variable: Variable, arrays: Sequence[Floats | None]) -> TotalKept | None:
    """Compare the total of a number in the original with that in the release and the reference.

    Parameters
    ----------
    tables : original, released and, where there is one, reference
    variable : continuous
    arrays : one per table, (N,) weights with mean 1, or None where every record counts the same

    Returns
    -------
    TotalKept; None where the original has a negative number, or a total of 0.

    Notes
    -----
    A missing number counts as 0. Tables are compared at the same number of records, and at the same sum of weights:
    how that sum moved is the total of the weight itself. The error is that of a mean of units drawn with replacement,
    in linear approximation, as a bootstrap has it. Source: Särndal, Swensson and Wretman 1992, *Model Assisted Survey
    Sampling*, sections 2.9 and 5.7 (ratio of two totals).

    Examples
    --------
    >>> import pandas as pd; from anoncore.microdata import Schema
    >>> schema = Schema([Variable("x", "continuous")])
    >>> a, b = (Microdata(pd.DataFrame({"x": x}), schema) for x in ([1.0, 3, 6], [1.0, 3, 1]))
    >>> total_kept((a, b), schema["x"], (None, None)).released
    0.5
    """
    columns = [np.nan_to_num(numbers(table, variable.name)) for table in tables]
    means = [float(np.average(column, weights=array)) for column, array in zip(columns, arrays, strict=True)]
    if columns[0].min() < 0 or means[0] <= 0:
        return None
    codes, weights = unit_codes(tables[0].units, len(columns[0])), 1.0 if arrays[0] is None else arrays[0]
    parts, apart = (np.bincount(codes, weights=weights * x) for x in (columns[0], columns[0] - means[0]))
    error = float(np.sqrt(apart @ apart * len(apart) / max(len(apart) - 1, 1)))
    shares, total = [mean / means[0] for mean in means[1:]], len(codes) * means[0]
    return TotalKept(shares[0], shares[1] if len(shares) > 1 else None, error / total, float(parts.max()) / total)
