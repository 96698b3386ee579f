"""Mask large tables, in memory or in partitions: in random blocks of records, each masked by the whole plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import Any

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
from tasks.common.errors import Refused, named
from tasks.common.partitions import StoredPartitions, recoded_to
from tasks.common.run import Run
from tasks.common.workspace import RECORD, StoredRecords
from tasks.masking.anonymize import (
    DoneStep,
    Masked,
    MaskedRecords,
    MaskReport,
    Step,
    confidential_arrays,
    hidden_variables,
    mask,
    mask_report,
    masked_records,
    of_single_records,
)
from tasks.record.dossier import RepairSummary

# Records of a block, at most on average.
BLOCK_ROWS = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class _Part:
    """What a task has masked: its records' schema, and the reports and records of its blocks."""

    schema: Schema
    reports: tuple[MaskReport, ...]
    records: tuple[int, ...]


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

    ``keeps_labels`` says whether a column says which record of the source each is. Levels are written to columns of
    ``work``, coded as in their blocks: a worker that comes back late must not restore these codes.
    """

    steps: tuple[Step, ...]
    edits: EditSet
    whole: int
    stream: Stream
    keeps_labels: bool
    work: str

    def masked(self, number: int, block: Microdata) -> MaskedRecords:
        """Carry out the steps on the block of this number."""
        streams = _BlockStreams(self.stream.named(number))
        return masked_records(streams, block, self.steps[self.whole :], self.edits, first=self.whole + 1)

    def report(self, done: MaskedRecords) -> MaskReport:
        """Return what the steps report about a block."""
        return mask_report(done, self.steps, self.edits)


def block_obstacles(steps: tuple[Step, ...], edits: EditSet, variables: Iterable[Variable]) -> Iterator[str]:
    """Yield why steps cannot be carried out on all records at first and on random blocks then, the end of a sentence.

    Counts of a hidden group are of the whole table. Where members move again afterwards, levels that edits compute from
    what they exchange would have to be those of all blocks.
    """
    exact = tuple(takewhile(lambda step: step.over_partitions == "exact", steps))
    if late := [step.method for step in steps[len(exact) :] if step.hidden_variables]:
        yield f"has no {late[0]} after {steps[len(exact)].method}, which masks blocks of records: put it before"
    if not (own := {name for step in steps for name in step.hidden_variables}):
        return
    following = set(hidden_variables(steps, edits)) - own
    if levels := [v.name for v in variables if v.name in following and v.is_categorical]:
        yield f"has no levels that edits compute from what a hidden group exchanges: {named(levels)}"


def mask_records(run: Run, data: StoredRecords, steps: tuple[Step, ...], edits: EditSet) -> Masked:
    """Carry out the steps on the original records, in random blocks where these are more than one block holds.

    Blocks are drawn in memory as in partitions, so that both give the same release. A table in memory is masked whole
    where a step needs it whole, or records share a statistical unit.
    """
    if isinstance(data, StoredPartitions):
        return mask_partitions(run, data, steps, edits)
    table = data.load()
    whole = edits.lookups or table.units is not None or any(step.over_partitions == "none" for step in steps)
    if len(table) <= BLOCK_ROWS or whole or any(True for _ in block_obstacles(steps, edits, table.schema)):
        return mask(run, data, steps, edits)
    threads, labels = Threads(), table.frame.index
    stored = StoredPartitions(partitioned(threads.store, "original", table, BLOCK_ROWS), threads)
    del table
    masked, released = _in_blocks(run, stored.with_column(RECORD, np.arange(len(stored))), steps, edits)
    frame = pd.concat([part.frame for part in released.parts()], ignore_index=True)
    if masked.keeps_records:
        frame.index = labels[released.whole(RECORD)]
    return replace(masked, released=run.workspace.store("released", Microdata.trusted(frame, released.schema)))


def mask_part(run: Run, data: StoredRecords, steps: tuple[Step, ...], edits: EditSet) -> Masked:
    """Mask a part of a table by the steps that treat single records, see `of_single_records`.

    The report says what all steps hide, and whether any masks single records: the part stands for the whole release.
    """
    masked = mask_records(run, data, of_single_records(steps), edits)
    hidden, unchanged = hidden_variables(steps, edits), all(step.prepares for step in steps)
    return replace(masked, hidden_variables=hidden, records_unchanged=unchanged)


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
    return _in_blocks(run, data, steps, edits)[0]


def _in_blocks(
    run: Run, data: StoredPartitions, steps: tuple[Step, ...], edits: EditSet
) -> tuple[Masked, StoredPartitions]:
    """Mask the records in random blocks; return what was masked, and its records once more."""
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
    plan = _Plan(steps, edits, len(whole), stream.named("mask"), bool(carried), work_name("levels"))
    masked = executor.map(_mask_blocks, range(count), [shuffled] * count, parts, first, [plan] * count)
    for name in names:
        executor.store.remove(shuffled.column(name))
    return _together(run, data, masked, plan, whole)


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
    table = partitioned(data.executor.store, "released", whole.released, BLOCK_ROWS)
    return Masked(
        released=StoredPartitions(table, data.executor),
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
    data, start, reports, masked = table.load(store, partition), 0, [], []
    if plan.keeps_labels:
        data.frame.index = pd.Index(store.read(table.column(RECORD), partition))
    for number, records in enumerate(blocks, start=first):
        block = data.take(np.arange(start, start + records))
        done = plan.masked(number, block)
        reports.append(plan.report(done))
        masked.append(done.released)
        start += records
    schema = _union([one.schema for one in masked], data.schema)
    for variable in schema:
        at = "released" if variable.levels is None else plan.work
        store.write(f"{at}/{variable.name}", partition, _chunk(masked, variable))
    if plan.keeps_labels:
        labels = [one.frame.index.to_numpy() for one in masked]
        store.write(f"released/{RECORD}", partition, np.concatenate(labels))
    return _Part(schema, tuple(reports), tuple(map(len, masked)))


def _chunk(blocks: Iterable[Microdata], variable: Variable) -> np.ndarray:
    """Return a variable of some blocks as one chunk."""
    if variable.kind == "continuous":
        return np.concatenate([chunk_of(block, variable.name) for block in blocks])
    kind = _codes(variable.levels or ())
    coded = (block.frame[variable.name].cat.set_categories(list(variable.levels or ())) for block in blocks)
    return np.concatenate([one.cat.codes.to_numpy(kind) for one in coded])


def _codes(levels: Sequence[Any]) -> str:
    """Return the smallest integer type that holds the codes of levels."""
    return str(pd.Categorical([], categories=list(levels)).codes.dtype)


def _together(
    run: Run, data: StoredPartitions, parts: Sequence[_Part], plan: _Plan, whole: tuple[_Whole, ...]
) -> tuple[Masked, StoredPartitions]:
    """Return what was masked as one table, under a schema that holds the levels of all parts, and its records.

    What the first steps claim is claimed of all records together: it is made to hold again, and checked, on them.
    """
    reports = [report for part in parts for report in part.reports]
    sizes = [records for part in parts for records in part.records]
    recodings = (*(one for step in whole for one in step.release.recodings), *_recodings(reports))
    edits = coarser(plan.edits, recodings)[0]
    released, restored = _restored(
        run, data.executor, _in_one_schema(data, parts, plan.work), whole, replace(plan, edits=edits)
    )
    own = tuple(ClaimCheck.of_blocks(checks) for checks in zip(*(one.claims for one in reports), strict=True))
    if restored and any(check.formal for check in own):
        raise Refused(
            "members of a hidden group moved again after the later steps, whose claims hold of the blocks before that; "
            "make group-anonymity the last step, or choose a later step without claims about groups of records"
        )
    records = StoredPartitions(released, data.executor)
    masked = Masked(
        released=records,
        claims=(*(check for one in whole for check in one.checks(data.executor, released)), *own),
        repair=_repair([one.repair for one in reports if one.repair is not None], sizes),
        keeps_records=all(
            [*(one.release.keeps_records for one in whole), *(report.keeps_records for report in reports)]
        ),
        notes=(*_notes(reports, plan, whole), *restored),
        figures={name: value for one in whole for name, value in one.named(one.release.figures).items()}
        | _figures(reports, sizes),
        recodings=recodings,
        hidden_variables=reports[0].hidden_variables,
        records_unchanged=reports[0].records_unchanged,
        source_values=reports[0].source_values,
        confidential=confidential_arrays(run, whole),
    )
    return masked, records


def _in_one_schema(data: StoredPartitions, parts: Sequence[_Part], work: str) -> PartitionedTable:
    """Return the released records as one table, whose levels are those of all parts."""
    executor, schema = data.executor, _union([part.schema for part in parts], data.schema)
    released = PartitionedTable("released", schema, tuple(sum(part.records) for part in parts))
    for variable in schema:
        levels = variable.levels
        if levels is None:
            continue
        at = {level: code for code, level in enumerate(levels)}
        codes = [[at[level] for level in part.schema[variable.name].levels or ()] for part in parts]
        columns = [[name] * len(parts) for name in (f"{work}/{variable.name}", released.column(variable.name))]
        recoded_to(executor, (columns[0], columns[1]), range(len(parts)), codes, _codes(levels))
        executor.store.remove(columns[0][0])
    return released


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
    """Return a table that replaces another, with what edits compute computed again, and its records as labelled."""
    count, labels = len(after.rows), before.column(RECORD) if plan.keeps_labels else None
    arguments = ([value] * count for value in (labels, after, plan.edits))
    schemas = executor.map(_compute_partition, after.partitions(), *arguments)
    for column in (*before.columns, before.column(RECORD)):
        executor.store.remove(column)
    return replace(after, schema=_union(schemas, after.schema))


def _compute_partition(
    store: ColumnStore, partition: int, labels: str | None, table: PartitionedTable, edits: EditSet
) -> Schema:
    """Write the numbers that edits compute, and the labels; return the schema with the precision of the numbers."""
    if labels is not None:
        store.write(table.column(RECORD), partition, store.read(labels, partition))
    computed = [str(edit.dependent) for edit in edits.dependents if edit.dependent in table.schema]
    own = table.load(store, partition, [name for name in table.schema.names if name not in computed])
    done = complete(own, edits, table.schema) if computed else own
    for name in computed:
        if done.schema[name].kind == "continuous":
            store.write(table.column(name), partition, chunk_of(done, name))
    return table.schema if not computed else done.schema


def _union(schemas: Sequence[Schema], source: Schema) -> Schema:
    """Return the schema of several tables: of each variable the levels that any of them holds.

    Raises
    ------
    Refused
        When the tables do not hold the same variables, or order their levels differently.
    """
    if any(one.names != schemas[0].names for one in schemas):
        raise Refused("the blocks of the table were released with different variables; choose engine: memory")
    return Schema(_one(variable, [one[variable.name] for one in schemas], source) for variable in schemas[0])


def _one(variable: Variable, own: Sequence[Variable], source: Schema) -> Variable:
    if variable.kind == "continuous":
        units = [one.precision for one in own if one.precision is not None]
        return replace(variable, precision=min(units) if len(units) == len(own) else None)
    held = {level for one in own for level in one.levels or ()}
    if all(one.levels == variable.levels for one in own):
        return variable
    known = source[variable.name].levels or () if variable.name in source else ()
    new = sorted(held - set(known), key=str)
    if new and variable.kind == "ordinal":
        raise Refused(
            f"variable {variable.name!r}: the blocks of the table merged its levels differently; merge them in a step "
            "before (global-recoding), or choose engine: memory"
        )
    return replace(variable, levels=(*(level for level in known if level in held), *new))


def _repair(repairs: Sequence[RepairSummary], sizes: Sequence[int]) -> RepairSummary:
    edits: Counter[str] = Counter()
    for one in repairs:
        edits.update(one.edits)
    share = float(np.average([one.share for one in repairs], weights=sizes))
    return RepairSummary(sum(r.records for r in repairs), sum(r.cells for r in repairs), dict(edits), share)


def _figures(reports: Sequence[MaskReport], sizes: Sequence[int]) -> dict[str, float]:
    """Return the mean over all records of what the steps measured in every block."""
    names = [name for name in reports[0].figures if all(name in one.figures for one in reports)]
    return {name: float(np.average([one.figures[name] for one in reports], weights=sizes)) for name in names}


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


def _notes(reports: Sequence[MaskReport], plan: _Plan, whole: tuple[_Whole, ...]) -> tuple[str, ...]:
    """Return the notes of the first steps, and those that all blocks share.

    What differs between blocks was measured in a single one, not in the release.
    """
    own = tuple(note for one in whole for note in one.release.notes)
    shared = tuple(note for note in reports[0].notes if all(note in one.notes for one in reports))
    if len(reports) == 1 or len(whole) == len(plan.steps):
        return (*own, *shared)
    return (f"the records were masked in {len(reports)} random blocks, each as a table of its own", *own, *shared)
