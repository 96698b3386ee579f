"""Global recoding: hierarchies of levels, what they lose, and the recoding of a table to one of them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable, observed_precision

EVERYTHING = "*"
_INTEGER = re.compile(r"-?\d{1,15}")
LONGEST_CODE = 20
END_UNITS = 5  # units with a number beyond either end of a span, or at it


@dataclass(frozen=True)
class Rows:
    """A hierarchy as ARX writes it: each row holds a level, and what it becomes from step to step.

    Parameters
    ----------
    rows : tuple of tuples of texts or numbers, all of one length
        Each level, and what it becomes from step to step.
    """

    rows: tuple[tuple[str | int | float, ...], ...]

    def __post_init__(self) -> None:
        if len({len(row) for row in self.rows}) != 1 or not self.rows[0]:
            raise AnonymizationError("a hierarchy must have rows, all with the same number of columns")
        if len({str(row[0]) for row in self.rows}) < len(self.rows):
            raise AnonymizationError("rows of a hierarchy name a level twice")


@dataclass(frozen=True)
class Intervals:
    """Numbers become the middle of an interval whose width grows from step to step.

    Parameters
    ----------
    widths : tuple of floats above 0
        Of the intervals from step to step, each a multiple of the one before.
    """

    widths: tuple[float, ...]

    def __post_init__(self) -> None:
        steps = zip(self.widths, self.widths[1:], strict=False)
        if not self.widths or self.widths[0] <= 0 or any(b <= a or (b / a) % 1 for a, b in steps):
            raise AnonymizationError("widths must be above 0, and each a larger multiple of the one before")


@dataclass(frozen=True)
class Prefixes:
    """Codes keep their first characters, fewer from step to step.

    Parameters
    ----------
    kept : tuple of int, at least 1
        Characters that are kept from step to step, ever fewer.
    """

    kept: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.kept or self.kept[-1] < 1 or any(b >= a for a, b in zip(self.kept, self.kept[1:], strict=False)):
            raise AnonymizationError("kept must hold falling numbers of characters, at least 1")


Hierarchy: TypeAlias = Rows | Intervals | Prefixes


def parse_hierarchy(text: str, *, delimiter: str = ";") -> Rows:
    r"""Return the hierarchy of a file as ARX writes it: no header, one row for each level.

    Raises
    ------
    AnonymizationError
        When it has no rows, they have different lengths, or name a level twice.

    Examples
    --------
    >>> parse_hierarchy("34;30–39;*\n35;30–39;*\n").rows
    (('34', '30–39', '*'), ('35', '30–39', '*'))
    """
    if len(delimiter) != 1:
        raise AnonymizationError("delimiter must be one character")
    try:
        return Rows(tuple(tuple(row) for row in csv.reader(text.splitlines(), delimiter=delimiter) if row))
    except csv.Error:
        pass
    raise AnonymizationError("the hierarchy is not readable as CSV; check quotes and the delimiter")


@dataclass(frozen=True)
class Coding:
    """Numbers beyond limits become the limit, and others the nearest multiple of a base, where one is stated."""

    bottom: float | None = None
    top: float | None = None
    base: float | None = None

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return (N,) coded values.

        Examples
        --------
        >>> Coding(top=20.0, base=5.0).apply(np.array([4.0, 12.5, 31.0]))
        array([ 5., 15., 20.])
        """
        low, high = (-np.inf if self.bottom is None else self.bottom), (np.inf if self.top is None else self.top)
        limited = np.clip(values, low, high)
        return np.asarray(limited if self.base is None else multiples(limited, self.base))


