"""Tables and weights as the measures of utility take them; messages never contain a data value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import gcd

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Variable

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Weights = str | Sequence[ArrayLike | None] | None

BINS = 10
FEW = 256  # distinct values up to which counting is faster than sorting positions
GOLDEN = 0.6180339887498949
SIDES = ("original", "released", "reference")


@dataclass(frozen=True, eq=False)
class Weighting:
    """The survey weights of the tables that are compared.

    Parameters
    ----------
    variable : name of the variable they come from; None when they were given, or there are none
    arrays : one per table, (N,) with mean 1, or None where every record counts the same
    repaired : per table, records whose weight is missing, negative or infinite and counts as 0
    """

    variable: str | None
    arrays: tuple[Floats | None, ...] = field(repr=False)
    repaired: tuple[int, ...]

    @property
    def given(self) -> str | tuple[Floats | None, ...]:
        """The same weights as an argument: the variable's name, or the arrays."""
        return self.variable or self.arrays


def tables_of(original: Microdata, released: Microdata, reference: Microdata | None) -> list[Microdata]:
    """Return the tables that are compared, the original first; none may be empty."""
    tables = [table for table in (original, released, reference) if table is not None]
    if not all(map(len, tables)):
        raise AnonymizationError("utility needs records in every table; one of them has none")
    return tables


def weighting(tables: Sequence[Microdata], given: Weights) -> Weighting:
    """Return the weights of original, released and reference.

    Parameters
    ----------
    tables : original, released and, where there is one, reference
    given : name of a variable; or one array (or None) per table; or None for the first variable with
        role "weight", each record counting the same when there is none

    Raises
    ------
    AnonymizationError
        When the variable is not numeric, or an array does not fit its table.
    """
    schema = tables[0].schema
    if given is None:
        given = next((v.name for v in schema if v.role == "weight" and not v.is_categorical), ())
    if isinstance(given, str):
        if schema[given].is_categorical:
            raise AnonymizationError(f"variable {given!r}: weights must be continuous; declare it so")
        arrays, repaired = zip(*(_from_variable(table, given) for table in tables), strict=True)
        return Weighting(given, arrays, repaired)
    checked = [
        checked_weights(f"weights of {side}", array, len(table))
        for side, table, array in zip(SIDES, tables, [*given, None, None, None], strict=False)
    ]
    return Weighting(None, tuple(checked), (0,) * len(tables))


def left_in(
    tables: Sequence[Microdata], arrays: Sequence[Floats | None], left_out: np.ndarray | None
) -> tuple[list[Microdata], list[Floats | None]]:
    """Return the tables and their weights, the first without the records that are ``left_out``, (N,) bool."""
    if left_out is None:
        return [*tables], [*arrays]
    rows = np.flatnonzero(~left_out)
    own = None if arrays[0] is None else checked_weights("weights of the original", arrays[0][rows], len(rows))
    return [tables[0].take(rows), *tables[1:]], [own, *arrays[1:]]


def _from_variable(table: Microdata, name: str) -> tuple[Floats | None, int]:
    """Return weights with mean 1; what masking has made impossible counts as 0."""
    if name not in table.schema or not len(table):
        return None, 0
    values = table.frame[name].to_numpy(dtype="float64")
    usable = np.isfinite(values) & (values >= 0)
    array = np.where(usable, values, 0.0)
    total = array.sum()
    return (array * (len(array) / total) if total > 0 else None), int((~usable).sum())


