"""Whole households, drawn member by member, each given the household, its head and the member before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from anoncore.drawing import Drawing
from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit
from anoncore.edits.model import EditSet
from anoncore.kernels.donor_tree import LeafRule
from anoncore.methods.household_trees.rules import HEAD, HouseholdRules
from anoncore.microdata import Microdata, Schema, Variable, round_to

Integers = NDArray[np.intp]

BEFORE = "before: "
MISSING = "missing relation"
SIZE, PLACE, LEFT = "household: members", "household: place", "household: members to come"
STEP, START, ALIKE = "household: step", "household: start of the step", "household: as the member before"
MEMBERS = "household: members with "
# Of a number, beyond which it is drawn itself and not as the difference from another member.
MOST_STEPS = 200


@dataclass(frozen=True, eq=False, repr=False)
class Households:
    """The households of a table.

    Parameters
    ----------
    data : Microdata, N records, sorted by household and by place
    household, place, size : (N,) household from 0; place in it from 0, the head first; and number of its members
    rules : what holds in all of them
    sort_by : the number by which members of one relation are sorted, "" if there is none
    order : the levels of the relation, in the order of the places
    """

    data: Microdata
    household: Integers
    place: Integers
    size: Integers
    rules: HouseholdRules
    sort_by: str
    order: tuple[Any, ...]

    @classmethod
    def of(cls, data: Microdata, household: Integers, rules: HouseholdRules, sort_by: str) -> Households:
        """Sort the members: the head, then relations that one member has at most, the frequent ones last."""
        order: list[Any] = []
        rank: Integers = np.zeros(len(data), dtype=np.intp)
        if rules.relation:
            column = data.frame[rules.relation].astype(object).fillna(MISSING)
            counts = pd.crosstab(household, column)
            order = sorted(counts, key=lambda code: (code != rules.head, counts[code].max() > 1, counts[code].sum()))
            rank = column.map({level: number for number, level in enumerate(order)}).to_numpy().astype(np.intp)
        value = -data.frame[sort_by].to_numpy(dtype=np.float64) if sort_by else np.zeros(len(data))
        rows = np.lexsort((value, rank, household))
        own = household[rows]
        place = np.arange(len(rows)) - np.searchsorted(own, own)
        return cls(data.take(rows), own, place, np.bincount(own)[own], rules, sort_by, tuple(order))

    @property
    def personal(self) -> list[str]:
        """The variables of which members differ, the relation first."""
        names = [n for n in self.data.schema.masked if n not in self.rules.constant]
        return sorted(names, key=lambda name: (name != self.rules.relation, name != self.sort_by))

    def merged_sizes(self, k: int) -> Integers:
        """Return (H,) the sizes, where sizes of fewer than k households are the next smaller ones that more have."""
        sizes: Integers = self.size[self.place == 0].astype(np.intp)
        for size in np.unique(sizes)[:0:-1]:
            if (sizes == size).sum() < k:
                sizes[sizes == size] = sizes[sizes < size].max()
        if (sizes == sizes.min()).sum() < k and (sizes > sizes.min()).any():
            sizes[sizes == sizes.min()] = sizes[sizes > sizes.min()].min()
        return sizes


@dataclass(eq=False, repr=False)
class HouseholdDrawing:
    """Households that are drawn one place at a time.

    Parameters
    ----------
    source : Households
    edits : EditSet of the records
    rule, k, rng : as for `Drawing`
    households : how many are drawn
    """

    source: Households
    edits: EditSet
    rule: LeafRule
    k: int
    rng: np.random.Generator
    households: int
    _places: list[pd.DataFrame] = field(default_factory=list)

    def draw(self) -> tuple[pd.DataFrame, Integers]:
        """Return the members, and (N,) their households from 0."""
        houses = self._houses()
        sizes: Integers = houses.pop(SIZE).astype(int).to_numpy().astype(np.intp)
        self._places = [houses]
        for place in range(1, int(sizes.max())):
            rows: Integers = np.flatnonzero(sizes > place)
            self._places.append(self._members(place, rows, sizes).set_axis(rows))
        frame = pd.concat(self._places)
        return frame.reset_index(drop=True), frame.index.to_numpy().astype(np.intp)

    def _houses(self) -> pd.DataFrame:
        """Draw sizes, what all members share, and the heads."""
        heads = np.flatnonzero(self.source.place == 0)
        data, rules = self.source.data.take(heads).with_units(None), self.source.rules
        size = Variable(SIZE, "ordinal")
        shared = [n for n in rules.constant if n not in rules.of_size]
        order = [*shared, *self.source.personal]
        frame = data.frame[order].assign(**{SIZE: self.source.merged_sizes(self.k)})
        table = Microdata(frame, Schema([*(data.schema[n] for n in order), size]))
        drawing = Drawing(table, self.rule, self.k, self.rng, self.households)
        for name in (SIZE, *order):
            drawing.add(table.schema[name], self.edits)
        # What follows from the size is that of the source's households of the size.
        known = data.frame.groupby(self.source.size[heads])[list(rules.of_size)].first() if rules.of_size else None
        for name in rules.of_size:
            column = known[name].reindex(drawing.frame[SIZE].astype(int))  # type: ignore[index]
            drawing.frame[name] = column.array
        return drawing.frame

    def _members(self, place: int, rows: Integers, sizes: Integers) -> pd.DataFrame:
        """Draw the members at one place of the households ``rows``: their relations, then each kind of relation."""
        known, relation = self._context(place, rows, sizes), self.source.rules.relation
        kinds = [(np.flatnonzero(self.source.place > 0), np.arange(len(rows)))]
        if relation:
            known[relation] = self._drawn(self._near(kinds[0][0], place), known, [relation])[relation]
            kinds = list(self._kinds(known))
        rest = [name for name in self.source.personal if name != relation]
        drawn = [
            self._drawn(self._near(donors, place), known.iloc[at].reset_index(drop=True), rest).set_axis(at)
            for donors, at in kinds
            if len(at)
        ]
        frame = pd.concat(drawn).sort_index()
        if relation:
            frame[relation] = known[relation]
        shared = self._places[0].iloc[rows][list(self.source.rules.constant)].reset_index(drop=True)
        return pd.concat([shared, frame[self.source.personal]], axis=1)

    def _kinds(self, known: pd.DataFrame) -> Iterator[tuple[Integers, Integers]]:
        """Yield the source's members, and those drawn, of each relation, the first of it in a household apart.

        Relations of fewer households than a leaf holds are taken together.
        """
        relation = self.source.rules.relation
        levels = self.source.data.frame[relation].cat.categories
        codes = self.source.data.frame[relation].cat.codes.to_numpy()
        drawn = pd.Categorical(known[relation], categories=levels).codes
        before = pd.Categorical(known[BEFORE + relation], categories=levels).codes
        own = 2 * codes + (codes == np.roll(codes, 1))
        wanted = 2 * drawn + (drawn == before)
        member = self.source.place > 0
        held = pd.Series(self.source.household[member]).groupby(own[member]).nunique()
        common = held.index[held >= self.rule.least]
        own, wanted = (np.where(np.isin(kind, common), kind, -4 + kind % 2) for kind in (own, wanted))
        for kind in np.unique(wanted):
            donors = np.flatnonzero(member & (own == kind))
            # So few would be recognised: they are drawn like all.
            enough = len(np.unique(self.source.household[donors])) >= self.k
            yield donors if enough else np.flatnonzero(member), np.flatnonzero(wanted == kind)

    def _near(self, donors: Integers, place: int) -> Integers:
        """Return those of the source's members who are at the place, or next to it, so that they fill four leaves.

        A household whose members are at many places would count in each leaf by a part only.
        """
        distance = np.abs(self.source.place[donors] - place)
        for most in np.unique(distance):
            near = donors[distance <= most]
            if len(np.unique(self.source.household[near])) >= 4 * self.rule.least:
                return near
        return donors

    def _drawn(self, donors: Integers, known: pd.DataFrame, names: list[str]) -> pd.DataFrame:
        """Draw variables of members, of whom ``known`` is known, from the source's members ``donors``."""
        own = self.source.data.take(donors).frame.reset_index(drop=True)
        given = self._context_of_source(donors)
        given = pd.concat([given, own[[n for n in known if n not in given]]], axis=1)
        edits = [*self.edits.edits, *self.source.rules.edits.edits, *self._structure()]
        variables = [self.source.data.schema[name] for name in names]
        name, steps = self.source.sort_by, None
        if name in names:
            given, known = self._with_start(given), self._with_start(known)
            steps = self._steps(own[name] - given[START], self.source.household[donors])
        own = own[names]
        if steps is not None:
            own = own.rename(columns={name: STEP}).assign(**{STEP: steps})
            variables = [Variable(STEP, "ordinal") if v.name == name else v for v in variables]
            edits.append(LinearEdit(name=STEP, terms={name: 1.0, STEP: -1.0, START: -1.0}, dependent=name))
        context = [self._variable(str(column)) for column in given]
        table = Microdata(
            pd.concat([given, own], axis=1), Schema([*context, *variables]), self.source.household[donors]
        )
        drawing = Drawing(table, self.rule, self.k, self.rng, len(known))
        for variable in context:
            drawing.given(table.schema[variable.name], known[variable.name])
        for variable in variables:
            drawing.add(table.schema[variable.name], EditSet(edits))
        if steps is not None:
            drawing.frame[name] = self._limited(drawing.frame[STEP].astype(float), known)
        return drawing.frame[names]

    def _with_start(self, known: pd.DataFrame) -> pd.DataFrame:
        """Add the number that members are sorted by of the one before, if of the same relation, or else of the head."""
        relation, name = self.source.rules.relation, self.source.sort_by
        alike = np.ones(len(known), dtype=bool)
        if relation:
            alike = known[BEFORE + relation].astype(object).to_numpy() == known[relation].astype(object).to_numpy()
        start = np.where(alike, known[BEFORE + name], known[HEAD + name])
        return known.assign(**{START: start, ALIKE: alike.astype(np.float64)})

    def _limited(self, steps: pd.Series, known: pd.DataFrame) -> NDArray[np.float64]:
        """Return where steps lead; beyond the limits of all members the limit, or a place between it and the start.

        Steps that lead below a year of age would else leave out households with young heads.
        """
        name, start = self.source.sort_by, known[START].to_numpy(dtype=np.float64)
        reached = start + steps.to_numpy()
        for edit in self.source.rules.edits.edits:
            if isinstance(edit, BoundEdit) and edit.variable == name:
                limited = np.clip(reached, edit.lower, edit.upper)
                between = limited + self.rng.random(len(start)) * (start - limited) * known[ALIKE].to_numpy()
                precision = self.source.data.schema[name].precision
                return np.where(limited == reached, reached, round_to(between, precision))
        return reached

    def _steps(self, steps: pd.Series, household: Integers) -> pd.Series | None:
        """Return differences from where they start, as the nearest that k households have; None if they are many.

        Members a year or two apart share them, which numbers that are drawn by rank would lose.
        """
        if steps.isna().any():
            return None
        values, codes = np.unique(steps.to_numpy(dtype=np.float64), return_inverse=True)
        pairs = np.unique(np.stack([codes, household]), axis=1)
        held = values[np.bincount(pairs[0], minlength=len(values)) >= self.k]
        if not 1 < len(held) <= MOST_STEPS:
            return None
        above = np.searchsorted(held, values).clip(1, len(held) - 1)
        nearest = np.where(values - held[above - 1] <= held[above] - values, held[above - 1], held[above])
        return pd.Series(nearest[codes])

    def _structure(self) -> Iterator[ConditionalEdit]:
        """Yield which levels of the relation the next member cannot have: those of earlier places, and full ones."""
        relation, order = self.source.rules.relation, self.source.order

        def but(left_out: Sequence[Any]) -> Condition:
            return Condition(
                variable=relation,
                values=tuple(level for level in order if level not in (MISSING, *left_out)),
                missing=MISSING not in left_out,
            )

        for number, level in enumerate(order[1:], start=1):
            before = Condition(variable=BEFORE + relation, values=(level,))
            yield ConditionalEdit(name=f"after {number}", when=(before,), then=but(order[:number]))
        for number, one in enumerate(self.source.rules.members):
            if one.most is not None and one.level != self.source.rules.head:
                full = Condition(variable=f"{MEMBERS}{one.level}", lower=float(one.most))
                yield ConditionalEdit(name=f"at most {number}", when=(full,), then=but((one.level,)))

    def _variable(self, name: str) -> Variable:
        """Return the variable of a column of what is known before a member is drawn."""
        for prefix in (HEAD, BEFORE, ""):
            if name.startswith(prefix) and name[len(prefix) :] in self.source.data.schema:
                return replace(self.source.data.schema[name[len(prefix) :]], name=name)
        return Variable(name, "continuous", precision=1.0)

    def _counted(self) -> list[Any]:
        """Return the levels of the relation of which members are counted."""
        return [one.level for one in self.source.rules.members if one.level != self.source.rules.head]

    def _context_of_source(self, donors: Integers) -> pd.DataFrame:
        """Return what is known before each of the source's members ``donors``."""
        source, relation = self.source, self.source.rules.relation
        heads, before = donors - source.place[donors], donors - 1
        columns = self._beside(source.data.frame, donors, heads, before)
        counts = {}
        for level in self._counted():
            held = np.concatenate([[0], np.cumsum((source.data.frame[relation] == level).to_numpy())])
            counts[f"{MEMBERS}{level}"] = (held[donors] - held[heads]).astype(np.float64)
        return columns.assign(**_sizes(source.size[donors], source.place[donors]), **counts)

    def _context(self, place: int, rows: Integers, sizes: Integers) -> pd.DataFrame:
        """Return what is known before the members at a place of the drawn households ``rows``."""
        drawn = [frame.loc[rows] for frame in self._places]
        relation = self.source.rules.relation
        frame = pd.concat([drawn[0], drawn[-1]])
        at = np.arange(len(rows))
        columns = self._beside(frame, at, at, at + len(rows))
        counts = {
            f"{MEMBERS}{level}": np.sum([(one[relation] == level).to_numpy() for one in drawn], axis=0).astype(float)
            for level in self._counted()
        }
        return columns.assign(**_sizes(sizes[rows], np.full(len(rows), place)), **counts)

    def _beside(self, frame: pd.DataFrame, own: Integers, heads: Integers, before: Integers) -> pd.DataFrame:
        """Return what members share, and what their heads and the members before them have."""
        parts = (
            (frame[list(self.source.rules.constant)], own, ""),
            (frame[self.source.personal], heads, HEAD),
            (frame[self.source.personal], before, BEFORE),
        )
        return pd.concat([p.iloc[rows].reset_index(drop=True).add_prefix(name) for p, rows, name in parts], axis=1)


def _sizes(size: Integers, place: Integers) -> dict[str, NDArray[np.float64]]:
    """Return as columns how many members households have, which is the next, and how many follow it."""
    return {name: one.astype(np.float64) for name, one in ((SIZE, size), (PLACE, place), (LEFT, size - place))}
