"""The design of a declared regression, for the original and another table, in the same columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from anoncore.microdata import Microdata, Variable
from anoncore.utility._fits import independent_columns
from anoncore.utility._sides import Floats, Integers, all_levels, comparable, level_codes, numbers

if TYPE_CHECKING:
    from anoncore.utility.regression import Regression

CONSTANT = "(constant)"


@dataclass(frozen=True, eq=False)
class Design:
    """What one table contributes to a regression.

    Parameters
    ----------
    terms : p names; columns : (N, p), the constant first; outcome : (N,); weights : (N,) or None
    dropped : terms that cannot be estimated here, and why
    aliased : those of them that are combinations of other terms
    notes : predictors that were left out, a sentence each
    problem : why nothing can be fitted, "" when it can
    """

    terms: tuple[str, ...]
    columns: Floats
    outcome: Floats
    weights: Floats | None
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


@dataclass(frozen=True, eq=False)
class _Predictor:
    """A predictor in both tables: numbers, or codes of levels; ``base`` is the code left out."""

    variable: Variable
    values: tuple[Floats | Integers, Floats | Integers]
    levels: tuple[object, ...] = ()
    base: int = -1


def design_pair(
    regression: Regression, tables: tuple[Microdata, Microdata], arrays: tuple[Floats | None, Floats | None]
) -> tuple[Design, Design]:
    """Return the designs of two tables: complete records, one coding.

    What the original cannot estimate is left out of both; what only the other cannot, there.
    """
    outcome = _outcome(regression, tables)
    if outcome is None:
        empty = "the outcome is not there in a comparable form"
        ours, _ = design_pair(regression, (tables[0], tables[0]), (arrays[0], arrays[0]))
        return ours, _empty(empty)
    predictors, notes = _predictors(regression, tables)
    complete = []
    for side in (0, 1):
        used = ~np.isnan(outcome[side])
        for predictor in predictors:
            used &= _told(predictor, side)
        weight = arrays[side]
        complete.append(used if weight is None else used & (weight > 0))
    predictors, more = _with_bases(predictors, complete)
    notes = (*notes, *more)
    sides = [_side(regression, predictors, outcome[side], complete[side], arrays[side], side, notes) for side in (0, 1)]
    ours = _estimable(sides[0], frozenset())
    return ours, _estimable(sides[1], ours.aliased)


def _empty(problem: str) -> Design:
    return Design((), np.zeros((0, 0)), np.zeros(0), None, problem=problem)


def _outcome(regression: Regression, tables: tuple[Microdata, Microdata]) -> tuple[Floats, Floats] | None:
    """Return (N,) outcomes of both tables, NaN where missing."""
    variable = tables[0].schema[regression.outcome]
    if not comparable(variable, tables[1]):
        return None
    if not variable.is_categorical:
        return numbers(tables[0], variable.name), numbers(tables[1], variable.name)
    levels = all_levels(variable, tables)
    event = str((variable.levels or ())[1] if regression.event is None else regression.event)
    found = []
    for table in tables:
        codes = level_codes(table, variable.name, levels)
        is_event = np.array([float(str(level) == event) for level in levels] + [np.nan])
        found.append(is_event[codes])  # code −1, a gap, picks the last entry
    return found[0], found[1]


def _predictors(
    regression: Regression, tables: tuple[Microdata, Microdata]
) -> tuple[list[_Predictor], tuple[str, ...]]:
    """Read the predictors; one without a value in either table would leave no complete record."""
    found: list[_Predictor] = []
    notes: list[str] = []
    for name in regression.predictors:
        variable = tables[0].schema[name]
        if not comparable(variable, tables[1]):
            notes.append(f"{name}: left out, the other table does not have it in a comparable form")
            continue
        if variable.is_categorical:
            levels = all_levels(variable, tables)
            codes = [level_codes(table, name, levels) for table in tables]
            predictor = _Predictor(variable, (codes[0], codes[1]), levels)
        else:
            predictor = _Predictor(variable, (numbers(tables[0], name), numbers(tables[1], name)))
        empty = [not _told(predictor, side).any() for side in (0, 1)]
        if any(empty):
            where = "both tables" if all(empty) else "the original" if empty[0] else "the other table"
            notes.append(f"{name}: left out, {where} has no value of it")
            continue
        found.append(predictor)
    return found, tuple(notes)


def _told(predictor: _Predictor, side: int) -> np.ndarray:
    values = predictor.values[side]
    return np.asarray(values >= 0 if predictor.levels else ~np.isnan(values))


def _with_bases(predictors: list[_Predictor], complete: list[np.ndarray]) -> tuple[list[_Predictor], tuple[str, ...]]:
    """Choose as base the first level with complete records in both tables."""
    found: list[_Predictor] = []
    notes: list[str] = []
    for one in predictors:
        if not one.levels:
            found.append(one)
            continue
        counts = [
            np.bincount(values[used].astype(np.intp), minlength=len(one.levels))
            for values, used in zip(one.values, complete, strict=True)
        ]
        both = np.flatnonzero((counts[0] > 0) & (counts[1] > 0))
        if len(both):
            found.append(_Predictor(one.variable, one.values, one.levels, int(both[0])))
        else:
            notes.append(f"{one.variable.name}: left out, the tables have no level in common")
    return found, tuple(notes)


def _side(
    regression: Regression,
    predictors: list[_Predictor],
    outcome: Floats,
    used: np.ndarray,
    weight: Floats | None,
    side: int,
    notes: tuple[str, ...],
) -> Design:
    y = outcome[used]
    w = None if weight is None else weight[used] / weight[used].mean() if used.any() else np.zeros(0)
    terms: list[str] = [CONSTANT]
    columns: list[np.ndarray] = [np.ones(len(y))]
    dropped: dict[str, str] = {}
    for one in predictors:
        values = one.values[side][used]
        name = one.variable.name
        if not one.levels:
            terms.append(name)
            columns.append(values)
            continue
        held = np.bincount(values.astype(np.intp), minlength=len(one.levels))
        for code, level in enumerate(one.levels):
            if code == one.base:
                continue
            if held[code]:
                terms.append(f"{name}={level}")
                columns.append((values == code).astype(np.float64))
            else:
                dropped[f"{name}={level}"] = "no complete record at this level"
    X = np.column_stack(columns).astype(np.float64)
    return Design(tuple(terms), X, y, w, dropped, notes, _problem(regression, y, X))


def _problem(regression: Regression, y: Floats, X: Floats) -> str:
    if not len(y):
        return "no record is complete"
    if regression.kind == "logistic" and (y == y[0]).all():
        return "the outcome has the same value in every complete record"
    return ""


def _estimable(design: Design, aliased: frozenset[str]) -> Design:
    """Drop what is a combination of other columns, in the original or here."""
    if design.problem:
        return design
    here = [j for j, term in enumerate(design.terms) if term not in aliased]
    X = design.columns[:, here]
    kept = independent_columns(X, design.weights)
    own = {design.terms[j] for j, stays in zip(here, kept, strict=True) if not stays}
    combined = {term for term in design.terms if term in aliased or term in own}
    p = int(kept.sum())
    return Design(
        tuple(design.terms[j] for j, stays in zip(here, kept, strict=True) if stays),
        X[:, kept],
        design.outcome,
        design.weights,
        design.dropped
        | {t: "constant, or a combination of the terms before it" for t in design.terms if t in combined},
        design.notes,
        f"{len(X)} complete records are too few for {p} coefficients" if len(X) <= p else "",
        frozenset(combined),
    )
