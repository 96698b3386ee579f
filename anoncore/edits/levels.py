"""Settling set and conditional edits: new cells for records that violate one.

Cells are handled as a column's codes (categorical, −1 for missing) or as its numbers (continuous,
NaN for missing), so that every kind of variable goes through the same lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from anoncore.edits.conditions import Condition, numbers
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, SetEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import EditSet
from anoncore.microdata import Schema, round_to


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """What cells are drawn from: the masked file, N records, and the stream of draws.

    Parameters
    ----------
    file : DataFrame, (N, n), the masked variables in canonical form
    sound : (N,) bool, the records that satisfy every edit
    schema, edits : of the file
    rng : numpy Generator
    """

    file: pd.DataFrame
    sound: np.ndarray
    schema: Schema
    edits: EditSet
    rng: np.random.Generator

    def draw(self, name: str, size: int, *pools: np.ndarray) -> np.ndarray | None:
        """Draw ``size`` cells of ``name`` from the first pool, (N,) bool, that is not empty."""
        for pool in pools:
            donors = np.flatnonzero(pool)
            if len(donors):
                return cells(self.file[name])[donors[self.rng.integers(len(donors), size=size)]]
        return None


def cells(column: pd.Series) -> np.ndarray:
    """Return (N,) codes of a categorical column, numbers of a continuous one."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy(dtype="int64")
    return column.to_numpy(dtype="float64", copy=True)


