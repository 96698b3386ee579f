"""Carry out the plan's steps, one after the other, and make the edits hold."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, TypeAlias

from pydantic import Field

from anoncore.claims import Claim
from anoncore.edits import EditSet
from anoncore.microdata import Microdata, Schema
from anoncore.registry import Parameters, anonymize
from anoncore.release import Release
from anoncore.repair import complete, repair, without_dependents
from tasks.faults import Refused
from tasks.workspace import Run

Step: TypeAlias = Annotated[Parameters, Field(discriminator="method")]


@dataclass(frozen=True)
class Masked:
    """What the steps did: counts, promises and notes, no values."""

    records: int
    repaired_records: int
    notes: tuple[str, ...]


def mask(run: Run, steps: tuple[Step, ...], edits: EditSet) -> Masked:
    """Mask ``original`` and write ``released``, rows still in the order of the steps' output.

    Variables that an edit computes from others are left out of the masking and computed again
    afterwards; what edits still break is repaired on the masked data.
    """
    original = run.load("original")
    release = _chain(run, without_dependents(original, edits), steps, edits)
    whole = complete(release.data, edits, _schema_after(original.schema, release.data.schema, edits))
    repaired = repair(whole, edits, rng=run.rng("repair"))
    final = Release(
        data=_trimmed(repaired.data),
        claims=release.claims,
        keeps_records=release.keeps_records,
        notes=release.notes,
    )
    run.save("released", final.data)
    run.write_json(
        "claims",
        [
            asdict(check) | {"kind": type(c).__name__}
            for c, check in zip(final.claims, final.check(), strict=True)
        ],
    )
    run.write_json(
        "repaired",
        {"records": repaired.records_changed, "cells": repaired.cells_changed, "edits": repaired.changed},
    )
    run.write_json("masked", {"keeps_records": final.keeps_records, "notes": final.notes})
    if release.scores is not None:
        run.save_arrays("scores", scores=release.scores)
    return Masked(len(final.data), repaired.records_changed, final.notes)


def _chain(run: Run, data: Microdata, steps: tuple[Step, ...], edits: EditSet) -> Release:
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    keeps = True
    masked = 0
    release = None
    for number, step in enumerate(steps, start=1):
        run.save("step-input", data)
        release = anonymize(data, step, rng=run.rng(f"step-{number}"), edits=edits)
        if len(release.data) < 2:
            raise Refused(f"step {number} ({step.method}) leaves fewer than 2 records to release")
        data = release.data
        claims += release.claims
        notes += release.notes
        keeps = keeps and release.keeps_records
        masked += release.scores is not None or not release.keeps_records
    assert release is not None
    # The paper's form is that of one masking; after two, the scores belong to data already masked.
    scores = release.scores if masked == 1 else None
    return Release(data=data, claims=claims, keeps_records=keeps, notes=notes, scores=scores)


def _trimmed(data: Microdata) -> Microdata:
    """Drop levels that no record holds any more: nothing that is published may name them."""
    variables = [
        replace(v, levels=tuple(level for level, n in data.level_counts(v.name).items() if n > 0))
        if v.is_categorical
        else v
        for v in data.schema
    ]
    return Microdata(data.frame, Schema(variables))


def _schema_after(original: Schema, masked: Schema, edits: EditSet) -> Schema:
    """Return the original's column order, with the variables as the steps left them."""
    changed = {v.name: v for v in masked}
    computed = {e.dependent for e in edits.dependents}
    kept = [changed.pop(v.name, v) for v in original if v.name in changed or v.name in computed]
    return Schema([*kept, *changed.values()])
