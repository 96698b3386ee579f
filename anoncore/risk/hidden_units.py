"""Records that look like several of one statistical unit, of which no identifier says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.threads import in_threads
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats
from anoncore.risk._recurring import recurring

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
# By how many times more neighbours are a step apart than equal, where another number follows this one.
_CLEARLY = 2.0
# Records and pairs that are compared; of larger tables so many times the root of their records; numbers, and cells.
_SAMPLE, _COMPARED, _ROOTS, _NUMBERS, _CELLS = 5_000, 30_000, 12, 50, 3_000_000
# Records of which combinations are counted.
_COUNTED = 20_000
_MISSING = -9


@dataclass(frozen=True)
class HiddenUnits:
    """Whether records look like several of one unit.

    Parameters
    ----------
    records : of the table, one of each known unit
    variables : in which records of one unit agree, the rarest values first; empty where nothing was found
    others : records of its own unit that a record has beside itself, on average, as estimated
    pairs, by_chance : of the pairs that were compared, those that agree, and as many as neighbouring values explain; or
        of combinations of values, those held by numbers of records that are more frequent than chance explains, and as
        many as it explains
    """

    meaning: ClassVar[str] = (
        "Records that agree in several variables at once far more often than in neighbouring values of one of them, as "
        "several records of one person do; or combinations of values held by as many records as no independent records "
        "would. Attacks take each record for a person, and understate what is found about "
        "people who have others in the reference."
    )

    records: int
    variables: tuple[str, ...] = ()
    others: float = 0.0
    pairs: int = 0
    by_chance: float = 0.0


def records_looked_at(records: int) -> Pairs:
    """Return the places of the records of a table that are looked at, ascending: all, or a random part of many."""
    return _part(records, max(_COUNTED, _most_compared(records)))


def _most_compared(records: int) -> int:
    """Return how many records of so many are compared at most."""
    return max(_SAMPLE, int(_ROOTS * records**0.5))


def _part(records: int, most: int) -> Pairs:
    """Return the places of so many of the records at most, ascending, drawn at random."""
    if records <= most:
        return np.arange(records)
    return np.sort(np.random.default_rng(0).choice(records, most, replace=False))


def hidden_units(data: Microdata, *, computed: Collection[str] = (), records: int | None = None) -> HiddenUnits:
    """Look for records that look like several of one statistical unit.

    Parameters
    ----------
    data : (N, n), of which the first record of each unit is looked at, since the identifier of a visit does not say
        whose it is; of many, those that `records_looked_at` gives
    computed : variables that follow from others by edits; they are left out
    records : how many records the table has of which ``data`` are those that are looked at; None where they are all

    Returns
    -------
    HiddenUnits
        Of the number whose equal values show most records of one unit; where none does, of the variables whose
        combinations recur most clearly as those of independent records do not.

    Notes
    -----
    Claim: none. A table of one record for each person can look so where several variables belong to an area, or where
    as many people of each kind were chosen; and one of several need not where nothing stays exactly the same of a
    person, or where people's numbers of records vary much.

    Pairs of records with the same value of a number are compared with pairs whose values are neighbours among all that
    occur. Where the density is smooth both agree equally often in other variables, weighed by −log of the share of
    neighbours that do; records of one person agree in what stays the same of a person, and neighbours do not. Where
    another number of neighbours is clearly more often one step higher, or lower, than equal, these are counted, so that
    a smooth function explains itself. Units are found where four times as many pairs agree as neighbours explain, in
    three variables at least of which no two determine each other, at different values, and a record has between 0.2
    and 20 others.

    Where nothing is found so, combinations of two to eight variables are counted, levels alone too, as `recurring`
    does: of independent records the numbers that hold them are a mixture of Poisson distributions, whatever the
    variables are. Units are found where the best mixture leaves a tenth of the records at least unexplained, with a
    probability below 10⁻⁹. Of more than 20 000 records as many are counted, which show small units less and less.

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
    if data.units is not None:
        data = data.take(np.sort(np.unique(data.units, return_index=True)[1]))
    if records is None:
        records, data = len(data), data.take(records_looked_at(len(data)))
    compared = data.take(_part(len(data), _most_compared(records)))
    table = _Table.of(compared, computed, len(compared) / max(records, 1))
    numbers = table.numbers if len(table.codes) >= _VARIABLES else ()
    found = [one for one in in_threads(partial(_around, table), numbers) if one is not None]
    best = max(found, key=lambda one: one.others, default=None)
    if best is None:
        return _recurring(data, computed, records)
    names = tuple(table.names[column] for column in best.columns)
    return HiddenUnits(records, names, best.others, best.pairs, best.by_chance)


