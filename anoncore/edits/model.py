"""Edits: what every record must satisfy, before masking and after it.

An edit is declared once and used three ways: counted (here, and by Great Expectations), as the
matrices ``A v = b`` and ``G v ≤ h`` that constrained methods honour, and by the repair step.
A rule about a cell that is missing does not apply, unless the rule speaks of missing cells itself;
the consequent of a conditional edit does: an empty cell satisfies it only where ``missing`` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from scipy.optimize import linprog

from anoncore.errors import AnonymizationError
from anoncore.microdata import Schema

Relation = Literal["==", "<=", ">="]
RELATIVE_TOLERANCE = 1e-9
FLOAT_NOISE = 1e-12  # of the terms' size: sums of decimals are not exact in binary


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
        _check_range(f"condition on {self.variable!r}", self.lower, self.upper)
        if self.values is not None:
            object.__setattr__(self, "values", tuple(self.values))
            if not self.values:
                raise AnonymizationError(f"condition on {self.variable!r}: values must not be empty")

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: whether the cell of each record satisfies the condition."""
        column = frame[self.variable]
        gap = column.isna().to_numpy()
        if self.values is not None:
            told = column.isin(self.values).to_numpy()
        elif self.lower is not None or self.upper is not None:
            told = _within(numbers(column), self.lower, self.upper)
        else:
            return gap if self.missing else ~gap
        return np.asarray(told | gap if self.missing else told & ~gap)


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

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: no term is missing and every condition holds."""
        return _present(frame, self.terms) & _all_hold(self.when, frame)

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool; True also where the edit does not apply."""
        values = np.column_stack([numbers(frame[name]) for name in self.terms])
        good = linear_holds(values, np.array(list(self.terms.values())), self.relation, self.constant, self.tolerance)
        return good | ~self.applies(frame)

    def solve(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) values of the dependent, computed from its parts; NaN where a part is missing."""
        assert self.dependent is not None
        rest = sum(c * numbers(frame[name]) for name, c in self.terms.items() if name != self.dependent)
        return np.asarray((self.constant - rest) / self.terms[self.dependent])


@dataclass(frozen=True, kw_only=True)
class BoundEdit:
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
        if self.lower is None and self.upper is None:
            raise AnonymizationError(f"edit {self.name!r}: give lower, upper or both")
        _check_range(f"edit {self.name!r}", self.lower, self.upper)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables that the edit reads."""
        return (self.variable,)

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: the cell is not missing."""
        return ~frame[self.variable].isna().to_numpy()

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool; True also where the edit does not apply."""
        return _within(numbers(frame[self.variable]), self.lower, self.upper) | ~self.applies(frame)


