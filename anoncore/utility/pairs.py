"""Associations of every pair of variables on their own scales, before and after, with what chance alone changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import chi2, norm

from anoncore.kernels.threads import one_blas_thread
from anoncore.microdata import Microdata, Variable
from anoncore.utility._sides import (
    GOLDEN,
    Floats,
    Integers,
    Weights,
    all_levels,
    comparable,
    effective_size,
    level_codes,
    mid_ranks,
    numbers,
    tables_of,
    weighting,
)

GROUPS = 20  # of statistical units, each left out once: their spread is that of the figure
INFORMATIVE = 0.05  # share of missing values from which missing is a level, or a variable, of its own
HELD = 20  # records of a level, below which it is pooled with others
LEAST = 30  # records that carry a figure, below which a pair is not compared
CARRIED = 100  # records that carry a variance, below which a number enters by its ranks
BLOCK = 8192
NAMED = 20
IS_MISSING = " (missing)"  # after a variable's name: whether it is missing
NOTABLE = 0.10  # change of an association, or twice that between two samples: by it the worst pairs are ordered

AssociationMeasure = Literal["Pearson correlation", "correlation ratio", "Cramér's V"]


@dataclass(frozen=True)
class PairChange:
    """How far the association of two variables moved.

    Parameters
    ----------
    variables : their names; "x (missing)" is whether x is missing
    measure : Pearson's correlation of numbers, ordered levels (by their place) and binary variables; the correlation
        ratio of one of these with a nominal variable; Cramér's V of two nominal variables
    original, released : the association, −1 … 1 or 0 … 1
    change : |difference|
    reference : the reference's change; None where there is none
    two_samples : what the worst of all pairs changes by between two samples, on this pair's scale
    """

    variables: tuple[str, str]
    measure: AssociationMeasure
    original: float
    released: float
    change: float
    reference: float | None
    two_samples: float


@dataclass(frozen=True)
class PairUtility:
    """The associations of all pairs of variables.

    Parameters
    ----------
    compared : pairs
    median, reference_median : of all changes; None where there is no pair, or no reference
    worst : the pairs that moved most beside what two samples do, the worst first
    """

    compared: int
    median: float | None
    reference_median: float | None
    worst: tuple[PairChange, ...]


@dataclass(frozen=True)
class Layout:
    """The variables of a matrix of sums: numbers, then nominal variables with so many levels each."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class _Coded:
    """All variables of all tables: numbers (N, p), NaN where missing; codes (N, q), −1 where missing."""

    layout: Layout
    numbers: list[Floats]
    codes: list[Integers]


def pair_utility(
    original: Microdata,
    released: Microdata,
    reference: Microdata | None = None,
    *,
    weights: Weights = None,
) -> PairUtility:
    """Compare the association of every pair of variables, on the variables' own scales.

    Parameters
    ----------
    original, released, reference : Microdata
    weights : as for :func:`anoncore.utility.variable_utility`

    Returns
    -------
    PairUtility; no figure is ever NaN.

    Raises
    ------
    AnonymizationError
        When a table has no records, or weights do not fit.

    Notes
    -----
    Each pair is measured on the records that hold both variables. A variable that at least 5 % of the original's
    records lack has a second one beside it, whether it is missing; of nominal variables missing is a level. Levels
    that fewer than 20 original records hold are pooled. The records that carry a variance are (Σ d²)² / Σ d⁴, d the
    differences from the mean: a number of which fewer than 100 records carry it enters by its ranks, and a pair with
    fewer than 30 is not compared. Cramér's V and the correlation ratio are corrected for the number of levels (Bergsma
    2013, *Journal of the Korean Statistical Society* 42, 323–328; Kelley 1935).

    All pairs come from the products of one matrix of indicators and powers with itself, summed over blocks. The
    standard error of each association is the jackknife's over 20 groups of statistical units, whose products are
    subtracted in turn; two samples of the sizes of original and release differ √(1 + N/M) times as much. With z the
    normal quantile that the largest of all pairs exceeds every second time, ``two_samples`` is z standard errors; of
    correlations at least those of the delta method, and for V and the correlation ratio at least the chi-square
    quantile there.

    Examples
    --------
    >>> import pandas as pd; from anoncore.microdata import Schema
    >>> schema = Schema([Variable("x", "continuous"), Variable("y", "continuous")])
    >>> x = np.arange(100.0)
    >>> a, b = (Microdata(pd.DataFrame({"x": x, "y": y}), schema) for y in (x, -x))
    >>> pair_utility(a, b).worst[0].change
    2.0
    """
    tables = tables_of(original, released, reference)
    arrays = weighting(tables, weights).arrays
    coded = _coded(tables, arrays)
    sizes = coded.layout.sizes
    groups = groups_of(original.unit_codes)
    with one_blas_thread():
        parts = [
            sums_of(coded.numbers[0][rows], coded.codes[0][rows], sizes, None if arrays[0] is None else arrays[0][rows])
            for rows in (np.flatnonzero(groups == group) for group in range(GROUPS))
        ]
        sides = [sums_of(coded.numbers[at], coded.codes[at], sizes, arrays[at]) for at in range(1, len(tables))]
    units = [effective_size(w, t.n_units) for w, t in zip(arrays, tables, strict=True)]
    return changes_of(coded.layout, parts, sides, units)


