"""What the original never holds, and whether the release does: combinations of levels, and broken dependencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anoncore.kernels.threads import one_blas_thread
from anoncore.microdata import Microdata, Variable
from anoncore.utility._sides import (
    Floats,
    Integers,
    all_levels,
    comparable,
    decile_codes,
    level_codes,
    numbers,
    tables_of,
)

EXPECTED = 10.0  # records that would hold a combination, were its variables independent
DETERMINANT = 200  # different values of a variable that may determine another, at most
RECORDS_PER_VALUE = 10  # of such a variable, on average
ENOUGH = 5  # statistical units that hold a value, from which it says something about a dependency
LEVEL = 0.01  # of the test that the release holds more of a pattern than chance accounts for
NAMED = 20
BLOCK = 8192


@dataclass(frozen=True)
class Pattern:
    """Something that no original record shows, and how many released records do.

    Parameters
    ----------
    variables : the two whose levels never meet, or the determinant and its dependent
    records : released ones
    """

    variables: tuple[str, str]
    records: int


@dataclass(frozen=True)
class Structure:
    """What the original never holds, and how much of it the release does.

    Parameters
    ----------
    absent : combinations of two levels that no original record holds and at least 10 would, were the two variables
        independent; missing, present, and the tenths of a number's distribution count as levels, but not two tenths
        of numbers together
    combinations : pairs of variables by released records with such a combination, the worst first
    impossible : released records with such a combination, one that shows several counted several times
    by_chance : the same that is expected of another sample of the population
    reference : the same of the reference sample, at the release's size; None where there is none
    dependencies : pairs of variables of which the first determines the second in every original record
    broken : those of them by released records that break them at a value that enough original units hold, the worst
        first
    per_pattern : most records of one pattern that chance accounts for: of one combination, one dependency, or of values
        beyond one end of the original's range
    """

    absent: int
    combinations: tuple[Pattern, ...]
    impossible: int
    by_chance: float
    reference: float | None
    dependencies: int
    broken: tuple[Pattern, ...]
    per_pattern: int

    @property
    def most_impossible(self) -> float:
        """The most records with impossible combinations that chance accounts for."""
        return 2 * (self.by_chance + self.per_pattern)


def structure(original: Microdata, released: Microdata, reference: Microdata | None = None) -> Structure:
    """Look for combinations and broken dependencies that the original does not hold.

    Parameters
    ----------
    original, released, reference : Microdata

    Returns
    -------
    Structure

    Raises
    ------
    AnonymizationError
        When a table has no records.

    Notes
    -----
    A combination that is rare and possible is absent from some samples and not from others, so a harmless release
    holds a few. Expected by chance is the sum over the combinations that one original record holds (Good 1953,
    *Biometrika* 40, 237–264: the mass of what a sample does not hold is about that of what it holds once), at the
    release's size. Of one pattern alone, none among N original records and x among M released ones has probability
    (M / (N + M))ˣ where both are samples of one population; ``per_pattern`` is the largest x with a probability of
    at least 1 % divided by the number of patterns, times the records of a statistical unit on average.

    A dependency counts where the determinant has at most 200 values, 10 records for each, and independence would
    break it in at least 10 records. Values of the determinant that fewer than 5 original units hold say nothing: what
    follows from them is what single units happen to have. Dependents that are missing say nothing either.

    Examples
    --------
    >>> import pandas as pd; from anoncore.microdata import Schema
    >>> schema = Schema([Variable("x", "binary", levels=(0, 1)), Variable("y", "binary", levels=(0, 1))])
    >>> x = np.repeat([0, 1], 50)
    >>> a, b = (Microdata(pd.DataFrame({"x": x, "y": y}), schema) for y in (x, 1 - x))
    >>> structure(a, b).impossible, structure(a, b).broken[0].records
    (100, 100)
    """
    tables = tables_of(original, released, reference)
    variables = [v for v in original.schema if v.is_masked and all(comparable(v, table) for table in tables)]
    scale = len(released) / len(original)
    rare = _impossible(variables, tables)
    rules, broken = _dependencies(variables, original, released)
    patterns = rare.absent + rare.single + rules + 2 * sum(not variable.is_categorical for variable in variables)
    chance = math.log(LEVEL / max(patterns, 1)) / math.log(scale / (1 + scale))
    names = [variable.name for variable in variables]
    named = [Pattern((names[a], names[b]), records) for a, b, records in broken]
    return Structure(
        absent=rare.absent,
        combinations=tuple(Pattern((names[a], names[b]), n) for a, b, n in rare.pairs[:NAMED]),
        impossible=rare.records[0],
        by_chance=rare.expected * scale,
        reference=None if reference is None else rare.records[1] * len(released) / len(reference),
        dependencies=rules,
        broken=tuple(named[:NAMED]),
        per_pattern=math.floor(max(1.0, chance) * len(original) / original.n_units),
    )


@dataclass(frozen=True)
class _Impossible:
    """Counts of combinations: absent ones, held once, how many another sample holds, and who holds them."""

    absent: int
    single: int
    expected: float
    records: tuple[int, ...]
    pairs: tuple[tuple[int, int, int], ...]


def _impossible(variables: Sequence[Variable], tables: Sequence[Microdata]) -> _Impossible:
    """Count the combinations of two levels that the original does not hold."""
    coded = [decile_codes(variable, tables, None) for variable in variables]
    blocks: list[int] = []
    levels: list[bool] = []
    for at, (variable, (width, _)) in enumerate(zip(variables, coded, strict=True)):
        blocks += [at] * (width + 1)
        levels += [variable.is_categorical] * (width - 1) + [True, True]
    block, level = np.array(blocks, dtype=np.intp), np.array(levels, dtype=bool)
    with one_blas_thread():
        in_source, *others = (_products([(w, codes[at]) for w, codes in coded]) for at in range(len(tables)))
    held = np.diagonal(in_source)
    counted = (block[:, None] < block) & (level[:, None] | level) & (np.outer(held, held) >= EXPECTED * len(tables[0]))
    absent = counted & (in_source == 0)
    per_unit = len(tables[0]) / tables[0].n_units
    single = counted & (in_source > 0) & (in_source <= per_unit)
    worst: dict[tuple[int, int], int] = {}
    for a, b in zip(*np.nonzero(absent & (others[0] > 0)), strict=True):
        pair = int(block[a]), int(block[b])
        worst[pair] = max(worst.get(pair, 0), int(others[0][a, b]))
    return _Impossible(
        absent=int(absent.sum()),
        single=int(single.sum()),
        expected=float(in_source[single].sum()),
        records=tuple(int(other[absent].sum()) for other in others),
        pairs=tuple(sorted(((a, b, n) for (a, b), n in worst.items()), key=lambda one: -one[2])),
    )


def _products(coded: Sequence[tuple[int, Integers]]) -> Floats:
    """Return (w, w) numbers of records that hold both of two levels; of each variable its last is "present"."""
    starts = np.concatenate([[0], np.cumsum([width + 1 for width, _ in coded])]).astype(np.intp)
    total = np.zeros((starts[-1], starts[-1]))
    records = len(coded[0][1]) if coded else 0
    for begin in range(0, records, BLOCK):
        rows = slice(begin, begin + BLOCK)
        indicators = np.zeros((len(range(records)[rows]), starts[-1]), dtype=np.float32)
        at = np.arange(len(indicators))
        for start, (width, codes) in zip(starts[:-1], coded, strict=True):
            indicators[at, start + codes[rows]] = 1.0
            indicators[:, start + width] = codes[rows] < width - 1
        total += indicators.T @ indicators
    return total


def _dependencies(
    variables: Sequence[Variable], original: Microdata, released: Microdata
) -> tuple[int, list[tuple[int, int, int]]]:
    """Return how many dependencies the original holds, and which the release breaks in how many records."""
    tables = original, released
    units = original.unit_codes
    coded = [_value_codes(variable, tables) for variable in variables]
    in_source, in_release = (_columns([codes[at] for _, codes in coded], len(t)) for at, t in enumerate(tables))
    sizes = [size for size, _ in coded]
    few = [1 < size <= min(DETERMINANT, len(in_source) / RECORDS_PER_VALUE) for size in sizes]
    rules, broken = 0, []
    for a in np.flatnonzero(few):
        order = np.argsort(in_source[:, a], kind="stable")
        rows = in_source[order]
        same = rows[1:, a] == rows[:-1, a]
        fixed = ~((rows[1:] != rows[:-1]) & same[:, None]).any(axis=0)
        held = np.bincount(rows[:, a], minlength=sizes[a] + 1)
        by = np.bincount(np.unique(in_source[:, a] * len(units) + units) // len(units), minlength=sizes[a] + 1)
        for b in np.flatnonzero(fixed & few):
            if a == b:
                continue
            value = np.full(sizes[a] + 1, -1)
            value[rows[:, a]] = rows[:, b]
            share = np.bincount(rows[:, b], minlength=sizes[b] + 1) / len(rows)
            value[by < ENOUGH] = -1
            clear = value >= 0
            if (held[clear] * (1 - share[value[clear]])).sum() < EXPECTED:
                continue
            rules += 1
            determinant, dependent = in_release[:, a], in_release[:, b]
            known = (determinant >= 0) & (dependent != sizes[b])
            known[known] = value[determinant[known]] >= 0
            if count := int((value[determinant[known]] != dependent[known]).sum()):
                broken.append((int(a), int(b), count))
    return rules, sorted(broken, key=lambda one: -one[2])


def _columns(codes: Sequence[Integers], records: int) -> Integers:
    return np.column_stack([np.zeros((records, 0), dtype=np.intp), *codes])


def _value_codes(variable: Variable, tables: Sequence[Microdata]) -> tuple[int, list[Integers]]:
    """Return how many values the original holds, and (N,) codes of them; −1 for others, the number where missing."""
    if variable.is_categorical:
        levels = all_levels(variable, tables)
        codes = [level_codes(table, variable.name, levels) for table in tables]
        return len(levels), [np.where(own < 0, len(levels), own) for own in codes]
    columns = [numbers(table, variable.name) for table in tables]
    values = np.unique(columns[0][~np.isnan(columns[0])])
    coded = []
    for column in columns:
        at = np.minimum(values.searchsorted(column), max(len(values) - 1, 0))
        exact = values[at] == column if len(values) else np.zeros(len(column), dtype=bool)
        coded.append(np.where(np.isnan(column), len(values), np.where(exact, at, -1)))
    return len(values), coded