@dataclass(frozen=True, kw_only=True)
class SetEdit:
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

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables that the edit reads."""
        return (self.variable,)

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: the cell is not missing."""
        return ~frame[self.variable].isna().to_numpy()

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

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: every condition of ``when`` holds."""
        return _all_hold(self.when, frame)

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
        if self.lower is None and self.upper is None:
            raise AnonymizationError(f"edit {self.name!r}: give lower, upper or both")
        if self.numerator == self.denominator:
            raise AnonymizationError(f"edit {self.name!r}: numerator and denominator are the same variable")
        _check_range(f"edit {self.name!r}", self.lower, self.upper)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables that the edit reads."""
        return (self.numerator, self.denominator)

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: both cells are present and the denominator is above 0."""
        present = _present(frame, (self.numerator, self.denominator))
        return present & (numbers(frame[self.denominator]) > 0)

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


Edit: TypeAlias = LinearEdit | BoundEdit | SetEdit | ConditionalEdit | RatioEdit


@dataclass(frozen=True)
class EditOutcome:
    """How often one edit applied and how often it was violated; counts, never values."""

    name: str
    edit: str
    applied: int
    violated: int


@dataclass(frozen=True)
class EditSet:
    """All edits of a table.

    Raises
    ------
    AnonymizationError
        When two edits share a name, or two equalities compute the same dependent.
    """

    edits: tuple[Edit, ...] = field(default=())

    def __init__(self, edits: Iterable[Edit] = ()) -> None:
        object.__setattr__(self, "edits", tuple(edits))
        names = [e.name for e in self.edits]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise AnonymizationError(f"edits declared more than once: {', '.join(twice)}")
        self.dependents  # noqa: B018  raises for circular or doubled dependents

    def __len__(self) -> int:
        return len(self.edits)

    @property
    def linear(self) -> tuple[LinearEdit, ...]:
        """The linear edits, equalities and inequalities."""
        return tuple(e for e in self.edits if isinstance(e, LinearEdit))

    def within(self, names: Iterable[str]) -> EditSet:
        """Return the edits that speak of ``names`` alone."""
        known = set(names)
        return EditSet(e for e in self.edits if set(e.variables) <= known)

    @property
    def dependents(self) -> tuple[LinearEdit, ...]:
        """Equalities with a dependent, ordered so that each can be solved after those before it."""
        waiting = [e for e in self.linear if e.dependent is not None]
        names = [e.dependent for e in waiting]
        twice = sorted({str(n) for n in names if names.count(n) > 1})
        if twice:
            raise AnonymizationError(f"computed by more than one edit: {', '.join(twice)}")
        ordered: list[LinearEdit] = []
        while waiting:
            open_names = {e.dependent for e in waiting}
            ready = [e for e in waiting if not (set(e.terms) - {e.dependent}) & open_names]
            if not ready:
                raise AnonymizationError(f"edits compute each other in a circle: {', '.join(e.name for e in waiting)}")
            ordered += ready
            waiting = [e for e in waiting if e not in ready]
        return tuple(ordered)

    def problems(self, schema: Schema) -> list[str]:
        """Return everything that is wrong with the edits for ``schema``, one sentence each."""
        found = self.obstacles(schema)
        for edit in self.edits:
            if all(n in schema for n in edit.variables):
                found += _level_problems(edit, schema)
        conflict = self.conflict()
        if conflict:
            found.append(f"no record can satisfy these edits together: {', '.join(conflict)}")
        return found

    def obstacles(self, schema: Schema) -> list[str]:
        """Return what keeps the edits from being evaluated on data of ``schema``, one sentence each."""
        found = []
        for edit in self.edits:
            absent = [n for n in edit.variables if n not in schema]
            if absent:
                found.append(f"edit {edit.name!r} names unknown variable(s) {', '.join(absent)}")
                continue
            dropped = [n for n in edit.variables if not schema[n].is_masked]
            if dropped:
                found.append(f"edit {edit.name!r} uses {', '.join(dropped)}, which is not released")
            found += _text_problems(edit, schema)
        return found

    def outcomes(self, frame: pd.DataFrame) -> tuple[EditOutcome, ...]:
        """Count, for each edit, the records to which it applies and those that violate it."""
        return tuple(
            EditOutcome(e.name, e.edit, int(e.applies(frame).sum()), int((~e.holds(frame)).sum())) for e in self.edits
        )

    def violations(self, frame: pd.DataFrame) -> dict[str, int]:
        """Return the number of records that violate each edit."""
        return {o.name: o.violated for o in self.outcomes(frame)}

    def satisfied(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: the record satisfies every edit."""
        good = np.ones(len(frame), dtype=bool)
        for edit in self.edits:
            good &= edit.holds(frame)
        return good

    def equalities(self, names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return A (r, n) and b (r,): the equalities that always apply, over the columns ``names``."""
        order = list(names)
        chosen = [e for e in self.linear if e.relation == "==" and not e.when and set(e.terms) <= set(order)]
        return _rows([(e.terms, e.constant) for e in chosen], order)

    def inequalities(self, names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return G (s, n) and h (s,): linear inequalities and ratios that always apply, as G v ≤ h."""
        order = list(names)
        ratios = [e for r in self.edits if isinstance(r, RatioEdit) for e in r.inequalities()]
        chosen = [
            e for e in (*self.linear, *ratios) if e.relation != "==" and not e.when and set(e.terms) <= set(order)
        ]
        signs = [1.0 if e.relation == "<=" else -1.0 for e in chosen]
        return _rows(
            [({k: s * c for k, c in e.terms.items()}, s * e.constant) for e, s in zip(chosen, signs, strict=True)],
            order,
        )

    def bounds(self, names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return lower (n,) and upper (n,) of the columns ``names``; ±∞ where nothing is stated."""
        order = list(names)
        lower, upper = np.full(len(order), -np.inf), np.full(len(order), np.inf)
        for edit in self.edits:
            if isinstance(edit, BoundEdit) and edit.variable in order:
                at = order.index(edit.variable)
                lower[at] = max(lower[at], -np.inf if edit.lower is None else edit.lower)
                upper[at] = min(upper[at], np.inf if edit.upper is None else edit.upper)
        return lower, upper

    def conflict(self) -> tuple[str, ...]:
        """Return names of linear and bound edits that cannot hold together, or an empty tuple.

        One linear program decides; on conflict a deletion filter leaves an irreducible set.
        """
        numeric = [e for e in self.edits if isinstance(e, BoundEdit) or (isinstance(e, LinearEdit) and not e.when)]
        if _feasible(numeric):
            return ()
        for edit in list(numeric):
            rest = [e for e in numeric if e is not edit]
            if not _feasible(rest):
                numeric = rest
        return tuple(e.name for e in numeric)


EDITS: dict[str, type[Any]] = {
    "linear": LinearEdit,
    "bound": BoundEdit,
    "set": SetEdit,
    "conditional": ConditionalEdit,
    "ratio": RatioEdit,
}


def to_dict(edit: Edit) -> dict[str, Any]:
    """Return an edit as plain JSON types, without what it leaves open."""
    return {key: value for key, value in _plain(asdict(edit)).items() if value not in (None, [])}


def from_dict(stated: Mapping[str, Any]) -> Edit:
    """Return the edit that `to_dict` wrote.

    Raises
    ------
    AnonymizationError
        When the kind is unknown or a field is missing, surplus or out of range.
    """
    rest = dict(stated)
    kind = rest.pop("edit", None)
    if kind not in EDITS:
        raise AnonymizationError(f"edit: kind must be one of {', '.join(EDITS)}")
    known = {f.name for f in fields(EDITS[kind])}
    surplus = sorted(set(rest) - known)
    if surplus:
        raise AnonymizationError(f"{kind} edit has no field called {', '.join(surplus)}")
    try:
        if "when" in rest:
            rest["when"] = tuple(Condition(**c) for c in rest["when"])
        if "then" in rest:
            rest["then"] = Condition(**rest["then"])
        edit: Edit = EDITS[kind](**rest)
    except TypeError:
        failed = AnonymizationError(f"{kind} edit {rest.get('name')!r}: a field is missing or not a field")
    else:
        return edit
    raise failed


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


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


def _within(values: np.ndarray, lower: float | None, upper: float | None) -> np.ndarray:
    low = -np.inf if lower is None else lower - RELATIVE_TOLERANCE * abs(lower)
    high = np.inf if upper is None else upper + RELATIVE_TOLERANCE * abs(upper)
    return (values >= low) & (values <= high)


def _present(frame: pd.DataFrame, names: Iterable[str]) -> np.ndarray:
    """Return (N,) bool: no cell of ``names`` is missing."""
    good = np.ones(len(frame), dtype=bool)
    for name in names:
        good &= ~frame[name].isna().to_numpy()
    return good


def _all_hold(conditions: tuple[Condition, ...], frame: pd.DataFrame) -> np.ndarray:
    good = np.ones(len(frame), dtype=bool)
    for condition in conditions:
        good &= condition.holds(frame)
    return good


def _check_range(what: str, lower: float | None, upper: float | None) -> None:
    if any(bound is not None and not np.isfinite(bound) for bound in (lower, upper)):
        raise AnonymizationError(f"{what}: a bound must be a finite number; leave out the side without one")
    if lower is not None and upper is not None and lower > upper:
        raise AnonymizationError(f"{what}: lower must not exceed upper, got {lower} and {upper}")


def _conditions(edit: Edit) -> list[Condition]:
    conditions = list(getattr(edit, "when", ()))
    return [*conditions, edit.then] if isinstance(edit, ConditionalEdit) else conditions


def _text_problems(edit: Edit, schema: Schema) -> list[str]:
    """Return sentences about numbers asked of text."""
    ranged = [c.variable for c in _conditions(edit) if c.lower is not None or c.upper is not None]
    if isinstance(edit, LinearEdit):
        ranged += list(edit.terms)
    elif isinstance(edit, BoundEdit | RatioEdit):
        ranged += list(edit.variables)
    found = []
    for name in ranged:
        levels = schema[name].levels
        if schema[name].kind == "nominal" or (levels and isinstance(levels[0], str)):
            found.append(f"edit {edit.name!r} computes with {name!r}, which holds no numbers")
    return found


def _level_problems(edit: Edit, schema: Schema) -> list[str]:
    """Return sentences about stated values that are no level."""
    found = []
    stated = [(c.variable, c.values) for c in _conditions(edit) if c.values is not None]
    if isinstance(edit, SetEdit):
        stated.append((edit.variable, edit.values))
    for name, values in stated:
        levels = schema[name].levels
        if levels and not set(values) <= set(levels):
            found.append(f"edit {edit.name!r} lists a value that is no level of {name!r}")
    return found


def _rows(rows: list[tuple[Mapping[str, float], float]], order: list[str]) -> tuple[np.ndarray, np.ndarray]:
    matrix = np.zeros((len(rows), len(order)))
    for i, (terms, _) in enumerate(rows):
        for name, coefficient in terms.items():
            matrix[i, order.index(name)] = coefficient
    return matrix, np.array([constant for _, constant in rows], dtype=float)


def _feasible(edits: list[Any]) -> bool:
    subset = EditSet.__new__(EditSet)
    object.__setattr__(subset, "edits", tuple(edits))
    names = sorted({n for e in edits for n in e.variables})
    if not names:
        return True
    a, b = subset.equalities(names)
    g, h = subset.inequalities(names)
    lower, upper = subset.bounds(names)
    if np.any(lower > upper):
        return False
    result = linprog(
        np.zeros(len(names)),
        A_ub=g if len(g) else None,
        b_ub=h if len(g) else None,
        A_eq=a if len(a) else None,
        b_eq=b if len(a) else None,
        bounds=list(zip(lower, upper, strict=True)),
        method="highs",
    )
    return bool(result.status != 2)