def changes_of(layout: Layout, parts: Sequence[Floats], sides: Sequence[Floats], units: Sequence[float]) -> PairUtility:
    """Return how far associations moved, from sums of products.

    Parameters
    ----------
    layout : Layout
    parts : (w, w) of each of the original's groups, see `sums_of` and `groups_of`
    sides : (w, w) of the release and, where there is one, the reference
    units : statistical units of the original and of each side
    """
    whole = np.sum(parts, axis=0)
    left_out = [whole, *(whole - part for part in parts)]
    with one_blas_thread():
        values = [_associations(layout, sums) for sums in (left_out[0], *sides)]
        again = np.array([_associations(layout, sums) for sums in left_out[1:]])
    if not len(values[0]):
        return PairUtility(0, None, None, ())
    pairs = list(_pairs(layout))
    carried, held, freedom = _carried(layout, left_out[0])
    used = ~np.isnan(values[0]) & (carried >= LEAST)
    # A pair that the release, or a left-out group, cannot measure has no association there.
    changes = [np.abs(np.nan_to_num(other) - values[0])[used] for other in values[1:]]
    if not used.any():
        return PairUtility(0, None, None, ())
    two = _two_samples(again[:, used], freedom[used], _errors(layout, left_out[0])[used], held[used])
    two *= np.sqrt((1 + units[0] / units[1]) / 2)
    order = np.argsort(-changes[0] / np.maximum(NOTABLE, 2 * two), kind="stable")[:NAMED]
    where = np.flatnonzero(used)
    worst = tuple(
        PairChange(
            variables=pairs[where[at]][0],
            measure=pairs[where[at]][1],
            original=float(values[0][where[at]]),
            released=float(np.nan_to_num(values[1][where[at]])),
            change=float(changes[0][at]),
            reference=float(changes[1][at]) if len(changes) > 1 else None,
            two_samples=float(two[at]),
        )
        for at in order
    )
    medians = [float(np.median(change)) for change in changes]
    return PairUtility(len(two), medians[0], medians[1] if len(medians) > 1 else None, worst)


def associations(data: Microdata) -> dict[tuple[str, str], float]:
    """Return the association of every pair of variables of one table that can be measured."""
    coded = _coded([data], (None,))
    with one_blas_thread():
        values = _associations(coded.layout, sums_of(coded.numbers[0], coded.codes[0], coded.layout.sizes, None))
    pairs = _pairs(coded.layout)
    return {names: float(value) for (names, _), value in zip(pairs, values, strict=True) if value == value}


