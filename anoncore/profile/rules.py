"""Rules that no record breaks: limits and orders, combined with those of the other modules."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from anoncore.edits.kinds import LinearEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.product import ProductEdit
from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata
from anoncore.microdata.inference import MIN_RECORDS
from anoncore.profile.dates import calendar_rules
from anoncore.profile.exclusions import exclusive_levels, level_ranges
from anoncore.profile.findings import MIN_ROWS, Finding, sources
from anoncore.profile.interactions import indicated, joint_lookups, switched_constant
from anoncore.profile.limits import bounds
from anoncore.profile.lookups import Dependency, lookups
from anoncore.profile.marks import Marks
from anoncore.profile.products import products
from anoncore.profile.skips import skips
from anoncore.profile.support import at_a_wall, needed
from anoncore.profile.tables import Table

FACTORS = (7, 12, 24, 60, 100, 1000)  # days of a week, months, hours, minutes, per cent
FEWEST_MULTIPLES = 5  # different numbers in the larger unit
SOME_BELOW = 0.05  # of the records in which one number is truly below the other
# Names that differ by one of these alone say which number is the smaller one.
OPPOSITES = (
    ("lower", "upper"), ("low", "high"), ("min", "max"), ("minimum", "maximum"), ("start", "end"), ("begin", "end"),
    ("first", "last"), ("from", "to"), ("smallest", "largest"), ("bottom", "top"),
)  # fmt: skip


def find_rules(data: Microdata, sums: Iterable[Finding] = ()) -> tuple[Finding, ...]:
    """Find rules that no record of ``data`` breaks.

    Parameters
    ----------
    data : Microdata, N records; where they have units, evidence is counted by unit
    sums : what `profile` found; those among continuous variables are kept

    Returns
    -------
    tuple of Finding
        Sums; products; variables that follow from another one; limits, rounded outward where few units hold them; cells
        that are empty where another variable has certain values; days that months have; levels, and levels and ranges
        of a number, that never occur together; numbers that never exceed another one. Names are unique. Proposals are
        at the end.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> frame = pd.DataFrame({"age": [*range(30, 70)] * 5})
    >>> frame["older"] = (frame.age > 50).astype(int)
    >>> schema = Schema([Variable("age", "continuous"), Variable("older", "binary")])
    >>> [f.edit.name for f in find_rules(Microdata(frame, schema)) if f.active]
    ['older follows from age', 'limits of age']
    """
    table = Table(data)
    sums = [switched_constant(f, table) for f in sums if all(n in table.numeric for n in f.edit.variables)]
    summed = {str(f.edit.dependent) for f in sums if f.active and isinstance(f.edit, LinearEdit)}
    multiplied = indicated(table, summed)
    switched = {str(getattr(f.edit, "dependent", None)) for f in multiplied}
    multiplied += products(table, summed | switched, [frozenset(f.edit.variables) for f in sums])
    active = [f.edit for f in multiplied if f.active]
    determined = {name for edit in active for name in edit.variables}
    lookup_rules = lookups(table, summed | switched, determined)
    if rounded := _follow_jointly(sums, lookup_rules):
        lookup_rules = lookups(table, (summed - rounded) | switched, determined)
        sums = [_not_computed(f, {d.dependent for d in lookup_rules}) for f in sums]
        summed -= {d.dependent for d in lookup_rules}
    marks = Marks(table)
    jointly = joint_lookups(table, marks, {d.dependent: d.determinant for d in lookup_rules}, summed)
    derived = _without_circles(sums, [*multiplied, *(Finding(_lookup(d)) for d in lookup_rules), *jointly])
    looked_up = {f.edit.dependent for f in derived if f.active and isinstance(f.edit, LookupEdit)}
    computed = summed | looked_up | {f.edit.dependent for f in derived if f.active and isinstance(f.edit, ProductEdit)}
    # What follows from a variable whose levels or numbers are compared themselves says nothing that is new.
    seen = {*table.numbers(), *table.levels}
    barred = computed - {d.dependent for d in lookup_rules if d.determinant not in seen}
    dates = calendar_rules(table)
    dated = {f.edit.variables for f in dates}
    limits = (f for f in bounds(table, looked_up) if f.edit.variables not in dated)
    findings = [*sums, *derived, *limits, *dates, *skips(table, marks, computed, barred)]
    orders = _orders(table, sums, barred)
    findings += [
        *exclusive_levels(table, marks, barred),
        *level_ranges(table, barred, {frozenset(f.edit.variables) for f in (*orders, *dates)}),
        *_multiples(table, computed),
        *orders,
    ]
    checked = (_checked(f, data) for f in findings)
    return tuple(_with_unique_names(sorted(checked, key=lambda f: not f.active)))


def _lookup(lookup: Dependency) -> LookupEdit:
    name = f"{lookup.dependent} follows from {lookup.determinant}"
    return LookupEdit(name=name, dependent=lookup.dependent, of=(lookup.determinant,))


def _follow_jointly(sums: Iterable[Finding], found: Iterable[Dependency]) -> set[str]:
    """Return the dependents of rounded sums all of whose parts follow from one variable, from which they follow too.

    Computed, they would differ by rounding from what follows.
    """
    determinant = {d.dependent: d.determinant for d in found}
    rounded = [f.edit for f in sums if f.active and isinstance(f.edit, LinearEdit) and f.edit.tolerance]
    return {str(e.dependent) for e in rounded if e.dependent and len({determinant.get(n, n) for n in e.parts}) == 1}


def _not_computed(finding: Finding, looked_up: Collection[str]) -> Finding:
    """Return a sum without its dependent where that is looked up."""
    edit = finding.edit
    if not isinstance(edit, LinearEdit) or edit.dependent not in looked_up:
        return finding
    return replace(finding, edit=replace(edit, dependent=None))


def _without_circles(sums: Iterable[Finding], derived: Iterable[Finding]) -> list[Finding]:
    """Return what was found beside sums; inactive where its dependent has a part in one of its own parts.

    As a part of a total that is the total times an indicator: the total is computed from it.
    """
    parts_of: dict[str, tuple[str, ...]] = {}
    for finding in sums:
        if finding.active and isinstance(finding.edit, LinearEdit) and finding.edit.dependent:
            parts_of[finding.edit.dependent] = finding.edit.parts
    kept = []
    for finding in derived:
        edit = finding.edit
        if finding.active and isinstance(edit, ProductEdit | LookupEdit):
            if edit.dependent in sources(edit.parts, parts_of):
                finding = replace(finding, active=False, reason="a part of it is computed from its dependent")
            else:
                parts_of[edit.dependent] = edit.parts
        kept.append(finding)
    return kept


def _checked(finding: Finding, data: Microdata) -> Finding:
    """Keep a rule active only when every record satisfies it as it will be checked, or those that do not are known.

    Of lookups those that a run would refuse are not kept active.
    """
    if isinstance(finding.edit, LookupEdit):
        try:
            finding.edit.refuse_identifying(data.frame, data.units)
        except AnonymizationError:
            return replace(finding, active=False, reason="the determinant nearly identifies records")
        return finding
    if finding.broken or not finding.active or finding.edit.holds(data.frame).all():
        return finding
    return replace(finding, active=False, reason="not in every record")


def _with_unique_names(findings: Iterable[Finding]) -> Iterator[Finding]:
    used: dict[str, int] = {}
    for finding in findings:
        name = finding.edit.name
        used[name] = used.get(name, 0) + 1
        while used[name] > 1 and f"{name} ({used[name]})" in used:
            used[name] += 1
        if used[name] > 1:
            name = f"{name} ({used[name]})"
            used[name] = 1
        yield replace(finding, edit=replace(finding.edit, name=name))


def _orders(table: Table, sums: Sequence[Finding], computed: set[str]) -> list[Finding]:
    """Find numbers that never exceed another, though many come near it, or as their names say: lower and upper."""
    names = table.numbers(computed, 5 * MIN_RECORDS)
    if len(names) < 2:
        return []
    together = {frozenset(pair) for f in sums for pair in combinations(f.edit.variables, 2)}
    numbers = np.column_stack([table.numeric[n] for n in names])
    sample = numbers[:: max(1, table.records // 1000)]
    evidence = needed(2 * len(names) ** 2)
    held = np.zeros((len(names), len(names)), dtype="float32")
    for low in range(len(names)):
        for high in _never_above(sample, low).tolist():
            apart = np.nanmax(numbers[:, low]) <= np.nanmin(numbers[:, high])
            if not apart and frozenset((names[low], names[high])) not in together:
                needs = 0.0 if _opposite(names[low], names[high]) else evidence
                held[low, high] = _ordered(numbers[:, low], numbers[:, high], needs, table.weight)
    direct = np.argwhere((held > 0) & (held @ held == 0)).tolist()
    return [Finding(_order(names[low], names[high])) for low, high in direct]


def _multiples(table: Table, computed: set[str]) -> Iterator[Finding]:
    """Find whole numbers that count another one in larger units: years beside months of age."""
    names = [n for n in table.numbers(computed, 5 * MIN_RECORDS) if table.precision[n] == 1]
    if len(names) < 2:
        return
    values = np.column_stack([table.numeric[n] for n in names])
    sample = values[:: max(1, table.records // 200)]
    for factor in FACTORS:
        parts = np.floor(sample / factor)
        for at, large in enumerate(names):
            fits = (parts == sample[:, [at]]) | np.isnan(parts) | np.isnan(sample[:, [at]])
            for other in np.flatnonzero(fits.all(axis=0)).tolist():
                if other != at and _counts(values[:, at], values[:, other], factor):
                    name = f"{names[other]} divided by {factor} is {large}"
                    terms = {names[other]: 1.0, large: -float(factor)}
                    yield Finding(LinearEdit(name=name, terms=terms, relation=">="))
                    yield Finding(LinearEdit(name=name, terms=terms, relation="<=", constant=factor - 1.0))


def _counts(large: np.ndarray, small: np.ndarray, factor: int) -> bool:
    """Whether ``large`` is ``small`` in units of ``factor``, without the rest, in enough different records."""
    both = ~np.isnan(large) & ~np.isnan(small)
    fits = (np.floor(small[both] / factor) == large[both]).all()
    return bool(fits and both.sum() >= MIN_ROWS and len(np.unique(large[both])) >= FEWEST_MULTIPLES)


def _order(low: str, high: str) -> LinearEdit:
    return LinearEdit(name=f"{low} is at most {high}", terms={high: 1.0, low: -1.0}, relation=">=")


def _opposite(low: str, high: str) -> bool:
    return any(one in low.lower() and low.lower().replace(one, other) == high.lower() for one, other in OPPOSITES)


def _ordered(low: np.ndarray, high: np.ndarray, needed: float, weight: float) -> bool:
    """Whether ``low`` (N,) never exceeds ``high`` (N,), and differences end there as at a wall.

    Either both are equal in records, each of which might as well have exceeded it by a unit, or as many of the
    differences, or of the parts by which ``low`` falls short, are next to 0 as no smooth tail has, and another
    record's number would often be exceeded. Not counted are records that are equal where ``low`` has its least value:
    many columns share one, as 0 or what stands for it.

    ``needed`` is the evidence, −log probability; a record has that of ``weight`` statistical units. Where it is 0, no
    record that exceeds it is enough.
    """
    gap = high - low
    counted = ~np.isnan(gap) & ~((high == low) & (low == np.nanmin(low)))
    gap = gap[counted]
    if len(gap) < 5 * MIN_RECORDS or gap.min() < 0 or (gap > 0).mean() <= SOME_BELOW:
        return False
    if not needed or (gap == 0).sum() * weight >= needed / math.log(2):
        return True
    if np.searchsorted(np.sort(high[counted]), low[counted]).mean() < SOME_BELOW * len(gap):
        return False
    # Beside the least value of the smaller number every wall is the larger one's own.
    above = counted & (low > np.nanmin(low))
    gap = high[above] - low[above]
    parts = gap / high[above] if np.nanmin(low) >= 0 else gap[:0]
    if len(parts) and parts.min() > 1 / 2:  # small numbers lie near each other whatever they measure
        return False
    return any(at_a_wall(one, weight) >= needed for one in (gap, parts))


def _never_above(sample: np.ndarray, low: int) -> np.ndarray:
    """Return the columns of ``sample`` (m, n) that column ``low`` exceeds in no record."""
    left = np.delete(np.arange(sample.shape[1]), low)
    start, size = 0, 8
    while start < len(sample) and len(left):
        rows = slice(start, start + size)
        left = left[~(sample[rows, low, None] > sample[rows][:, left]).any(axis=0)]
        start, size = start + size, 4 * size
    return left
