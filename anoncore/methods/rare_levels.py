"""Rare levels: global recoding of levels that too few statistical units hold."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.claims import Claim, ClaimCheck
from anoncore.edits.kinds import LinearEdit
from anoncore.edits.lookup import LearnedLookup
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels.streams import Stream
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method, OverPartitions, unchecked_claim
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.parameters import fewest_in_share, not_below
from anoncore.partitions.levels import LevelTally, level_tallies, level_tally
from anoncore.partitions.release import PartitionedRelease
from anoncore.partitions.store import ColumnStore, Executor
from anoncore.partitions.table import PartitionedTable, keep
from anoncore.release import Release

DONE = {
    "merge": "merged with others",
    "suppress": "suppressed",
    "redistribute": "replaced by one drawn from the others",
}
DRAWS = 20  # of a record that would violate edits


@dataclass(frozen=True, kw_only=True)
class RareLevels(Method):
    """Recoding of rare levels: levels that fewer than k statistical units hold are merged, suppressed or drawn anew.

    Claims that no level rarer than k is released, variables included that edits look up, whose rare levels become
    missing; sums that edits compute are not counted. Protects against recognising a person by a
    rare level alone and against nothing else, so it is a step before masking. Deterministic but for ``redistribute``.

    Source: global recoding, Hundepool et al. 2012, Statistical Disclosure Control, section 3. ``redistribute`` is ours.

    Parameters
    ----------
    k : int, at least 2
        Levels that fewer units have are rare; without declared units each record is one.
    action : {"merge", "suppress", "redistribute"}
        Merge the rare levels of a nominal variable into ``label`` and those of an ordinal one
        into their more frequent neighbour, where those of a binary variable are suppressed, as nothing is left to
        merge them with; empty the cells; or redistribute them: give each cell the level of a record drawn at random
        from those whose level is not rare. Missing counts as a rare level where fewer than k units have none; it is
        drawn where no other level is frequent, so that a value that only some are asked for stays with these.
    label : str or number
        The level that merged nominal levels become; of the type of the other levels.

    Notes
    -----
    Merged and suppressed cells mark the holders of rare levels where no other cell has the label or is missing. A
    redistributed cell has the distribution of the levels that are not rare and says nothing of its record but that it
    has one: where f(v) is the number of records with level v that is not rare, v has probability f(v) / Σ f. A record
    that satisfied all edits and would no longer do so is drawn again, up to 20 times, so that its distribution is that
    of the values that edits allow beside its others; what still violates one is left to later steps and the repair.
    Where every level is rare the cells become missing.
    """

    title: ClassVar[str] = "Recoding of rare levels"
    description: ClassVar[str] = "Levels that too few people hold are merged with others, suppressed or drawn anew."
    prepares: ClassVar[bool] = True
    treats_records_alone: ClassVar[bool] = True

    method: Literal["rare-levels"] = "rare-levels"
    k: int = 5
    action: Literal["merge", "suppress", "redistribute"] = "merge"
    label: str | int = "other"

    def __post_init__(self) -> None:
        not_below(2, k=self.k)
        if self.action != "merge" and self.label != "other":
            raise AnonymizationError(f"label has no effect on action {self.action}: leave it out")

    @property
    def fewest_units(self) -> int:
        """Return k: what edits look up is held to it as well."""
        return self.k

    @property
    def invariants(self) -> tuple[str, ...]:
        """Everything but what it treats."""
        return LEVEL_COUNTS, MEANS, VALUES

    def in_share(self, share: float) -> RareLevels:
        """Return the step with k as few units as in a share of all."""
        return replace(self, k=fewest_in_share(self.k, share))

    def by_counts_of(self, run: Executor, table: PartitionedTable) -> RareLevels:
        """Return the step for a part of the table, of which those levels are drawn anew that are rare in all of it."""
        if self.action != "redistribute":
            return self
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return _RareInAll(**given, tallies=level_tallies(run, table, _treated(table.schema), self.k))

    @property
    def over_partitions(self) -> OverPartitions:
        """As in memory where rare levels are drawn anew."""
        return "exact" if self.action == "redistribute" else "none"

    def anonymize_partitioned(
        self, run: Executor, table: PartitionedTable, *, name: str, edits: EditSet, rng: np.random.Generator
    ) -> PartitionedRelease:
        """Redistribute rare levels, which are counted over all partitions."""
        drawing = _Drawing(level_tallies(run, table, _treated(table.schema), self.k), edits, Stream.of(rng))
        starts, parts = np.cumsum(table.rows) - table.rows, len(table.rows)
        arguments = ([value] * parts for value in (table, name, drawing))
        run.map(_redistribute_partition, table.partitions(), starts.tolist(), *arguments)
        schema, removed = drawing.outcome(table.schema)
        return PartitionedRelease(
            data=replace(table, name=name, schema=schema),
            claims=(_claim(self.k, removed, table.schema, edits),),
            keeps_records=True,
            given=table,
            notes=(self._note(table.has_units),),
        )

    def check_partitioned(
        self, run: Executor, table: PartitionedTable, claims: tuple[Claim, ...]
    ) -> tuple[ClaimCheck, ...]:
        """Count the cells of all partitions that hold a level which was too rare.

        Raises
        ------
        AnonymizationError
            When a claim is none of this method's.
        """
        checks, count = [], len(table.rows)
        for claim in claims:
            if not isinstance(claim, NoRareLevels):
                raise unchecked_claim(self.method, claim)
            cells = sum(run.map(_count_rare, table.partitions(), [table] * count, [claim] * count))
            checks.append(claim.counted(cells, table))
        return tuple(checks)

    def _note(self, of_units: bool) -> str:
        holders = "statistical units" if of_units else "records"
        what = "a level, or no value," if self.action == "redistribute" else "a level"
        return f"{what} held by fewer than {self.k} {holders} is {DONE[self.action]}"

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Merge, suppress or redistribute rare levels; the note is the same whether there are any or not."""
        if self.action == "redistribute":
            return self._redistribute(data, edits, Stream.of(rng))
        columns: dict[str, pd.Series] = {}
        variables: list[Variable] = []
        removed: dict[str, tuple[object, ...]] = {}
        for variable in data.schema:
            column, levels = data.frame[variable.name], variable.levels or ()
            if variable.is_categorical and variable.is_masked:
                column, variable = _without_rare(data.select([variable.name]), self)
                if gone := tuple(level for level in levels if level not in (variable.levels or ())):
                    removed[variable.name] = gone
            columns[variable.name] = column
            variables.append(variable)
        return Release(
            data=Microdata(pd.DataFrame(columns), Schema(variables)),
            claims=(_claim(self.k, removed, data.schema, edits),),
            keeps_records=True,
            notes=(self._note(data.units is not None),),
        )

    def _redistribute(self, data: Microdata, edits: EditSet, stream: Stream) -> Release:
        drawing = _Drawing(self._tallies(data), edits, stream)
        removed = drawing.outcome(data.schema)[1]
        return Release(
            data=drawing.redistributed(data, 0),
            claims=(_claim(self.k, removed, data.schema, edits),),
            keeps_records=True,
            notes=(self._note(data.units is not None),),
        )

    def _tallies(self, data: Microdata) -> Mapping[str, LevelTally]:
        return {name: level_tally(data, name, self.k) for name in _treated(data.schema)}