def with_cells(column: pd.Series, values: np.ndarray) -> pd.Series:
    """Return a column like ``column`` that holds ``values``, as `cells` gives them."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pd.Series(pd.Categorical.from_codes(values, dtype=column.dtype), index=column.index)
    return pd.Series(values, index=column.index)


def empty(values: np.ndarray) -> np.ndarray:
    """Return (N,) bool: the cell is missing."""
    return np.asarray(np.isnan(values) if values.dtype.kind == "f" else values < 0)


def consequent(edit: SetEdit | ConditionalEdit, frame: pd.DataFrame, source: Source) -> np.ndarray:
    """Return cells with which records that violate ``edit`` satisfy it.

    Parameters
    ----------
    edit : a set edit, or a conditional edit whose consequent is to be met
    frame : DataFrame, (M, n), records that violate it
    source : what to draw from

    Returns
    -------
    (M,) cells of the variable concerned; unchanged where nothing could be found.

    Claim: none. A single allowed value is set; a number in a range, and a number or ordered level
    in a set edit, goes to the nearest allowed one; anything else is drawn from donors, records of
    the masked file that satisfy the edit with its antecedent true, first from those without any
    violation, else from all allowed cells of the file, else from the allowed levels.

    Examples
    --------
    >>> consequent(older, frame, source)  # doctest: +SKIP
    array([1, 1])
    """
    if isinstance(edit, SetEdit):
        condition = Condition(variable=edit.variable, values=edit.values)
        donors = condition.holds(source.file)
    else:
        condition = edit.then
        donors = edit.applies(source.file) & condition.holds(source.file)
    variable = source.schema[condition.variable]
    now = cells(frame[variable.name])
    if condition.missing and not _stated(condition):
        return _gaps(now)
    pools = (donors & source.sound, donors, condition.holds(source.file))
    if not variable.is_categorical:
        return _number(condition, now, pools, source, nearest=isinstance(edit, SetEdit))
    good = _good_levels(condition, frame[variable.name])
    if isinstance(edit, ConditionalEdit) and good.sum() == 1 and not condition.missing:
        return np.full(len(now), np.flatnonzero(good)[0])
    position = None
    if condition.values is None and _stated(condition):
        position = frame[variable.name].cat.categories.to_numpy(dtype="float64")
    elif isinstance(edit, SetEdit) and variable.kind == "ordinal":
        position = np.arange(len(good), dtype="float64")
    return _code(variable.name, now, good, position, pools, source)


def falsified(condition: Condition, frame: pd.DataFrame, source: Source) -> np.ndarray:
    """Return cells with which ``condition`` no longer holds, the nearest ones where there is an order.

    Parameters
    ----------
    condition : one of an edit's antecedents
    frame : DataFrame, (M, n), records for which it holds
    source : what to draw from

    Returns
    -------
    (M,) cells; unchanged where no cell could falsify it.

    Examples
    --------
    >>> falsified(Condition(variable="older", values=(1,)), frame, source)  # doctest: +SKIP
    array([0, 0])
    """
    variable = source.schema[condition.variable]
    now, there = cells(frame[variable.name]), cells(source.file[variable.name])
    if not _stated(condition) and not condition.missing:
        return _gaps(now)
    pool = ~condition.holds(source.file) & ~empty(there)
    if variable.is_categorical:
        good = ~_good_levels(condition, frame[variable.name])
        if not good.any():
            return now if condition.missing else _gaps(now)
        position = np.arange(len(good), dtype="float64") if variable.kind == "ordinal" else None
        return _code(variable.name, now, good, position, (pool & source.sound, pool), source)
    if _stated(condition):
        now = np.where(empty(now), now, _beside(condition, now, variable.precision or 1e-6))
    drawn = source.draw(variable.name, len(now), pool & source.sound, pool)
    return now if drawn is None else np.where(empty(now), drawn, now)


def donated(edit: LookupEdit, wanted: np.ndarray, frame: pd.DataFrame, source: Source) -> dict[str, np.ndarray]:
    """Return determinants of donors that hold the wanted values of a lookup's dependent.

    Parameters
    ----------
    edit : the lookup
    wanted : (M,) cells of its dependent
    frame : DataFrame, (M, n), the records to change
    source : what to draw from, records without any violation first

    Returns
    -------
    (M,) cells of each determinant; those of ``frame`` where no donor holds the value.

    Examples
    --------
    >>> donated(division, np.array([2, 2]), frame, source)  # doctest: +SKIP
    {'state': array([14, 31])}
    """
    there = cells(source.file[edit.dependent])
    columns = {name: cells(source.file[name]) for name in edit.of}
    result = {name: cells(frame[name]) for name in edit.of}
    for value in np.unique(wanted[~empty(wanted)]):
        rows = np.flatnonzero(wanted == value)
        donors = there == value
        donors = np.flatnonzero(donors & source.sound if (donors & source.sound).any() else donors)
        if len(donors):
            drawn = donors[source.rng.integers(len(donors), size=len(rows))]
            for name in edit.of:
                result[name][rows] = columns[name][drawn]
    return result


def _beside(condition: Condition, now: np.ndarray, unit: float) -> np.ndarray:
    """Return the nearest multiples of ``unit`` outside a range, or beside stated values."""
    if condition.values is not None:
        return round_to(now + unit, unit)
    low, high = admissible(condition, unit)
    below, above = now - low, high - now
    return np.where(below <= above, round_to(low - unit * np.ones(1), unit), round_to(high + unit * np.ones(1), unit))


def _number(
    condition: Condition,
    now: np.ndarray,
    pools: tuple[np.ndarray, ...],
    source: Source,
    *,
    nearest: bool,
) -> np.ndarray:
    """Return numbers that satisfy ``condition``."""
    drawn = source.draw(condition.variable, len(now), *pools)
    if condition.values is not None:
        allowed = np.sort(np.asarray(condition.values, dtype="float64"))
        if nearest:
            return np.asarray(allowed[np.abs(allowed[None, :] - now[:, None]).argmin(axis=1)])
        if len(allowed) == 1 and not condition.missing:
            return np.full(len(now), allowed[0])
        return source.rng.choice(allowed, size=len(now)) if drawn is None else drawn
    if drawn is None:
        known = numbers(source.file[condition.variable])
        drawn = np.full(len(now), 0.0 if np.isnan(known).all() else np.nanmedian(known))
    low, high = admissible(condition, source.schema[condition.variable].precision)
    return np.clip(np.where(empty(now), drawn, now), low, high)


def _code(
    name: str,
    now: np.ndarray,
    good: np.ndarray,
    position: np.ndarray | None,
    pools: tuple[np.ndarray, ...],
    source: Source,
) -> np.ndarray:
    """Return codes among ``good``, (L,) bool: the nearest by ``position``, (L,), or drawn."""
    codes, result, waiting = np.flatnonzero(good), now.copy(), np.ones(len(now), dtype=bool)
    if position is not None and len(codes):
        waiting = empty(now)
        distance = np.abs(position[codes][None, :] - position[now[~waiting]][:, None])
        result[~waiting] = codes[distance.argmin(axis=1)]
    if waiting.any():
        drawn = source.draw(name, int(waiting.sum()), *pools)
        if drawn is None and len(codes):
            drawn = source.rng.choice(codes, size=int(waiting.sum()))
        if drawn is not None:
            result[waiting] = drawn
    return result


def _stated(condition: Condition) -> bool:
    """Whether the condition says something about cells that are not missing."""
    return condition.values is not None or condition.lower is not None or condition.upper is not None


def _good_levels(condition: Condition, column: pd.Series) -> np.ndarray:
    """Return (L,) bool: the condition holds for a cell of that level."""
    dtype: Any = column.dtype
    levels = pd.Categorical(column.cat.categories, dtype=dtype)
    return condition.holds(pd.DataFrame({condition.variable: levels}))


def admissible(stated: Condition | BoundEdit, unit: float | None) -> tuple[float, float]:
    """Return the stated range drawn in to multiples of ``unit``, if it holds any."""
    low = -np.inf if stated.lower is None else stated.lower
    high = np.inf if stated.upper is None else stated.upper
    if unit is None:
        return low, high
    inner = round_to(np.array([np.ceil(low / unit - 1e-9), np.floor(high / unit + 1e-9)]) * unit, unit)
    return (float(inner[0]), float(inner[1])) if inner[0] <= inner[1] else (low, high)


def _gaps(values: np.ndarray) -> np.ndarray:
    return np.full(len(values), np.nan if values.dtype.kind == "f" else -1, dtype=values.dtype)