def _coded(tables: Sequence[Microdata], arrays: Sequence[Floats | None]) -> _Coded:
    """Read the variables that all tables have; what the original does not vary in is left out by its association."""
    columns: list[list[Floats]] = []
    codes: list[list[Integers]] = []
    names: list[str] = []
    nominal: list[str] = []
    sizes: list[int] = []
    flags: list[tuple[str, list[Floats]]] = []
    for variable in tables[0].schema:
        if not variable.is_masked or not all(comparable(variable, table) for table in tables):
            continue
        own = _values(variable, tables)
        missing = [np.isnan(side) for side in own]
        share = float(np.average(missing[0], weights=arrays[0]))
        if variable.kind == "nominal" and len(variable.levels or ()) > 2:
            kept, size = _pooled(own, with_missing=share >= INFORMATIVE)
            codes.append(kept)
            nominal.append(variable.name)
            sizes.append(size)
            continue
        columns.append(own)
        names.append(variable.name)
        if INFORMATIVE <= share <= 1 - INFORMATIVE:
            flags.append((f"{variable.name}{IS_MISSING}", [side.astype(np.float64) for side in missing]))
    columns += [flag for _, flag in flags]
    names += [name for name, _ in flags]
    every = range(len(tables))
    empty = [np.zeros((len(table), 0)) for table in tables]
    return _Coded(
        Layout((*names, *nominal), tuple(sizes)),
        [np.column_stack([empty[at], *(column[at] for column in columns)]) for at in every],
        [np.column_stack([empty[at], *(code[at] for code in codes)]).astype(np.intp) for at in every],
    )


def _values(variable: Variable, tables: Sequence[Microdata]) -> list[Floats]:
    """Return (N,) numbers, or the places of levels, in units of the original's spread; NaN where missing."""
    if variable.is_categorical:
        levels = all_levels(variable, tables)
        places = [level_codes(table, variable.name, levels).astype(np.float64) for table in tables]
        return [np.where(place < 0, np.nan, place) for place in places]
    own = [numbers(table, variable.name) for table in tables]
    present = own[0][~np.isnan(own[0])]
    if not present.size:
        return own
    away = present - present.mean()
    if (away**2).sum() ** 2 < CARRIED * (away**4).sum():
        own = [_ranks(side) for side in own]
        present = own[0][~np.isnan(own[0])]
    middle, scale = float(np.median(present)), float(present.std()) or 1.0
    return [(side - middle) / scale for side in own]


def _ranks(values: Floats) -> Floats:
    """Return (N,) middle ranks as shares of the values present."""
    present = ~np.isnan(values)
    ranks = np.full(len(values), np.nan)
    if present.any():
        ranks[present] = mid_ranks(values[present], None) / present.sum()
    return ranks


def _pooled(places: Sequence[Floats], *, with_missing: bool) -> tuple[list[Integers], int]:
    """Return codes of the levels, the rare ones as one; −1, or a code of its own, where missing; and their number."""
    missing = [np.isnan(place) for place in places]
    codes = [np.where(absent, 0, place).astype(np.intp) for place, absent in zip(places, missing, strict=True)]
    counts = np.bincount(codes[0][~missing[0]], minlength=max(int(code.max(initial=0)) for code in codes) + 1)
    frequent = counts >= HELD
    code_of = np.where(frequent, np.cumsum(frequent) - 1, frequent.sum())
    size = int(frequent.sum()) + 1
    none = size if with_missing else -1
    own = [np.where(absent, none, code_of[code]) for code, absent in zip(codes, missing, strict=True)]
    return own, size + with_missing


def groups_of(units: Integers) -> Integers:
    """Return (N,) the group of each record; records of one unit are in one group, whatever the order of the table."""
    return np.floor(units * GOLDEN % 1.0 * GROUPS).astype(np.intp)


def sums_of(values: Floats, codes: Integers, sizes: tuple[int, ...], weight: Floats | None) -> Floats:
    """Return (w, w) sums of products of presence, the first four powers of numbers, and indicators of levels.

    Parameters
    ----------
    values : (n, p), numbers in units of about their spread, NaN where missing
    codes : (n, q), levels of nominal variables, −1 where missing
    sizes : the number of levels of each
    weight : (n,), or None
    """
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    width = 5 * values.shape[1] + int(starts[-1])
    total = np.zeros((width, width))
    for begin in range(0, len(values), BLOCK):
        part, code = values[begin : begin + BLOCK], codes[begin : begin + BLOCK]
        present = ~np.isnan(part)
        filled = np.where(present, part, 0.0)
        indicators = np.zeros((len(part), int(starts[-1])))
        row, variable = np.nonzero(code >= 0)
        indicators[row, starts[variable] + code[row, variable]] = 1.0
        block = np.concatenate([present, *(filled**k for k in range(1, 5)), indicators], axis=1)
        if weight is not None:
            block *= np.sqrt(weight[begin : begin + BLOCK, None])
        total += block.T @ block
    return total


