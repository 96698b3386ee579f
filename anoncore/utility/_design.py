"""The design of a declared regression, for the original and another table, in the same columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from anoncore.microdata import Microdata, Variable
from anoncore.utility._fits import INDEPENDENT, Clusters, independent_columns
from anoncore.utility._sides import Floats, Integers, all_levels, comparable, level_codes, numbers
from anoncore.utility.regression_model import Regression

CONSTANT = "(constant)"

TwoTables = tuple[Microdata, Microdata]
TwoWeights = tuple[Floats | None, Floats | None]


@dataclass(frozen=True, eq=False, repr=False)
class Design:
    """What one table contributes to a regression.

    Parameters
    ----------
    terms : p names; columns : (N, p), the constant first; outcome : (N,); weights : (N,) or None
    clusters : primary sampling units, or else statistical units, and the strata they were drawn in
    dropped : terms that cannot be estimated here, and why
    aliased : those of them that are combinations of other terms
    notes : predictors that were left out, a sentence each
    problem : why nothing can be fitted, "" when it can
    """

    terms: tuple[str, ...] = ()
    columns: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    outcome: Floats = field(default_factory=lambda: np.zeros(0))
    weights: Floats | None = None
    clusters: Clusters = INDEPENDENT
    dropped: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problem: str = ""
    aliased: frozenset[str] = frozenset()

    @property
    def all_terms(self) -> tuple[str, ...]:
        """Return the terms that are estimated, then those that cannot be."""
        return (*self.terms, *self.dropped)

    def why(self, term: str) -> str:
        """Return why a term is not estimated, "" when it is."""
        return self.dropped.get(term, "")


@dataclass(frozen=True, eq=False, repr=False)
class _Predictor:
    """A predictor in both tables: numbers, or codes of levels; ``base`` is the code left out."""

    variable: Variable
    values: tuple[Floats | Integers, ...]
    levels: tuple[object, ...] = ()
    base: int = -1

    def present(self, side: int) -> np.ndarray:
        """Return (N,) bool: the records of a table that have a value."""
        values = self.values[side]
        return np.asarray(values >= 0 if self.levels else ~np.isnan(values))

    def columns(self, side: int, used: np.ndarray) -> Iterator[tuple[str, np.ndarray | None]]:
        """Yield each term and its column among the records used; None for a level that none of them has."""
        values, name = self.values[side][used], self.variable.name
        if not self.levels:
            yield name, values
        for code, level in enumerate(self.levels):
            if code != self.base:
                at = values == code
                yield f"{name}={level}", at if at.any() else None


def design_pair(regression: Regression, tables: TwoTables, weights: TwoWeights) -> tuple[Design, Design]:
    """Return the designs of two tables: complete records, one coding.

    What the original cannot estimate is left out of both; what only the other cannot, there.
    """
    outcomes = _outcomes(regression, tables)
    if outcomes is None:
        ours, _ = design_pair(regression, (tables[0], tables[0]), (weights[0], weights[0]))
        return ours, Design(problem="the outcome is not there in a comparable form")
    predictors, notes = _predictors(regression, tables)
    complete = []
    for side, (outcome, weight) in enumerate(zip(outcomes, weights, strict=True)):
        used = np.logical_and.reduce([~np.isnan(outcome), *(predictor.present(side) for predictor in predictors)])
        complete.append(used if weight is None else used & (weight > 0))
    predictors, more = _with_bases(predictors, complete)
    sides = []
    for side, (outcome, weight, used) in enumerate(zip(outcomes, weights, complete, strict=True)):
        if weight is not None:
            weight = weight[used] / weight[used].mean() if used.any() else np.zeros(0)
        columns = [pair for predictor in predictors for pair in predictor.columns(side, used)]
        design = _design(regression, outcome[used], columns)
        clusters = _clusters(tables[side]).take(used)
        sides.append(replace(design, weights=weight, clusters=clusters, notes=(*notes, *more)))
    ours = _estimable(sides[0], frozenset())
    return ours, _estimable(sides[1], ours.aliased)


def _clusters(data: Microdata) -> Clusters:
    """Return the records that depend on each other: sampling units within their strata, or else statistical units."""
    units = None
    if data.schema.with_role("sampling-unit"):
        units = data.role_codes("sampling-unit", "stratum")
    elif data.units is not None:
        units = data.unit_codes
    return Clusters(units, data.role_codes("stratum"))


def _outcomes(regression: Regression, tables: TwoTables) -> tuple[Floats, ...] | None:
    """Return (N,) outcomes of both tables, NaN where missing; None where they cannot be compared."""
    variable = tables[0].schema[regression.outcome]
    if not comparable(variable, tables[1]):
        return None
    if not variable.is_categorical:
        return tuple(numbers(table, variable.name) for table in tables)
    levels = all_levels(variable, tables)
    event = str((variable.levels or ())[1] if regression.event is None else regression.event)
    is_event = np.array([float(str(level) == event) for level in levels] + [np.nan])
    # Code −1, a missing value, picks the last entry.
    return tuple(is_event[level_codes(table, variable.name, levels)] for table in tables)


def _predictors(regression: Regression, tables: TwoTables) -> tuple[list[_Predictor], list[str]]:
    """Read the predictors; one without a value in either table would leave no complete record."""
    predictors: list[_Predictor] = []
    notes: list[str] = []
    for name in regression.predictors:
        variable = tables[0].schema[name]
        if not comparable(variable, tables[1]):
            notes.append(f"{name}: left out, the other table does not have it in a comparable form")
            continue
        levels = all_levels(variable, tables) if variable.is_categorical else ()
        values = (level_codes(t, name, levels) if variable.is_categorical else numbers(t, name) for t in tables)
        predictor = _Predictor(variable, tuple(values), levels)
        empty = [not predictor.present(side).any() for side in (0, 1)]
        if any(empty):
            where = "both tables" if all(empty) else "the original" if empty[0] else "the other table"
            notes.append(f"{name}: left out, {where} has no value of it")
        else:
            predictors.append(predictor)
    return predictors, notes


def _with_bases(predictors: list[_Predictor], complete: list[np.ndarray]) -> tuple[list[_Predictor], list[str]]:
    """Choose as base the first level with complete records in both tables."""
    chosen: list[_Predictor] = []
    notes: list[str] = []
    for one in predictors:
        held = (values[used] for values, used in zip(one.values, complete, strict=True))
        common = np.intersect1d(*held) if one.levels else [-1]
        if len(common):
            chosen.append(replace(one, base=int(common[0])))
        else:
            notes.append(f"{one.variable.name}: left out, the tables have no level in common")
    return chosen, notes


def _design(regression: Regression, y: Floats, terms: list[tuple[str, np.ndarray | None]]) -> Design:
    held = [(CONSTANT, np.ones(len(y))), *((term, column) for term, column in terms if column is not None)]
    dropped = {term: "no complete record at this level" for term, column in terms if column is None}
    X = np.column_stack([column for _, column in held]).astype(np.float64)
    problem = ""
    if not len(y):
        problem = "no record is complete"
    elif regression.kind == "logistic" and (y == y[0]).all():
        problem = "the outcome has the same value in every complete record"
    return Design(tuple(term for term, _ in held), X, y, dropped=dropped, problem=problem)


def _estimable(design: Design, aliased: frozenset[str]) -> Design:
    """Drop what is a combination of other columns, in the original or here."""
    if design.problem:
        return design
    here = [j for j, term in enumerate(design.terms) if term not in aliased]
    independent = independent_columns(design.columns[:, here], design.weights)
    stays = [j for j, keep in zip(here, independent, strict=True) if keep]
    combined = [term for j, term in enumerate(design.terms) if j not in stays]
    X = design.columns[:, stays]
    return replace(
        design,
        terms=tuple(design.terms[j] for j in stays),
        columns=X,
        dropped=design.dropped | dict.fromkeys(combined, "constant, or a combination of the terms before it"),
        problem=f"{len(X)} complete records are too few for {X.shape[1]} coefficients" if len(X) <= X.shape[1] else "",
        aliased=frozenset(combined),
    )
