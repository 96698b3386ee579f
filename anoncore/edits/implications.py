"""Edits under conditions among numbers, as alternatives: a condition fails, or the consequence holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import ConditionalEdit, LinearEdit
from anoncore.edits.model import EditSet
from anoncore.kernels.alternatives import Alternative

Bounds = list[tuple[Mapping[str, float], float]]  # terms whose sum is at most a limit


def implications(
    edits: EditSet, names: Sequence[str], units: Mapping[str, float]
) -> tuple[tuple[Alternative, ...], ...]:
    """Return one rule for each edit under conditions that is about some numbers alone.

    Parameters
    ----------
    edits : EditSet; those about other variables, or that missing values satisfy or break, give no rule
    names : the t columns of the alternatives
    units : by how much a number must leave a condition to break it, of each of them

    Returns
    -------
    tuple of rules, each of alternatives

    Examples
    --------
    >>> child = Condition(variable="age", upper=15)
    >>> edit = ConditionalEdit(name="children", when=(child,), then=Condition(variable="income", upper=0))
    >>> [one.rows.tolist() for one in implications(EditSet([edit]), ["age", "income"], {"age": 1.0})[0]]
    [[[-1.0, 0.0]], [[0.0, 1.0]]]
    """
    rules = []
    for edit in edits.within(names).edits:
        if not isinstance(edit, ConditionalEdit | LinearEdit) or not edit.when:
            continue
        stated = [*edit.when, *([edit.then] if isinstance(edit, ConditionalEdit) else [])]
        if any(c.missing is not None for c in stated) or any(len(c.values or (0,)) > 1 for c in edit.when):
            continue
        kept = _consequences(edit)
        escapes = [one for c in edit.when for one in _failing(c, units.get(c.variable, 0.0))]
        rules.append(tuple(_alternative(bounds, names) for bounds in (*escapes, *kept)))
    return tuple(rules)


def _failing(condition: Condition, unit: float) -> list[Bounds]:
    """Return the ways in which a number fails a condition."""
    name = condition.variable
    lower = upper = None if condition.values is None else float(condition.values[0])
    lower = condition.lower if condition.values is None else lower
    upper = condition.upper if condition.values is None else upper
    ways: list[Bounds] = [] if lower is None else [[({name: 1.0}, lower - unit)]]
    return ways if upper is None else [*ways, [({name: -1.0}, -(upper + unit))]]


def _consequences(edit: ConditionalEdit | LinearEdit) -> list[Bounds]:
    """Return the ways in which the consequence holds."""
    if isinstance(edit, LinearEdit):
        signs = {"<=": (1.0,), ">=": (-1.0,), "==": (1.0, -1.0)}[edit.relation]
        return [[({n: s * c for n, c in edit.terms.items()}, s * edit.constant) for s in signs]]
    name, then = edit.then.variable, edit.then
    ranges = [(then.lower, then.upper)] if then.values is None else [(float(v), float(v)) for v in then.values]
    return [
        [
            *([] if upper is None else [({name: 1.0}, upper)]),
            *([] if lower is None else [({name: -1.0}, -lower)]),
        ]
        for lower, upper in ranges
    ]


def _alternative(bounds: Bounds, names: Sequence[str]) -> Alternative:
    rows = np.array([[terms.get(name, 0.0) for name in names] for terms, _ in bounds])
    return Alternative(rows, np.array([limit for _, limit in bounds]))
