"""Edits: what every record must satisfy, before masking and after it.

An edit is declared once and used three ways: counted (here, and by Great Expectations), as the
matrices ``A v = b`` and ``G v ≤ h`` that constrained methods honour, and by the repair step.
A rule about a cell that is missing does not apply, unless the rule speaks of missing cells itself;
the consequent of a conditional edit does: an empty cell satisfies it only where ``missing`` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.optimize import linprog

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.lookup import LearnedLookup, LookupEdit
from anoncore.edits.product import ProductEdit
from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema

Edit: TypeAlias = LinearEdit | BoundEdit | SetEdit | ConditionalEdit | RatioEdit | LookupEdit | ProductEdit
Computing: TypeAlias = LinearEdit | LookupEdit | ProductEdit


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
        When two edits share a name, or two edits compute the same dependent.
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
    def lookups(self) -> tuple[LookupEdit, ...]:
        """The functional dependencies, each after those that its determinants depend on."""
        return tuple(e for e in self.dependents if isinstance(e, LookupEdit))

    @property
    def following(self) -> tuple[LookupEdit | ProductEdit, ...]:
        """The edits whose dependent follows from others and is never moved itself, in the order of `dependents`."""
        return tuple(e for e in self.dependents if isinstance(e, LookupEdit | ProductEdit))

    def learned(self, data: Microdata, fewest: int = 0) -> EditSet:
        """Return the edits with the tables of their lookups, learned from ``data`` where they are not learned yet.

        Levels that fewer than ``fewest`` units hold are not looked up.
        """
        return EditSet(
            e.learned(data.frame, data.units, fewest)
            if isinstance(e, LookupEdit) and not isinstance(e, LearnedLookup) and set(e.variables) <= set(data.frame)
            else e
            for e in self.edits
        )

    def refuse_identifying(self, data: Microdata) -> None:
        """Refuse lookups whose determinants nearly identify records of ``data``, see `LookupEdit.refuse_identifying`.

        It is asked once, of all records: among fewer ones more combinations are held by a single record.
        """
        for edit in self.within(data.schema.names).lookups:
            edit.refuse_identifying(data.frame, data.units)

    @property
    def dependents(self) -> tuple[Computing, ...]:
        """Edits that compute or look up a variable, ordered so that each can be solved after those before it."""
        waiting = [e for e in self.edits if isinstance(e, Computing) and e.dependent is not None]
        names = [e.dependent for e in waiting]
        twice = sorted({str(n) for n in names if names.count(n) > 1})
        if twice:
            raise AnonymizationError(f"computed by more than one edit: {', '.join(twice)}")
        ordered: list[Computing] = []
        while waiting:
            open_names = {e.dependent for e in waiting}
            ready = [e for e in waiting if not set(e.parts) & open_names]
            if not ready:
                raise AnonymizationError(f"edits compute each other in a circle: {', '.join(e.name for e in waiting)}")
            ordered += ready
            waiting = [e for e in waiting if e not in ready]
        return tuple(ordered)

    def problems(self, schema: Schema) -> list[str]:
        """Return everything that is wrong with the edits for ``schema``, one sentence each."""
        problems = self.obstacles(schema)
        for edit in self.edits:
            if all(n in schema for n in edit.variables):
                problems += _level_problems(edit, schema)
        conflict = self.conflict()
        if conflict:
            problems.append(f"no record can satisfy these edits together: {', '.join(conflict)}")
        return problems

    def obstacles(self, schema: Schema) -> list[str]:
        """Return what keeps the edits from being evaluated on data of ``schema``, one sentence each."""
        obstacles = []
        for edit in self.edits:
            absent = [n for n in edit.variables if n not in schema]
            if absent:
                obstacles.append(f"edit {edit.name!r} names unknown variable(s) {', '.join(absent)}")
                continue
            dropped = [n for n in edit.variables if not schema[n].is_masked]
            if dropped:
                obstacles.append(f"edit {edit.name!r} uses {', '.join(dropped)}, which is not released")
            obstacles += _text_problems(edit, schema)
        return obstacles

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


def _conditions(edit: Edit) -> list[Condition]:
    conditions = list(getattr(edit, "when", ()))
    return [*conditions, edit.then] if isinstance(edit, ConditionalEdit) else conditions


def _text_problems(edit: Edit, schema: Schema) -> list[str]:
    """Return sentences about numbers asked of text."""
    ranged = [c.variable for c in _conditions(edit) if c.lower is not None or c.upper is not None]
    if isinstance(edit, LinearEdit):
        ranged += list(edit.terms)
    elif isinstance(edit, BoundEdit | RatioEdit | ProductEdit):
        ranged += list(edit.variables)
    problems = []
    for name in ranged:
        levels = schema[name].levels
        if schema[name].kind == "nominal" or (levels and isinstance(levels[0], str)):
            problems.append(f"edit {edit.name!r} computes with {name!r}, which holds no numbers")
    return problems


def _level_problems(edit: Edit, schema: Schema) -> list[str]:
    """Return sentences about stated values that are no level."""
    problems = []
    stated = [(c.variable, c.values) for c in _conditions(edit) if c.values is not None]
    if isinstance(edit, SetEdit):
        stated.append((edit.variable, edit.values))
    for name, values in stated:
        levels = schema[name].levels
        if levels and not set(values) <= set(levels):
            problems.append(f"edit {edit.name!r} lists a value that is no level of {name!r}")
    return problems


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
