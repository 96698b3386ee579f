"""What follows from a level: cells that are always empty, and levels that never occur, beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import ConditionalEdit
from anoncore.microdata.inference import MIN_COUNT, MIN_RECORDS
from anoncore.profile.findings import MAX_SUGGESTED, Finding
from anoncore.profile.marks import Marks
from anoncore.profile.tables import Table

STRONG, WEAK = 20.0, 7.0  # exceptions expected by chance, for an active rule and for a suggestion
PORTION = 1 << 25  # bytes compared at a time


def implications(table: Table, computed: set[str]) -> list[Finding]:
    """Find cells that are always empty, and levels that never occur, beside another level.

    What follows from other rules is dropped, like rules are joined, and of the suggestions the
    `MAX_SUGGESTED` most surprising ones are kept. All marks are compared with all variables.
    """
    marks = Marks(table)
    if not len(marks) or not table.records:
        return []
    claims = _claims(table, marks, np.array([n in computed for n in table.missing]))
    return _joined(table, marks, claims, _ranked(table, marks, claims))


@dataclass(frozen=True, eq=False, repr=False)
class _Claims:
    """What marks (m) imply about variables (n), all at once.

    Attributes
    ----------
    emptied, known, fixed : (m, n) whether the variable is missing, known, or of certain levels only
    expected : (m, n) records that would break it by chance, where emptied or fixed
    active : (m, n) whether an emptied or fixed variable is safe to use without asking
    levels : (m, n) the levels of a fixed variable, as the bits of a number
    lost : pairs of marks, of which the first rules out the second, a level of a fixed variable
    then : pairs of marks, of which the first makes the second hold
    """

    emptied: np.ndarray
    known: np.ndarray
    fixed: np.ndarray
    expected: np.ndarray
    active: np.ndarray
    levels: np.ndarray
    lost: list[np.ndarray] = field(default_factory=list)
    then: list[np.ndarray] = field(default_factory=list)


def _claims(table: Table, marks: Marks, barred: np.ndarray) -> _Claims:
    """Determine what every mark implies about other variables; ``barred`` (n,) variables are left out."""
    size, level, positions = marks.sizes[:, None], marks.level[:, None] >= 0, np.arange(len(barred))
    asked = (marks.own[:, None] != positions) & ~barred & ~barred[marks.own, None] & (size >= MIN_RECORDS)
    beside = marks.missing_beside()
    emptied, expected = asked & (beside == size), size * (1 - marks.empty / table.records)
    open_to = asked & level & (beside < size)
    # Cells that are empty together are only proposed, from the earlier column to the later.
    later = (expected >= STRONG) & (marks.own[:, None] < positions)
    emptied &= np.where(level, expected >= WEAK, later)
    surprising = size * marks.empty / table.records >= STRONG
    claims = _Claims(
        emptied=emptied,
        known=open_to & (beside == 0) & surprising & marks.deciding(beside),
        fixed=np.zeros_like(asked),
        expected=expected,
        active=emptied & level & (expected >= STRONG),
        levels=np.zeros(asked.shape, dtype=np.int64),
    )
    at, place = np.nonzero(emptied)
    claims.then.append(np.column_stack([at, marks.missing_mark[place]]))
    for about, where in marks.levels.items():
        _fix(claims, marks, about, where, open_to[:, about], beside[:, about] > 0)
    return claims


def _fix(claims: _Claims, marks: Marks, place: int, where: slice, asked: np.ndarray, missing: np.ndarray) -> None:
    """Record which levels each mark leaves to one variable: those that occur, and those rare by chance."""
    counts, here = marks.sizes[where], marks.counts[:, where].astype("float64")
    missed = here.sum(axis=1, keepdims=True) * counts / max(1.0, counts.sum())
    absent = (here == 0) & (missed >= WEAK)
    left = (counts > 0) & ~absent
    expected = np.cumsum(missed * absent, axis=1)[:, -1]
    fixed = asked & (expected >= STRONG) & (np.where(left, counts, np.inf).min(axis=1) >= MIN_COUNT)
    single = fixed & (left.sum(axis=1) == 1)
    claims.fixed[:, place] = fixed
    claims.expected[fixed, place] = expected[fixed]
    claims.active[fixed, place] = single[fixed]
    claims.levels[:, place] = left @ (1 << np.arange(left.shape[1]))
    claims.lost.append(np.argwhere(absent & fixed[:, None]) + np.array([0, where.start]))
    claims.then.append(np.argwhere(left & (single & ~missing)[:, None]) + np.array([0, where.start]))


def _ranked(table: Table, marks: Marks, claims: _Claims) -> np.ndarray:
    """Return (r, 3): a rule's mark, variable, and whether it says known; the most surprising first.

    Rules that follow from others are left out: those all of whose pairs of levels an earlier one
    rules out too, or an emptied variable, and those that two others make by way of a third mark.
    """
    at, place = np.nonzero(claims.emptied | claims.fixed)
    sure, certain = np.nonzero(claims.known)
    mark, about = np.concatenate([at, sure]), np.concatenate([place, certain])
    known = np.arange(len(mark)) >= len(at)
    by_chance = marks.sizes[mark] * marks.empty[about] / table.records
    expected = np.where(known, by_chance, claims.expected[mark, about])
    active = known | claims.active[mark, about]
    order = np.lexsort((~known, about, mark, marks.own[mark], -expected, ~active))
    rank = np.full(claims.fixed.shape, len(order))
    rank[mark[order][~known[order]], about[order][~known[order]]] = np.flatnonzero(~known[order])
    one, other = np.concatenate([np.zeros((0, 2), dtype=int), *claims.lost]).T
    back = np.isin(other * len(marks) + one, one * len(marks) + other)
    back |= claims.emptied[other, marks.own[one]]
    news = ~(back & (rank[other, marks.own[one]] < rank[one, marks.own[other]]))
    fresh = claims.emptied.copy()
    fresh[one[news], marks.own[other[news]]] = True
    fresh &= ~_by_way(marks, claims)
    keep = known | fresh[mark, about]
    return np.column_stack([mark, about, known])[order][keep[order]]


def _by_way(marks: Marks, claims: _Claims) -> np.ndarray:
    """Return (m, n): whether what a mark says about a variable follows by way of a third mark."""
    pairs = np.concatenate(claims.then)
    some, place = np.unique(pairs, return_inverse=True)
    one, other = place.reshape(pairs.shape).T
    then, own = np.zeros((len(some), len(some)), dtype=bool), marks.own[some]
    then[one, other] = True
    # Of marks that follow from each other, the earlier one is the way.
    onward = np.packbits(then & (~then.T | (own < own[:, None])), axis=1)
    backward = np.packbits(then.T, axis=1)
    follows = np.zeros(claims.fixed.shape, dtype=bool)
    step = max(1, PORTION // max(1, backward.shape[1]))
    for start in range(0, len(one), step):
        at, to = one[start : start + step], other[start : start + step]
        follows[some[at], own[to]] = (onward[at] & backward[to]).any(axis=1)
    return follows


@dataclass
class _Group:
    """Levels of one variable, or −1 for its missing values, that have the same consequent."""

    then: Condition
    active: bool
    values: list[int] = field(default_factory=list)
    expected: float = 0.0


def _joined(table: Table, marks: Marks, claims: _Claims, ranked: np.ndarray) -> list[Finding]:
    """Return one edit for all levels of a variable that have the same consequent."""
    names = list(table.missing)
    kind = np.where(ranked[:, 2], 2, claims.emptied[ranked[:, 0], ranked[:, 1]])
    groups: dict[tuple[int, ...], _Group] = {}
    suggested = 0
    for (mark, place, _), what in zip(ranked.tolist(), kind.tolist(), strict=True):
        own, level, missing = int(marks.own[mark]), int(marks.level[mark]), int(marks.missing_mark[place])
        active = what == 2 or bool(claims.active[mark, place])
        may_miss = missing >= 0 and bool(marks.counts[mark, missing] > 0)
        left = 0 if what else int(claims.levels[mark, place])
        key = (own, level < 0, place, what, left, may_miss and not what, active)
        if key not in groups:
            suggested += not active
            if not active and suggested > MAX_SUGGESTED:
                continue
            groups[key] = _Group(_then(table, names[place], what, left, may_miss), active)
        groups[key].values.append(level)
        by_chance = marks.sizes[mark] * marks.empty[place] / table.records
        groups[key].expected += float(by_chance if what == 2 else claims.expected[mark, place])
    findings = [_finding(table, names[key[0]], group) for key, group in groups.items()]
    return sorted(findings, key=lambda f: not f.active)


def _then(table: Table, name: str, what: int, left: int, missing: bool) -> Condition:
    """Return the consequent: certain levels (what is 0), a missing cell (1) or a known one (2)."""
    if what:
        return Condition(variable=name, missing=what == 1)
    values = tuple(v for q, v in enumerate(table.levels[name]) if left >> q & 1)
    return Condition(variable=name, values=values, missing=True if missing else None)


def _finding(table: Table, name: str, group: _Group) -> Finding:
    levels = () if group.values[0] < 0 else table.levels[name]
    values = tuple(sorted(levels[q] for q in group.values)) if levels else None
    when = Condition(variable=name, values=values, missing=None if levels else True)
    what = "follows from" if group.then.values else "missing by" if group.then.missing else "known by"
    edit = ConditionalEdit(name=f"{group.then.variable} {what} {name}", when=(when,), then=group.then)
    why = "" if group.active else f"by chance {group.expected:.0f} record(s) would break it"
    return Finding(edit, why, group.active)
