"""Mask large tables, in memory or in partitions: in random blocks of records, each masked by the whole plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, dropwhile, takewhile

import numpy as np
import pandas as pd

from anoncore.claims import ClaimCheck
from anoncore.edits.coarser import coarser
from anoncore.edits.dependents import complete
from anoncore.edits.model import EditSet
from anoncore.kernels.streams import Stream
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.exchange import in_random_blocks
from anoncore.partitions.release import PartitionedRelease
from anoncore.partitions.store import ColumnStore, Executor, Threads, work_name
from anoncore.partitions.table import PartitionedTable, chunk_of, partitioned
from anoncore.recoding import Recoding
from anoncore.registry import anonymize_partitioned
from anoncore.release import MethodReport
from tasks.common.errors import Refused, named
from tasks.common.partitions import StoredPartitions
from tasks.common.run import Run
from tasks.common.workspace import RECORD, StoredRecords
from tasks.masking.anonymize import (
    DoneStep,
    Masked,
    MaskedRecords,
    MaskReport,
    Step,
    confidential_arrays,
    general_notes,
    hidden_variables,
    mask,
    mask_report,
    masked_records,
    of_single_records,
    step_notes,
)
from tasks.masking.joined import JoinedColumns, Part, union
from tasks.record.dossier import RepairSummary

# Records of a block, at most on average.
BLOCK_ROWS = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class _Block:
    """What is reported of a masked block: of all steps, and of each; notes of single steps are with these."""

    whole: MaskReport
    steps: tuple[MethodReport, ...]
    records: int


@dataclass(frozen=True, eq=False, repr=False)
class _Part:
    """What a task has masked: its records, as single values too where ranges are released, and its blocks."""

    released: Part
    points: Part | None
    blocks: tuple[_Block, ...]


@dataclass(frozen=True, eq=False, repr=False)
class _Whole(DoneStep):
    """A step that was carried out on all records of a table in partitions at once."""

    release: PartitionedRelease

    def checks(self, executor: Executor, released: PartitionedTable) -> tuple[ClaimCheck, ...]:
        """Check its claims on all released records."""
        return self.step.check_partitioned(executor, released, self.release.claims)


@dataclass(frozen=True, eq=False, repr=False)
class _BlockStreams:
    """The random streams of one block."""

    stream: Stream

    def rng(self, stream: str) -> np.random.Generator:
        """Return the generator of a named stream."""
        return self.stream.named(stream).generator()


@dataclass(frozen=True, eq=False, repr=False)
class _Plan:
    """All steps, of which those after the first ``whole`` are carried out on each block.

    ``keeps_labels`` says whether a column says which record of the source each is.
    """

    steps: tuple[Step, ...]
    edits: EditSet
    whole: int
    stream: Stream
    keeps_labels: bool
    released: JoinedColumns
    points: JoinedColumns

    @classmethod
    def of(cls, steps: tuple[Step, ...], edits: EditSet, whole: int, stream: Stream, *, keeps_labels: bool) -> _Plan:
        """Return the plan of the blocks, given all steps."""
        work, number = work_name("levels"), steps[-1].group_number if steps else ""
        columns = JoinedColumns("released", f"{work}/released", number), JoinedColumns("points", f"{work}/points")
        return cls(steps, edits, whole, stream, keeps_labels, *columns)

    @property
    def of_blocks(self) -> list[tuple[int, Step]]:
        """The steps of the blocks with their numbers."""
        return list(enumerate(self.steps[self.whole :], start=self.whole + 1))

    def masked(self, number: int, block: Microdata) -> MaskedRecords:
        """Carry out the steps on the block of this number."""
        streams = _BlockStreams(self.stream.named(number))
        return masked_records(streams, block, self.steps[self.whole :], self.edits, first=self.whole + 1)

    def report(self, done: MaskedRecords) -> _Block:
        """Return what is reported of a block."""
        whole = replace(mask_report(done, self.steps, self.edits), notes=general_notes(done, self.steps))
        return _Block(whole, tuple(one.release.report for one in done.done), len(done.released))


def block_obstacles(steps: tuple[Step, ...], edits: EditSet, variables: Iterable[Variable]) -> Iterator[str]:
    """Yield why steps cannot be carried out on all records at first and on random blocks then, the end of a sentence.

    Counts of a hidden group are of the whole table. Where members move again afterwards, levels that edits compute from
    what they exchange would have to be those of all blocks.
    """
    blocks = tuple(dropwhile(lambda step: step.over_partitions != "blocks", steps))
    if late := [step.method for step in blocks if step.hidden_variables]:
        yield f"has no {late[0]} after {blocks[0].method}, which masks blocks of records: put it before"
    if not (own := {name for step in steps for name in step.hidden_variables}):
        return
    following = set(hidden_variables(steps, edits)) - own
    if levels := [v.name for v in variables if v.name in following and v.is_categorical]:
        yield f"has no levels that edits compute from what a hidden group exchanges: {named(levels)}"


def mask_records(
    run: Run, data: StoredRecords, steps: tuple[Step, ...], edits: EditSet, whole: StoredRecords | None = None
) -> Masked:
    """Carry out the steps on the original records, in random blocks where these are more than one block holds.

    Blocks are drawn in memory as in partitions, so that both give the same release. A table in memory is masked whole
    where a step needs it whole, or records share a statistical unit.

    The records may be a part of a ``whole`` table in memory, which then decides what its first steps do to them; of a
    part in blocks it does not.
    """
    if isinstance(data, StoredPartitions):
        return mask_partitions(run, data, steps, edits)
    table = data.load()
    at_once = edits.lookups or table.units is not None or any(step.over_partitions == "none" for step in steps)
    if len(table) <= BLOCK_ROWS or at_once or any(True for _ in block_obstacles(steps, edits, table.schema)):
        return mask(run, data, steps, edits, whole)
    threads, labels = Threads(), table.frame.index
    stored = StoredPartitions(partitioned(threads.store, "original", table, BLOCK_ROWS), threads)
    del table
    masked = _in_blocks(run, stored.with_column(RECORD, np.arange(len(stored))), steps, edits)
    index = labels[_partitions(masked.released).whole(RECORD)] if masked.keeps_records else None
    points = None if masked.points is None else _in_memory(run, "points", masked.points, index)
    return replace(masked, released=_in_memory(run, "released", masked.released, index), points=points)


def _in_memory(run: Run, name: str, stored: StoredRecords, index: pd.Index | None) -> StoredRecords:
    """Store records in partitions as a table in memory, under the labels of the records that they stem from."""
    frame = pd.concat([part.frame for part in stored.parts()], ignore_index=True)
    if index is not None:
        frame.index = index
    return run.workspace.store(name, Microdata.trusted(frame, _partitions(stored).schema))


def _partitions(stored: StoredRecords) -> StoredPartitions:
    assert isinstance(stored, StoredPartitions)
    return stored


def mask_part(
    run: Run, data: StoredRecords, steps: tuple[Step, ...], edits: EditSet, whole: StoredRecords | None = None
) -> Masked:
    """Mask a part of a table by the steps that treat single records, see `of_single_records`.

    What steps at the beginning decide by counts, such as which levels are rare, they decide by the ``whole`` table: a
    part holds fewer of each, and would be coarser than the release for which it stands. Without one the part itself
    decides, unless the steps are those of `for_parts`.

    The report says what all steps hide, and whether any masks single records: the part stands for the whole release.
    """
    masked = mask_records(run, data, of_single_records(steps), edits, whole)
    hidden, unchanged = hidden_variables(steps, edits), all(step.prepares for step in steps)
    alone = masked.decided_alone and any(step.treats_records_alone for step in steps)
    return replace(masked, hidden_variables=hidden, records_unchanged=unchanged, decided_alone=alone)


def decides_by_counts(steps: tuple[Step, ...]) -> bool:
    """Return whether the first step that treats single records decides by counts of all of them."""
    return next((step.treats_records_alone for step in of_single_records(steps)), False)


def for_parts(run: Run, whole: StoredRecords, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps as they treat parts of a large table: the first one decides by the counts of all records.

    The same whether the table is in memory or in partitions. Steps that hide a group, by which parts are not masked,
    may come before: they leave counts as they are.
    """
    if not decides_by_counts(steps):
        return steps
    if not isinstance(whole, StoredPartitions):
        data, threads = whole.load(), Threads()
        levels = [variable.name for variable in data.schema if variable.is_categorical]
        if not levels:
            return steps
        whole = StoredPartitions(partitioned(threads.store, "levels", data.select(levels), BLOCK_ROWS), threads)
    first = steps.index(of_single_records(steps)[0])
    return (*steps[:first], steps[first].by_counts_of(whole.executor, whole.table), *steps[first + 1 :])