def _pairs(layout: Layout) -> Iterator[tuple[tuple[str, str], AssociationMeasure]]:
    """Yield the names and the measure of each pair, in the order of `_associations`."""
    p, names = len(layout.names) - len(layout.sizes), layout.names
    for a, b in zip(*np.triu_indices(p, 1), strict=True):
        yield (names[a], names[b]), "Pearson correlation"
    for number in names[:p]:
        for nominal in names[p:]:
            yield (number, nominal), "correlation ratio"
    for a, b in zip(*np.triu_indices(len(layout.sizes), 1), strict=True):
        yield (names[p + a], names[p + b]), "Cramér's V"


def _associations(layout: Layout, sums: Floats) -> Floats:
    """Return the association of every pair; NaN where too few records hold both, or one of the two is constant."""
    p, q = len(layout.names) - len(layout.sizes), len(layout.sizes)
    present, value, square, level = slice(0, p), slice(p, 2 * p), slice(2 * p, 3 * p), slice(5 * p, None)
    block = np.repeat(np.arange(q), layout.sizes)
    member = (block[:, None] == np.arange(q)).astype(np.float64)  # (levels, variables)
    with np.errstate(divide="ignore", invalid="ignore"):
        n = sums[present, present]
        first, second = sums[value, present], sums[square, present]
        variance = np.where(second - first**2 / n > 1e-9 * n, second - first**2 / n, np.nan)
        product = sums[value, value] - first * first.T / n
        pearson = np.clip(product / np.sqrt(variance * variance.T), -1, 1)
        pearson[n < LEAST] = np.nan
        ratio = _ratios(sums[level, present], sums[level, value], sums[level, square], member)
        table = sums[level, level]
        margin = table @ member
        expected = margin[:, block] * margin[:, block].T
        phi = member.T @ np.nan_to_num(table**2 / expected) @ member - 1.0
        total, held = member.T @ table @ member, member.T @ (margin > 0)
        least = np.minimum(held, held.T) - 1
        corrected = np.maximum(0.0, phi - (held - 1) * (held.T - 1) / np.maximum(total - 1, 1)) / least
        cramer = np.where((total >= LEAST) & (least > 0), np.sqrt(np.minimum(corrected, 1.0)), np.nan)
    return np.concatenate([pearson[np.triu_indices(p, 1)], ratio.T.ravel(), cramer[np.triu_indices(q, 1)]])


def _ratios(held: Floats, sums: Floats, squares: Floats, member: Floats) -> Floats:
    """Return (nominal variables, numbers) correlation ratios, from sums by level."""
    n, total, square = member.T @ held, member.T @ sums, member.T @ squares
    levels = member.T @ (held > 0)
    spread = square - total**2 / n
    between = member.T @ np.nan_to_num(sums**2 / held) - total**2 / n
    share = 1.0 - (1.0 - np.clip(between / spread, 0, 1)) * (n - 1) / np.maximum(n - levels, 1)
    good = (n >= LEAST) & (spread > 1e-9 * n) & (levels > 1)
    return np.where(good, np.sqrt(np.clip(share, 0, 1)), np.nan)


