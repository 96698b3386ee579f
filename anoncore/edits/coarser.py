"""Edits about variables that were recoded, in their coarser levels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from anoncore.edits.conditions import Condition, within
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, SetEdit
from anoncore.edits.model import Edit, EditSet
from anoncore.recoding import Recoding


def coarser(edits: EditSet, recodings: Iterable[Recoding]) -> tuple[EditSet, tuple[str, ...]]:
    """Return what edits say of recoded variables, and the names of those that say nothing there.

    Parameters
    ----------
    edits : EditSet of the values before
    recodings : in the order in which they were carried out

    Returns
    -------
    EditSet
        Each record that satisfied an edit satisfies what it became: a level is allowed where one of the levels that it
        covers is, and a condition applies where all of them satisfy it. A missing value is allowed, since keys are
        left out.
    tuple of str
        Edits that compute with a recoded variable, or whose conditions no coarser level satisfies for certain; and
        those under conditions on a variable of which one level is left, which missing values have, too.

    Examples
    --------
    >>> school = SetEdit(name="school", variable="school", values=(1, 2))
    >>> found, lost = coarser(EditSet([school]), [Recoding("school", {1: "1", 2: "2–3", 3: "2–3", 4: "4"})])
    >>> found.edits[0].values, lost
    (('1', '2–3'), ())
    """
    kept = {edit.name: edit for edit in edits.edits}
    for recoding in recodings:
        if recoding.coding is None:
            found = {name: _coarse(edit, recoding) for name, edit in kept.items()}
            kept = {name: edit for name, edit in found.items() if edit is not None}
    return EditSet(kept.values()), tuple(edit.name for edit in edits.edits if edit.name not in kept)


def _coarse(edit: Edit, recoding: Recoding) -> Edit | None:
    """Return an edit in the coarser levels; None where it says nothing there."""
    name = recoding.variable
    if name not in edit.variables:
        return edit
    if isinstance(edit, BoundEdit) and recoding.width is not None and np.isfinite(recoding.width):
        lower, upper = _around(edit.lower, edit.upper, recoding.width)
        return replace(edit, lower=lower, upper=upper)
    if isinstance(edit, SetEdit) and recoding.width is None:
        allowed = _covering(edit.values, recoding)
        return replace(edit, values=allowed) if allowed else None
    if (isinstance(edit, LinearEdit) and name in edit.terms) or not isinstance(edit, LinearEdit | ConditionalEdit):
        return None
    if recoding.width is None and len(set(recoding.levels.values())) == 1:
        return None  # missing values became the level that is left
    when = [_certain(c, recoding) if c.variable == name else c for c in edit.when]
    if any(condition is None for condition in when):
        return None
    edit = replace(edit, when=tuple(c for c in when if c is not None))
    if isinstance(edit, ConditionalEdit) and edit.then.variable == name:
        then = _possible(edit.then, recoding)
        return None if then is None else replace(edit, then=then)
    return edit


def _certain(condition: Condition, recoding: Recoding) -> Condition | None:
    """Return where the values before satisfied a condition for certain; None for nowhere."""
    if recoding.width is None:
        chosen = set(_levels(condition, recoding))
        inside = [label for label in dict.fromkeys(recoding.levels.values()) if label in _whole(chosen, recoding)]
        return Condition(variable=condition.variable, values=tuple(inside)) if inside else None
    width = recoding.width
    if condition.values is not None or (condition.lower is None and condition.upper is None) or np.isinf(width):
        return None
    lower = None if condition.lower is None else math.ceil(condition.lower / width) * width
    upper = None if condition.upper is None else (math.floor(condition.upper / width) - 0.5) * width
    if lower is not None and upper is not None and lower > upper:
        return None
    return Condition(variable=condition.variable, lower=lower, upper=upper)


def _possible(condition: Condition, recoding: Recoding) -> Condition | None:
    """Return where a value before may have satisfied a condition; None where that says nothing."""
    if recoding.width is None:
        allowed = _covering(_levels(condition, recoding), recoding)
        if not allowed and not condition.missing:
            return None
        return Condition(variable=condition.variable, values=allowed or None, missing=True)
    if condition.missing and condition.values is None and condition.lower is None and condition.upper is None:
        return condition
    if condition.values is not None or (condition.lower is None and condition.upper is None):
        return None
    if np.isinf(recoding.width):
        return None
    lower, upper = _around(condition.lower, condition.upper, recoding.width)
    return Condition(variable=condition.variable, lower=lower, upper=upper, missing=True)


def _around(lower: float | None, upper: float | None, width: float) -> tuple[float | None, float | None]:
    """Return limits of the middles of intervals that hold a number between limits."""
    start = None if lower is None else math.floor(lower / width) * width
    return start, None if upper is None else (math.floor(upper / width) + 0.5) * width


def _levels(condition: Condition, recoding: Recoding) -> list[Any]:
    """Return the levels before that satisfy a condition."""
    if condition.values is not None:
        return [level for level in recoding.levels if level in condition.values]
    if condition.lower is None and condition.upper is None:
        return [] if condition.missing else list(recoding.levels)
    numbers = np.array([float(level) for level in recoding.levels])
    fits = within(numbers, condition.lower, condition.upper)
    return [level for level, fit in zip(recoding.levels, fits, strict=True) if fit]


def _covering(levels: Iterable[Any], recoding: Recoding) -> tuple[str, ...]:
    """Return the coarser levels that cover one of some levels."""
    return tuple(dict.fromkeys(recoding.levels[level] for level in levels if level in recoding.levels))


def _whole(levels: set[Any], recoding: Recoding) -> set[str]:
    """Return the coarser levels all of whose levels are among some."""
    return set(recoding.levels.values()) - {label for level, label in recoding.levels.items() if level not in levels}
