"""The numbers of a table, and its levels as codes, as the search for rules reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from anoncore.microdata import Microdata
from anoncore.profile.findings import MAX_LISTED


class Table:
    """The numbers of a table, and its levels as codes."""

    def __init__(self, data: Microdata) -> None:
        self.records = len(data)
        released = [v for v in data.schema if v.is_masked]
        self.numeric = {
            v.name: data.frame[v.name].to_numpy(dtype="float64") for v in released if v.kind == "continuous"
        }
        self.precision = {v.name: v.precision for v in released if v.kind == "continuous"}
        self.levels: dict[str, tuple[Any, ...]] = {}
        self.codes: dict[str, np.ndarray] = {}
        for v in released:
            if v.is_categorical and v.levels and len(v.levels) <= MAX_LISTED:
                self.levels[v.name] = v.levels
                self.codes[v.name] = data.frame[v.name].cat.codes.to_numpy()
        self.gaps = {v.name: data.frame[v.name].isna().to_numpy() for v in released}
        self.place = {name: place for place, name in enumerate(self.gaps)}

    def counts(self, name: str) -> np.ndarray:
        """Return (q,) the records at each level."""
        known = self.codes[name][self.codes[name] >= 0]
        return np.bincount(known, minlength=len(self.levels[name]))
