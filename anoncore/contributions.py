"""What records contribute to totals of a number, and how well the other variables predict it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.dominated import Contributions, unexplained
from anoncore.microdata import Microdata

# Levels of a variable up to which its indicators predict numbers.
LEVELS = 30


def contributions_of(data: Microdata, name: str, k: int) -> tuple[Contributions, float]:
    """Return the contributions of records to totals of a number, and the median from which they deviate.

    Parameters
    ----------
    data : Microdata
    name : a number with a value at least
    k : units that make a contribution nobody's
    """
    values = data.frame[name].to_numpy(dtype=np.float64)
    middle = float(np.nanmedian(values))
    deviations = np.nan_to_num(values - middle)
    return Contributions(deviations, data.units, k, unexplained(deviations, _predictors(data, name))), middle


def _predictors(data: Microdata, name: str) -> NDArray[np.float64]:
    """Return (N, m) all other numbers, standardised, and indicators of levels."""
    columns = [np.empty((len(data), 0))]
    for variable in data.schema:
        if variable.name == name or variable.name not in data.frame:
            continue
        column = data.frame[variable.name]
        if variable.kind == "continuous":
            values = column.to_numpy(dtype=np.float64)
            if np.isfinite(values).any() and (spread := float(np.nanstd(values))) > 0.0:
                columns.append(np.nan_to_num((values - np.nanmean(values)) / spread)[:, None])
        elif variable.levels is not None and 1 < len(variable.levels) <= LEVELS:
            # Without the first level, which the constant stands for.
            columns.append((column.cat.codes.to_numpy()[:, None] == np.arange(1, len(variable.levels))).astype(float))
    return np.hstack(columns)
