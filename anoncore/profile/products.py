"""Columns that are products or ratios of two others: an index of body mass, a price."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np

from anoncore.microdata import Microdata
from anoncore.microdata.inference import MIN_RECORDS
from anoncore.profile.findings import Finding
from anoncore.profile.tables import Table

MOST_COLUMNS = 120
SCREENED = 400  # records
POWERS = (1, -1, 2, -2)
ALIKE = 0.999  # correlation of logarithms, on the screened records
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
        complete = np.flatnonzero(~np.isnan(logs[:, result]))
        sample = logs[complete[:: max(1, len(complete) // SCREENED)]]
        for first, power in product(range(result), POWERS):
            rest = sample[:, result] - power * sample[:, first]
            second = _like(rest, sample[:, first + 1 : result])
            exact = [(first + 1 + j, p) for j, p in second if _holds(logs, result, (first, power), (first + 1 + j, p))]
            if exact:
                accepted.append(Product(names[result], (names[first], power), (names[exact[0][0]], exact[0][1])))
                break
    return accepted


def _like(rest: np.ndarray, others: np.ndarray) -> list[tuple[int, int]]:
    """Return the columns of ``others`` (m, n) of which ``rest`` (m,) is a power, with the power."""
    both = ~np.isnan(others) & ~np.isnan(rest)[:, None]
    count = np.maximum(both.sum(axis=0), 1)
    x, y = np.where(both, others, 0.0), np.where(both, rest[:, None], 0.0)
    x, y = (np.where(both, z - z.sum(axis=0) / count, 0.0) for z in (x, y))
    xx, xy, yy = (x * x).sum(axis=0), (x * y).sum(axis=0), (y * y).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        alike, slope = np.abs(xy) / np.sqrt(xx * yy), xy / xx
    enough = (count >= MIN_RECORDS) & (alike >= ALIKE) & (np.abs(slope - np.round(slope)) < 0.05)
    return [(int(j), round(float(slope[j]))) for j in np.flatnonzero(enough) if round(float(slope[j])) in POWERS]


def _holds(logs: np.ndarray, result: int, first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether nearly all records deviate little, from a constant and beside what the second factor explains."""
    gap = logs[:, result] - first[1] * logs[:, first[0]] - second[1] * logs[:, second[0]]
    here = ~np.isnan(gap)
    gap = np.abs(gap[here] - np.median(gap[here]))
    small = np.median(gap) < FEW * logs[here, second[0]].std()
    return bool(here.sum() >= 5 * MIN_RECORDS and small and (gap <= CLOSE).mean() >= NEARLY_ALL)
