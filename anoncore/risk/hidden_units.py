"""Records that look like several of one statistical unit, where no identifier says whose they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats

Codes = NDArray[np.int32]
Pairs = NDArray[np.intp]

# Different values from which neighbouring ones are compared.
_LEAST = 20
# Share of the records above which a value is a spike, beside which nothing is continuous.
_SPIKE = 0.05
# Pairs that agree, of which smoothness explains one in so many at most; with fewer pairs nothing is found.
_RATIO, _PAIRS = 4.0, 30
# Other records of its unit that a record has, on average: fewer hardly change what attacks find, more are of an area.
_FEWEST, _MOST = 0.2, 20.0
# Of the pairs found, that agree in a variable in which at most so many neighbours do.
_AGREE, _SELDOM = 0.8, 0.6
# Variables of which no two determine each other.
_VARIABLES = 3
# Of the pairs found, with one value at most.
_ONE_VALUE = 0.2
# Of two variables that determine each other, pairs that agree in both, of those that agree in either.
_SAME = 0.8
# Records and pairs that are compared.
_SAMPLE, _COMPARED = 5_000, 30_000
_MISSING = -9


@dataclass(frozen=True)
class HiddenUnits:
    """Whether records look like several of one unit.

    Parameters
    ----------
    records : of the table
    variables : in which records of one unit agree, the rarest values first; empty where nothing was found
    others : records of its own unit that a record has beside itself, on average, as estimated
    pairs, by_chance : of the pairs that were compared, those that agree, and as many as neighbouring values explain
    """

    meaning: ClassVar[str] = (
        "Records that agree in several variables at once far more often than in neighbouring values of one of them, as "
        "several records of one person do. Attacks take each record for a person, and understate what is found about "
        "people who have others in the reference."
    )

    records: int
    variables: tuple[str, ...] = ()
    others: float = 0.0
    pairs: int = 0
    by_chance: float = 0.0


def hidden_units(data: Microdata, *, computed: Collection[str] = ()) -> HiddenUnits:
    """Look for records that look like several of one statistical unit.

    Parameters
    ----------
    data : (N, n), as many records as there are, of which 5000 are compared
    computed : variables that follow from others by edits; they are left out

    Returns
    -------
    HiddenUnits
        Of the number whose equal values show most records of one unit.

    Notes
    -----
    Claim: none. A table of one record for each person can look so where several variables belong to an area, and one
    of several need not where levels or a single number are all that stays the same of a person, or where many people
    agree in what does.

    Pairs of records with the same value of a number are compared with pairs whose values are neighbours among all that
    occur. Where the density is smooth both agree equally often in other variables, weighed by −log of the share of
    neighbours that do; records of one person agree in what stays the same of a person, and neighbours do not. In
    neighbours another number agrees where it is equal, or one step higher, or lower, whichever most are, so that a
    smooth function explains itself. Units are found where four times as many pairs agree as neighbours explain, in
    three variables at least of which no two determine each other, at different values, and a record has between 0.2
    and 20 others.

    Source: own; elementary.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> rng = np.random.default_rng(0)
    >>> visits = pd.DataFrame({"age": rng.integers(18, 90, 1000), "height": rng.normal(170, 9, 1000).round()})
    >>> visits["sex"] = rng.choice(["f", "m"], 1000)
    >>> visits["pressure"] = rng.normal(120, 15, 1000).round()
    >>> kinds = {"age": "continuous", "height": "continuous", "sex": "nominal", "pressure": "continuous"}
    >>> schema = Schema([Variable(n, k, levels=("f", "m") if n == "sex" else None) for n, k in kinds.items()])
    >>> hidden_units(Microdata(visits.astype({"age": float}), schema)).variables
    ()
    >>> visits.iloc[:, :3] = visits.iloc[np.arange(1000) // 4, :3].to_numpy()
    >>> sorted(hidden_units(Microdata(visits.astype({"age": float}), schema)).variables)
    ['age', 'height', 'sex']
    """
    table = _Table.of(data, computed)
    numbers = table.numbers if len(table.codes) >= _VARIABLES else ()
    found = [one for number in numbers if (one := _around(table, number)) is not None]
    best = max(found, key=lambda one: one.others, default=None)
    if best is None:
        return HiddenUnits(len(data))
    names = tuple(table.names[column] for column in best.columns)
    return HiddenUnits(len(data), names, best.others, best.pairs, best.by_chance)


class _Table(NamedTuple):
    """A sample of the records: (n,) codes of each variable, of which neighbours differ by 1 where it has an order."""

    names: tuple[str, ...]
    codes: tuple[Codes, ...]
    numbers: tuple[int, ...]
    share: float

    @classmethod
    def of(cls, data: Microdata, computed: Collection[str]) -> _Table:
        variables = [v for v in data.schema if v.is_masked and v.name not in computed]
        rng = np.random.default_rng(0)
        rows = np.sort(rng.choice(len(data), _SAMPLE, replace=False)) if len(data) > _SAMPLE else np.arange(len(data))
        frame = data.frame.iloc[rows]
        codes, numbers = [], []
        for place, variable in enumerate(variables):
            column = frame[variable.name]
            missing = column.isna().to_numpy()
            if variable.is_categorical:
                code = column.cat.codes.to_numpy().astype(np.int32) * (1 if variable.kind == "ordinal" else 3)
            else:
                code = np.unique(column.to_numpy(dtype=float), return_inverse=True)[1].astype(np.int32)
            code[missing] = _MISSING
            codes.append(code)
            ordered = variable.kind != "nominal" and variable.role != "weight"
            if ordered and len(np.unique(code[~missing])) >= _LEAST:
                numbers.append(place)
        share = len(rows) / max(len(data), 1)
        return cls(tuple(v.name for v in variables), tuple(codes), tuple(numbers), share)


class _Found(NamedTuple):
    columns: tuple[int, ...]
    others: float
    pairs: int
    by_chance: float


def _around(table: _Table, number: int) -> _Found | None:
    """Compare pairs with equal values of one number with neighbouring ones; None where nothing is found."""
    code = table.codes[number]
    usual = code >= 0
    usual[usual] = np.bincount(code[usual])[code[usual]] <= _SPIKE * len(code)
    (same, of_same), (near, _) = (_pairs(code, usual, step) for step in (0, 1))
    if min(len(same), len(near)) < _PAIRS:
        return None
    rest = [column for column in range(len(table.codes)) if column != number]
    agreeing = np.column_stack([_steps(table.codes[c], same) == 0 for c in rest])
    beside = np.column_stack([_most_frequent(_steps(table.codes[c], near)) for c in rest])
    often = (beside.sum(axis=0) + 1) / (len(near) + 2)
    scores, others = agreeing @ -np.log(often), beside @ -np.log(often)
    least = np.unique(np.quantile(scores, np.linspace(0, 1, 200))) - 1e-9
    observed, expected = _reached(scores, least), (_reached(others, least) + 1) * len(same) / len(near)
    partners = 2 * (observed - expected) / len(same) * of_same / len(code) / table.share
    found = (observed >= _PAIRS) & (observed >= _RATIO * expected)
    if not found.any():
        return None
    at = np.flatnonzero(found)[np.argmax(partners[found])]
    hit = scores >= least[at]
    columns = (number, *_distinct(table, number, rest, agreeing[hit].mean(axis=0), often))
    one_value = np.bincount(code[same[hit, 0]]).max() / hit.sum()
    if len(columns) < _VARIABLES or one_value > _ONE_VALUE or not _FEWEST <= partners[at] <= _MOST:
        return None
    return _Found(columns, float(partners[at]), int(observed[at]), float(expected[at]))


def _pairs(code: Codes, usual: NDArray[np.bool_], step: int) -> tuple[Pairs, int]:
    """Return (m, 2) some pairs of records whose codes differ by a step, 0 or 1, and how many there are in all."""
    order = np.argsort(code, kind="stable")
    order = order[usual[order]]
    ordered = code[order]
    first = np.arange(len(order)) + 1 if step == 0 else np.searchsorted(ordered, ordered + 1)
    last = np.searchsorted(ordered, ordered + step, side="right")
    number = np.maximum(last - first, 0)
    ends = np.cumsum(number)
    total = int(ends[-1]) if len(ends) else 0
    rng = np.random.default_rng(0)
    chosen = np.arange(total) if total <= _COMPARED else np.sort(rng.choice(total, _COMPARED, replace=False))
    one = np.searchsorted(ends, chosen, side="right")
    other = first[one] + chosen - (ends - number)[one]
    return np.column_stack([order[one], order[other]]), total


def _steps(code: Codes, pairs: Pairs) -> Codes:
    return np.asarray(code[pairs[:, 1]] - code[pairs[:, 0]])


def _most_frequent(steps: Codes) -> NDArray[np.bool_]:
    """Return which pairs are as far apart as most are, among no step and one up or down."""
    return max((steps == step for step in (0, 1, -1)), key=np.count_nonzero)


def _reached(scores: Floats, least: Floats) -> Floats:
    """Return (m,) how many scores reach each of some values."""
    return np.asarray(len(scores) - np.searchsorted(np.sort(scores), least), dtype=float)


def _distinct(table: _Table, number: int, rest: list[int], agree: Floats, often: Floats) -> Iterator[int]:
    """Yield the variables in which pairs agree and neighbours seldom do; of those that determine each other, one."""
    kept = [number]
    for place in np.argsort(often, kind="stable"):
        column = rest[place]
        said = agree[place] >= _AGREE and often[place] <= _SELDOM
        if said and not any(_one_for_one(table, column, other) for other in kept):
            kept.append(column)
            yield column


def _one_for_one(table: _Table, column: int, other: int) -> bool:
    """Whether pairs of records that agree in one of two variables mostly agree in the other, too."""
    one, two = table.codes[column].astype(np.int64), table.codes[other].astype(np.int64)
    both = _agreeing(one * (int(two.max(initial=0)) + 10) + two)
    return both >= _SAME * max(_agreeing(one), _agreeing(two), 1.0)


def _agreeing(code: NDArray[np.integer]) -> float:
    counts = np.unique(code, return_counts=True)[1].astype(float)
    return float((counts * (counts - 1)).sum())