def mask_partitions(run: Run, data: StoredPartitions, steps: tuple[Step, ...], edits: EditSet) -> Masked:
    """Mask the records in random blocks, each by all steps, with its edits repaired.

    Steps at the beginning that can be carried out on all records at once are: levels are rare in the table, not in a
    block.

    Every record is put into a random block, and each block is masked as a table of its own: what a method promises of
    a table it promises of each block, and so of all of them. Records of a file of the release come from random places
    of the source. Nothing depends on the number of workers. A table of one block is masked as in memory.
    """
    if len(data) <= BLOCK_ROWS:
        return _as_in_memory(run, data, steps, edits)
    return _in_blocks(run, data, steps, edits)


def _in_blocks(run: Run, data: StoredPartitions, steps: tuple[Step, ...], edits: EditSet) -> Masked:
    """Mask the records in random blocks."""
    executor, stream = data.executor, Stream.of(run.rng("blocks"))
    table, whole = _over_all(run, data, steps, edits)
    carried = [RECORD] if RECORD in data.hidden else []
    names, shuffled = [*table.schema.masked, *carried], replace(table, name=work_name("blocks"))
    sources = [table.column(name) for name in table.schema.masked] + [data.table.column(name) for name in carried]
    columns = list(zip(sources, map(shuffled.column, names), strict=True))
    parts = in_random_blocks(executor, columns, table.rows, stream.named("blocks"), units=None, block_rows=BLOCK_ROWS)
    parts = [blocks for blocks in parts if blocks] if all(parts) else parts
    shuffled = replace(shuffled, rows=tuple(map(sum, parts)))
    if whole:
        table.remove(executor.store)
    first = [0, *accumulate(map(len, parts))][:-1]
    count = len(parts)
    plan = _Plan.of(steps, edits, len(whole), stream.named("mask"), keeps_labels=bool(carried))
    masked = executor.map(_mask_blocks, range(count), [shuffled] * count, parts, first, [plan] * count)
    for name in names:
        executor.store.remove(shuffled.column(name))
    tables = _joined(data, masked, plan, stream.named("groups"))
    return _together(run, tables, [block for part in masked for block in part.blocks], plan, whole)


