"""Exchange members of a group with other records: areas, or what makes a member; populations and edits are kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.errors import InfeasibleError
from anoncore.kernels.wavelet import relocation
from anoncore.kernels.wavelet.redistribution import round_to_total
from anoncore.microdata import Microdata
from anoncore.risk.group_masking import Group, Hidden

WEIGHTS_FIRST = 10.0  # how much more than one of another variable a standard deviation of log weights counts
SETTLED = 3  # exchanges in an area, at most, for less than a record's weight
WEIGHTED_ROUNDS = 10  # of exchanges, each for what weights leave beside the target
ROUNDS = 20  # of moving, each without those who could not go without breaking an edit
EDITS_FIRST = 1e3  # how much more than a standard deviation it counts whether an edit lets a record move


@dataclass(frozen=True, eq=False)
class Counterparts:
    """Who may take the place of a member.

    Parameters
    ----------
    match_on : variables in which a counterpart resembles the member; every other one where none is stated
    kept : other groups, of which a counterpart (a household) has as many members, so that their counts stay
    swapped : variables that the two exchange; the area where none is stated
    distances : (m, m) between areas, of which members go the least; steps in their order where None
    """

    match_on: tuple[str, ...] = ()
    kept: tuple[Group, ...] = ()
    swapped: tuple[str, ...] = ()
    distances: np.ndarray | None = field(default=None, repr=False)


def exchanged(
    data: Microdata,
    group: Group,
    flows: np.ndarray,
    counterparts: Counterparts,
    edits: EditSet,
    rng: np.random.Generator,
) -> tuple[Microdata, relocation.Relocation]:
    """Send members along flows between areas; the two positions after the areas are elsewhere and no known area."""
    m, swapped = len(group.order), counterparts.swapped or (group.parameter,)
    area = group.areas(data.frame)
    area = np.where(area < 0, np.where(data.frame[group.parameter].isna(), m + 1, m), area)
    rows = np.flatnonzero(area < len(flows))
    part, codes = data.take(rows), data.frame[group.parameter].cat.codes.to_numpy().astype(np.intp)
    # What makes a member is exchanged by single records, households stay where they are.
    unit = _units(part, codes[rows]) if group.parameter in swapped else None
    tied = EditSet(e for e in edits.within(data.schema.masked).edits if set(swapped) & set(e.variables))
    places = np.flatnonzero((flows.sum(axis=0) + flows.sum(axis=1))[:m] > 0)
    vital, of = group.members(part.frame), np.arange(len(rows)) if unit is None else unit
    kept = _kept_members(part, counterparts.kept, of)
    features = np.column_stack(
        [
            _features(part, counterparts.match_on or tuple(group.others(data))),
            EDITS_FIRST * _allowed(part, group, places, tied if swapped == (group.parameter,) else EditSet()),
            EDITS_FIRST * kept[of],
            WEIGHTS_FIRST * _log_weights(part, group),
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
        frame = _with_values_swapped(data.frame, swapped, rows, of, pairs)
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


def exchanged_to(
    data: Microdata,
    group: Group,
    target: np.ndarray,
    counterparts: Counterparts,
    edits: EditSet,
    rng: np.random.Generator,
) -> tuple[Microdata, relocation.Relocation]:
    """Exchange members until the counts (m,) are the target, sums of weights as near as whole records come.

    A weight stays in its area, and a counterpart has the nearest one. What is beside the target is exchanged once more,
    as long as it is a record's weight; then members exchange weights with others of their own area.
    """
    if group.weight is None:
        flows = relocation.net_flows(group.counts(data.frame), target, counterparts.distances)
        return exchanged(data, group, flows, counterparts, edits, rng)
    rounds: list[relocation.Relocation] = []
    for _ in range(WEIGHTED_ROUNDS):
        counts = group.counts(data.frame)
        gap = counts - target * (counts.sum() / target.sum())
        wanted = gap / _mean_weight(data, group)
        records = round_to_total(wanted, 0, low=np.floor(wanted) - 1)
        if rounds and not records.any():
            break
        flows = relocation.net_flows(np.maximum(records, 0), np.maximum(-records, 0), counterparts.distances)
        data, moved = exchanged(data, group, flows, counterparts, edits, rng)
        rounds.append(moved)
    settled = _settled(data, group, target, counterparts.swapped, edits.within(data.schema.masked))
    return Microdata.trusted(settled, data.schema), relocation.combined(rounds)


def _settled(
    data: Microdata, group: Group, target: np.ndarray, swapped: tuple[str, ...], edits: EditSet
) -> pd.DataFrame:
    """Return the frame after members exchanged with others of their area whose weights differ by what is missing."""
    frame, area = data.frame, group.areas(data.frame)
    sound = edits.satisfied(frame)
    for place in range(len(target)):
        rows = np.flatnonzero(area == place)
        for _ in range(SETTLED):
            part = frame.iloc[rows]
            member, weight = group.members(part), group.weights(part)
            pair = _nearest_pair(weight, member, target[place] - weight[member].sum())
            if pair is None:
                break
            tried = _with_values_swapped(frame, swapped, rows, np.arange(len(rows)), pair)
            if (sound & ~edits.satisfied(tried)).any():
                break
            frame = tried
    return frame


def _nearest_pair(weight: np.ndarray, member: np.ndarray, gap: float) -> np.ndarray | None:
    """Return (1, 2) the member and the other whose weights differ most nearly by the gap; None where 0 is nearer."""
    inside, outside = np.flatnonzero(member), np.flatnonzero(~member)
    if not len(inside) or not len(outside):
        return None
    outside = outside[np.argsort(weight[outside], kind="stable")]
    at = np.searchsorted(weight[outside], weight[inside] + gap)
    near = np.clip(np.stack([at - 1, at]), 0, len(outside) - 1)
    off = np.abs(weight[outside[near]] - weight[inside] - gap)
    side, which = np.unravel_index(int(off.argmin()), off.shape)
    if off[side, which] >= abs(gap) * (1 - 1e-9):
        return None
    return np.array([[inside[which], outside[near[side, which]]]])


def _mean_weight(data: Microdata, group: Group) -> float:
    return float(group.weights(data.frame)[group.members(data.frame) & (group.areas(data.frame) >= 0)].mean())


def _log_weights(data: Microdata, group: Group) -> np.ndarray:
    """Return (N, 0 or 1): the logarithms of the weights, in standard deviations."""
    if group.weight is None:
        return np.zeros((len(data), 0))
    logs = np.log(group.weights(data.frame))
    return np.asarray((logs / max(logs.std(), np.finfo(float).tiny))[:, None])


def populations(group: Group, frame: pd.DataFrame) -> np.ndarray:
    """Return (m,) int: the records in each area; float, their weights, where these are counted."""
    return group.totals(frame, np.ones(len(frame), dtype=bool))


def with_claimed_counts(
    data: Microdata, hidden: Hidden, counterparts: Counterparts, edits: EditSet, rng: np.random.Generator
) -> Microdata:
    """Move masked records once more, so that the group's counts are the claimed ones after later steps too.

    The counts of its kept groups stay as they are.

    Raises
    ------
    InfeasibleError
        When later steps have changed the size of the group, or too few records can move.
    """
    group, m = hidden.group, len(hidden.group.order)
    if group.weight is not None:
        raise InfeasibleError(
            "a later step has changed weighted counts of the group, which whole records cannot restore exactly; make "
            "group-anonymity the last step"
        )
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
    distances = counterparts.distances
    if distances is not None:  # elsewhere, and no known area, are farther than any area
        distances = np.pad(distances, (0, 2), constant_values=distances.max() + 1)
    flows = relocation.net_flows(counts, target, distances)
    match_on = tuple(n for n in hidden.match_on if n in group.others(data))
    return exchanged(data, group, flows, replace(counterparts, match_on=match_on), edits, rng)[0]


def _kept_members(data: Microdata, kept: tuple[Group, ...], of: np.ndarray) -> np.ndarray:
    """Return (U, g): how many members of each kept group the unit of each row has."""
    units = int(of.max(initial=-1)) + 1
    counts = [np.bincount(of, group.members(data.frame), minlength=units) for group in kept]
    return np.column_stack([np.zeros((units, 0)), *counts])


def _with_values_swapped(
    frame: pd.DataFrame, names: tuple[str, ...], rows: np.ndarray, of: np.ndarray, pairs: np.ndarray
) -> pd.DataFrame:
    """Return the frame with some variables of each pair of units swapped; ``of`` is the unit of each row."""
    mate = np.arange(of.max(initial=-1) + 1)
    mate[pairs] = mate[pairs[:, ::-1]]
    order = np.argsort(of, kind="stable")
    start = np.searchsorted(of[order], np.arange(len(mate)))
    place = np.empty(len(of), dtype=np.intp)
    place[order] = np.arange(len(of)) - start[of[order]]
    source = np.arange(len(frame))
    source[rows] = rows[order[start[mate[of]] + place]]
    return frame.assign(**{name: frame[name].array.take(source) for name in names})


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
