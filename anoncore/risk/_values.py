"""Values of several tables as numbers that compare as the values do, and how common each is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats

Flags = NDArray[np.bool_]


def shared_variables(tables: Sequence[Microdata], variables: Sequence[str] | None = None) -> list[str]:
    """Return the masked variables that every table has, or those of ``variables``."""
    first = tables[0].schema
    names = first.masked if variables is None else variables
    return [name for name in names if all(name in table.schema for table in tables)]


def aligned_values(tables: Sequence[Microdata], name: str) -> list[Floats]:
    """Return one variable of each table as (N,) numbers: values of numbers, codes of levels, NaN where missing."""
    columns = [table.frame[name] for table in tables]
    if all(column.dtype == np.float64 for column in columns):
        return [column.to_numpy() for column in columns]
    whole = pd.concat([column.astype("object") for column in columns], ignore_index=True)
    codes = pd.factorize(whole)[0].astype(np.float64)
    codes[codes < 0] = np.nan
    return list(np.split(codes, np.cumsum([len(column) for column in columns])[:-1]))


class SortedValues:
    """The distinct values of a column in order, a missing value last, with the records that hold each.

    Parameters
    ----------
    values : (N,) float64, NaN where missing

    Attributes
    ----------
    known : (d,) the distinct values
    places : (N,) the place of each record's value among them
    numbers : how many of them are not missing; a missing value has the place after these
    """

    def __init__(self, values: Floats) -> None:
        self.known, self.places, counts = np.unique(values, return_inverse=True, return_counts=True)
        self.records = len(values)
        self.numbers = int((~np.isnan(self.known)).sum())
        self._cumulated = np.concatenate([[0], np.cumsum(counts)])

    def interval(self, asked: Floats, tolerance: float = 0.0) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the half-open interval of places within ``tolerance`` of each value; NaN meets NaN alone."""
        numbers = self.known[: self.numbers]
        lower = np.searchsorted(numbers, asked - tolerance, side="left")
        upper = np.searchsorted(numbers, asked + tolerance, side="right")
        missing = np.isnan(asked)
        lower[missing], upper[missing] = len(numbers), len(self.known)
        return lower.astype(np.int32), upper.astype(np.int32)

    def counts(self, asked: Floats, tolerance: float = 0.0) -> NDArray[np.intp]:
        """Return how many records hold a value within ``tolerance`` of each one asked for."""
        lower, upper = self.interval(asked, tolerance)
        return np.asarray(self._cumulated[upper] - self._cumulated[lower])


def two_folds(n: int, rng: np.random.Generator) -> Flags:
    """Return (n,) flags of a random half."""
    flags = np.zeros(n, dtype=bool)
    flags[rng.permutation(n)[: n // 2]] = True
    return flags
