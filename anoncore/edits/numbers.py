"""Settling numeric edits: the nearest record that satisfies them, on the variables' own grids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TypeGuard

import numpy as np
import pandas as pd

from anoncore.edits.conditions import numbers
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.levels import admissible, cells
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import Edit, EditSet
from anoncore.edits.product import ProductEdit
from anoncore.kernels.projection import Grid, Polytope, attempt_on_grid
from anoncore.microdata import Schema

# A band of stated tolerance is drawn in by this share, so that its edge lies inside it.
BAND = 1e-9

NumericEdit = LinearEdit | RatioEdit | BoundEdit | ConditionalEdit


@dataclass(frozen=True, eq=False, repr=False)
class Component:
    """Variables that linear and ratio edits tie together, t of them, and every rule about them.

    Parameters
    ----------
    names : the variables, in schema order
    rules : numeric edits, and conditional edits whose consequent is a range
    pins : conditional edits whose consequent lists values of one of the variables
    follows : (t,) bool, the variable is looked up or multiplied from others
    scale : (t,), standard deviations in the masked file
    grids : for each variable the unit, the levels or None
    discrete : (t,) bool, the variable has levels
    order : in which the variables are brought onto their grids
    """

    names: tuple[str, ...]
    rules: tuple[NumericEdit, ...]
    pins: tuple[ConditionalEdit, ...]
    follows: np.ndarray
    scale: np.ndarray
    grids: tuple[Grid, ...]
    discrete: np.ndarray
    order: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Settled:
    """New cells of M records: by variable the records and their cells; by edit the records moved for it."""

    cells: dict[str, tuple[np.ndarray, np.ndarray]]
    moved: dict[str, np.ndarray]


def is_numeric(edit: Edit) -> TypeGuard[NumericEdit]:
    """Whether the edit limits numbers: linear, ratio, bound, or conditional on a range."""
    if isinstance(edit, ConditionalEdit):
        return edit.then.lower is not None or edit.then.upper is not None
    return not isinstance(edit, SetEdit | LookupEdit | ProductEdit)


def components(file: pd.DataFrame, schema: Schema, edits: EditSet) -> tuple[Component, ...]:
    """Split the numeric edits into groups that share no variable.

    Parameters
    ----------
    file : DataFrame, (N, n), the masked variables in canonical form
    schema, edits : of the file

    Returns
    -------
    tuple of Component, in schema order. The metric is a sum over variables, so settling each
    group alone is settling them together.

    Examples
    --------
    >>> [c.names for c in components(file, schema, edits)]  # doctest: +SKIP
    [('wt71', 'wt82', 'wt82_71'), ('age',)]
    """
    rules: list[NumericEdit] = [e for e in edits.edits if is_numeric(e)]
    groups: list[set[str]] = []
    for rule in rules:
        tied = set(_constrained(rule))
        joined = tied.union(*(g for g in groups if g & tied))
        groups = [g for g in groups if not g & joined] + [joined]
    components = []
    for names in (tuple(n for n in schema.names if n in group) for group in groups):
        here = tuple(e for e in rules if set(_constrained(e)) <= set(names))
        components.append(_component(names, here, file, schema, edits))
    return tuple(sorted(components, key=lambda c: schema.names.index(c.names[0])))


def settle(component: Component, frame: pd.DataFrame) -> Settled:
    """Move the records that violate a rule of ``component`` to the nearest that satisfies all of them.

    Parameters
    ----------
    component : as `components` made it
    frame : DataFrame, (M, n), canonical

    Returns
    -------
    Settled; records for which nothing was found are left as they are.

    Raises
    ------
    NotConvergedError
        When a projection does not settle.

    Claim: the projection is exact in the standardised metric, the grid is reached by a heuristic.
    Departure: variables with levels stay where they are while the others can make up for it.

    Examples
    --------
    >>> settle(component, frame).moved  # doctest: +SKIP
    {'weight gain': array([ True, False])}
    """
    values = np.column_stack([numbers(frame[n]) for n in component.names])
    present = ~np.isnan(values)
    applies = np.column_stack([_applies(e, frame) for e in component.rules])
    broken = applies & ~np.column_stack([e.holds(frame) for e in component.rules])
    pinned = np.tile(component.follows, (len(values), 1))
    for pin in component.pins:
        at = component.names.index(pin.then.variable)
        pinned[:, at] |= pin.applies(frame) & pin.then.holds(frame)
    rows = np.flatnonzero(broken.any(axis=1))
    result, done = values.copy(), np.zeros(len(values), dtype=bool)
    if len(rows):
        pattern = np.column_stack([present, applies, pinned])[rows]
        _, group = np.unique(pattern, axis=0, return_inverse=True)
        for at in range(int(group.max()) + 1):
            same = rows[group.reshape(-1) == at]
            first = same[0]
            result[same], done[same] = _settle_group(
                component, values[same], present[first], applies[first], pinned[first]
            )
    return Settled(
        dict(_changes(component, frame, values, result)),
        {e.name: broken[:, i] & done for i, e in enumerate(component.rules)},
    )


def _settle_group(
    component: Component, values: np.ndarray, present: np.ndarray, applies: np.ndarray, pinned: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Settle records (m, t) to which the same rules apply and of which the same cells are present."""
    here = np.flatnonzero(present)
    place = {int(j): i for i, j in enumerate(here)}
    result, done = values.copy(), np.zeros(len(values), dtype=bool)
    for still, system in _ways(component, applies, pinned):
        open_ = np.flatnonzero(~done)
        if not len(open_):
            break
        found, good = attempt_on_grid(
            values[np.ix_(open_, here)],
            system.among(here),
            np.where(still, 0.0, component.scale)[here],
            [component.grids[j] for j in here],
            [place[j] for j in component.order if j in place],
        )
        result[np.ix_(open_[good], here)] = found[good]
        done[open_[good]] = True
    return result, done