@dataclass(frozen=True, kw_only=True)
class _RareInAll(RareLevels):
    """The step for parts of a table, all of whose records decide which levels are rare and what is drawn instead."""

    treats_records_alone: ClassVar[bool] = False

    tallies: Mapping[str, LevelTally] = field(repr=False)

    def in_share(self, share: float) -> _RareInAll:
        """Return the step: what is rare in the whole table is so in each of its parts."""
        return self

    def _tallies(self, data: Microdata) -> Mapping[str, LevelTally]:
        return {name: self.tallies[name] for name in _treated(data.schema)}


def _treated(schema: Schema) -> list[str]:
    return [variable.name for variable in schema if variable.is_categorical and variable.is_masked]


@dataclass(frozen=True, kw_only=True)
class NoRareLevels(Claim):
    """No level that fewer than k records of the input held is released.

    Parameters
    ----------
    k : int
    removed : mapping of variable name to the levels that were too rare
    sums : whether edits compute sums afterwards, of which nothing is claimed
    """

    k: int
    removed: Mapping[str, tuple[object, ...]] = field(repr=False)
    sums: bool = False

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        aside = "; sums that edits compute are not counted" if self.sums else ""
        return f"no level rarer than {self.k} in the source{aside}"

    def check(self, released: Microdata) -> ClaimCheck:
        """Count the released cells that hold a level which was too rare."""
        return self.counted(self.cells(released), released)

    def cells(self, released: Microdata) -> int:
        """Return how many cells of some released records hold a level which was too rare."""
        return sum(
            int(released.frame[name].isin(levels).sum())
            for name, levels in self.removed.items()
            if name in released.frame
        )

    def counted(self, cells: int, released: Sized) -> ClaimCheck:
        """Return the outcome where so many cells of all records do."""
        return self.outcome(cells == 0, f"{cells} cells hold one", released, rare_cells=cells)


