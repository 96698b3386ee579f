"""The numbers of a table, and its levels as codes, as the search for rules reads them."""

from __future__ import annotations

import numpy as np

from anoncore.microdata import Microdata
from anoncore.microdata.inference import MAX_LISTED


class Table:
    """The numbers of a table, its levels as codes, and where values are missing.

    Attributes
    ----------
    numeric, precision : (N,) values, and their unit, of each continuous variable
    levels, codes : levels, and (N,) positions in them, of each variable with at most `MAX_LISTED`
    missing : (N,) bool for each variable, in column order
    position : of each variable in that order
    """

    def __init__(self, data: Microdata) -> None:
        self.records = len(data)
        released = [v for v in data.schema if v.is_masked]
        numeric = [v for v in released if v.kind == "continuous"]
        listed = [v for v in released if v.is_categorical and v.levels and len(v.levels) <= MAX_LISTED]
        self.numeric = {v.name: data.frame[v.name].to_numpy(dtype="float64") for v in numeric}
        self.precision = {v.name: v.precision for v in numeric}
        self.levels = {v.name: v.levels or () for v in listed}
        self.codes = {v.name: data.frame[v.name].cat.codes.to_numpy() for v in listed}
        self.missing = {v.name: data.frame[v.name].isna().to_numpy() for v in released}
        self.position = {name: i for i, name in enumerate(self.missing)}

    def counts(self, name: str) -> np.ndarray:
        """Return (q,) the records at each level."""
        codes = self.codes[name]
        return np.bincount(codes[codes >= 0], minlength=len(self.levels[name]))