def _carried(layout: Layout, sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Return how many records carry and hold each pair, and the degrees of freedom of its chi-square.

    The degrees of freedom of correlations are 0.
    """
    p, q = len(layout.names) - len(layout.sizes), len(layout.sizes)
    powers = [slice(k * p, (k + 1) * p) for k in range(5)]
    block = np.repeat(np.arange(q), layout.sizes)
    member = (block[:, None] == np.arange(q)).astype(np.float64)
    table = sums[5 * p :, 5 * p :]
    held = member.T @ (table @ member > 0)
    by_level = member.T @ (sums[5 * p :, powers[0]] > 0)  # (nominal, numbers)
    numeric = _records_of_variance([sums[power, powers[0]] for power in powers])
    mixed = _records_of_variance([member.T @ sums[5 * p :, power] for power in powers])
    total = member.T @ table @ member
    at, both = np.triu_indices(p, 1), np.triu_indices(q, 1)
    carried = np.concatenate([np.minimum(numeric, numeric.T)[at], mixed.T.ravel(), total[both]])
    present = sums[powers[0], powers[0]][at], (member.T @ sums[5 * p :, powers[0]]).T.ravel(), total[both]
    freedom = np.concatenate([np.zeros(len(at[0])), by_level.T.ravel() - 1, ((held - 1) * (held.T - 1))[both]])
    return carried, np.concatenate(present), freedom


def _records_of_variance(sums: Sequence[Floats]) -> Floats:
    """Return (Σ d²)² / Σ d⁴ from the sums of the powers 0 … 4; 0 where nothing varies."""
    n, first, second, third, fourth = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = first / n
        square = second - n * mean**2
        biquadrate = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * n * mean**4
        return np.where((n > 0) & (square > 1e-9 * n), square**2 / biquadrate, 0.0)


def _errors(layout: Layout, sums: Floats) -> Floats:
    """Return (pairs,) the standard errors of correlations by the delta method; 0 for the other associations.

    With μ the central moments of the n records that hold both, n Var r = μ22/(μ20 μ02) − r (μ31/(μ20³ μ02)^½ +
    μ13/(μ20 μ02³)^½) + r²/4 (μ40/μ20² + μ04/μ02² + 2 μ22/(μ20 μ02)); at least the (1 − r²)²/n of normal variables.
    """
    p, q = len(layout.names) - len(layout.sizes), len(layout.sizes)
    powers = [slice(k * p, (k + 1) * p) for k in range(5)]
    n = sums[powers[0], powers[0]]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        raw = [[sums[row, column] / n for column in powers] for row in powers]
        a, b = raw[1][0], raw[0][1]  # means of the variables of the row and of the column
        square = raw[2][0] - a**2
        square[square <= 1e-9] = np.nan
        both = np.sqrt(square * square.T)
        r = np.clip((raw[1][1] - a * b) / both, -1, 1)
        products = raw[2][2] - 2 * b * raw[2][1] - 2 * a * raw[1][2] + b**2 * raw[2][0] + a**2 * raw[0][2]
        cross = (products + 4 * a * b * raw[1][1] - 3 * a**2 * b**2) / both**2
        products = raw[3][1] - b * raw[3][0] - 3 * a * raw[2][1] + 3 * a * b * raw[2][0]
        skew = (products + 3 * a**2 * raw[1][1] - 3 * a**3 * b) / (square * both)
        tail = (raw[4][0] - 4 * a * raw[3][0] + 6 * a**2 * raw[2][0] - 3 * a**4) / square**2
        variance = cross - r * (skew + skew.T) + r**2 / 4 * (tail + tail.T + 2 * cross)
        error = np.nan_to_num(np.sqrt(np.maximum(variance, (1 - r**2) ** 2) / n))
    return np.concatenate([error[np.triu_indices(p, 1)], np.zeros(p * q + q * (q - 1) // 2)])


def _two_samples(again: Floats, freedom: Floats, error: Floats, n: Floats) -> Floats:
    """Return (pairs,) what the worst of all pairs changes by between two samples of the original's size."""
    tail = 1 - 0.5 ** (1 / len(error))
    spread = again - again.mean(axis=0)
    jackknife = np.sqrt(np.nan_to_num((spread**2).sum(axis=0) * (GROUPS - 1) / GROUPS))
    two = norm.isf(tail / 2) * np.maximum(jackknife, error) * np.sqrt(2)
    free = np.maximum(freedom, 1)
    return np.maximum(two, np.where(freedom > 0, np.sqrt(np.maximum(0.0, chi2.isf(tail, free) - free) / n), 0.0))