def _claim(k: int, removed: Mapping[str, tuple[object, ...]], schema: Schema, edits: EditSet) -> NoRareLevels:
    """Return the claim on the variables of ``schema`` and on those that edits look up after masking."""
    absent = [e for e in edits.dependents if e.dependent not in schema]
    looked_up = {e.dependent: e.table.withheld for e in absent if isinstance(e, LearnedLookup) and e.table.withheld}
    return NoRareLevels(k=k, removed={**removed, **looked_up}, sums=any(isinstance(e, LinearEdit) for e in absent))


@dataclass(frozen=True, eq=False, repr=False)
class _Drawing:
    """How rare levels are drawn anew: which are rare, from what they are drawn, and by which random numbers."""

    tallies: Mapping[str, LevelTally]
    edits: EditSet
    stream: Stream

    def outcome(self, schema: Schema) -> tuple[Schema, dict[str, tuple[object, ...]]]:
        """Return the schema without rare levels, and which they are; levels of none too, lest it shows who has one."""
        variables, removed = [], {}
        for variable in schema:
            if variable.name in self.tallies:
                levels, few = variable.levels or (), self.tallies[variable.name].few
                if gone := tuple(level for level, rare in zip(levels, few[:-1], strict=True) if rare):
                    removed[variable.name] = gone
                variable = replace(variable, levels=tuple(level for level in levels if level not in gone))
            variables.append(variable)
        return Schema(variables), removed

    def redistributed(self, data: Microdata, first: int) -> Microdata:
        """Return microdata, whose first record has the number ``first``, without rare levels."""
        frame, schema = data.frame.copy(), self.outcome(data.schema)[0]
        drawn, rows = self._drawn(data, first)
        for name, tally in self.tallies.items():
            codes = frame[name].cat.codes.to_numpy().astype(np.intp)
            codes[rows] = drawn[name].cat.codes
            position = np.append(np.where(tally.few, -1, np.cumsum(~tally.few) - 1)[:-1], -1)
            levels, ordered = pd.Index(schema[name].levels or ()), schema[name].kind == "ordinal"
            frame[name] = pd.Categorical.from_codes(position[codes], levels, ordered=ordered)
        return Microdata.trusted(frame, schema, data.units)

    def _drawn(self, data: Microdata, first: int) -> tuple[pd.DataFrame, np.ndarray]:
        """Return the records that hold rare levels, drawn anew, and their positions."""
        cells = {n: tally.few[data.frame[n].cat.codes.to_numpy()] for n, tally in self.tallies.items()}
        rows = np.flatnonzero(np.any([np.zeros(len(data), dtype=bool), *cells.values()], axis=0))
        own, drawn = self.edits.within(data.schema.names), data.frame.iloc[rows].copy()
        draws = {name: self._draws(name, rows + first) for name, rare in cells.items() if rare.any()}
        satisfied, pending = own.satisfied(drawn), np.ones(len(rows), dtype=bool)
        for attempt in range(DRAWS):
            for name, others in draws.items():
                chosen = cells[name][rows] & pending
                codes = drawn[name].cat.codes.to_numpy().copy()
                codes[chosen] = others[chosen, attempt]
                drawn[name] = _of_codes(codes, drawn[name])
            pending = satisfied & ~own.satisfied(drawn)
            if not pending.any():
                break
        return drawn, rows

    def _draws(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """Return (n, DRAWS) codes drawn for records of these numbers from all whose level is not rare, or missing."""
        tally = self.tallies[name]
        held = np.where(tally.few, 0, tally.counts)
        if held[:-1].any():
            held[-1] = 0
        stops = np.cumsum(held)
        if not stops[-1]:
            return np.full((len(numbers), DRAWS), -1)
        streams = (self.stream.named(name, number) for number in numbers.tolist())
        places = np.array([stream.generator().integers(stops[-1], size=DRAWS) for stream in streams])
        codes = np.searchsorted(stops, places.reshape(-1, DRAWS), side="right")
        return np.where(codes == len(stops) - 1, -1, codes)


def _redistribute_partition(
    store: ColumnStore, partition: int, first: int, table: PartitionedTable, name: str, drawing: _Drawing
) -> None:
    keep(store, name, partition, drawing.redistributed(table.load(store, partition), first))


def _count_rare(store: ColumnStore, partition: int, table: PartitionedTable, claim: NoRareLevels) -> int:
    names = [name for name in table.schema.names if name in claim.removed]
    return claim.cells(table.load(store, partition, names)) if names else 0


def _of_codes(codes: np.ndarray, column: pd.Series) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, categories=column.cat.categories, ordered=column.cat.ordered)