def _over_all(
    run: Run, data: StoredPartitions, steps: tuple[Step, ...], edits: EditSet
) -> tuple[PartitionedTable, tuple[_Whole, ...]]:
    """Carry out the first steps that can be carried out on all records at once."""
    table, done = replace(data.table, schema=data.schema.select(data.schema.masked)), list[_Whole]()
    for number, step in enumerate(takewhile(lambda step: step.over_partitions == "exact", steps), start=1):
        name, rng = f"step-{number}", run.rng(f"step-{number}")
        release = anonymize_partitioned(data.executor, table, step, name=name, rng=rng, edits=edits)
        if number > 1:
            table.remove(data.executor.store)
        table = release.data
        done.append(_Whole(number, step, release))
    return table, tuple(done)


def _as_in_memory(run: Run, data: StoredPartitions, steps: tuple[Step, ...], edits: EditSet) -> Masked:
    """Mask a small table whole, in the order and by the random streams of a table in memory."""
    whole = masked_records(run, data.at(np.arange(len(data))), steps, edits)

    def stored(name: str, records: Microdata) -> StoredPartitions:
        return StoredPartitions(partitioned(data.executor.store, name, records, BLOCK_ROWS), data.executor)

    return Masked(
        released=stored("released", whole.released),
        points=None if whole.points is None else stored("points", whole.points),
        confidential=confidential_arrays(run, whole.done),
        **vars(mask_report(whole, steps, edits)),
    )