def _ways(component: Component, applies: np.ndarray, pinned: np.ndarray) -> Iterator[tuple[np.ndarray, Polytope]]:
    """Yield what may be tried in turn: (t,) bool, the variables to leave, and the constraints.

    First within whole units, then not; first with the consequents of conditional edits, then
    against them, so that a later pass may change their antecedents; first with levels left alone.
    """
    soft = np.array([isinstance(e, ConditionalEdit) for e in component.rules])
    seen = set()
    for whole, consequents, left in product((True, False), (True, False), (True, False)):
        active = applies if consequents else applies & ~soft
        still = component.discrete & left
        if consequents:
            still = still | pinned
        system = _system(component, active, whole=whole)
        key = (still.tobytes(), *(part.tobytes() for part in vars(system).values()))
        if key not in seen:
            seen.add(key)
            yield still, system


def _system(component: Component, active: np.ndarray, *, whole: bool) -> Polytope:
    """Return what the rules ``active``, (R,) bool, allow.

    Bounds are drawn in to ``whole`` units, where a multiple lies between them.
    """
    names = component.names
    lower = np.array([g[0] if isinstance(g, np.ndarray) and len(g) else -np.inf for g in component.grids])
    upper = np.array([g[-1] if isinstance(g, np.ndarray) and len(g) else np.inf for g in component.grids])
    equal: list[tuple[np.ndarray, float]] = []
    below: list[tuple[np.ndarray, float]] = []
    for i in np.flatnonzero(active):
        edit = component.rules[i]
        if isinstance(edit, BoundEdit | ConditionalEdit):
            stated = edit if isinstance(edit, BoundEdit) else edit.then
            at = names.index(stated.variable)
            grid = component.grids[at]
            low, high = admissible(stated, grid if whole and isinstance(grid, float) else None)
            lower[at], upper[at] = max(lower[at], low), min(upper[at], high)
            continue
        for linear in (edit,) if isinstance(edit, LinearEdit) else edit.inequalities():
            row = np.zeros(len(names))
            for name, coefficient in linear.terms.items():
                row[names.index(name)] = coefficient
            slack = (linear.tolerance or 0.0) * (1.0 - BAND)
            if linear.relation == "==" and not slack:
                equal.append((row, linear.constant))
            if linear.relation == "<=" or (slack and linear.relation == "=="):
                below.append((row, linear.constant + slack))
            if linear.relation == ">=" or (slack and linear.relation == "=="):
                below.append((-row, slack - linear.constant))
    empty = np.zeros((0, len(names)))
    return Polytope(
        A=np.array([r for r, _ in equal]) if equal else empty,
        b=np.array([c for _, c in equal]),
        lower=lower,
        upper=upper,
        G=np.array([r for r, _ in below]) if below else empty,
        h=np.array([c for _, c in below]),
    )


