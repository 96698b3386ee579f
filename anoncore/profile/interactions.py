"""Interactions: numbers times an indicator, and levels that follow from two variables and from neither alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from anoncore.edits.kinds import LinearEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.product import ProductEdit
from anoncore.microdata.inference import MIN_RECORDS
from anoncore.profile.dependents import UNLIKE
from anoncore.profile.findings import Finding, sources
from anoncore.profile.lookups import FEWEST
from anoncore.profile.marks import Marks
from anoncore.profile.shifted_sums import HOLDS
from anoncore.profile.support import arrangements, needed
from anoncore.profile.tables import OFTEN, Table

INDICATOR = (0, 1)
MOST_CANDIDATES = 12  # variables that fix a level of another one, of which all pairs are tried


def indicated(table: Table, computed: Collection[str]) -> list[Finding]:
    """Find numbers that are another number times an indicator: 0 where that is 0, the number where it is 1.

    Parameters
    ----------
    table : Table
    computed : variables that do not follow a second time

    Returns
    -------
    list of Finding, a `ProductEdit` for each number at most. Where the indicator is 1, the number equals the other in
    every record, and that many records in another order would not.
    """
    numbers = table.numbers((), 5 * MIN_RECORDS)
    indicators = [n for n, levels in table.levels.items() if levels == INDICATOR]
    limit = needed(len(numbers) ** 2 * len(indicators)) / table.weight
    found: dict[str, Finding] = {}
    for name in numbers:
        column = table.numeric[name]
        share = float((column == 0).mean())
        if name in computed or not OFTEN <= share < 1:
            continue
        some = np.flatnonzero((column != 0) & ~np.isnan(column))
        for other in numbers:
            if other == name or other in found or not _equal(column[some], table.numeric[other][some]):
                continue
            by = next((n for n in indicators if _times(table, name, other, n, limit)), None)
            if by is not None:
                edit = ProductEdit(name=f"{name} is a product", dependent=name, of={by: 1, other: 1})
                found[name] = Finding(edit)
                break
    return list(found.values())


def switched_constant(finding: Finding, table: Table) -> Finding:
    """Return a sum that holds within a unit with an indicator as a further term, where that makes it exact.

    As experience that is age less schooling and 5 in one survey, and 6 in another. Other findings stay as they are.
    """
    edit = finding.edit
    if not isinstance(edit, LinearEdit) or not finding.active or edit.tolerance != 1.0 or edit.when:
        return finding
    gap = np.sum([c * table.numeric[n] for n, c in edit.terms.items()], axis=0)
    known = ~np.isnan(gap)
    for name, levels in table.levels.items():
        code = table.codes[name]
        if levels != INDICATOR or (code[known] < 0).any():
            continue
        low, high = (float(np.median(gap[known & (code == q)])) if (known & (code == q)).any() else 0.0 for q in (0, 1))
        broken = int((gap[known] != np.where(code[known] == 1, high, low)).sum())
        if low != high and broken <= (1 - HOLDS) * known.sum():
            terms = {name: low - high} | dict(edit.terms)
            why = f"in all but {broken} of {known.sum()} records" if broken else ""
            return Finding(replace(edit, terms=terms, constant=low, tolerance=None), why, broken=broken)
    return finding


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    first = slice(0, 64)
    return len(one) >= MIN_RECORDS and bool((one[first] == other[first]).all() and (one == other).all())


def _times(table: Table, name: str, other: str, by: str, limit: float) -> bool:
    """Whether a number is another one times an indicator that is 0 in records in which the other number is not."""
    column, number, code = table.numeric[name], table.numeric[other], table.codes[by]
    product = np.where(code < 0, np.nan, code * number)
    known = ~np.isnan(product) & ~np.isnan(column)
    if np.mean(np.isnan(product) != np.isnan(column)) > UNLIKE or not (product[known] == column[known]).all():
        return False
    if (known & (code == 0) & (number != 0)).sum() < MIN_RECORDS:
        return False
    return arrangements(np.unique(number[known & (code == 1)], return_counts=True)[1]) >= limit


def joint_lookups(table: Table, marks: Marks, determinants: dict[str, str], taken: Collection[str]) -> list[Finding]:
    """Find variables with levels that follow from two others, as both of two indicators, and from neither alone.

    Parameters
    ----------
    table : Table
    marks : of the table
    determinants : of each variable that follows from another one
    taken : variables that are computed already, which do not follow a second time

    Returns
    -------
    list of Finding, a `LookupEdit` for each variable at most, none of two variables that follow from it. Each of the
    two alone leaves it open in so many records that the other one would not determine it by chance.
    """
    found: dict[str, tuple[str, str]] = {}
    parts_of: dict[str, tuple[str, ...]] = {n: (by,) for n, by in determinants.items()}
    names = list(table.levels)
    limit = needed(len(names) ** 2 * MOST_CANDIDATES) / table.weight
    for name in names:
        if name in taken or name in determinants or (table.codes[name] >= 0).sum() < 5 * MIN_RECORDS:
            continue
        free = [n for n in _fixing(table, marks, name) if name not in sources([n], parts_of)]
        free.sort(key=lambda n: n in taken or n in determinants)
        for pair in combinations(free[:MOST_CANDIDATES], 2):
            if _determine(table, name, pair, limit):
                found[name] = parts_of[name] = pair
                break
    return [
        Finding(LookupEdit(name=f"{name} follows from {one} and {other}", dependent=name, of=(one, other)))
        for name, (one, other) in found.items()
    ]


def _fixing(table: Table, marks: Marks, name: str) -> Iterator[str]:
    """Yield the variables one of whose levels leaves one level of another variable, and one leaves more."""
    own = marks.levels[table.position[name]]
    for other in table.levels:
        if other != name:
            held = (marks.counts[marks.levels[table.position[other]], own] > 0).sum(axis=1)
            if (held == 1).any() and (held > 1).any():
                yield other


def _determine(table: Table, name: str, pair: tuple[str, str], limit: float) -> bool:
    """Whether a variable has one level at each combination of two, which neither of them explains by chance."""
    target, one, other = (table.codes[n] for n in (name, *pair))
    known = (target >= 0) & (one >= 0) & (other >= 0)
    if np.mean(((one >= 0) & (other >= 0)) != (target >= 0)) > UNLIKE:
        return False
    target, one, other = target[known].astype(np.intp), one[known].astype(np.intp), other[known].astype(np.intp)
    combined = one * (int(other.max(initial=0)) + 1) + other
    groups = len(np.unique(combined))
    if len(target) < FEWEST * groups or len(np.unique(combined * (int(target.max(initial=0)) + 1) + target)) != groups:
        return False
    levels = len(np.unique(target))
    maps = groups * float(np.log(max(levels, 2)))
    # Where one of the two leaves the target open, the other one determines it.
    open_to = (sum(arrangements(np.bincount(target[by == q])) for q in np.unique(by)) for by in (one, other))
    return all(left - maps >= limit for left in open_to)