def _mask_blocks(
    store: ColumnStore,
    partition: int,
    table: PartitionedTable,
    blocks: tuple[int, ...],
    first: int,
    plan: _Plan,
) -> _Part:
    """Mask the blocks of one partition."""
    data, start, reports, released, points = table.load(store, partition), 0, [], [], []
    if plan.keeps_labels:
        data.frame.index = pd.Index(store.read(table.column(RECORD), partition))
    for number, records in enumerate(blocks, start=first):
        done = plan.masked(number, data.take(np.arange(start, start + records)))
        reports.append(plan.report(done))
        released.append(done.released)
        points += [] if done.points is None else [done.points]
        start += records
    if plan.keeps_labels:
        labels = [one.frame.index.to_numpy() for one in released]
        store.write(f"released/{RECORD}", partition, np.concatenate(labels))
    return _Part(
        plan.released.write(store, partition, released, data.schema),
        plan.points.write(store, partition, points, data.schema) if points else None,
        tuple(reports),
    )


def _joined(
    data: StoredPartitions, parts: Sequence[_Part], plan: _Plan, stream: Stream
) -> tuple[StoredPartitions, StoredPartitions | None]:
    """Return the released records as one table, and as single values where ranges are released."""
    executor, points = data.executor, [part.points for part in parts if part.points is not None]
    released = plan.released.join(executor, [part.released for part in parts], data.schema, stream)
    single = StoredPartitions(plan.points.join(executor, points, data.schema, stream), executor) if points else None
    return StoredPartitions(released, executor), single


def _together(
    run: Run,
    tables: tuple[StoredPartitions, StoredPartitions | None],
    blocks: Sequence[_Block],
    plan: _Plan,
    whole: tuple[_Whole, ...],
) -> Masked:
    """Return what was masked as one table, with what is reported of all blocks.

    What the first steps claim is claimed of all records together: it is made to hold again, and checked, on them.
    """
    executor, reports, sizes = tables[0].executor, [one.whole for one in blocks], [one.records for one in blocks]
    recodings = (*(one for step in whole for one in step.release.recodings), *_recodings(reports))
    edits = coarser(plan.edits, recodings)[0]
    released, restored = _restored(run, executor, tables[0].table, whole, replace(plan, edits=edits))
    own = tuple(ClaimCheck.of_blocks(checks) for checks in zip(*(one.claims for one in reports), strict=True))
    if restored and any(check.formal for check in own):
        raise Refused(
            "members of a hidden group moved again after the later steps, whose claims hold of the blocks before that; "
            "choose a later step without claims about groups of records, or group-anonymity alone"
        )
    steps = _step_reports(executor, released, blocks, plan)
    figures = {name: value for one in whole for name, value in one.named(one.release.figures).items()}
    kept = [*(one.release.keeps_records for one in whole), *(report.keeps_records for report in reports)]
    return Masked(
        released=StoredPartitions(released, executor),
        points=tables[1],
        claims=(*(check for one in whole for check in one.checks(executor, released)), *own),
        repair=_repair([one.repair for one in reports if one.repair is not None], sizes),
        keeps_records=all(kept),
        notes=(*_notes(reports, whole, steps), *restored),
        figures=figures | {f"step{n}.{name}": value for n, _, own in steps for name, value in own.figures.items()},
        recodings=recodings,
        hidden_variables=reports[0].hidden_variables,
        records_unchanged=reports[0].records_unchanged,
        exact=tuple(dict.fromkeys(name for report in reports for name in report.exact)),
        source_values=reports[0].source_values,
        confidential=confidential_arrays(run, whole),
    )


def _step_reports(
    executor: Executor, released: PartitionedTable, blocks: Sequence[_Block], plan: _Plan
) -> list[tuple[int, Step, MethodReport]]:
    """Return what each step of the blocks reports of all of them, with its number."""
    of_steps = zip(plan.of_blocks, zip(*(block.steps for block in blocks), strict=True), strict=True)
    return [
        (number, step, step.report_blocks(executor, released, own) if len(own) > 1 else own[0])
        for (number, step), own in of_steps
    ]


