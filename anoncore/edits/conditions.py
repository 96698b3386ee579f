"""Conditions on single cells, and how cells are read as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from anoncore.errors import AnonymizationError

RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition on one cell, in ``when`` and ``then``: the cell has one of some values, or lies in a range.

    Parameters
    ----------
    variable : The variable.
    values : The cell is one of these.
    lower : The cell is at least this. Not with ``values``.
    upper : The cell is at most this. Not with ``values``.
    missing : ``true``: a missing value satisfies the condition too, or alone when nothing else is stated. ``false``
        alone: the cell is not missing.

    Raises
    ------
    AnonymizationError
        When nothing is stated, or both values and a range.
    """

    variable: str
    values: tuple[Any, ...] | None = None
    lower: float | None = None
    upper: float | None = None
    missing: bool | None = None

    def __post_init__(self) -> None:
        ranged = self.lower is not None or self.upper is not None
        if self.values is None and not ranged and self.missing is None:
            raise AnonymizationError(
                f"condition on {self.variable!r} states nothing; give values, lower, upper or missing"
            )
        if self.values is not None and ranged:
            raise AnonymizationError(f"condition on {self.variable!r}: give values or a range, not both")
        check_range(f"condition on {self.variable!r}", self.lower, self.upper)
        if self.values is not None:
            object.__setattr__(self, "values", tuple(self.values))
            if not self.values:
                raise AnonymizationError(f"condition on {self.variable!r}: values must not be empty")

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: whether the cell of each record satisfies the condition."""
        column = frame[self.variable]
        missing = column.isna().to_numpy()
        if self.values is not None:
            listed = column.isin(self.values).to_numpy()
        elif self.lower is not None or self.upper is not None:
            listed = within(numbers(column), self.lower, self.upper)
        else:
            return missing if self.missing else ~missing
        return np.asarray(listed | missing if self.missing else listed & ~missing)


def numbers(column: pd.Series) -> np.ndarray:
    """Return a column's values as (N,) float64, NaN where missing; levels must be numbers."""
    try:
        if isinstance(column.dtype, pd.CategoricalDtype):
            levels = np.append(column.cat.categories.to_numpy(dtype="float64"), np.nan)
            return np.asarray(levels[column.cat.codes.to_numpy()])
        return column.to_numpy(dtype="float64", na_value=np.nan)
    except (TypeError, ValueError):
        # pandas quotes the offending value.
        failed = AnonymizationError(
            f"an edit computes with variable {str(column.name)!r}, which holds something that is not a "
            "number; declare a missing code or correct the column"
        )
    raise failed from None


def within(values: np.ndarray, lower: float | None, upper: float | None) -> np.ndarray:
    """Return (N,) bool: the value lies in the closed range, up to `RELATIVE_TOLERANCE`; NaN lies in none."""
    low = -np.inf if lower is None else lower - RELATIVE_TOLERANCE * abs(lower)
    high = np.inf if upper is None else upper + RELATIVE_TOLERANCE * abs(upper)
    return (values >= low) & (values <= high)


def present(frame: pd.DataFrame, names: Iterable[str]) -> np.ndarray:
    """Return (N,) bool: no cell of ``names`` is missing."""
    good = np.ones(len(frame), dtype=bool)
    for name in names:
        good &= ~frame[name].isna().to_numpy()
    return good


def all_hold(conditions: tuple[Condition, ...], frame: pd.DataFrame) -> np.ndarray:
    """Return (N,) bool: every condition holds for the record."""
    good = np.ones(len(frame), dtype=bool)
    for condition in conditions:
        good &= condition.holds(frame)
    return good


def check_limits(what: str, lower: float | None, upper: float | None) -> None:
    """Raise when neither bound is stated, or they are no range."""
    if lower is None and upper is None:
        raise AnonymizationError(f"{what}: give lower, upper or both")
    check_range(what, lower, upper)


def check_range(what: str, lower: float | None, upper: float | None) -> None:
    """Raise when a bound is not finite, or the lower one exceeds the upper."""
    if any(bound is not None and not np.isfinite(bound) for bound in (lower, upper)):
        raise AnonymizationError(f"{what}: a bound must be a finite number; leave out the side without one")
    if lower is not None and upper is not None and lower > upper:
        raise AnonymizationError(f"{what}: lower must not exceed upper, got {lower} and {upper}")