@dataclass(frozen=True)
class Recoding:
    """One variable at one step of its hierarchy, or a number coded.

    Parameters
    ----------
    variable : name
    levels : of a variable with levels, what each becomes
    covered : the share of the other levels of the hierarchy that each of these covers
    width : of a number, the width of the intervals; infinite where no number is left
    share : of the numbers' span that an interval covers
    coding : of a number, how it is coded in place of intervals
    """

    variable: str
    levels: Mapping[Any, str] = field(default_factory=dict, repr=False)
    covered: Mapping[str, float] = field(default_factory=dict, repr=False)
    width: float | None = None
    share: float = 1.0
    coding: Coding | None = None

    def apply(self, data: Microdata) -> Microdata:
        """Return a table with the variable recoded; levels that are unknown here become missing."""
        if self.variable not in data.schema:
            return data
        variable, column = data.schema[self.variable], data.frame[self.variable]
        if self.coding is not None:
            new = replace(variable, precision=self.coding.base or variable.precision)
            coded = pd.Series(self.coding.apply(column.to_numpy()), index=column.index)
        elif self.width is not None:
            values = middles(column.to_numpy(), self.width, variable.precision)
            new = replace(variable, precision=observed_precision(values))
            coded = pd.Series(values, index=column.index)
        else:
            levels = tuple(dict.fromkeys(self.levels.values()))
            kind = "nominal" if variable.kind == "binary" else variable.kind
            new = replace(variable, kind=kind, levels=levels)
            # Where one level is left, a missing value would be another.
            text = (
                pd.Series(levels[0], column.index) if len(levels) == 1 else column.astype(object).map(self.levels.get)
            )
            coded = pd.Series(
                pd.Categorical(text, categories=list(levels), ordered=kind == "ordinal"), index=column.index
            )
        schema = Schema(new if v.name == self.variable else v for v in data.schema)
        return Microdata.trusted(data.frame.assign(**{self.variable: coded}), schema, data.units)


def recoded(data: Microdata, recodings: tuple[Recoding, ...]) -> Microdata:
    """Return a table with several recodings carried out one after the other."""
    for one in recodings:
        data = one.apply(data)
    return data


def in_unknown_levels(released: Microdata, source: Microdata) -> tuple[str, ...]:
    """Return the variables that are released in two levels or more, most records in none that is one of the source.

    Records of both are equally far apart there whatever they hold, so that nothing that compares them sees anything.
    """
    both = [v.name for v in released.schema if v.is_categorical and v.name in source.schema]
    return tuple(name for name in both if _mostly_unknown(released, source.schema[name]))


def _mostly_unknown(released: Microdata, variable: Variable) -> bool:
    held = {level: count for level, count in released.level_counts(variable.name).items() if count}
    known = sum(count for level, count in held.items() if level in set(variable.levels or held))
    return len(held) > 1 and 2 * known < sum(held.values())


def middles(values: np.ndarray, width: float, unit: float | None) -> np.ndarray:
    """Return (N,) the middles of the intervals in which values lie, for numbers recorded to a unit.

    Examples
    --------
    >>> middles(np.array([20.0, 24.0, 25.0]), 5.0, 1.0)
    array([22., 22., 27.])
    """
    if np.isinf(width):
        return np.full(len(values), np.nan)
    return np.round(np.floor(np.round(values / width, 9)) * width + (width - (unit or 0.0)) / 2, 9)


def multiples(values: np.ndarray | float, base: float) -> np.ndarray | float:
    """Return the multiples of a base next to values, halves upward."""
    return np.round(np.floor(np.round(values / base, 9) + 0.5) * base, 9)


def steps_of(data: Microdata, name: str, hierarchy: Hierarchy | None) -> tuple[Recoding, ...]:
    """Return the recodings of a variable from step to step, the source's values apart.

    The last step leaves one value. Without a hierarchy one is drafted: numbers in intervals, ordered levels joined
    with their neighbours by 2, 4, 8, … (whole numbers from 0, so that ends do not depend on who is there), codes of
    equal length cut from the right, and everything for other levels.

    Raises
    ------
    AnonymizationError
        When the hierarchy does not fit the variable.
    """
    variable = data.schema[name]
    if problem := misfit(variable, hierarchy):
        raise AnonymizationError(f"hierarchy of {name}: {problem}")
    if variable.kind == "continuous":
        low, high = _ends(data, name)
        widths = hierarchy.widths if isinstance(hierarchy, Intervals) else _drafted_widths(high - low, variable)
        first = widths[0] if widths else 1.0
        span = max((np.ceil(high / first) - np.floor(low / first)) * first, first)
        return tuple(Recoding(name, width=width, share=min(width / span, 1.0)) for width in (*widths, np.inf))
    named = hierarchy.rows if isinstance(hierarchy, Rows) else [(level,) for level in variable.levels or ()]
    leaves = [str(row[0]) for row in named]
    columns = list(_columns(variable, leaves, hierarchy))
    if not columns or len(set(columns[-1])) > 1:
        columns.append((EVERYTHING,) * len(leaves))
    steps = []
    for column in columns:
        becomes, counts = dict(zip(leaves, column, strict=True)), Counter(column)
        covered = {label: (number - 1) / max(len(leaves) - 1, 1) for label, number in counts.items()}
        steps.append(Recoding(name, {level: becomes[str(level)] for level in variable.levels or ()}, covered))
    return tuple(steps)


