"""Every variable by itself: means, variances, distributions and missing values, before and after."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np

from anoncore.encoding import probability_names
from anoncore.microdata import Kind, Microdata, Variable
from anoncore.utility._shifts import Shift, Summary, level_side, number_side, shift_of, two_samples
from anoncore.utility._sides import Floats, Weights, all_levels, comparable, left_in, tables_of, weighting
from anoncore.utility.totals import TotalKept, total_kept

NOTABLE = 0.05  # distance, or twice that between two samples: by it the worst variable is chosen

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
    "beyond": "The share of released values beyond the original's range, an end that few units hold rounded outward.",
    "spike": "How far the share of a value has moved that at least 5 % of the original's values are.",
}


@dataclass(frozen=True)
class VariableUtility:
    """One variable in the original, the release and the reference.

    Parameters
    ----------
    name, kind : of the variable
    levels : the original's, then those that only another table has; None for numbers
    original, released, reference : what each table holds
    released_shift, reference_shift : how far the two lie from the original
    two_samples : the distance of the worst of all variables between two samples, on this variable's scale
    total : what share of its total is kept; None for levels, and where the original has a negative number or no total

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
    two_samples: float
    total: TotalKept | None = None

    @property
    def beside_chance(self) -> float:
        """The release's distance in multiples of 0.05, or of twice the distance of two samples where that is more."""
        return self.released_shift.distance / max(NOTABLE, 2 * self.two_samples)

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

    def __iter__(self) -> Iterator[VariableUtility]:
        return iter(self.variables)


def variable_utility(
    original: Microdata,
    released: Microdata,
    reference: Microdata | None = None,
    *,
    weights: Weights = None,
    left_out: np.ndarray | None = None,
) -> VariableTable:
    """Compare every variable by itself, beside a reference sample.

    Parameters
    ----------
    original, released, reference : Microdata; a binary or nominal variable may be released as one
        probability column per level
    weights : name of the weight variable, or one array or None per table; the first variable with role
        "weight" when None. The weight variable itself is described without weights.
    left_out : (N,) bool, records of the original without which tables are compared, but for its range and its totals

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
    whole = tables_of(original, released, reference)
    weighted, unweighted = weighting(whole, weights), (None,) * len(whole)
    tables, arrays = left_in(whole, weighted.arrays, left_out)
    present = [
        v for v in map(original.schema.__getitem__, original.schema.masked) if all(_present(v, t) for t in tables)
    ]

    def row(variable: Variable) -> VariableUtility:
        plain = variable.name == weighted.variable
        ranged = _Ranged(whole, unweighted if plain else weighted.arrays)
        return _row(variable, tables, unweighted if plain else arrays, len(present), ranged)

    rows = tuple(map(row, present))
    names = {v.name for v in present}
    return VariableTable(rows, _worst(rows), tuple(n for n in original.schema.masked if n not in names))


def _present(variable: Variable, table: Microdata) -> bool:
    return comparable(variable, table) or (
        variable.name not in table.schema
        and bool(variable.levels)
        and all(name in table.schema for name in probability_names(variable))
    )


@dataclass(frozen=True, eq=False, repr=False)
class _Ranged:
    """The tables whose ranges and totals count, and their weights."""

    tables: Sequence[Microdata]
    arrays: Sequence[Floats | None]


def _row(
    variable: Variable, tables: Sequence[Microdata], arrays: Sequence[Floats | None], of: int, ranged: _Ranged
) -> VariableUtility:
    levels = all_levels(variable, tables)
    sides = [
        level_side(table, variable, levels, array) if variable.is_categorical else number_side(table, variable, array)
        for table, array in zip(tables, arrays, strict=True)
    ]
    if not variable.is_categorical and ranged.tables[0] is not tables[0]:
        sides[0] = replace(sides[0], limits=number_side(ranged.tables[0], variable, ranged.arrays[0]).limits)
    shifts = [shift_of(variable, sides[0], side) for side in sides[1:]]
    return VariableUtility(
        name=variable.name,
        kind=variable.kind,
        levels=tuple(map(str, levels)) if variable.is_categorical else None,
        original=sides[0].summary,
        released=sides[1].summary,
        reference=sides[2].summary if len(sides) > 2 else None,
        released_shift=shifts[0],
        reference_shift=shifts[1] if len(shifts) > 1 else None,
        two_samples=two_samples(variable, sides[0], sides[1], of),
        total=None if variable.is_categorical else total_kept(ranged.tables, variable, ranged.arrays),
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
