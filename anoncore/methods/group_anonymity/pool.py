"""Exchange members of a group with other records inside a pool of records: all of them, or a random part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.errors import InfeasibleError
from anoncore.kernels.streams import Stream
from anoncore.kernels.wavelet.relocation import Moves, relocate
from anoncore.microdata import Microdata, Schema
from anoncore.risk.group_masking import Group

POOL = 20_000  # members, or others, of each area that are considered at first, or twice those needed if that is more
GROWTH = 1, 4, 16  # how many times as many are considered then
LARGEST_POOL = 4_000_000  # records of all areas that are considered, or twice those that move
WEIGHTS_FIRST = 10.0  # how much more than one of another variable a standard deviation of log weights counts
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


def places(group: Group, frame: pd.DataFrame) -> np.ndarray:
    """Return (N,) int: the position of each record's area in the group's order; m elsewhere, m + 1 in no known area."""
    area, m = group.areas(frame), len(group.order)
    return np.where(area < 0, np.where(frame[group.parameter].isna(), m + 1, m), area)


def tallies(group: Group, frame: pd.DataFrame) -> np.ndarray:
    """Return (2, m + 2) int: the records outside the group, and its members, at each of the `places`."""
    at, vital = places(group, frame), group.members(frame)
    return np.stack([np.bincount(at[side], minlength=len(group.order) + 2) for side in (~vital, vital)])


@dataclass(frozen=True, eq=False, repr=False)
class Exchanged:
    """Result of an exchange in a pool of n records.

    Parameters
    ----------
    source : (n,) int, the record of the pool whose values each record gets
    moves : its sums
    broken : what cannot be kept: the names of edits, or the counts of a kept group
    set_aside : whether records stayed because an edit or a kept group would have been broken
    """

    source: np.ndarray
    moves: Moves
    broken: tuple[str, ...]
    set_aside: bool

    @property
    def is_complete(self) -> bool:
        """Whether all members have moved, and nothing is broken."""
        return not (self.broken or self.moves.unmatched.any())


@dataclass(frozen=True, eq=False, repr=False)
class Exchange:
    """Members go along flows between areas and change places with counterparts.

    Parameters
    ----------
    group : Group, of m areas
    flows : (m, m) or, with those elsewhere and in no known area, (m + 2, m + 2) int
    counterparts : Counterparts
    edits : those of the released variables, of which only those about exchanged variables count
    stream : draws the pool by the numbers of records, and among equally good counterparts
    """

    group: Group
    flows: np.ndarray
    counterparts: Counterparts
    edits: EditSet
    stream: Stream

    @property
    def swapped(self) -> tuple[str, ...]:
        """The variables that are exchanged."""
        return self.counterparts.swapped or (self.group.parameter,)

    @property
    def tied(self) -> EditSet:
        """The edits about exchanged variables."""
        return EditSet(e for e in self.edits.edits if set(self.swapped) & set(e.variables))

    def names(self, schema: Schema) -> list[str]:
        """Return the variables by which records are exchanged."""
        group, kept = self.group, self.counterparts.kept
        used = {group.parameter, *group.variables, *self.swapped, *self._matched(schema)}
        used |= {n for one in kept for n in one.variables} | {n for e in self.tied.edits for n in e.variables}
        used |= set() if group.weight is None else {group.weight}
        used |= set(schema.with_role("household")) if self.in_households(schema) else set()
        return [n for n in schema.names if n in used]

    def _matched(self, schema: Schema) -> tuple[str, ...]:
        return self.counterparts.match_on or tuple(self.group.others(schema))

    def in_households(self, schema: Schema) -> bool:
        """Return whether households move: what makes a member is exchanged by single records."""
        return self.group.parameter in self.swapped and bool(schema.with_role("household"))

    def takes_all(self, schema: Schema) -> bool:
        """Return whether the pool is all records of the areas: households move, or weights are counted."""
        return self.group.weight is not None or self.in_households(schema)

    def shares(self, counts: np.ndarray) -> Iterator[np.ndarray]:
        """Yield (2, m + 2): the share in the pool of the others, and of the members, at each of the `places`.

        ``counts`` are their `tallies`. Members go from areas with outflow, others from those with inflow. Of either
        `POOL` are expected in the first pool, fewer where those of all areas were more than `LARGEST_POOL`, or twice
        those needed where that is more; then 4 and 16 times as many, then all, as long as no more than `LARGEST_POOL`
        records are expected.
        """
        needed, before = self._needed(counts.shape), np.zeros(counts.shape)
        first = min(float(POOL), LARGEST_POOL / max(int(np.count_nonzero(needed)), 1))
        for times in (*GROWTH, np.inf):
            some = (needed > 0) * np.minimum(times * np.maximum(first, 2 * needed) / np.maximum(counts, 1), 1.0)
            if before.any() and (some * counts).sum() > LARGEST_POOL:
                break
            if (some > before).any():
                yield some
            before = some

    def covers(self, shares: np.ndarray) -> bool:
        """Return whether pools of these ``shares`` are all records that may be exchanged."""
        return bool((shares[self._needed(shares.shape) > 0] >= 1).all())

    def _needed(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return (2, m + 2) int: how many others, and members, move at each of the `places`."""
        needed = np.zeros(shape, dtype=np.intp)
        needed[:, : len(self.flows)] = self.flows.sum(axis=0), self.flows.sum(axis=1)
        return needed

    def drawn(self, frame: pd.DataFrame, first: int, shares: np.ndarray) -> np.ndarray:
        """Return the positions in the pool, increasing, of records of which the first has the number ``first``."""
        number = self.stream.named("pool").uniform(first, first + len(frame))
        share = shares[self.group.members(frame).astype(np.intp), places(self.group, frame)]
        return np.flatnonzero(number < share)

    def within(self, pool: Microdata) -> Exchanged:
        """Exchange the records of a pool, whose areas are all among those of the flows."""
        group, frame, flows = self.group, pool.frame, self.flows
        area, vital = places(group, frame), group.members(frame)
        codes = frame[group.parameter].cat.codes.to_numpy().astype(np.intp)
        unit = _units(pool, codes) if self.in_households(pool.schema) else None
        of = np.arange(len(pool)) if unit is None else unit
        kept = _kept_members(frame, self.counterparts.kept, of)
        features = self._features(pool, kept[of])
        staying, rng = np.zeros(len(pool), dtype=bool), self.stream.named("pairs").generator()
        for _ in range(ROUNDS):
            at = np.flatnonzero(~staying)
            moved = relocate(
                area[at], vital[at], features[at], flows, rng=rng, household=None if unit is None else unit[at]
            )
            pairs = at[moved.pairs] if unit is None else moved.pairs
            source = swapped_places(of, pairs)
            broken = self._broken(frame, source)
            unequal = pairs[(kept[pairs[:, 0]] != kept[pairs[:, 1]]).any(axis=1)]
            broken["the counts of a kept group"] = np.isin(of, unequal)
            wrong = np.logical_or.reduce(list(broken.values()))
            if moved.unmatched.any() or not wrong.any():
                break
            # A record that could go only by breaking an edit or a kept count stays, and so does a counterpart.
            staying |= np.isin(of, of[wrong])
        names = tuple(name for name, records in broken.items() if records.any())
        return Exchanged(source, moved.moves, names, bool(staying.any()))

    def _features(self, pool: Microdata, kept: np.ndarray) -> np.ndarray:
        """Return (n, t): what counterparts are matched on; ``kept`` (n, g) are members of kept groups."""
        used = np.flatnonzero((self.flows.sum(axis=0) + self.flows.sum(axis=1))[: len(self.group.order)] > 0)
        tied = self.tied if self.swapped == (self.group.parameter,) else EditSet()
        parts = [
            _standardised(pool, self._matched(pool.schema)),
            EDITS_FIRST * _allowed(pool, self.group, used, tied),
            EDITS_FIRST * kept,
            WEIGHTS_FIRST * _log_weights(pool, self.group),
        ]
        return np.column_stack(parts)

    def _broken(self, frame: pd.DataFrame, source: np.ndarray) -> dict[str, np.ndarray]:
        """Return for each edit about exchanged variables which records would no longer satisfy it."""
        if not self.tied.edits:
            return {}
        after = with_values_from(frame, self.swapped, source)
        return {e.name: e.holds(frame) & ~e.holds(after) for e in self.tied.edits}

    def check(self, result: Exchanged, *, in_households: bool, everyone: bool = True) -> None:
        """Raise InfeasibleError where not all members have moved, or something would be broken.

        Parameters
        ----------
        result : Exchanged
        in_households : whether households move
        everyone : whether the pool was all records that may be exchanged
        """
        if not everyone and not result.is_complete:
            raise InfeasibleError(
                "the group cannot move: some members find no counterpart among the records that are compared, of which "
                f"at most {LARGEST_POOL:,} are compared at once; loosen goals, edits or kept groups, or let fewer "
                "areas give and take members".replace(",000", " 000")
            )
        if result.moves.unmatched.any():
            raise InfeasibleError(
                _too_few(result.moves.unmatched, self.group, in_households=in_households, edits=result.set_aside)
            )
        if result.broken:
            raise InfeasibleError(
                f"the group cannot move without breaking {', '.join(result.broken)}; loosen goals, edits or kept groups"
            )