def checked_weights(name: str, values: ArrayLike | None, records: int) -> Floats | None:
    """Return (N,) weights with mean 1, None where every record counts the same."""
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (records,):
        raise AnonymizationError(f"{name} must hold {records} values, one per record, got {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.sum() > 0:
        raise AnonymizationError(f"{name} must be finite, not negative, and some of them positive")
    return array * (records / array.sum())


def effective_size(array: Floats | None, records: int) -> float:
    """Return Kish's effective number of records, (Σ w)² / Σ w²."""
    return float(records) if array is None else float(array.sum() ** 2 / (array @ array))


def matrix(name: str, values: ArrayLike, columns: int | None = None, *, missing: bool = False) -> Floats:
    """Return a finite (N ≥ 1, n ≥ 1) matrix, with the stated number of columns if one is stated; or with NaN."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise AnonymizationError(f"{name} must be numeric; encode the table before measuring") from None
    if array.ndim != 2 or 0 in array.shape:
        raise AnonymizationError(f"{name} must be a matrix of records by columns, got shape {array.shape}")
    if not (np.isfinite(array) | (missing & np.isnan(array))).all():
        count = int((~np.isfinite(array)).sum())
        raise AnonymizationError(f"{name} must be finite, got {count} missing or infinite values; encode them")
    if columns is not None and array.shape[1] != columns:
        raise AnonymizationError(f"{name} must have {columns} columns as original has, got {array.shape[1]}")
    return array


def evenly_spread(total: int, limit: int) -> list[int]:
    """Return ``limit`` of the numbers 0 … total − 1, or all, spread by the golden ratio; always the same."""
    step = 1
    if total > limit:
        step = max(1, round(total * GOLDEN))
        while gcd(step, total) > 1:
            step += 1
    return sorted(i * step % total for i in range(min(total, limit)))


def mid_ranks(values: Floats, array: Floats | None) -> Floats:
    """Return (N,) middle ranks; weighted: the weight below the value plus half of that at it."""
    few = len(_distinct(np.sort(values[: 8 * FEW]))) <= FEW
    if few and len(distinct := _distinct(np.sort(values))) <= FEW:
        at = distinct.searchsorted(values)
        held = np.bincount(at, weights=array).astype(np.float64)
        return np.asarray((np.cumsum(held) - held / 2.0)[at])
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    ends = np.append(first[1:], len(values))
    if array is None:
        middle = (first + ends) / 2.0
    else:
        below = np.concatenate([[0.0], np.cumsum(array[order])])
        middle = (below[first] + below[ends]) / 2.0
    ranks = np.empty(len(values))
    ranks[order] = np.repeat(middle, ends - first)
    return ranks


def _distinct(ordered: Floats) -> Floats:
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]


@dataclass(frozen=True, eq=False, repr=False)
class Distribution:
    """The weighted distribution of numbers: distinct values, and the share at or below each."""

    values: Floats
    cumulative: Floats

    @classmethod
    def of(cls, numbers: Floats, array: Floats | None) -> Distribution:
        """Collect (N ≥ 1,) numbers, none missing."""
        order = slice(None) if array is None else np.argsort(numbers, kind="stable")
        ordered = np.sort(numbers) if array is None else numbers[order]
        ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        total = np.arange(1.0, len(ordered) + 1) if array is None else np.cumsum(array[order])
        return cls(ordered[ends], total[ends] / total[-1])

    def at(self, points: Floats) -> Floats:
        """Return the share at or below each point."""
        return np.append(0.0, self.cumulative)[np.searchsorted(self.values, points, side="right")]

    def quantiles(self, shares: Floats) -> Floats:
        """Return the smallest values at or below which each share of the weight lies."""
        at = np.searchsorted(self.cumulative, shares - 1e-12, side="left")
        return self.values[np.minimum(at, len(self.values) - 1)]

    def kolmogorov(self, other: Distribution) -> float:
        """Return the largest vertical difference of the two distribution functions."""
        here = np.abs(self.cumulative - other.at(self.values)).max()
        there = np.abs(other.cumulative - self.at(other.values)).max()
        return float(max(here, there))


def numbers(data: Microdata, name: str) -> Floats:
    """Return the (N,) values of a continuous variable, NaN where missing."""
    return data.frame[name].to_numpy(dtype="float64")


def level_codes(data: Microdata, name: str, levels: Sequence[object]) -> Integers:
    """Return (N,) positions in ``levels``; −1 where missing."""
    position = {level: j for j, level in enumerate(levels)}
    table = np.array([*(position[level] for level in data.schema[name].levels or ()), -1], dtype=np.intp)
    # Code −1, a missing value, picks the last entry.
    return table[np.asarray(data.frame[name].cat.codes, dtype=np.intp)]


def all_levels(variable: Variable, tables: Sequence[Microdata]) -> tuple[object, ...]:
    """Return the original's levels, then those that only other tables have."""
    own = [table.schema[variable.name].levels or () for table in tables if variable.name in table.schema]
    return tuple(dict.fromkeys([*(variable.levels or ()), *chain.from_iterable(own)]))


def comparable(variable: Variable, table: Microdata) -> bool:
    """Return whether a table has the variable in the original's form, number or levels."""
    return variable.name in table.schema and (table.schema[variable.name].is_categorical == variable.is_categorical)


def frozen(values: Floats) -> Floats:
    """Return a read-only copy."""
    copy = np.array(values)
    copy.setflags(write=False)
    return copy


def decile_codes(variable: Variable, tables: Sequence[Microdata], array: Floats | None) -> tuple[int, list[Integers]]:
    """Return how many codes there are, the last for a missing value, and the (N,) codes of each table.

    Numbers are cut at the deciles of the original, whose weights are ``array``; up to ten different ones stay apart.
    """
    if variable.is_categorical:
        levels = all_levels(variable, tables)
        codes = [level_codes(table, variable.name, levels) for table in tables]
        return len(levels) + 1, [np.where(own < 0, len(levels), own) for own in codes]
    columns = [numbers(table, variable.name) for table in tables]
    missing = [np.isnan(values) for values in columns]
    present = ~missing[0] if array is None else ~missing[0] & (array > 0)
    if not present.any():
        return 2, [own.astype(np.intp) for own in missing]
    original = Distribution.of(columns[0][present], None if array is None else array[present])
    if len(original.values) <= BINS:
        cuts, width = original.values, 2 * len(original.values) + 2
        binned = [cuts.searchsorted(v, "left") + cuts.searchsorted(v, "right") for v in columns]
    else:
        cuts = np.unique(original.quantiles(np.arange(1, BINS) / BINS))
        width = len(cuts) + 2
        binned = [cuts.searchsorted(values, "left") for values in columns]
    return width, [np.where(own, width - 1, codes) for own, codes in zip(missing, binned, strict=True)]


def value_matrices(tables: Sequence[Microdata]) -> list[Floats]:
    """Return (N, n) numbers, and places of levels, of the variables that all tables have; NaN where missing."""
    columns: list[list[Floats]] = [[] for _ in tables]
    for variable in tables[0].schema:
        if not variable.is_masked or not all(comparable(variable, table) for table in tables):
            continue
        levels = all_levels(variable, tables) if variable.is_categorical else ()
        for side, table in zip(columns, tables, strict=True):
            if levels:
                places = level_codes(table, variable.name, levels)
                side.append(np.where(places < 0, np.nan, places).astype(np.float64))
            else:
                side.append(numbers(table, variable.name))
    return [np.column_stack([np.zeros((len(table), 0)), *side]) for side, table in zip(columns, tables, strict=True)]
