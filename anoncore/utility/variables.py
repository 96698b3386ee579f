"""Every variable by itself: means, variances, distributions and missing values, before and after."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np

from anoncore.microdata import Kind, Microdata, Variable
from anoncore.utility._sides import (
    Distribution,
    Floats,
    Weights,
    all_levels,
    comparable,
    level_codes,
    numbers,
    tables_of,
    weighting,
)

QUANTILES = np.arange(1, 20) / 20.0

MEANINGS = {
    "distance": "The largest difference between the two distributions of the variable, whatever its kind: "
    "Kolmogorov's for numbers, total variation for levels, or the difference in the share missing, "
    "if that is larger; 0 is unchanged, 1 the most.",
    "missing": "How far the share of records without a value has moved; 0 is unchanged, 1 the most.",
    "mean": "How far the mean has moved, in standard deviations of the original.",
    "variance": "How far the variance has moved, as a share of the original's.",
    "kolmogorov": "The largest difference, at any value, in the share of records at or below it.",
    "quantile": "How far the 5 %, 10 %, … 95 % quantiles have moved on average, in standard deviations of "
    "the original.",
    "total_variation": "The share of records that would have to change their level to make the two "
    "distributions equal.",
}


@dataclass(frozen=True)
class Summary:
    """One variable in one table.

    Parameters
    ----------
    missing : share of records without a value
    mean, variance : of the numbers present, divisor N; None for levels, or when there is none
    shares : of the values present at each of the variable's levels; None for numbers, or when there is none
    """

    missing: float
    mean: float | None = None
    variance: float | None = None
    shares: tuple[float, ...] | None = None

    def at_levels(self, keep: Sequence[bool]) -> Summary:
        """Return the same with the shares of some levels only."""
        return self if self.shares is None else replace(self, shares=tuple(compress(self.shares, keep)))


@dataclass(frozen=True)
class Shift:
    """How far one variable of a table lies from the original's; 0 is unchanged.

    Parameters
    ----------
    distance : 0 … 1, the largest of kolmogorov, total_variation and missing; 1 when one of the two tables
        has no value at all and the other has
    missing : difference of the shares without a value
    mean, variance : numbers only; |difference| / sd and / variance of the original, undivided where the
        original is constant
    kolmogorov : numbers and ordinal variables
    quantile : numbers only; mean |difference| of the 5 % … 95 % quantiles / sd
    total_variation : levels only, half the sum of |differences| of shares

    Notes
    -----
    None where the variable's kind has no such figure, or one of the tables no value.
    """

    distance: float
    missing: float
    mean: float | None = None
    variance: float | None = None
    kolmogorov: float | None = None
    quantile: float | None = None
    total_variation: float | None = None


@dataclass(frozen=True)
class VariableUtility:
    """One variable in the original, the release and the reference.

    Parameters
    ----------
    name, kind : of the variable
    levels : the original's, then those that only another table has; None for numbers
    original, released, reference : what each table holds
    released_shift, reference_shift : how far the two lie from the original

    Notes
    -----
    What concerns the reference is None where there is none. It describes records that are not released.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] | None = field(repr=False)
    original: Summary
    released: Summary
    reference: Summary | None
    released_shift: Shift
    reference_shift: Shift | None

    def with_levels(self, shown: Collection[str]) -> VariableUtility:
        """Return the same without the names and shares of the levels that are not ``shown``."""
        keep = [level in shown for level in self.levels or ()]
        return replace(
            self,
            levels=tuple(compress(self.levels or (), keep)),
            original=self.original.at_levels(keep),
            released=self.released.at_levels(keep),
            reference=None if self.reference is None else self.reference.at_levels(keep),
        )


@dataclass(frozen=True)
class WorstVariable:
    """The variable that one figure has moved most, beside what the reference moves it."""

    figure: str
    variable: str
    released: float
    reference: float | None
    meaning: str


@dataclass(frozen=True)
class VariableTable:
    """All variables, and the worst of them.

    Parameters
    ----------
    variables : in the original's order
    worst : per figure the variable that has moved most; figures that no variable has are left out
    absent : masked variables that the release, or the reference, does not have in a comparable form
    """

    variables: tuple[VariableUtility, ...]
    worst: tuple[WorstVariable, ...]
    absent: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class _Side:
    """The summary of one variable in one table, and of numbers their distribution."""

    summary: Summary
    distribution: Distribution | None = None


def variable_utility(
    original: Microdata,
    released: Microdata,
    reference: Microdata | None = None,
    *,
    weights: Weights = None,
) -> VariableTable:
    """Compare every variable by itself, beside a reference sample.

    Parameters
    ----------
    original, released, reference : Microdata; a binary or nominal variable may be released as one
        probability column per level
    weights : name of the weight variable, or one array or None per table; the first variable with role
        "weight" when None. The weight variable itself is described without weights.

    Returns
    -------
    VariableTable; no figure is ever NaN.

    Raises
    ------
    AnonymizationError
        When a table has no records, or weights do not fit.

    Notes
    -----
    Claim: none. Source: elementary; the quantile is the inverse of the distribution function.

    Examples
    --------
    >>> import pandas as pd; from anoncore.microdata import Schema
    >>> schema = Schema([Variable("x", "continuous")])
    >>> a, b = (Microdata(pd.DataFrame({"x": x}), schema) for x in ([1, 3], [2, 4]))
    >>> variable_utility(a, b).variables[0].released_shift.mean
    1.0
    """
    tables = tables_of(original, released, reference)
    weighted = weighting(tables, weights)
    unweighted = (None,) * len(tables)
    present = [
        v for v in map(original.schema.__getitem__, original.schema.masked) if all(_present(v, t) for t in tables)
    ]
    rows = tuple(_row(v, tables, unweighted if v.name == weighted.variable else weighted.arrays) for v in present)
    names = {v.name for v in present}
    return VariableTable(rows, _worst(rows), tuple(n for n in original.schema.masked if n not in names))


