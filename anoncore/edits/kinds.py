"""The kinds of edits that are declared in full: linear, bound, set, conditional and ratio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from anoncore.edits.conditions import RELATIVE_TOLERANCE, Condition, all_hold, check_limits, numbers, present, within
from anoncore.errors import AnonymizationError

Relation = Literal["==", "<=", ">="]
FLOAT_NOISE = 1e-12  # of the terms' size: sums of decimals are not exact in binary


@dataclass(frozen=True, kw_only=True)
class LinearEdit:
    """Σ coefficient × variable = constant, or ≤, or ≥; for all records or for those that ``when`` selects.

    Parameters
    ----------
    name : How reports refer to the edit.
    terms : Each variable with its coefficient.
    relation : How the sum relates to the constant.
    constant : The right-hand side.
    dependent : A variable of an equality that is not masked but computed from the others.
    tolerance : Absolute slack, in the units of the sum, for sums of rounded values, to which 1e-12 of the terms'
        size is added for binary rounding; 1e-9 of the terms' size when not stated.
    when : All must hold for the edit to apply.
    """

    edit: Literal["linear"] = "linear"
    name: str
    terms: Mapping[str, float]
    relation: Relation = "=="
    constant: float = 0.0
    dependent: str | None = None
    tolerance: float | None = None
    when: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", {k: float(c) for k, c in self.terms.items()})
        object.__setattr__(self, "when", tuple(self.when))
        if not self.terms or any(c == 0 or not np.isfinite(c) for c in self.terms.values()):
            raise AnonymizationError(f"edit {self.name!r}: terms need finite coefficients other than 0")
        if not np.isfinite(self.constant):
            raise AnonymizationError(f"edit {self.name!r}: constant must be finite")
        if self.tolerance is not None and not (np.isfinite(self.tolerance) and self.tolerance >= 0):
            raise AnonymizationError(f"edit {self.name!r}: tolerance must be 0 or more")
        if self.dependent is not None:
            if self.dependent not in self.terms:
                raise AnonymizationError(f"edit {self.name!r}: dependent {self.dependent!r} must be one of its terms")
            if self.relation != "==" or self.when:
                raise AnonymizationError(
                    f"edit {self.name!r}: only an equality that always applies can have a dependent"
                )

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables that the edit reads."""
        return (*self.terms, *(c.variable for c in self.when))

    @property
    def parts(self) -> tuple[str, ...]:
        """The variables from which the dependent is computed."""
        return tuple(name for name in self.terms if name != self.dependent)

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: no term is missing and every condition holds."""
        return present(frame, self.terms) & all_hold(self.when, frame)

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool; True also where the edit does not apply."""
        values = np.column_stack([numbers(frame[name]) for name in self.terms])
        good = linear_holds(values, np.array(list(self.terms.values())), self.relation, self.constant, self.tolerance)
        return good | ~self.applies(frame)

    def solve(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) values of the dependent, computed from its parts; NaN where a part is missing."""
        assert self.dependent is not None
        rest = sum(self.terms[name] * numbers(frame[name]) for name in self.parts)
        return np.asarray((self.constant - rest) / self.terms[self.dependent])


class _OfOneVariable:
    """Edits that read one variable alone."""

    variable: str

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables that the edit reads."""
        return (self.variable,)

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: the cell is not missing."""
        return ~frame[self.variable].isna().to_numpy()


@dataclass(frozen=True, kw_only=True)
class BoundEdit(_OfOneVariable):
    """lower ≤ variable ≤ upper.

    Parameters
    ----------
    name : How reports refer to the edit.
    variable : A variable that holds numbers.
    lower : Its least value.
    upper : Its greatest value.
    """

    edit: Literal["bound"] = "bound"
    name: str
    variable: str
    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        check_limits(f"edit {self.name!r}", self.lower, self.upper)

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool; True also where the edit does not apply."""
        return within(numbers(frame[self.variable]), self.lower, self.upper) | ~self.applies(frame)