def misfit(variable: Variable, hierarchy: Hierarchy | None) -> str:
    """Return why a hierarchy does not suit a variable; empty where it does."""
    if isinstance(hierarchy, Intervals) and variable.kind != "continuous":
        return "widths are for numbers; use rows, or declare the variable continuous"
    if isinstance(hierarchy, Rows | Prefixes) and variable.kind == "continuous":
        return "rows and kept are for variables with levels; use widths, or declare the variable ordinal"
    if isinstance(hierarchy, Rows) and variable.levels is not None:
        lacking = {str(level) for level in variable.levels} - {str(row[0]) for row in hierarchy.rows}
        if lacking:
            return f"{len(lacking)} level(s) of the variable have no row; add them"
    return ""


def _columns(variable: Variable, levels: list[str], hierarchy: Hierarchy | None) -> Iterator[tuple[str, ...]]:
    """Yield what each level becomes, from step to step."""
    if isinstance(hierarchy, Rows):
        yield from (tuple(str(row[step]) for row in hierarchy.rows) for step in range(1, len(hierarchy.rows[0])))
        return
    lengths = {len(level) for level in levels}
    codes = variable.kind == "nominal" and len(lengths) == 1 and all(level.isdigit() for level in levels)
    kept: tuple[int, ...] = ()
    if isinstance(hierarchy, Prefixes):
        kept = hierarchy.kept
    elif codes and (longest := max(lengths)) <= LONGEST_CODE:
        kept = tuple(range(longest - 1, 0, -1))
    for number in kept:
        yield tuple(level[:number] + EVERYTHING * (len(level) - number) for level in levels)
    if variable.kind == "ordinal" and not kept:
        yield from _joined_integers(levels) if all(map(_INTEGER.fullmatch, levels)) else _joined(levels)


def _joined(levels: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield levels joined with their neighbours by 2, 4, 8, …, from the first."""
    size = 2
    while size < len(levels):
        runs = [levels[at : at + size] for at in range(0, len(levels), size)]
        names = [run[0] if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
        yield tuple(names[at // size] for at in range(len(levels)))
        size *= 2


def _joined_integers(levels: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield whole numbers joined by 2, 4, 8, …, from 0: from the first that occurs, one person would move all ends."""
    values, size = [int(level) for level in levels], 2
    while size < max(values) - min(values) + 1:
        starts = [value // size * size for value in values]
        yield tuple(f"{start}–{start + size - 1}" for start in starts)
        size *= 2


def _ends(data: Microdata, name: str) -> tuple[float, float]:
    """Return the fifth lowest and highest number, of each unit one: the range itself would be of single people."""
    numbers = data.frame[name].groupby(data.unit_codes)
    low, high = np.sort(numbers.min().dropna().to_numpy()), np.sort(numbers.max().dropna().to_numpy())
    if not len(low):
        return 0.0, 0.0
    inner = min(END_UNITS, len(low))
    return float(low[inner - 1]), max(float(high[-inner]), float(low[inner - 1]))


def _drafted_widths(span: float, variable: Variable) -> tuple[float, ...]:
    """Return widths of 5, 10, 50, 100, … units, at most half of a span."""
    unit = variable.precision or (10.0 ** np.floor(np.log10(span / 100)) if span > 0 else 1.0)
    widths = [unit * step * 10**power for power in range(16) for step in (5, 10)]
    return tuple(float(f"{width:.9g}") for width in widths if width <= span / 2)


def places(column: pd.Series) -> np.ndarray:
    """Return (N,) int64 codes of the values of a column from 1, 0 where missing; levels in their order."""
    codes = column.cat.codes if isinstance(column.dtype, pd.CategoricalDtype) else pd.factorize(column)[0]
    return np.asarray(codes, dtype=np.int64) + 1
