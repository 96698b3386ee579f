"""Marginal tables of two or three variables: how much of each would have to move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import comb, gcd

import numpy as np
from numpy.typing import ArrayLike

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Variable
from anoncore.utility._sides import (
    Distribution,
    Floats,
    Integers,
    all_levels,
    comparable,
    effective_size,
    frozen,
    level_codes,
    numbers,
    weighting,
)

BINS = 10
DENSE = 1 << 20  # tables with more cells than this are counted by sorting what is there
GOLDEN = 0.6180339887498949

MEANING = (
    "The share of records that would have to move to another cell to make the tables of {size} variables "
    "equal to the original's; 0 is unchanged, 1 the most. Numbers are cut at the original's deciles, and "
    "a missing value is a level of its own. Two samples of one population differ as well, by about what is "
    "expected, more where tables have many cells."
)


@dataclass(frozen=True, eq=False)
class MarginalUtility:
    """Total variation distance of marginal tables from the original's, beside the reference's.

    Parameters
    ----------
    size : variables per table
    used, of : tables compared, of so many that there are
    mean, largest : over these tables; 0 when there are none
    worst : names of the variables of the table that has moved most; empty when there are none
    expected_mean, expected_at_worst : what two samples of these sizes drawn from one population differ by
    reference_mean, reference_largest, reference_at_worst : the reference's; at the release's worst table
    tuples : the names of each table's variables; in a report those of the worst tables alone, the worst first
    values, reference_values : their distances, 0 … 1
    left_out : variables that another table does not have in a comparable form
    meaning : a sentence

    Notes
    -----
    What concerns the reference is None where there is none.
    """

    size: int
    used: int
    of: int
    mean: float
    largest: float
    worst: tuple[str, ...]
    expected_mean: float
    expected_at_worst: float
    reference_mean: float | None
    reference_largest: float | None
    reference_at_worst: float | None
    tuples: tuple[tuple[str, ...], ...]
    values: Floats
    reference_values: Floats | None
    left_out: tuple[str, ...]
    meaning: str

    def worst_only(self, most: int) -> MarginalUtility:
        """Return the same with the names and distances of the worst tables alone, the worst first."""
        order = np.argsort(-self.values, kind="stable")[:most]
        others = self.reference_values
        return replace(
            self,
            tuples=tuple(self.tuples[at] for at in order),
            values=frozen(self.values[order]),
            reference_values=None if others is None else frozen(others[order]),
        )


def marginal_utility(
    original: Microdata,
    released: Microdata,
    reference: Microdata | None = None,
    *,
    size: int = 2,
    limit: int = 1000,
    weights: str | Sequence[ArrayLike | None] | None = None,
) -> MarginalUtility:
    """Compare all tables of two (or three) variables with the original's.

    Parameters
    ----------
    original, released, reference : Microdata
    size : variables per table, 1 … 4
    limit : tables compared at most; of more, this many are taken evenly, always the same ones
    weights : as for :func:`anoncore.utility.variable_utility`

    Returns
    -------
    MarginalUtility

    Raises
    ------
    AnonymizationError
        When a parameter is out of range, a table has no records, or weights do not fit.

    Notes
    -----
    Numbers are cut at the deciles of the original, coinciding ones once; a number with at most ten different
    values is taken value by value, what lies between being bins of its own. Levels that only another table
    has count as levels. The distance is ½ Σ |share − share|. Expected is
    ½ Σ min(√(2/π · p(1 − p)(1/N + 1/M)), 2p), p the two tables' mean share of a cell: the mean absolute
    difference of normal shares, capped where cells are nearly empty; N and M effective sizes where there
    are weights. Claim: none. Source: elementary.

    Examples
    --------
    >>> import pandas as pd; from anoncore.microdata import Schema
    >>> schema = Schema([Variable("x", "binary", levels=(0, 1)), Variable("y", "binary", levels=(0, 1))])
    >>> a = Microdata(pd.DataFrame({"x": [0, 0, 1, 1], "y": [0, 0, 1, 1]}), schema)
    >>> b = Microdata(pd.DataFrame({"x": [0, 0, 1, 1], "y": [0, 1, 0, 1]}), schema)
    >>> marginal_utility(a, b).largest
    0.5
    """
    if not 1 <= size <= 4:
        raise AnonymizationError(f"size must be 1 to 4 variables per table, got {size}")
    if limit < 1:
        raise AnonymizationError(f"limit must be at least 1, got {limit}")
    tables = [table for table in (original, released, reference) if table is not None]
    if not all(len(table) for table in tables):
        raise AnonymizationError("utility needs records in every table; one of them has none")
    found = weighting(tables, weights)
    names = [n for n in original.schema.masked if all(comparable(original.schema[n], t) for t in tables)]
    coded = [_codes(original.schema[name], tables, found.arrays[0]) for name in names]
    which = list(_tuples(len(names), size, limit))
    distances = np.zeros((len(tables) - 1, len(which)))
    expected = np.zeros(len(which))
    sizes = [effective_size(w, len(t)) for t, w in zip(tables, found.arrays, strict=True)]
    for at, members in enumerate(which):
        shares = _shares([coded[j] for j in members], found.arrays)
        distances[:, at] = [np.abs(other - shares[0]).sum() / 2 for other in shares[1:]]
        middle = (shares[0] + shares[1]) / 2
        spread = np.sqrt(2 / np.pi * middle * (1 - middle) * (1 / sizes[0] + 1 / sizes[1]))
        expected[at] = np.minimum(spread, 2 * middle).sum() / 2
    left_out = tuple(n for n in original.schema.masked if n not in names)
    return _result(size, which, names, distances, expected, left_out)


def _result(
    size: int,
    which: Sequence[tuple[int, ...]],
    names: Sequence[str],
    distances: Floats,
    expected: Floats,
    left_out: tuple[str, ...],
) -> MarginalUtility:
    tuples = tuple(tuple(names[j] for j in members) for members in which)
    any_there = bool(which)
    at = int(distances[0].argmax()) if any_there else 0
    theirs = distances[1] if len(distances) > 1 else None
    return MarginalUtility(
        size=size,
        used=len(which),
        of=comb(len(names), size),
        mean=float(distances[0].mean()) if any_there else 0.0,
        largest=float(distances[0, at]) if any_there else 0.0,
        worst=tuples[at] if any_there else (),
        expected_mean=float(expected.mean()) if any_there else 0.0,
        expected_at_worst=float(expected[at]) if any_there else 0.0,
        reference_mean=None if theirs is None else float(theirs.mean()) if any_there else 0.0,
        reference_largest=None if theirs is None else float(theirs.max(initial=0.0)),
        reference_at_worst=None if theirs is None else float(theirs[at]) if any_there else 0.0,
        tuples=tuples,
        values=frozen(distances[0]),
        reference_values=None if theirs is None else frozen(theirs),
        left_out=left_out,
        meaning=MEANING.format(size=size),
    )


def _codes(variable: Variable, tables: Sequence[Microdata], array: Floats | None) -> tuple[int, list[Integers]]:
    """Return how many codes there are, the last for a gap, and the (N,) codes of each table."""
    if variable.is_categorical:
        levels = all_levels(variable, tables)
        width = len(levels) + 1
        found = [level_codes(table, variable.name, levels) for table in tables]
        return width, [np.where(codes < 0, width - 1, codes) for codes in found]
    columns = [numbers(table, variable.name) for table in tables]
    gaps = [np.isnan(values) for values in columns]
    told = ~gaps[0] if array is None else ~gaps[0] & (array > 0)
    if not told.any():
        return 2, [gap.astype(np.intp) for gap in gaps]
    known = Distribution.of(columns[0][told], None if array is None else array[told])
    if len(known.values) <= BINS:
        cuts, width = known.values, 2 * len(known.values) + 2
        binned = [cuts.searchsorted(v, "left") + cuts.searchsorted(v, "right") for v in columns]
    else:
        cuts = np.unique(known.quantiles(np.arange(1, BINS) / BINS))
        width = len(cuts) + 2
        binned = [cuts.searchsorted(values, "left") for values in columns]
    return width, [np.where(gap, width - 1, codes) for gap, codes in zip(gaps, binned, strict=True)]


def _shares(members: Sequence[tuple[int, list[Integers]]], arrays: Sequence[Floats | None]) -> list[Floats]:
    """Return each table's share of every cell, over the same cells."""
    cells = [codes.copy() if len(members) > 1 else codes for codes in members[0][1]]
    total = members[0][0]
    for width, codes in members[1:]:
        total *= width
        for cell, code in zip(cells, codes, strict=True):
            cell *= width
            cell += code
    if total > DENSE:
        there, together = np.unique(np.concatenate(cells), return_inverse=True)
        total = len(there)
        cells = np.split(together, np.cumsum([len(cell) for cell in cells])[:-1])
    counts = [
        np.bincount(cell, weights=w, minlength=total).astype(np.float64) for cell, w in zip(cells, arrays, strict=True)
    ]
    return [count / count.sum() for count in counts]


def _tuples(n: int, size: int, limit: int) -> Iterator[tuple[int, ...]]:
    """Yield sets of ``size`` of n variables, all or ``limit`` of them, spread by the golden ratio."""
    total = comb(n, size)
    step = 1
    if total > limit:
        step = max(1, round(total * GOLDEN))
        while gcd(step, total) > 1:
            step += 1
    for rank in sorted(i * step % total for i in range(min(total, limit))):
        yield _unrank(rank, n, size)


def _unrank(rank: int, n: int, size: int) -> tuple[int, ...]:
    """Return the rank-th set of ``size`` of n numbers, in lexicographic order."""
    found: list[int] = []
    number = 0
    while len(found) < size:
        behind = comb(n - number - 1, size - len(found) - 1)
        if rank < behind:
            found.append(number)
        else:
            rank -= behind
        number += 1
    return tuple(found)