def _restored(
    run: Run, executor: Executor, released: PartitionedTable, whole: tuple[_Whole, ...], plan: _Plan
) -> tuple[PartitionedTable, tuple[str, ...]]:
    """Let each of the first steps make its claims hold again, which steps on blocks or the repair may have undone."""
    notes, rng = list[str](), run.rng("settle")
    for one in whole:
        claims = one.release.claims
        table, new = one.step.restore_partitioned(executor, released, claims, edits=plan.edits, rng=rng)
        if new:
            notes += new
            released = _computed_again(executor, released, table, plan)
    return released, tuple(notes)


def _computed_again(
    executor: Executor, before: PartitionedTable, after: PartitionedTable, plan: _Plan
) -> PartitionedTable:
    """Return a table that replaces another, with what edits compute computed again, and its records as labelled.

    Numbers are rounded to the unit that all records need, whatever the partitions.
    """
    count, labels = len(after.rows), before.column(RECORD) if plan.keeps_labels else None
    needed = executor.map(_schema_of_computed, after.partitions(), [after] * count, [plan.edits] * count)
    after = replace(after, schema=union(needed, after.schema))
    arguments = ([value] * count for value in (labels, after, plan.edits))
    executor.map(_compute_partition, after.partitions(), *arguments)
    for column in (*before.columns, before.column(RECORD)):
        executor.store.remove(column)
    return after


def _schema_of_computed(store: ColumnStore, partition: int, table: PartitionedTable, edits: EditSet) -> Schema:
    """Return the schema with the precision that the numbers which edits compute need in one partition."""
    return _completed(store, partition, table, edits).schema


def _compute_partition(
    store: ColumnStore, partition: int, labels: str | None, table: PartitionedTable, edits: EditSet
) -> None:
    """Write the numbers that edits compute, and the labels."""
    if labels is not None:
        store.write(table.column(RECORD), partition, store.read(labels, partition))
    done = _completed(store, partition, table, edits)
    for name in _computed(table, edits):
        if done.schema[name].kind == "continuous":
            store.write(table.column(name), partition, chunk_of(done, name))


def _computed(table: PartitionedTable, edits: EditSet) -> list[str]:
    return [str(edit.dependent) for edit in edits.dependents if edit.dependent in table.schema]


def _completed(store: ColumnStore, partition: int, table: PartitionedTable, edits: EditSet) -> Microdata:
    """Return one partition with what edits compute computed again."""
    computed = _computed(table, edits)
    own = table.load(store, partition, [name for name in table.schema.names if name not in computed])
    return complete(own, edits.within(table.schema.names), table.schema)


def _repair(repairs: Sequence[RepairSummary], sizes: Sequence[int]) -> RepairSummary:
    edits: Counter[str] = Counter()
    for one in repairs:
        edits.update(one.edits)
    share = float(np.average([one.share for one in repairs], weights=sizes))
    return RepairSummary(sum(r.records for r in repairs), sum(r.cells for r in repairs), dict(edits), share)


def _recodings(reports: Sequence[MaskReport]) -> tuple[Recoding, ...]:
    """Return how variables were coarsened, the same in all blocks.

    Raises
    ------
    Refused
        When blocks were coarsened differently: source and release could not be compared in the same levels.
    """
    if any(one.recodings != reports[0].recodings for one in reports):
        raise Refused(
            f"the {len(reports)} random blocks of the table were recoded differently; state the coarser levels or "
            "limits in the plan, or recode in a step of its own before"
        )
    return reports[0].recodings


def _notes(
    reports: Sequence[MaskReport], whole: Sequence[_Whole], steps: Sequence[tuple[int, Step, MethodReport]]
) -> tuple[str, ...]:
    """Return what is noted: of the first steps, of each step in all blocks, and what all blocks share."""
    before = [note for one in whole for note in one.release.notes]
    of_steps = [note for number, step, own in steps for note in step_notes(number, step, own.notes)]
    shared = [note for note in reports[0].notes if all(note in one.notes for one in reports)]
    if len(reports) == 1 or not steps:
        return (*before, *of_steps, *shared)
    blocks = f"the records were masked in {len(reports)} random blocks, each as a table of its own"
    return (blocks, *before, *of_steps, *shared)