def _recurring(data: Microdata, computed: Collection[str], records: int) -> HiddenUnits:
    """Count combinations of values, of many records a random part."""
    table = _Table.of(
        data.take(_part(len(data), _COUNTED)), {*computed, *(v.name for v in data.schema if v.role == "weight")}, 1.0
    )
    best = recurring(table.codes, _FEWEST, _MOST)
    if best is None:
        return HiddenUnits(records)
    names = tuple(table.names[column] for column in best.columns)
    return HiddenUnits(records, names, best.others, best.combinations, best.by_chance)


class _Table(NamedTuple):
    """A sample of the records: (n,) codes of each variable, of which neighbours differ by 1 where it has an order."""

    names: tuple[str, ...]
    codes: tuple[Codes, ...]
    numbers: tuple[int, ...]
    share: float

    @classmethod
    def of(cls, data: Microdata, computed: Collection[str], share: float) -> _Table:
        variables = [v for v in data.schema if v.is_masked and v.name not in computed]
        codes, values = [], {}
        for place, variable in enumerate(variables):
            column = data.frame[variable.name]
            missing = column.isna().to_numpy()
            if variable.is_categorical:
                code = column.cat.codes.to_numpy().astype(np.int32) * (1 if variable.kind == "ordinal" else 3)
            else:
                code = np.unique(column.to_numpy(dtype=float), return_inverse=True)[1].astype(np.int32)
            code[missing] = _MISSING
            codes.append(code)
            if variable.kind != "nominal" and variable.role != "weight":
                values[place] = len(np.unique(code[~missing]))
        finest = sorted(values, key=lambda place: -values[place])[:_NUMBERS]
        numbers = tuple(place for place in finest if values[place] >= _LEAST)
        return cls(tuple(v.name for v in variables), tuple(codes), numbers, share)


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
    most = min(_COMPARED, _CELLS // len(table.codes))
    (same, of_same), (near, _) = (_pairs(code, usual, step, most) for step in (0, 1))
    if min(len(same), len(near)) < _PAIRS:
        return None
    rest = [column for column in range(len(table.codes)) if column != number]
    agreeing = np.column_stack([_steps(table.codes[c], same) == 0 for c in rest])
    beside = np.column_stack([_neighbours_agree(_steps(table.codes[c], near)) for c in rest])
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


def _pairs(code: Codes, usual: NDArray[np.bool_], step: int, most: int) -> tuple[Pairs, int]:
    """Return (m, 2) at most so many pairs of records whose codes differ by a step, 0 or 1, and how many there are."""
    order = np.argsort(code, kind="stable")
    order = order[usual[order]]
    ordered = code[order]
    first = np.arange(len(order)) + 1 if step == 0 else np.searchsorted(ordered, ordered + 1)
    last = np.searchsorted(ordered, ordered + step, side="right")
    number = np.maximum(last - first, 0)
    ends = np.cumsum(number)
    total = int(ends[-1]) if len(ends) else 0
    rng = np.random.default_rng(0)
    chosen = np.arange(total) if total <= most else np.sort(rng.choice(total, most, replace=False))
    one = np.searchsorted(ends, chosen, side="right")
    other = first[one] + chosen - (ends - number)[one]
    return np.column_stack([order[one], order[other]]), total


def _steps(code: Codes, pairs: Pairs) -> Codes:
    return np.asarray(code[pairs[:, 1]] - code[pairs[:, 0]])


def _neighbours_agree(steps: Codes) -> NDArray[np.bool_]:
    """Return which pairs are equal; or, of a function of the number, one step up or down, where clearly more are."""
    equal, *moved = (steps == step for step in (0, 1, -1))
    most = max(moved, key=np.count_nonzero)
    return most if np.count_nonzero(most) > _CLEARLY * np.count_nonzero(equal) else equal


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
    """Whether pairs of records that agree in one of two variables mostly agree in the other; of records with both."""
    known = (table.codes[column] >= 0) & (table.codes[other] >= 0)
    one, two = (table.codes[place][known].astype(np.int64) for place in (column, other))
    both = _agreeing(one * (int(two.max(initial=0)) + 1) + two)
    return both >= _SAME * max(_agreeing(one), _agreeing(two), 1.0)


def _agreeing(code: NDArray[np.integer]) -> float:
    counts = np.unique(code, return_counts=True)[1].astype(float)
    return float((counts * (counts - 1)).sum())
