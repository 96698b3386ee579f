"""Carry out the plan's steps, one after the other, and make the edits hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import takewhile
from operator import or_
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias, TypeVar

import numpy as np
from pydantic import Field

from anoncore.claims import ClaimCheck
from anoncore.edits.coarser import coarser
from anoncore.edits.dependents import complete, without_dependents
from anoncore.edits.lookup import LearnedLookup
from anoncore.edits.model import EditSet
from anoncore.edits.repair import Repaired, repair
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method
from anoncore.microdata import Microdata, Schema
from anoncore.partitions.release import PartitionedRelease
from anoncore.recoding import Recoding
from anoncore.registry import METHODS, anonymize
from anoncore.release import Release
from anoncore.risk import ShadowRelease
from tasks.common.errors import Refused
from tasks.common.run import Run
from tasks.common.workspace import StoredArrays, StoredMicrodata, StoredRecords
from tasks.record.dossier import RepairSummary

T = TypeVar("T")

if TYPE_CHECKING:
    Step: TypeAlias = Method
else:
    # Any registered method, recognised in a plan by its name.
    Step = Annotated[reduce(or_, METHODS.values()), Field(discriminator="method")]


@dataclass(frozen=True)
class ContinuousForm:
    """The paper's form of a release, before scores become levels: what was masked, and its masked scores."""

    data: StoredMicrodata
    scores: StoredArrays


@dataclass(frozen=True, kw_only=True)
class MaskReport:
    """What the steps report about the records that they masked.

    Parameters
    ----------
    claims : each claim as it was checked on the released records
    repair : what had to be changed
    keeps_records : whether the index of the released records says from which original record a row stems
    notes : sentences for the method statement
    figures : what the steps measured, under "step<number>.<name>"
    recodings : how steps coarsened variables, the same for all records
    hidden_variables : variables between whose values a group is hidden
    records_unchanged : whether no step masks single records
    source_values : why steps may publish numbers of single records as they are, a sentence each
    exact : variables whose figures no step draws anew, so that they follow from the source
    decided_alone : whether a step may have decided by these records alone how each is treated; of a part of a table it
        may be that what is rare there is not so in the table
    computed : variables that edits compute, with those that they are computed from
    """

    claims: tuple[ClaimCheck, ...] = ()
    repair: RepairSummary | None = None
    keeps_records: bool
    notes: tuple[str, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)
    recodings: tuple[Recoding, ...] = ()
    hidden_variables: tuple[str, ...] = ()
    records_unchanged: bool = False
    source_values: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    decided_alone: bool = True
    computed: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Masked(MaskReport):
    """The masked data by reference, with what the steps report about them.

    Parameters
    ----------
    released : rows in the order of the steps' output
    points : the same records as single values, where ranges are released; never published
    continuous : where one step masked, and has scores
    confidential : what only the custodian may see, under "step<number>.<name>"
    """

    released: StoredRecords
    points: StoredRecords | None = None
    continuous: ContinuousForm | None = None
    confidential: StoredArrays | None = None

    @property
    def measured(self) -> StoredRecords:
        """The released records as single values, which most measures need."""
        return self.released if self.points is None else self.points


@dataclass(frozen=True, eq=False, repr=False)
class DoneStep:
    """A step that was carried out: its number, its parameters, and its release, of a table in memory or partitions."""

    number: int
    step: Step
    release: Release | PartitionedRelease

    def named(self, values: Mapping[str, T]) -> dict[str, T]:
        """Return values under names that say of which step they are."""
        return {f"step{self.number}.{name}": value for name, value in values.items()}


@dataclass(frozen=True, eq=False, repr=False)
class _Done(DoneStep):
    """A step that was carried out in memory, the data that it was given, and whether it decided by these alone."""

    release: Release
    given: Microdata
    decided_alone: bool = True

    def of_part(self, part: Microdata, share: float) -> _Done:
        """Return the step with those of its records that stem from the records of a part, by index label."""
        released = self.release.data
        rows = np.flatnonzero(released.frame.index.isin(part.frame.index))
        release = replace(self.release, data=released.take(rows))
        return replace(self, step=self.step.in_share(share), release=release, given=part, decided_alone=False)


class Streams(Protocol):
    """Named random streams."""

    def rng(self, stream: str) -> np.random.Generator:
        """Return the generator of a named stream."""