def swapped_places(of: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return (N,) int: the record whose place each record takes where pairs (P, 2) of units, ``of`` (N,), swap."""
    mate = np.arange(of.max(initial=-1) + 1)
    mate[pairs] = mate[pairs[:, ::-1]]
    order = np.argsort(of, kind="stable")
    start = np.searchsorted(of[order], np.arange(len(mate)))
    place = np.empty(len(of), dtype=np.intp)
    place[order] = np.arange(len(of)) - start[of[order]]
    return np.asarray(order[start[mate[of]] + place])


def with_values_from(frame: pd.DataFrame, names: Sequence[str], source: np.ndarray) -> pd.DataFrame:
    """Return the frame with each record's values of some variables taken from the record at ``source`` (N,)."""
    return frame.assign(**{name: frame[name].array.take(source) for name in names})


def _log_weights(data: Microdata, group: Group) -> np.ndarray:
    """Return (N, 0 or 1): the logarithms of the weights, in standard deviations."""
    if group.weight is None:
        return np.zeros((len(data), 0))
    logs = np.log(group.weights(data.frame))
    return np.asarray((logs / max(logs.std(), np.finfo(float).tiny))[:, None])


def _kept_members(frame: pd.DataFrame, kept: tuple[Group, ...], of: np.ndarray) -> np.ndarray:
    """Return (U, g): how many members of each kept group the unit of each row has."""
    units = int(of.max(initial=-1)) + 1
    counts = [np.bincount(of, group.members(frame), minlength=units) for group in kept]
    return np.column_stack([np.zeros((units, 0)), *counts])


def _with_codes(column: pd.Series, codes: np.ndarray) -> pd.Series:
    levels = column.cat.categories
    return pd.Series(pd.Categorical.from_codes(codes, levels, ordered=column.cat.ordered), index=column.index)


def _units(data: Microdata, codes: np.ndarray) -> np.ndarray:
    """Return (N,) int: the household of each record; members in another area are a household of their own."""
    names = list(data.schema.with_role("household"))
    household = data.frame.groupby(names, dropna=False, observed=True, sort=False).ngroup().to_numpy()
    unknown = data.frame[names].isna().any(axis=1).to_numpy()
    household = np.where(unknown, household.max(initial=0) + 1 + np.arange(len(household)), household)
    return np.unique(household * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]


def _standardised(data: Microdata, names: tuple[str, ...]) -> np.ndarray:
    """Return (N, t): standardised numbers, and levels as −1 and 1."""
    if not names or not len(data):
        return np.zeros((len(data), 1))
    chosen = data.select([n for n in data.schema.names if n in names])
    return np.column_stack([np.zeros(len(data)), Encoder.fit(chosen, numeric="linear").encode(chosen)])


def _allowed(data: Microdata, group: Group, used: np.ndarray, tied: EditSet) -> np.ndarray:
    """Return (N, p) of 0 and 1: into which areas a record may go without breaking an edit it satisfies.

    A record and a counterpart with equal rows may take each other's areas without breaking an edit.
    """
    if not tied.edits:
        return np.zeros((len(data), 0))
    frame = data.frame[list({n: None for e in tied.edits for n in e.variables})].copy()
    broken = [~e.holds(frame) for e in tied.edits]
    codes, columns = group.level_codes(data.frame), []
    for place in used[codes[used] >= 0]:
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
