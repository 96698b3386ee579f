"""Marginal tables of two or three variables: how much of each would have to move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import comb

import numpy as np

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata
from anoncore.parameters import not_below
from anoncore.utility._sides import (
    Floats,
    Integers,
    Weights,
    comparable,
    decile_codes,
    effective_size,
    evenly_spread,
    frozen,
    tables_of,
    weighting,
)

DENSE = 1 << 20  # tables with more cells than this are counted by sorting what is there

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
    left_out : variables that another table does not have in a comparable form
    meaning : a sentence
    tuples : the names of each table's variables; in a report those of the worst tables alone, the worst first
    values, reference_values : their distances, 0 … 1

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
    left_out: tuple[str, ...]
    meaning: str
    tuples: tuple[tuple[str, ...], ...] = field(repr=False)
    values: Floats = field(repr=False)
    reference_values: Floats | None = field(repr=False)

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
    weights: Weights = None,
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
    values is taken value by value, with bins of their own between them. Levels that only another table
    has count as levels. The distance is ½ Σ |share − share|. Expected is
    ½ Σ min(√(2/π · p(1 − p)(1/N + 1/M)), 2p), p the two tables' mean share of a cell: the mean absolute
    difference of normal shares, capped where cells are nearly empty; N and M effective sizes where there
    are weights. Claim: none. Source: elementary.

    Examples
    --------
    >>> import pandas as pd; from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable("x", "binary", levels=(0, 1)), Variable("y", "binary", levels=(0, 1))])
    >>> a = Microdata(pd.DataFrame({"x": [0, 0, 1, 1], "y": [0, 0, 1, 1]}), schema)
    >>> b = Microdata(pd.DataFrame({"x": [0, 0, 1, 1], "y": [0, 1, 0, 1]}), schema)
    >>> marginal_utility(a, b).largest
    0.5
    """
    if not 1 <= size <= 4:
        raise AnonymizationError(f"size must be 1 to 4 variables per table, got {size}")
    not_below(1, limit=limit)
    tables = tables_of(original, released, reference)
    arrays = weighting(tables, weights).arrays
    names = [n for n in original.schema.masked if all(comparable(original.schema[n], t) for t in tables)]
    coded = [decile_codes(original.schema[name], tables, arrays[0]) for name in names]
    which = list(_tuples(len(names), size, limit))
    distances, expected = np.zeros((len(tables) - 1, len(which))), np.zeros(len(which))
    sizes = [effective_size(w, len(t)) for t, w in zip(tables, arrays, strict=True)]
    for at, members in enumerate(which):
        shares = _shares([coded[j] for j in members], arrays)
        distances[:, at] = [np.abs(other - shares[0]).sum() / 2 for other in shares[1:]]
        middle = (shares[0] + shares[1]) / 2
        spread = np.sqrt(2 / np.pi * middle * (1 - middle) * (1 / sizes[0] + 1 / sizes[1]))
        expected[at] = np.minimum(spread, 2 * middle).sum() / 2
    tuples = tuple(tuple(names[j] for j in members) for members in which)
    worst = int(distances[0].argmax()) if which else None
    (mean, largest, _), *references = (_over_tables(row, worst) for row in distances)
    likely = _over_tables(expected, worst)
    return MarginalUtility(
        size=size,
        used=len(which),
        of=comb(len(names), size),
        mean=mean,
        largest=largest,
        worst=() if worst is None else tuples[worst],
        expected_mean=likely[0],
        expected_at_worst=likely[2],
        reference_mean=references[0][0] if references else None,
        reference_largest=references[0][1] if references else None,
        reference_at_worst=references[0][2] if references else None,
        left_out=tuple(n for n in original.schema.masked if n not in names),
        meaning=MEANING.format(size=size),
        tuples=tuples,
        values=frozen(distances[0]),
        reference_values=frozen(distances[1]) if references else None,
    )


def _over_tables(values: Floats, worst: int | None) -> tuple[float, float, float]:
    """Return the mean and the largest of (used,) values, and the one of the worst table; 0 without tables."""
    return (0.0, 0.0, 0.0) if worst is None else (float(values.mean()), float(values.max()), float(values[worst]))


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
    ranks = evenly_spread(comb(n, size), limit)
    return (_unrank(int(rank), n, size) for rank in ranks)


def _unrank(rank: int, n: int, size: int) -> tuple[int, ...]:
    """Return the rank-th set of ``size`` of n numbers, in lexicographic order."""
    members: list[int] = []
    for number in range(n):
        behind = comb(n - number - 1, size - len(members) - 1)
        if rank < behind:
            members.append(number)
        else:
            rank -= behind
        if len(members) == size:
            break
    return tuple(members)