@dataclass(frozen=True, eq=False, repr=False)
class MaskedRecords:
    """All steps, the repair after them, the records to be released, and notes on what was restored."""

    done: list[_Done]
    repaired: Repaired
    released: Microdata
    notes: tuple[str, ...]
    keeps_records: bool

    @property
    def points(self) -> Microdata | None:
        """The same records as single values, where the last step releases ranges."""
        return self.done[-1].release.points if self.done else None


@dataclass(frozen=True, eq=False, repr=False)
class _ShadowStreams:
    """The random streams of one shadow release."""

    generator: np.random.Generator

    def rng(self, stream: str) -> np.random.Generator:
        """Return a generator of its own; the streams of a plan are asked for in one order."""
        return self.generator.spawn(1)[0]


def of_single_records(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps that are carried out on a part of a table by which a release of all of it is judged.

    Those that hide a group are left out: their goals are counts of the whole table, which a part cannot meet, and what
    they claim is checked on the whole release. They protect no single record, so that a part without them is attacked
    no less: each of its records is where it was.
    """
    return tuple(step for step in steps if not step.hidden_variables)


@dataclass(frozen=True)
class ShadowMask:
    """The masking of a plan for shadow releases of other people: steps, edits and repair, and nothing is stored."""

    steps: tuple[Step, ...]
    edits: EditSet

    def __call__(self, data: Microdata, rng: np.random.Generator) -> ShadowRelease:
        """Return what would be released of ``data``, ranges as single values."""
        masked = masked_records(_ShadowStreams(rng), data, self.steps, self.edits)
        return ShadowRelease(masked.points or masked.released, _recodings(masked.done))


def mask(
    run: Run, data: StoredRecords, steps: tuple[Step, ...], edits: EditSet, whole: StoredRecords | None = None
) -> Masked:
    """Carry out the steps on the original records, a part of the ``whole`` table where one is given.

    Variables that an edit computes from others are left out of the masking and computed again
    afterwards; what edits still break is repaired on the masked data.
    """
    masked = masked_records(run, data.load(), steps, edits, whole=None if whole is None else whole.load())
    store, points = run.workspace, masked.points
    return Masked(
        released=store.store("released", masked.released),
        points=None if points is None else store.store("points", points),
        continuous=_continuous_form(run, masked.done),
        confidential=confidential_arrays(run, masked.done),
        **vars(mask_report(masked, steps, edits)),
    )


def confidential_arrays(run: Run, done: Sequence[DoneStep]) -> StoredArrays | None:
    """Store what only the custodian may see of the steps; None where there is nothing."""
    arrays = {name: value for one in done for name, value in one.named(one.release.confidential).items()}
    return run.workspace.store_arrays("confidential", **arrays) if arrays else None


def mask_report(whole: MaskedRecords, steps: tuple[Step, ...], edits: EditSet) -> MaskReport:
    """Return what the steps report about the records that they masked.

    ``steps`` are all of the plan, of which some may have been carried out before on all records at once.
    """
    done, repaired, released = whole.done, whole.repaired, whole.released
    redrawn = _redrawn(done, edits)
    return MaskReport(
        claims=tuple(claim.check(released) for one in done for claim in one.release.claims),
        repair=RepairSummary(repaired.records_changed, repaired.cells_changed, repaired.changed, repaired.share),
        keeps_records=whole.keeps_records,
        notes=(
            *(note for one in done for note in step_notes(one.number, one.step, one.release.notes)),
            *general_notes(whole, steps),
        ),
        figures={name: value for one in done for name, value in one.named(one.release.figures).items()},
        recodings=_recodings(done),
        hidden_variables=hidden_variables(steps, edits),
        records_unchanged=all(step.prepares for step in steps),
        source_values=_source_values(steps, done, released.schema),
        exact=tuple(name for name in released.schema.masked if name not in redrawn),
        decided_alone=any(one.step.treats_records_alone and one.decided_alone for one in done),
        computed={str(edit.dependent): edit.parts for edit in edits.dependents},
    )


def _redrawn(done: Sequence[_Done], edits: EditSet) -> set[str]:
    """Return the variables that a step draws anew, and those that edits compute from these alone."""
    redrawn = {name for one in done for name in one.step.redraws(one.given, edits)}
    for edit in edits.dependents:
        if edit.dependent is not None and redrawn.issuperset({*edit.variables} - {edit.dependent}):
            redrawn.add(edit.dependent)
    return redrawn


def _source_values(steps: tuple[Step, ...], done: list[_Done], released: Schema) -> tuple[str, ...]:
    """Return why numbers of single records may be published as they are, a sentence each."""
    stated = [step.publishes_source_values for step in steps]
    if all(step.prepares for step in steps):
        coarse = {recoding.variable for one in done for recoding in one.release.recodings}
        numbers = sum(v.kind == "continuous" and v.name not in coarse for v in released if v.is_masked)
        stated.append(f"no step masks numbers: {numbers} variable(s) are released as records hold them" * bool(numbers))
    return tuple(sentence for sentence in stated if sentence)


def masked_records(
    streams: Streams,
    original: Microdata,
    steps: tuple[Step, ...],
    edits: EditSet,
    *,
    first: int = 1,
    whole: Microdata | None = None,
) -> MaskedRecords:
    """Carry out the steps, compute dependent variables again, repair, and restore what steps promised.

    Without steps, what edits compute is computed again, and what breaks them is repaired: steps before may have been
    carried out on all records at once.

    Parameters
    ----------
    first : the number of the first of the steps in the plan
    whole : the table of which ``original`` is a part that stands for it, by index label. The first steps decide by all
        of it, and edits look up what it holds: what is rare in a part need not be so in the table
    """
    edits = edits.learned(original if whole is None else whole, max((step.fewest_units for step in steps), default=0))
    ranges = bool(steps) and steps[-1].releases_ranges
    if ranges:
        # A range holds what the record held, sums included: nothing to compute anew, nothing to repair.
        done = _carried_out(streams, original, steps, edits, first, whole)
        repaired = Repaired(done[-1].release.data, {e.name: 0 for e in edits.edits}, 0, 0)
    else:
        given = without_dependents(original, edits)
        all_given = None if whole is None else without_dependents(whole, edits)
        done = _carried_out(streams, given, steps, edits, first, all_given)
        edits, lost = coarser(edits, _recodings(done))
        last = done[-1].release.data if done else given
        repaired = repair(completed(last, original.schema, edits), edits, rng=streams.rng("repair"))
    released = repaired.data.select(_released_names(repaired.data.schema, steps))
    released, notes = _restored(released, done, original.schema, edits, streams.rng("settle"))
    if not ranges:
        notes = (*notes, *_lookup_notes(released, edits), *_lost_notes(lost))
    # Rows that stem from no record are of no unit.
    keeps_records = all(one.release.keeps_records for one in done)
    released = _held_levels(released).with_units_of(original if keeps_records else released.with_units(None))
    return MaskedRecords(done, repaired, released, notes, keeps_records)


def _released_names(schema: Schema, steps: tuple[Step, ...]) -> list[str]:
    """Return what is released: households only with the new numbers of a step that builds them."""
    rebuilt = any(step.rebuilds_households for step in steps)
    return [v.name for v in schema if v.is_masked or (rebuilt and v.role == "household")]


def _carried_out(
    streams: Streams,
    data: Microdata,
    steps: tuple[Step, ...],
    edits: EditSet,
    first: int,
    whole: Microdata | None = None,
) -> list[_Done]:
    """Carry out the steps; of a part of a table the first ones on the ``whole``, others as they treat so many units."""
    done: list[_Done] = []
    if whole is not None:
        share, leading = data.n_units / whole.n_units, takewhile(lambda step: step.treats_records_alone, steps)
        done = [one.of_part(data, share) for one in _carried_out(streams, whole, tuple(leading), edits, first)]
        edits, data = coarser(edits, _recodings(done))[0], done[-1].release.data if done else data
        steps = tuple(step.in_share(share) for step in steps)
    for number, step in enumerate(steps[len(done) :], start=first + len(done)):
        release = anonymize(data, step, rng=streams.rng(f"step-{number}"), edits=edits)
        edits, _ = coarser(edits, release.recodings)
        if len(release.data) < 2:
            raise Refused(f"step {number} ({step.method}) leaves fewer than 2 records to release")
        done.append(_Done(number, step, release, data))
        data = release.data
    return done


def _restored(
    released: Microdata, done: list[_Done], schema: Schema, edits: EditSet, rng: np.random.Generator
) -> tuple[Microdata, tuple[str, ...]]:
    """Let each step make its claims hold again, which later steps or the repair may have undone."""
    notes: tuple[str, ...] = ()
    for one in done:
        data = without_dependents(released, edits)
        data, new = one.step.restore(data, one.release.claims, edits=edits, rng=rng)
        if new:
            released, notes = completed(data, schema, edits), (*notes, *new)
    return released, notes


def _continuous_form(run: Run, done: list[_Done]) -> ContinuousForm | None:
    """Store the paper's form, which is that of one masking: after two, scores belong to data already masked."""
    if not done:
        return None
    last = done[-1]
    if last.release.scores is None or sum(not one.step.prepares for one in done) != 1:
        return None
    data = run.workspace.store("step-input", last.given)
    return ContinuousForm(data, run.workspace.store_arrays("scores", scores=last.release.scores))


def step_notes(number: int, step: Step, notes: tuple[str, ...]) -> tuple[str, ...]:
    """Return what is noted of a step of this number, given its own notes."""
    if number > 1 and step.releases_ranges:
        return (
            *notes,
            f"ranges and guaranteed bounds hold for the values after step {number - 1}, not of the source's",
        )
    return notes


def general_notes(whole: MaskedRecords, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """Return what is noted of all steps together."""
    return (*whole.notes, *_invariants(steps, whole.released.schema))


def kept_exactly(steps: tuple[Step, ...], released: Schema) -> dict[str, tuple[str, ...]]:
    """Return the figures that steps keep exactly, each with the released variables of which.

    The difference of two such releases is the figure of who joined or left. A variable's figure is kept unless a step
    that treats the variable does not keep it.
    """
    treated = [(frozenset(step.treated(released)), step.invariants) for step in steps]
    kept = {
        figure: tuple(
            name
            for name in _with_figure(released, figure)
            if all(name not in names or figure in invariants for names, invariants in treated)
        )
        for figure in (LEVEL_COUNTS, MEANS, VALUES)
    }
    return {figure: names for figure, names in kept.items() if names and steps}


def _with_figure(schema: Schema, figure: str) -> tuple[str, ...]:
    """Return the variables that have such a figure: counts those with levels, means and values the numbers."""
    return tuple(v.name for v in schema if v.is_masked and v.is_categorical == (figure == LEVEL_COUNTS))


def _invariants(steps: tuple[Step, ...], released: Schema) -> Iterator[str]:
    kept = [
        figure if names == _with_figure(released, figure) else f"{figure} (of {', '.join(names)})"
        for figure, names in kept_exactly(steps, released).items()
    ]
    if kept:
        yield f"kept exactly, but for what a step treats and repairs: {'; '.join(kept)}"


def _recodings(done: list[_Done]) -> tuple[Recoding, ...]:
    return tuple(recoding for one in done for recoding in one.release.recodings)


def _lost_notes(lost: tuple[str, ...]) -> Iterator[str]:
    """Yield how many edits say nothing in coarser levels; their names may be unpublished."""
    if lost:
        yield f"{len(lost)} edit(s) about recoded variables say nothing in the coarser levels and are not checked there"


def _lookup_notes(released: Microdata, edits: EditSet) -> Iterator[str]:
    """Yield how variables that follow from others were released."""
    for edit in edits.lookups:
        if not isinstance(edit, LearnedLookup) or not set(edit.variables) <= set(released.frame):
            continue
        yield (
            f"{edit.dependent} follows from {', '.join(edit.of)}: it was left out of the masking and looked up again"
        )
        if unknown := edit.unknown(released.frame):
            yield (
                f"{edit.dependent} is missing in {unknown} record(s): their {', '.join(edit.of)} were merged, "
                "do not occur together in the source, or have a value there that too few statistical units hold"
            )


def hidden_variables(steps: tuple[Step, ...], edits: EditSet) -> tuple[str, ...]:
    """Return the variables along which a group is hidden, and what edits compute from them."""
    hidden = {name for step in steps for name in step.hidden_variables}
    for edit in edits.dependents:
        if hidden & set(edit.parts):
            hidden = hidden | {str(edit.dependent)}
    return tuple(sorted(hidden))


def _held_levels(data: Microdata) -> Microdata:
    """Drop levels that no record holds any more: nothing that is published may name them."""
    variables = [
        replace(v, levels=tuple(level for level, n in data.level_counts(v.name).items() if n > 0))
        if v.is_categorical
        else v
        for v in data.schema
    ]
    return Microdata(data.frame, Schema(variables))


def completed(masked: Microdata, original: Schema, edits: EditSet) -> Microdata:
    """Compute the dependent variables again, and return the variables in the original's order."""
    changed = {v.name: v for v in masked.schema}
    computed = {e.dependent for e in edits.dependents}
    variables = [changed.pop(v.name, v) for v in original if v.name in changed or v.name in computed]
    return complete(masked, edits, Schema([*variables, *changed.values()]))
