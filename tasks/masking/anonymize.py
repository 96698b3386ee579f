"""Carry out the plan's steps, one after the other, and make the edits hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import Field

from anoncore.claims import Claim
from anoncore.edits.model import EditSet
from anoncore.edits.repair import Repaired, complete, repair, without_dependents
from anoncore.methods import GroupAnonymity, OptimalBoxes
from anoncore.methods.group_anonymity import settled
from anoncore.microdata import Microdata, Schema
from anoncore.registry import PREPARATORY, Parameters, anonymize
from anoncore.release import Release
from anoncore.risk.group_masking import GroupCounts
from tasks.common.errors import Refused
from tasks.common.workspace import Run

Step: TypeAlias = Annotated[Parameters, Field(discriminator="method")]


def mask(run: Run, steps: tuple[Step, ...], edits: EditSet) -> None:
    """Mask ``original`` and write ``released``, rows still in the order of the steps' output.

    Variables that an edit computes from others are left out of the masking and computed again
    afterwards; what edits still break is repaired on the masked data.
    """
    original = run.load("original")
    if releases_ranges(steps):
        # A range holds what the record held, sums included: nothing to compute anew, nothing to repair.
        release = _chain(run, original, steps, edits)
        repaired = Repaired(release.data, {e.name: 0 for e in edits.edits}, 0, 0)
    else:
        release = _chain(run, without_dependents(original, edits), steps, edits)
        whole = complete(release.data, edits, _schema_after(original.schema, release.data.schema, edits))
        repaired = repair(whole, edits, rng=run.rng("repair"))
    final = replace(release, data=repaired.data.select(repaired.data.schema.masked))
    final = _with_counts_kept(final, edits, original.schema, run.rng("settle"))
    final = replace(final, data=_trimmed(final.data))
    run.save("released", final.data)
    if final.points is not None:
        run.save("points", final.points)
    run.write_json(
        "claims",
        [asdict(check) | {"kind": type(c).__name__} for c, check in zip(final.claims, final.check(), strict=True)],
    )
    run.write_json(
        "repaired",
        {"records": repaired.records_changed, "cells": repaired.cells_changed, "edits": repaired.changed},
    )
    run.write_json(
        "masked",
        {
            "keeps_records": final.keeps_records,
            "notes": final.notes,
            "figures": dict(final.figures),
            "hides": _telling({s.parameter for s in steps if isinstance(s, GroupAnonymity)}, edits),
            "unprotected": all(isinstance(s, PREPARATORY) for s in steps),
        },
    )
    if release.scores is not None:
        run.save_arrays("scores", scores=release.scores)
    if release.confidential:
        run.save_arrays("confidential", **release.confidential)


def _chain(run: Run, data: Microdata, steps: tuple[Step, ...], edits: EditSet) -> Release:
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    figures: dict[str, float] = {}
    confidential: dict[str, np.ndarray] = {}
    keeps = True
    masked = 0
    release: Release | None = None
    for number, step in enumerate(steps, start=1):
        run.save("step-input", data)
        release = anonymize(data, step, rng=run.rng(f"step-{number}"), edits=edits)
        if len(release.data) < 2:
            raise Refused(f"step {number} ({step.method}) leaves fewer than 2 records to release")
        data = release.data
        claims += release.claims
        notes += release.notes
        if number > 1 and releases_ranges((step,)):
            notes += (f"ranges and guaranteed bounds speak of the values after step {number - 1}, not of the source's",)
        figures |= {f"step{number}.{name}": value for name, value in release.figures.items()}
        keeps = keeps and release.keeps_records
        confidential |= {f"step{number}.{name}": value for name, value in release.confidential.items()}
        masked += not isinstance(step, PREPARATORY)
    assert release is not None
    # The paper's form is that of one masking; after two, the scores belong to data already masked.
    scores = release.scores if masked == 1 else None
    return replace(
        release,
        claims=claims,
        keeps_records=keeps,
        notes=notes,
        figures=figures,
        scores=scores,
        confidential=confidential,
    )


def _with_counts_kept(release: Release, edits: EditSet, schema: Schema, rng: np.random.Generator) -> Release:
    """Bring a hidden group's counts back to the chosen ones, where later steps have carried members away."""
    for claim in release.claims:
        if isinstance(claim, GroupCounts) and not claim.check(release.data).holds:
            moved = settled(without_dependents(release.data, edits), claim, edits=edits, rng=rng)
            release = replace(
                release,
                data=complete(moved, edits, _schema_after(schema, moved.schema, edits)),
                notes=(
                    *release.notes,
                    "after the later steps the group's counts were brought back by moving again",
                ),
            )
    return release


def _telling(hidden: set[str], edits: EditSet) -> list[str]:
    """Return the variables between whose values a group is hidden, and what edits compute from them."""
    for edit in edits.dependents:
        if hidden & set(edit.terms):
            hidden = hidden | {str(edit.dependent)}
    return sorted(hidden)


def told(step: Step, stated: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a step's method and parameters, or those ``stated``, but for what would tell what it hides."""
    secret = getattr(step, "confidential_parameters", ())
    shown = asdict(step) if stated is None else {"method": step.method, **stated}
    return {name: value for name, value in shown.items() if name not in secret}


def releases_ranges(steps: tuple[Step, ...]) -> bool:
    """Whether the last step releases ranges in place of values."""
    return isinstance(steps[-1], OptimalBoxes) and steps[-1].release == "intervals"


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
