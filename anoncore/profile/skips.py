"""Skip patterns: cells that are missing wherever another variable has certain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import ConditionalEdit
from anoncore.microdata.inference import MIN_RECORDS
from anoncore.profile.edges import edge
from anoncore.profile.findings import Finding
from anoncore.profile.marks import Marks
from anoncore.profile.support import beyond, edge_rate, needed, never_meeting
from anoncore.profile.tables import Table

MOST_GATES = 3  # for one variable
BLOCK, BLOCK_SHARE = 100, 0.5  # missing cells left over, and their share, that another missing cell must explain
RANK = 20  # see `beyond`


@dataclass(frozen=True, eq=False, repr=False)
class _Gate:
    """A condition under which a cell is always missing, the records (N,) with such a value, a factor of evidence."""

    when: Condition
    holds: np.ndarray
    rate: float = 1.0

    @property
    def is_empty_cell(self) -> bool:
        """Whether nothing but another missing cell is the condition."""
        return self.when.values is None and self.when.lower is None and self.when.upper is None


def skips(table: Table, marks: Marks, computed: set[str], barred: set[str]) -> list[Finding]:
    """Find, for each variable, the fewest conditions on others that explain its missing cells.

    A condition is a set of levels of a variable, or of its missing value too, or a range of a number. The one that
    explains most missing cells comes first; a further one must explain some that are left. Variables in ``computed``
    are not skipped, and those in ``barred`` do not decide.
    """
    beside = marks.missing_beside()
    numbers = table.numbers(barred, 5 * MIN_RECORDS)
    skipped = [n for n, m in table.missing.items() if n not in computed and m.sum() >= MIN_RECORDS and not m.all()]
    if not skipped:
        return []
    limit = needed(len(skipped) * (len(marks) + 2 * len(numbers) * MIN_RECORDS)) / table.weight
    present = np.stack([~table.missing[n] for n in skipped])
    ends = {by: _ends(table, by, present) for by in numbers}
    findings: list[Finding] = []
    for place, name in enumerate(skipped):
        gates = list(_level_gates(table, marks, beside, name, barred, limit))
        alike = marks.always_missing_with(table.position[name])
        for by in numbers:
            gates += _range_gates(table, by, name, ends[by][:, place], missing=bool(alike[table.position[by]]))
        findings += _explained(table, name, gates, limit)
    return findings


def _ends(table: Table, by: str, present: np.ndarray) -> np.ndarray:
    """Return (2, s) the records with a number below, and above, all those beside which a cell of (s, N) is present."""
    order = np.argsort(table.numeric[by], kind="stable")[: int((~table.missing[by]).sum())]
    ordered = present[:, order]
    ends = np.stack([ordered.argmax(axis=1), ordered[:, ::-1].argmax(axis=1)])
    ends[:, ~ordered.any(axis=1)] = 0
    return ends


def _explained(table: Table, name: str, gates: list[_Gate], limit: float) -> Iterable[Finding]:
    """Choose gates for the missing cells of one variable, and say where none is missing."""
    empty = table.missing[name]
    left = np.ones(table.records, dtype=bool)
    chosen: list[_Gate] = []
    # That cells are empty together is said where nothing else explains it.
    for candidates in ([g for g in gates if not g.is_empty_cell], [g for g in gates if g.is_empty_cell]):
        while candidates and len(chosen) < MOST_GATES:
            gained = np.array([int((g.holds & left).sum()) for g in candidates], dtype=float)
            best = int(gained.argmax())
            evidence = never_meeting(left.sum(), (left & ~empty).sum(), gained[best])
            least = max(BLOCK, BLOCK_SHARE * (left & empty).sum()) if candidates[best].is_empty_cell else MIN_RECORDS
            if gained[best] < least or evidence * candidates[best].rate < limit:
                break
            chosen.append(candidates[best])
            left &= ~(candidates[best].holds | _missing_too(table, candidates[best].when))
    for gate in chosen:
        then = Condition(variable=name, missing=True)
        yield Finding(ConditionalEdit(name=f"{name} missing by {gate.when.variable}", when=(gate.when,), then=then))
    # Where one condition explains all missing cells, the others are asked and have answered.
    if len(chosen) == 1 and not (left & empty).any() and (other := _otherwise(table, chosen[0].when)) is not None:
        then = Condition(variable=name, missing=False)
        yield Finding(ConditionalEdit(name=f"{name} known by {other.variable}", when=(other,), then=then))


def _missing_too(table: Table, when: Condition) -> np.ndarray | bool:
    return table.missing[when.variable] if when.missing else False


def _otherwise(table: Table, when: Condition) -> Condition | None:
    """Return the condition that holds where one on levels does not."""
    if when.values is None:
        return None
    rest = tuple(v for v in table.levels[when.variable] if v not in when.values)
    may_miss = table.missing[when.variable].any() and not when.missing
    return Condition(variable=when.variable, values=rest, missing=True if may_miss else None) if rest else None


def _level_gates(
    table: Table, marks: Marks, beside: np.ndarray, name: str, barred: set[str], limit: float
) -> Iterable[_Gate]:
    """Yield, for each other variable, the levels at which the cell is always missing.

    At the lowest rate at which it is present at another level, chance would have left some present.
    """
    place = table.position[name]
    rate = 1 - beside[:, place] / np.maximum(1.0, marks.sizes)
    starts = np.array([at.start for at in marks.levels.values()], dtype=int)
    if not len(starts):
        return
    some = rate[: int((marks.level >= 0).sum())]
    lowest = np.minimum.reduceat(np.where(some > 0, some, np.inf), starts)
    decides = lowest < np.inf
    decides &= np.maximum.reduceat(np.where(some == 0, marks.sizes[: len(some)], 0.0), starts) >= limit / lowest
    for number in np.flatnonzero(decides).tolist():
        own, at = list(marks.levels.items())[number]
        by = list(table.missing)[own]
        if own == place or by in barred:
            continue
        levels = np.flatnonzero((rate[at] == 0) & (marks.sizes[at] * lowest[number] >= limit))
        empty = marks.missing_mark[own]
        missing = bool(empty >= 0 and rate[empty] == 0)
        values = tuple(table.levels[by][q] for q in levels)
        when = Condition(variable=by, values=values, missing=True if missing else None)
        yield _Gate(when, np.isin(table.codes[by], levels) | _missing_too(table, when))


def _range_gates(table: Table, by: str, name: str, ends: np.ndarray, *, missing: bool) -> Iterable[_Gate]:
    """Yield the ranges of a number below and above which a cell is always missing, and its ``missing`` value if so."""
    if by == name:
        return
    empty, column, unit = table.missing[name], table.numeric[by], table.precision[by]
    if missing and table.position[by] < table.position[name]:
        yield _Gate(Condition(variable=by, missing=True), table.missing[by])
    if ends.max() < MIN_RECORDS:
        return
    everyone = column[~table.missing[by]]
    known = column[~table.missing[by] & ~empty]
    if len(known) < RANK:
        return
    for count, sign in zip(ends.tolist(), (1.0, -1.0), strict=True):
        within = beyond(sign * known, RANK)
        beneath = (sign * everyone)[sign * everyone < within]
        rate = edge_rate(sign * known, sign * everyone, RANK) if count >= MIN_RECORDS <= len(beneath) else 0.0
        if not rate:
            continue
        end = edge(column, float(beneath.max()), within, unit)[0] if sign > 0 else None
        start = edge(column, -within, -float(beneath.max()), unit)[1] if sign < 0 else None
        inside = column <= end if end is not None else column >= start
        if inside.sum() >= MIN_RECORDS and empty[inside].all():
            when = Condition(variable=by, lower=start, upper=end, missing=True if missing else None)
            yield _Gate(when, inside, rate)
