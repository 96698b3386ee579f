"""Columns that are products or ratios of two others: an index of body mass, a price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from anoncore.microdata import Microdata
from anoncore.microdata.inference import MIN_RECORDS
from anoncore.profile.findings import Finding
from anoncore.profile.tables import Table

MOST_COLUMNS = 120
SCREENED = 400  # records
POWERS = (1, -1, 2, -2)
UNEXPLAINED = 0.01  # of the variance of logarithms, on the screened records
NEAR_WHOLE = 0.1  # how far a fitted power may be from a whole one
CLOSE = 0.01  # relative deviation of nearly all records
NEARLY_ALL = 0.98
FEW = 0.02  # the median deviation, of the standard deviation of the second factor's logarithm


@dataclass(frozen=True)
class Product:
    """``result`` = constant × first^power × second^power, up to rounding."""

    result: str
    first: tuple[str, int]
    second: tuple[str, int]

    def __str__(self) -> str:
        """Return the product as a formula without its constant."""
        shown = [name if power == 1 else f"{name}^{power}" for name, power in (self.first, self.second)]
        return f"{self.result} ~ {' * '.join(shown)}"


def find_products(data: Microdata, rules: Iterable[Finding]) -> tuple[Product, ...]:
    """Find columns that are products or ratios of two others, which no edit can state.

    Parameters
    ----------
    data : Microdata, N records
    rules : of `find_rules`; what an active one computes is left out

    Examples
    --------
    >>> import pandas as pd
    >>> draw = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"kg": draw.normal(80, 10, 200), "m": draw.normal(1.7, 0.1, 200)})
    >>> frame["bmi"] = frame.kg / frame.m**2
    >>> [str(product) for product in find_products(Microdata.from_frame(frame), ())]
    ['bmi ~ kg * m^-2']
    """
    computed = {str(getattr(f.edit, "dependent", None)) for f in rules if f.active}
    return tuple(products(Table(data), computed))


def products(table: Table, computed: set[str]) -> list[Product]:
    """Find columns of positive numbers that are products of powers of two earlier ones, up to rounding.

    Each column is named once. Variables in ``computed`` are left out; so are tables of more than `MOST_COLUMNS`
    such columns.
    """
    names = [n for n in table.numbers(computed, 5 * MIN_RECORDS) if np.nanmin(table.numeric[n]) > 0]
    if not 3 <= len(names) <= MOST_COLUMNS:
        return []
    logs = np.log(np.column_stack([table.numeric[n] for n in names]))
    accepted: list[Product] = []
    for result in range(2, len(names)):
        exact = next((pair for pair in _alike(logs, result) if _holds(logs, result, *pair)), None)
        if exact:
            (first, power), (second, other) = exact
            accepted.append(Product(names[result], (names[first], power), (names[second], other)))
    return accepted


def _alike(logs: np.ndarray, result: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the pairs of earlier columns, with powers, by which some records of column ``result`` are explained.

    The regressions of the logarithm on those of any two columns, in the screened records that hold all three.
    """
    complete = np.flatnonzero(~np.isnan(logs[:, result]))
    sample = logs[complete[:: max(1, len(complete) // SCREENED)]]
    known, y = ~np.isnan(sample[:, :result]) * 1.0, sample[:, [result]] - sample[:, result].mean()
    centre = np.nansum(sample[:, :result], axis=0) / np.maximum(known.sum(axis=0), 1.0)
    x = np.nan_to_num(sample[:, :result] - centre)
    n = known.T @ known
    count = np.maximum(n, 1.0)
    mean, mean_y, mean_yy = x.T @ known / count, (known * y).T @ known / count, (known * y**2).T @ known / count
    xx = (x**2).T @ known / count - mean**2
    xz = x.T @ x / count - mean * mean.T
    xy, yy = (x * y).T @ known / count - mean * mean_y, mean_yy - mean_y**2
    size = xx * xx.T - xz**2
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (xy * xx.T - xz * xy.T) / size  # of the row's column, beside the column's
        rest = 1.0 - (slope * xy + slope.T * xy.T) / yy
    slope = np.nan_to_num(slope)
    power = np.round(slope)
    near = (np.abs(slope - power) < NEAR_WHOLE) & np.isin(power, POWERS) & (size > 1e-9 * xx * xx.T)
    fits = near & near.T & (n >= MIN_RECORDS) & (rest < UNEXPLAINED)
    for first, second in np.argwhere(np.triu(fits, 1)).tolist():
        yield (first, int(power[first, second])), (second, int(power[second, first]))


def _holds(logs: np.ndarray, result: int, first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether nearly all records deviate little, from a constant and beside what the second factor explains."""
    gap = logs[:, result] - first[1] * logs[:, first[0]] - second[1] * logs[:, second[0]]
    here = ~np.isnan(gap)
    gap = np.abs(gap[here] - np.median(gap[here]))
    small = np.median(gap) < FEW * logs[here, second[0]].std()
    return bool(here.sum() >= 5 * MIN_RECORDS and small and (gap <= CLOSE).mean() >= NEARLY_ALL)
