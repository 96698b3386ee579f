"""Exchange members of a group with other records: only the area changes, populations and edits are kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.errors import InfeasibleError
from anoncore.kernels.wavelet import relocation
from anoncore.microdata import Microdata
from anoncore.risk.group_masking import Group, Hidden

ROUNDS = 20  # of moving, each without those who could not go without breaking an edit
EDITS_FIRST = 1e3  # how much more than a standard deviation it counts whether an edit lets a record move


@dataclass(frozen=True)
class Counterparts:
    """Who may take the place of a member.

    Parameters
    ----------
    match_on : variables in which a counterpart resembles the member; every other one where none is stated
    kept : other groups, of which a counterpart (a household) has as many members, so that their counts stay
    """

    match_on: tuple[str, ...] = ()
    kept: tuple[Group, ...] = ()


def exchanged(
    data: Microdata,
    group: Group,
    flows: np.ndarray,
    counterparts: Counterparts,
    edits: EditSet,
    rng: np.random.Generator,
) -> tuple[Microdata, relocation.Relocation]:
    """Send members along flows between areas; the two positions after the areas are elsewhere and no known area."""
    m = len(group.order)
    area = group.areas(data.frame)
    area = np.where(area < 0, np.where(data.frame[group.parameter].isna(), m + 1, m), area)
    rows = np.flatnonzero(area < len(flows))
    part, codes = data.take(rows), data.frame[group.parameter].cat.codes.to_numpy().astype(np.intp)
    unit = _units(part, codes[rows])
    tied = EditSet(e for e in edits.within(data.schema.masked).edits if group.parameter in e.variables)
    places = np.flatnonzero((flows.sum(axis=0) + flows.sum(axis=1))[:m] > 0)
    vital, of = group.members(part.frame), np.arange(len(rows)) if unit is None else unit
    kept = _kept_members(part, counterparts.kept, of)
    features = np.column_stack(
        [
            _features(part, counterparts.match_on or tuple(group.others(data))),
            EDITS_FIRST * _allowed(part, group, places, tied),
            EDITS_FIRST * kept[of],
        ]
    )
    pool, frame = np.ones(len(rows), dtype=bool), data.frame
    for _ in range(ROUNDS):
        at = np.flatnonzero(pool)
        moved = relocation.relocate(
            area[rows[at]],
            vital[at],
            features[at],
            flows,
            rng=rng,
            household=None if unit is None else unit[at],
        )
        pairs = at[moved.pairs] if unit is None else moved.pairs
        frame = _with_levels_swapped(data.frame, group.parameter, rows, of, pairs)
        broken = {e.name: (e.holds(data.frame) & ~e.holds(frame))[rows] for e in tied.edits}
        unequal = pairs[(kept[pairs[:, 0]] != kept[pairs[:, 1]]).any(axis=1)]
        broken["the counts of a kept group"] = np.isin(of, unequal)
        wrong = np.logical_or.reduce(list(broken.values()))
        if moved.unmatched.any() or not wrong.any():
            break
        # A record that could go only by breaking an edit or a kept count stays, and so does a counterpart.
        pool &= ~np.isin(of, of[wrong])
    if moved.unmatched.any():
        raise InfeasibleError(_too_few(moved.unmatched, group, in_households=unit is not None, edits=not pool.all()))
    if names := [name for name, records in broken.items() if records.any()]:
        raise InfeasibleError(
            f"the group cannot move without breaking {', '.join(names)}; loosen goals, edits or kept groups"
        )
    return Microdata.trusted(frame, data.schema), moved


def populations(group: Group, frame: pd.DataFrame) -> np.ndarray:
    """Return (m,) int: the records in each area."""
    area = group.areas(frame)
    return np.bincount(area[area >= 0], minlength=len(group.order))


def with_claimed_counts(
    data: Microdata, hidden: Hidden, others: tuple[Group, ...], edits: EditSet, rng: np.random.Generator
) -> Microdata:
    """Move masked records once more, so that the group's counts are the claimed ones after later steps too.

    The counts of ``others`` stay as they are.

    Raises
    ------
    InfeasibleError
        When later steps have changed the size of the group, or too few records can move.
    """
    group, m = hidden.group, len(hidden.group.order)
    if lost := sorted({n for n in (group.parameter, *group.variables) if n not in data.schema}):
        raise InfeasibleError(
            f"a later step does not release {', '.join(lost)}, by which the group is counted; make "
            "group-anonymity the last step"
        )
    vital, unknown = group.members(data.frame), data.frame[group.parameter].isna().to_numpy()
    outside = (group.areas(data.frame) < 0) & ~unknown
    counts = np.append(group.counts(data.frame), [(vital & outside).sum(), (vital & unknown).sum()])
    # What later steps carried out of the areas is taken back first from other areas, then from no known one.
    rest = int(counts.sum() - hidden.target.sum())
    kept = min(max(rest, 0), int(counts[m + 1])) if outside.any() else rest
    target = np.append(hidden.target, [rest - kept, kept])
    if np.array_equal(counts, target):
        return data
    if rest < 0 or target[m] > outside.sum() or target[m + 1] > unknown.sum():
        raise InfeasibleError(
            "a later step has changed the size of the group, so that its counts cannot be the chosen ones; "
            "let that step keep the number of records at every level, or make group-anonymity the last step"
        )
    flows = relocation.net_flows(counts, target)
    match_on = tuple(n for n in hidden.match_on if n in group.others(data))
    return exchanged(data, group, flows, Counterparts(match_on, others), edits, rng)[0]


def _kept_members(data: Microdata, kept: tuple[Group, ...], of: np.ndarray) -> np.ndarray:
    """Return (U, g): how many members of each kept group the unit of each row has."""
    units = int(of.max(initial=-1)) + 1
    counts = [np.bincount(of, group.members(data.frame), minlength=units) for group in kept]
    return np.column_stack([np.zeros((units, 0)), *counts])


def _with_levels_swapped(
    frame: pd.DataFrame, parameter: str, rows: np.ndarray, of: np.ndarray, pairs: np.ndarray
) -> pd.DataFrame:
    """Return the frame with the levels of each pair of units swapped; ``of`` is the unit of each row."""
    codes = frame[parameter].cat.codes.to_numpy().astype(np.intp)
    level = np.empty(of.max(initial=-1) + 1, dtype=np.intp)
    level[of] = codes[rows]
    level[pairs] = level[pairs[:, ::-1]]
    codes[rows] = level[of]
    frame = frame.copy()
    frame[parameter] = _with_codes(frame[parameter], codes)
    return frame


def _with_codes(column: pd.Series, codes: np.ndarray) -> pd.Series:
    levels = column.cat.categories
    return pd.Series(pd.Categorical.from_codes(codes, levels, ordered=column.cat.ordered), index=column.index)


def _units(data: Microdata, codes: np.ndarray) -> np.ndarray | None:
    """Return (N,) int: the household of each record; members in another area are a household of their own."""
    names = list(data.schema.with_role("household"))
    if not names:
        return None
    household = data.frame.groupby(names, dropna=False, observed=True, sort=False).ngroup().to_numpy()
    unknown = data.frame[names].isna().any(axis=1).to_numpy()
    household = np.where(unknown, household.max(initial=0) + 1 + np.arange(len(household)), household)
    return np.unique(household * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]


def _features(data: Microdata, names: tuple[str, ...]) -> np.ndarray:
    """Return (N, t): standardised numbers, and levels as −1 and 1."""
    if not names or not len(data):
        return np.zeros((len(data), 1))
    chosen = data.select([n for n in data.schema.names if n in names])
    return np.column_stack([np.zeros(len(data)), Encoder.fit(chosen, numeric="linear").encode(chosen)])


def _allowed(data: Microdata, group: Group, places: np.ndarray, tied: EditSet) -> np.ndarray:
    """Return (N, p) of 0 and 1: into which areas a record may go without breaking an edit it satisfies.

    A record and a counterpart with equal rows may take each other's areas without breaking an edit.
    """
    if not tied.edits:
        return np.zeros((len(data), 0))
    frame = data.frame[list({n: None for e in tied.edits for n in e.variables})].copy()
    broken = [~e.holds(frame) for e in tied.edits]
    codes, columns = group.level_codes(data.frame), []
    for place in places[codes[places] >= 0]:
        frame[group.parameter] = _with_codes(
            data.frame[group.parameter], np.full(len(data), codes[place], dtype=np.intp)
        )
        holds = [e.holds(frame) | already for e, already in zip(tied.edits, broken, strict=True)]
        columns.append(np.logical_and.reduce(holds))
    allowed = np.column_stack(columns).astype(float) if columns else np.zeros((len(data), 0))
    return np.unique(allowed, axis=1) if len(data) else allowed


def _too_few(unmatched: np.ndarray, group: Group, *, in_households: bool, edits: bool) -> str:
    names = [*map(str, group.order), "elsewhere", "no known area"]
    pairs = ", ".join(f"{names[a]} to {names[b]}" for a, b in zip(*np.nonzero(unmatched), strict=True))
    size = " of equal size" if in_households else ""
    alternative = ", or declare no household, so that single records move" if in_households else ""
    return (
        f"too few records to move: no counterpart{size} without members of the group is left for some going "
        f"from {pairs}{' that break no edit there' if edits else ''}; loosen the goals there{alternative}"
    )