def _present(variable: Variable, table: Microdata) -> bool:
    return comparable(variable, table) or (
        variable.name not in table.schema
        and bool(variable.levels)
        and all(name in table.schema for name in _probability_names(variable))
    )


def _probability_names(variable: Variable) -> list[str]:
    return [f"{variable.name}={level}" for level in variable.levels or ()]


def _row(variable: Variable, tables: Sequence[Microdata], arrays: Sequence[Floats | None]) -> VariableUtility:
    levels = all_levels(variable, tables)
    sides = [
        _levels(table, variable, levels, array) if variable.is_categorical else _numbers(table, variable, array)
        for table, array in zip(tables, arrays, strict=True)
    ]
    shifts = [_shift(variable, sides[0], side) for side in sides[1:]]
    return VariableUtility(
        name=variable.name,
        kind=variable.kind,
        levels=tuple(map(str, levels)) if variable.is_categorical else None,
        original=sides[0].summary,
        released=sides[1].summary,
        reference=sides[2].summary if len(sides) > 2 else None,
        released_shift=shifts[0],
        reference_shift=shifts[1] if len(shifts) > 1 else None,
    )


def _numbers(table: Microdata, variable: Variable, array: Floats | None) -> _Side:
    values = numbers(table, variable.name)
    missing = np.isnan(values)
    present, share = ~missing if array is None else ~missing & (array > 0), _share(missing, array)
    if not present.any():
        return _Side(Summary(share))
    values, array = values[present], None if array is None else array[present]
    shifted = values - values[0]  # a constant then varies by exactly zero
    mean = float(np.average(shifted, weights=array))
    variance = float(np.average((shifted - mean) ** 2, weights=array)) if np.ptp(shifted) > 0 else 0.0
    return _Side(Summary(share, mean + float(values[0]), variance), Distribution.of(values, array))


def _levels(table: Microdata, variable: Variable, levels: tuple[object, ...], array: Floats | None) -> _Side:
    if variable.name in table.schema:
        codes = level_codes(table, variable.name, levels)
        missing = codes < 0
        weights = None if array is None else array[~missing]
        held = np.bincount(codes[~missing], weights=weights, minlength=len(levels)).astype(np.float64)
    else:
        chances = table.frame[_probability_names(variable)].to_numpy(dtype="float64")
        missing = np.isnan(chances).any(axis=1)
        held = np.zeros(len(levels))
        own = chances[~missing]
        held[: chances.shape[1]] = own.sum(axis=0) if array is None else array[~missing] @ own
    total = held.sum()
    shares = tuple((held / total).tolist()) if total > 0 else None
    return _Side(Summary(_share(missing, array), shares=shares))


def _share(which: np.ndarray, array: Floats | None) -> float:
    return float(which.mean()) if array is None else float(array[which].sum() / array.sum())


def _shift(variable: Variable, ours: _Side, theirs: _Side) -> Shift:
    a, b = ours.summary, theirs.summary
    missing = abs(a.missing - b.missing)
    if variable.is_categorical:
        if a.shares is None or b.shares is None:
            return Shift(float((a.shares is None) != (b.shares is None)), missing)
        difference = np.array(b.shares) - np.array(a.shares)
        variation = float(np.abs(difference).sum() / 2)
        steps = float(np.abs(np.cumsum(difference)).max()) if variable.kind == "ordinal" else None
        return Shift(max(variation, missing), missing, kolmogorov=steps, total_variation=variation)
    if a.mean is None or a.variance is None or b.mean is None or b.variance is None:
        return Shift(float((a.mean is None) != (b.mean is None)), missing)
    assert ours.distribution is not None
    assert theirs.distribution is not None
    scale = a.variance if a.variance > 0 else 1.0
    apart = ours.distribution.kolmogorov(theirs.distribution)
    moved = np.abs(theirs.distribution.quantiles(QUANTILES) - ours.distribution.quantiles(QUANTILES))
    return Shift(
        distance=max(apart, missing),
        missing=missing,
        mean=abs(b.mean - a.mean) / float(np.sqrt(scale)),
        variance=abs(b.variance - a.variance) / scale,
        kolmogorov=apart,
        quantile=float(moved.mean() / np.sqrt(scale)),
    )


def _worst(rows: Sequence[VariableUtility]) -> tuple[WorstVariable, ...]:
    worst = []
    for figure, meaning in MEANINGS.items():
        moved = [(getattr(row.released_shift, figure), row) for row in rows]
        if having := [(by, row) for by, row in moved if by is not None]:
            by, row = max(having, key=lambda pair: pair[0])
            base = None if row.reference_shift is None else getattr(row.reference_shift, figure)
            worst.append(WorstVariable(figure, row.name, by, base, meaning))
    return tuple(worst)