def _without_rare(data: Microdata, params: RareLevels) -> tuple[pd.Series, Variable]:
    """Return the one column of ``data`` and its variable without rare levels.

    Levels that are merged may be held by the same units, so that they are counted again.
    """
    (variable,) = data.schema
    while mapping := _mapping(data.level_units(variable.name), variable, params):
        column, variable = _recode(data.frame[variable.name], variable, mapping)
        data = Microdata.trusted(pd.DataFrame({variable.name: column}), Schema([variable]), data.units)
    return data.frame[variable.name], variable


def _mapping(held: dict[object, int], variable: Variable, params: RareLevels) -> dict[object, object]:
    """Return what each rare level becomes; None empties the cell."""
    counts = {level: n for level, n in held.items() if n > 0}
    rare = [level for level, n in counts.items() if n < params.k]
    if not rare:
        return {}
    if params.action == "suppress" or variable.kind == "binary":
        return dict.fromkeys(rare)
    if variable.kind == "ordinal":
        return _merge_neighbours(counts, params.k)
    levels = variable.levels or ()
    text = isinstance(levels[0], str)
    if text != isinstance(params.label, str):
        raise AnonymizationError(
            f"variable {variable.name!r}: label of merged levels must be "
            f"{'text' if text else 'a number'}, like its other levels"
        )
    rare = [level for level in rare if level != params.label]
    pooled = sum(counts[level] for level in rare) + counts.get(params.label, 0)
    # A pool that is still rare takes the least frequent level above k with it.
    frequent = [level for level in counts if level not in rare and level != params.label]
    rest = sorted(frequent, key=counts.__getitem__)
    while pooled < params.k and rest:
        rare.append(rest.pop(0))
        pooled += counts[rare[-1]]
    if pooled < params.k:
        return dict.fromkeys(counts)
    return dict.fromkeys(rare, params.label)


def _merge_neighbours(counts: dict[object, int], k: int) -> dict[object, object]:
    """Merge rare ordinal levels into the larger neighbour until none is rare."""
    runs = [([level], n) for level, n in counts.items()]
    while len(runs) > 1 and min(n for _, n in runs) < k:
        at = min(range(len(runs)), key=lambda i: runs[i][1])
        sides = [i for i in (at - 1, at + 1) if 0 <= i < len(runs)]
        other = max(sides, key=lambda i: runs[i][1])
        first, second = sorted((at, other))
        runs[first : second + 1] = [(runs[first][0] + runs[second][0], runs[first][1] + runs[second][1])]
    mapping: dict[object, object] = {}
    for levels, _ in runs:
        name = max(levels, key=lambda level: counts[level])
        mapping |= {level: name for level in levels if level != name}
    return mapping


def _recode(column: pd.Series, variable: Variable, mapping: dict[object, object]) -> tuple[pd.Series, Variable]:
    values = column.astype(object).map(lambda value: mapping.get(value, value))
    merged = [level for level in mapping.values() if level is not None]
    kept = [level for level in variable.levels or () if level not in mapping]
    levels = tuple(kept) + tuple(level for level in dict.fromkeys(merged) if level not in kept)
    coded = pd.Categorical(values, categories=list(levels), ordered=variable.kind == "ordinal")
    return pd.Series(coded, index=column.index), replace(variable, levels=levels)
