"""The numbers of a table, and its levels as codes, as the search for rules reads them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from anoncore.microdata import Microdata
from anoncore.microdata.inference import MAX_LISTED

OFTEN = 0.1  # share of the records from which zeros, or the least value, are noted


class Table:
    """The numbers of a table, its levels as codes, and where values are missing.

    Attributes
    ----------
    records : how many there are
    weight : statistical units for each record
    units : (N,) the unit of each record; None where each is one of its own
    numeric, precision : (N,) values, and their unit, of each continuous variable
    weights : the continuous variables that are survey weights
    levels, codes : levels, and (N,) positions in them, of each variable with at most `MAX_LISTED`
    zeros : (N,) 0 where a number is 0, 1 where it is larger, -1 where missing, of numbers with many zeros
    values : (N,) values or codes of all variables
    missing : (N,) bool for each variable, in column order
    position : of each variable in that order
    """

    def __init__(self, data: Microdata) -> None:
        self.records = len(data)
        self.units = data.units
        self.weight = data.n_units / max(1, len(data))
        released = [v for v in data.schema if v.is_masked]
        numeric = [v for v in released if v.kind == "continuous"]
        self.numeric = {v.name: data.frame[v.name].to_numpy(dtype="float64") for v in numeric}
        self.precision = {v.name: v.precision for v in numeric}
        self.weights = {v.name for v in numeric if v.role == "weight"}
        codes = {v.name: data.frame[v.name].cat.codes.to_numpy() for v in released if v.is_categorical}
        self.levels = {
            v.name: v.levels for v in released if v.is_categorical and v.levels and len(v.levels) <= MAX_LISTED
        }
        self.codes = {name: codes[name] for name in self.levels}
        self.zeros = {n: _zeros(column) for n, column in self.numeric.items() if n not in self.weights}
        self.zeros = {n: codes for n, codes in self.zeros.items() if (codes == 0).mean() >= OFTEN and 1 in codes}
        self.values = {v.name: self.numeric[v.name] if v.name in self.numeric else codes[v.name] for v in released}
        self.missing = {v.name: data.frame[v.name].isna().to_numpy() for v in released}
        self.position = {name: i for i, name in enumerate(self.missing)}

    def counts(self, name: str) -> np.ndarray:
        """Return (q,) the records at each level."""
        codes = self.codes[name]
        return np.bincount(codes[codes >= 0], minlength=len(self.levels[name]))

    def numbers(self, without: Collection[str] = (), at_least: int = 0) -> list[str]:
        """Return the continuous variables other than weights and those in ``without``, with enough values."""
        names = (n for n in self.numeric if n not in self.weights and n not in without)
        return [n for n in names if self.records - int(self.missing[n].sum()) >= at_least]


def _zeros(column: np.ndarray) -> np.ndarray:
    """Return (N,) codes of a column that is never negative: 0 where it is 0, 1 where not, -1 where missing."""
    if np.nanmin(column, initial=0.0) < 0:
        return np.full(len(column), -1, dtype="int8")
    return np.where(np.isnan(column), -1, (column > 0)).astype("int8")
