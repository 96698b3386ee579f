"""Members of a group change places with others: the area is rewritten, populations and edits are kept."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.errors import InfeasibleError
from anoncore.kernels.wavelet import relocation
from anoncore.microdata import Microdata
from anoncore.risk.group_masking import Group

ROUNDS = 20  # of moving, each without those who could not go without breaking an edit
EDITS_FIRST = 1e3  # how much more than a standard deviation it counts whether an edit lets a record move


def exchanged(
    data: Microdata,
    group: Group,
    flows: np.ndarray,
    match_on: tuple[str, ...],
    edits: EditSet,
    rng: np.random.Generator,
) -> tuple[Microdata, relocation.Relocation]:
    """Send members along flows between areas; the two places after them are elsewhere and no known area."""
    m = len(group.order)
    area = group.areas(data.frame)
    area = np.where(area < 0, np.where(data.frame[group.parameter].isna(), m + 1, m), area)
    rows = np.flatnonzero(area < len(flows))
    part, codes = data.take(rows), data.frame[group.parameter].cat.codes.to_numpy().astype(np.intp)
    unit = _units(part, codes[rows])
    tied = EditSet(e for e in edits.within(data.schema.masked).edits if group.parameter in e.variables)
    places = np.flatnonzero((flows.sum(axis=0) + flows.sum(axis=1))[:m] > 0)
    features = np.column_stack(
        [
            _features(part, match_on or tuple(group.others(data))),
            EDITS_FIRST * _allowed(part, group, places, tied),
        ]
    )
    vital, of = group.members(part.frame), np.arange(len(rows)) if unit is None else unit
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
        wrong = np.logical_or.reduce([np.zeros(len(rows), dtype=bool), *broken.values()])
        if moved.unmatched.any() or not wrong.any():
            break
        # Who could go only by breaking an edit stays, and so does a counterpart.
        pool &= ~np.isin(of, of[wrong])
    if moved.unmatched.any():
        raise InfeasibleError(_too_few(moved.unmatched, group, in_households=unit is not None, edits=not pool.all()))
    if told := [name for name, records in broken.items() if records.any()]:
        raise InfeasibleError(f"the group cannot move without breaking edits: {', '.join(told)}; loosen goals or edits")
    return Microdata.trusted(frame, data.schema), moved


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
    house = data.frame.groupby(names, dropna=False, observed=True, sort=False).ngroup().to_numpy()
    alone = data.frame[names].isna().any(axis=1).to_numpy()
    house = np.where(alone, house.max(initial=0) + 1 + np.arange(len(house)), house)
    return np.unique(house * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]


def _features(data: Microdata, names: tuple[str, ...]) -> np.ndarray:
    """Return (N, t): standardised numbers, and levels as −1 and 1."""
    if not names or not len(data):
        return np.zeros((len(data), 1))
    chosen = data.select([n for n in data.schema.names if n in names])
    return np.column_stack([np.zeros(len(data)), Encoder.fit(chosen, numeric="linear").encode(chosen)])


def _allowed(data: Microdata, group: Group, places: np.ndarray, tied: EditSet) -> np.ndarray:
    """Return (N, p) of 0 and 1: into which areas a record may go without breaking an edit it satisfies.

    Whoever may go where their counterpart is, and the other way round, breaks nothing; equal rows ensure it.
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
        kept = [e.holds(frame) | already for e, already in zip(tied.edits, broken, strict=True)]
        columns.append(np.logical_and.reduce(kept))
    found = np.column_stack(columns).astype(float) if columns else np.zeros((len(data), 0))
    return np.unique(found, axis=1) if len(data) else found


def _too_few(unmatched: np.ndarray, group: Group, *, in_households: bool, edits: bool) -> str:
    names = [*map(str, group.order), "elsewhere", "no known area"]
    told = ", ".join(f"{names[a]} to {names[b]}" for a, b in zip(*np.nonzero(unmatched), strict=True))
    size = " of equal size" if in_households else ""
    alone = ", or declare no household, so that single records move" if in_households else ""
    return (
        f"too few records to move: no counterpart{size} without members of the group is left for some going "
        f"from {told}{' who break no edit there' if edits else ''}; loosen the goals there{alone}"
    )