def _component(
    names: tuple[str, ...],
    rules: tuple[NumericEdit, ...],
    file: pd.DataFrame,
    schema: Schema,
    edits: EditSet,
) -> Component:
    pins = tuple(
        e
        for e in edits.edits
        if isinstance(e, ConditionalEdit) and e.then.variable in names and e.then.values is not None
    )
    sets = {e.variable: e for e in edits.edits if isinstance(e, SetEdit) and e.variable in names}
    grids: list[Grid] = []
    for name in names:
        unit = schema[name].precision
        grid: Grid = None if unit is None else float(unit)
        if schema[name].is_categorical:
            grid = np.sort(file[name].cat.categories.to_numpy(dtype="float64"))
        if name in sets:
            allowed = np.sort(np.asarray(sets[name].values, dtype="float64"))
            grid = np.intersect1d(grid, allowed) if isinstance(grid, np.ndarray) else allowed
        grids.append(grid)
    columns = np.column_stack([numbers(file[n]) for n in names])
    discrete = np.array([isinstance(g, np.ndarray) for g in grids])
    linear = [e for e in rules if isinstance(e, LinearEdit)]
    dependents = {e.dependent for e in linear}
    odd = {n for e in linear for n, c in e.terms.items() if abs(c) != 1}

    def rank(j: int) -> tuple[bool, bool, float, bool, bool]:
        grid = grids[j]
        unit = grid if isinstance(grid, float) else 0.0
        return not discrete[j], grid is None, -unit, names[j] in dependents, names[j] not in odd

    return Component(
        names,
        rules,
        pins,
        np.isin(names, [e.dependent for e in edits.following]),
        _scales(columns, grids),
        tuple(grids),
        discrete,
        tuple(sorted(range(len(names)), key=rank)),
    )


def _scales(columns: np.ndarray, grids: list[Grid]) -> np.ndarray:
    """Return (t,) standard deviations; for a variable without spread its unit."""
    units = np.array([g if isinstance(g, float) else 1.0 for g in grids])
    for j in np.flatnonzero((~np.isnan(columns)).any(axis=0)):
        units[j] = np.nanstd(columns[:, j]) or units[j]
    return units


def _changes(
    component: Component, frame: pd.DataFrame, before: np.ndarray, after: np.ndarray
) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    for j, name in enumerate(component.names):
        rows = np.flatnonzero((before[:, j] != after[:, j]) & ~np.isnan(before[:, j]))
        if not len(rows):
            continue
        column = frame[name]
        new = after[rows, j]
        if isinstance(column.dtype, pd.CategoricalDtype):
            levels = column.cat.categories.to_numpy(dtype="float64")
            order = np.argsort(levels)
            new = order[np.searchsorted(levels[order], new)].astype(cells(column).dtype)
        yield name, (rows, new)


def _applies(edit: NumericEdit, frame: pd.DataFrame) -> np.ndarray:
    applies = edit.applies(frame)
    if isinstance(edit, ConditionalEdit):
        applies &= ~frame[edit.then.variable].isna().to_numpy()
    return applies


def _constrained(edit: NumericEdit) -> tuple[str, ...]:
    """Return the variables whose numbers the edit constrains."""
    if isinstance(edit, LinearEdit):
        return tuple(edit.terms)
    return (edit.then.variable,) if isinstance(edit, ConditionalEdit) else edit.variables