@dataclass(frozen=True, kw_only=True)
class SetEdit(_OfOneVariable):
    """The variable takes one of the listed values.

    Parameters
    ----------
    name : How reports refer to the edit.
    variable : The variable.
    values : The values it may take.
    """

    edit: Literal["set"] = "set"
    name: str
    variable: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise AnonymizationError(f"edit {self.name!r}: values must not be empty")

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool; True also where the edit does not apply."""
        return frame[self.variable].isin(self.values).to_numpy() | ~self.applies(frame)


@dataclass(frozen=True, kw_only=True)
class ConditionalEdit:
    """Where all of ``when`` hold, ``then`` must hold: if sex is male, pregnancies is missing or 0.

    Parameters
    ----------
    name : How reports refer to the edit.
    when : One or more.
    then : A missing value satisfies it only where it states ``missing: true``.
    """

    edit: Literal["conditional"] = "conditional"
    name: str
    when: tuple[Condition, ...]
    then: Condition

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", tuple(self.when))
        if not self.when:
            raise AnonymizationError(f"edit {self.name!r}: when needs at least one condition")

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables that the edit reads."""
        return (*(c.variable for c in self.when), self.then.variable)

    @property
    def needed(self) -> set[str]:
        """Names of the variables without whose value a record that satisfies the edit may violate it."""
        allowed = set() if self.then.missing else {self.then.variable}
        return allowed | {c.variable for c in self.when if c.missing}

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: every condition of ``when`` holds."""
        return all_hold(self.when, frame)

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool; True also where the edit does not apply."""
        return self.then.holds(frame) | ~self.applies(frame)


@dataclass(frozen=True, kw_only=True)
class RatioEdit:
    """lower ≤ numerator / denominator ≤ upper, where the denominator is above 0.

    Parameters
    ----------
    name : How reports refer to the edit.
    numerator : A variable that holds numbers.
    denominator : Another variable that holds numbers.
    lower : The least ratio.
    upper : The greatest ratio.
    """

    edit: Literal["ratio"] = "ratio"
    name: str
    numerator: str
    denominator: str
    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        if self.numerator == self.denominator:
            raise AnonymizationError(f"edit {self.name!r}: numerator and denominator are the same variable")
        check_limits(f"edit {self.name!r}", self.lower, self.upper)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables that the edit reads."""
        return (self.numerator, self.denominator)

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: both cells are present and the denominator is above 0."""
        return present(frame, self.variables) & (numbers(frame[self.denominator]) > 0)

    def inequalities(self) -> tuple[LinearEdit, ...]:
        """Return the ratio as linear inequalities, valid where the denominator is above 0."""
        bounds: list[tuple[float, Relation]] = []
        if self.upper is not None:
            bounds.append((self.upper, "<="))
        if self.lower is not None:
            bounds.append((self.lower, ">="))
        return tuple(
            LinearEdit(
                name=self.name,
                terms={self.numerator: 1.0} | ({self.denominator: -bound} if bound else {}),
                relation=relation,
            )
            for bound, relation in bounds
        )

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool; True also where the edit does not apply."""
        good = np.logical_and.reduce([edit.holds(frame) for edit in self.inequalities()])
        return good | ~self.applies(frame)


def linear_holds(
    values: np.ndarray,
    coefficients: np.ndarray,
    relation: str,
    constant: float,
    tolerance: float | None = None,
) -> np.ndarray:
    """Return (N,) bool: values @ coefficients stands in ``relation`` to ``constant``.

    Parameters
    ----------
    values : (N, n) float64, in the variables' own units; NaN never holds
    coefficients : (n,)
    relation : "==", "<=" or ">="
    constant : float
    tolerance : absolute slack, beside 1e-12 of Σ|cⱼvⱼ| + |constant|; when None, 1e-9 of it
    """
    excess = values @ coefficients - constant
    size = np.abs(values) @ np.abs(coefficients) + abs(constant)
    slack = RELATIVE_TOLERANCE * size if tolerance is None else tolerance + FLOAT_NOISE * size
    if relation == "==":
        return np.asarray(np.abs(excess) <= slack)
    return np.asarray(excess <= slack if relation == "<=" else excess >= -slack)
