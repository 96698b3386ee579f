"""Rules that no record breaks: limits and orders, combined with those of the other modules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from anoncore.edits.kinds import BoundEdit, LinearEdit
from anoncore.microdata import Microdata
from anoncore.microdata.inference import MIN_RECORDS
from anoncore.profile.cuts import cuts
from anoncore.profile.findings import MAX_SUGGESTED, MIN_ROWS, Finding, outward
from anoncore.profile.implications import implications
from anoncore.profile.tables import Table


def find_rules(data: Microdata, sums: Iterable[Finding] = ()) -> tuple[Finding, ...]:
    """Find rules that no record of ``data`` breaks.

    Parameters
    ----------
    data : Microdata, N records
    sums : what `profile` found; those among continuous variables are kept

    Returns
    -------
    tuple of Finding
        Sums; limits; levels that follow from a number's range (older where age is above 50);
        cells that are empty, or levels that are fixed, where another variable takes a level; and,
        as suggestions only, orders between numbers and cells that are empty together. Every
        active rule was evaluated on all records. Names are unique.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> frame = pd.DataFrame({"age": [*range(30, 70)] * 5})
    >>> frame["older"] = (frame.age > 50).astype(int)
    >>> schema = Schema([Variable("age", "continuous"), Variable("older", "binary")])
    >>> [f.edit.name for f in find_rules(Microdata(frame, schema)) if f.active]
    ['age is not negative', 'older follows from age', 'older follows from age (2)']
    """
    table = Table(data)
    sums = [f for f in sums if all(n in table.numeric for n in f.edit.variables)]
    computed = {str(f.edit.dependent) for f in sums if f.active and isinstance(f.edit, LinearEdit)}
    findings = [*sums, *_bounds(table, sums), *cuts(table), *implications(table, computed), *_orders(table, sums)]
    return tuple(_with_unique_names(_checked(f, data.frame) for f in findings))


def _checked(finding: Finding, frame: pd.DataFrame) -> Finding:
    """Keep a rule active only when every record satisfies it as it will be checked."""
    if finding.active and not finding.edit.holds(frame).all():
        return replace(finding, active=False, reason=f"{finding.reason}; not in every record")
    return finding


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


def _bounds(table: Table, sums: Sequence[Finding]) -> Iterator[Finding]:
    """Propose limits: 0 where nothing is below it; others rounded outward, for a person to correct."""
    implied = {f.edit.dependent for f in sums if isinstance(f.edit, LinearEdit) and _sum_of_parts(f, table)}
    for name, column in table.numeric.items():
        present = column[~np.isnan(column)]
        if len(present) < MIN_ROWS or name in implied:
            continue
        low, high = float(present.min()), float(present.max())
        lower, upper = outward(low, upward=False), outward(high, upward=True)
        if low >= 0 and (table.precision[name] or 0) >= 1:
            lower = math.floor(lower)
        if low >= 0 and high <= 1 and (present != np.round(present)).any():
            lower, upper = 0.0, 1.0
        if low >= 0:
            edit = BoundEdit(name=f"{name} is not negative", variable=name, lower=0.0)
            hint = f"the data suggest {lower:.12g} to {upper:.12g}, rounded outward"
            yield Finding(edit, hint, active=True)
        elif np.isfinite([lower, upper]).all():
            edit = BoundEdit(name=f"limits of {name}", variable=name, lower=lower, upper=upper)
            yield Finding(edit, "rounded outward", active=False)


def _sum_of_parts(finding: Finding, table: Table) -> bool:
    """Whether the dependent is a plain sum of parts that are never negative."""
    edit = finding.edit
    assert isinstance(edit, LinearEdit)
    parts = {n: c for n, c in edit.terms.items() if n != edit.dependent}
    whole = edit.dependent is not None and edit.terms[edit.dependent] < 0
    return whole and all(c > 0 and np.nanmin(table.numeric[n]) >= 0 for n, c in parts.items())


def _orders(table: Table, sums: Sequence[Finding]) -> list[Finding]:
    """Find numbers that never exceed another; suggestions, the most surprising ones first."""
    names = [n for n, c in table.numeric.items() if np.sum(~np.isnan(c)) >= 5 * MIN_RECORDS]
    if not names:
        return []
    together = {frozenset(pair) for f in sums for pair in combinations(f.edit.variables, 2)}
    numbers = np.column_stack([table.numeric[n] for n in names])
    sample = numbers[:: max(1, table.records // 1000)]
    ranked = [np.sort(column[~np.isnan(column)]) for column in sample.T]
    shares = np.zeros((len(names), len(names)))
    for low in range(len(names)):
        near = _never_above(sample, low).tolist()
        highs = [h for h in near if frozenset((names[low], names[h])) not in together]
        surprising = {h: share for h in highs if (share := _share_above(ranked[low], ranked[h])) >= 0.05}
        for high in _ordered(numbers, low, list(surprising)):
            shares[low, high] = surprising[high]
    held = (shares > 0).astype("float32")
    direct = np.argwhere((shares > 0) & (held @ held == 0))
    best = sorted(direct.tolist(), key=lambda pair: -shares[tuple(pair)])[:MAX_SUGGESTED]
    return [
        Finding(
            LinearEdit(
                name=f"{names[low]} is at most {names[high]}",
                terms={names[high]: 1.0, names[low]: -1.0},
                relation=">=",
            ),
            f"by chance {shares[low, high]:.0%} of the records would break it",
            active=False,
        )
        for low, high in best
    ]


def _never_above(sample: np.ndarray, low: int) -> np.ndarray:
    """Return the columns of ``sample`` (m, n) that column ``low`` exceeds in no record."""
    left = np.delete(np.arange(sample.shape[1]), low)
    start, size = 0, 8
    while start < len(sample) and len(left):
        rows = slice(start, start + size)
        left = left[~(sample[rows, low, None] > sample[rows][:, left]).any(axis=0)]
        start, size = start + size, 4 * size
    return left


def _ordered(numbers: np.ndarray, low: int, highs: list[int]) -> list[int]:
    """Return which of ``highs`` column ``low`` of ``numbers`` (N, n) never exceeds, and enough to say so."""
    kept = []
    for high in highs:
        gap = numbers[:, high] - numbers[:, low]
        gap = gap[~np.isnan(gap)]
        if len(gap) >= 5 * MIN_RECORDS and gap.min() >= 0 and gap.max() > 0:
            kept.append(high)
    return kept


def _share_above(one: np.ndarray, other: np.ndarray) -> float:
    """Return the share of all pairs, as if independent, in which ``one`` exceeds ``other``, both sorted."""
    if not len(one) or not len(other) or one[-1] <= other[0]:
        return 0.0
    return float(np.searchsorted(other, one, side="left").mean() / len(other))
