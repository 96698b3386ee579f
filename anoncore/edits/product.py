"""Products and ratios: a variable that is computed from powers of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from anoncore.edits.conditions import RELATIVE_TOLERANCE, numbers
from anoncore.errors import AnonymizationError


@dataclass(frozen=True, kw_only=True)
class ProductEdit:
    """Dependent = factor × Π variable ^ power, as a body mass index is 10 000 × weight / height².

    Parameters
    ----------
    name : How reports refer to the edit.
    dependent : The variable that is not masked but computed from the others.
    of : Each factor with its power; -1 and -2 divide.
    factor : A constant, as of units: not 0.
    tolerance : Absolute slack, in the units of the dependent, for products of rounded numbers; 1e-9 of the product
        when not stated.
    otherwise : The dependent where the factors give no number, as where one divides and is 0; missing when not stated.
    """

    edit: Literal["product"] = "product"
    name: str
    dependent: str
    of: Mapping[str, float]
    factor: float = 1.0
    tolerance: float | None = None
    otherwise: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", {name: float(power) for name, power in self.of.items()})
        object.__setattr__(self, "factor", float(self.factor))
        if not self.of or any(power == 0 or not np.isfinite(power) for power in self.of.values()):
            raise AnonymizationError(f"edit {self.name!r}: of needs finite powers other than 0")
        if self.dependent in self.of:
            raise AnonymizationError(f"edit {self.name!r}: dependent {self.dependent!r} must not be listed in of")
        if self.factor == 0 or not np.isfinite(self.factor):
            raise AnonymizationError(f"edit {self.name!r}: factor must be finite and not 0")
        if self.tolerance is not None and not (np.isfinite(self.tolerance) and self.tolerance >= 0):
            raise AnonymizationError(f"edit {self.name!r}: tolerance must be 0 or more")
        if self.otherwise is not None and not np.isfinite(self.otherwise):
            raise AnonymizationError(f"edit {self.name!r}: otherwise must be finite")

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables that the edit reads."""
        return (*self.of, self.dependent)

    @property
    def parts(self) -> tuple[str, ...]:
        """The variables from which the dependent is computed."""
        return tuple(self.of)

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: the dependent is present, and the product can be computed."""
        return np.asarray(~np.isnan(self.solve(frame)) & frame[self.dependent].notna().to_numpy())

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool; True also where the edit does not apply."""
        computed = self.solve(frame)
        slack = RELATIVE_TOLERANCE * np.abs(computed) + (self.tolerance or 0.0)
        return np.asarray(np.abs(numbers(frame[self.dependent]) - computed) <= slack) | ~self.applies(frame)

    def solve(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) values of the dependent; NaN where a part is missing, ``otherwise`` where they give no number."""
        parts = [numbers(frame[name]) for name in self.of]
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.factor * np.prod([v**p for v, p in zip(parts, self.of.values(), strict=True)], axis=0)
        absent = np.nan if self.otherwise is None else self.otherwise
        return np.where(np.isfinite(value), value, np.where(np.isnan(parts).any(axis=0), np.nan, absent))
