"""Carry out the plan's steps, one after the other, and make the edits hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
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
from tasks.common.run import Run
from tasks.common.workspace import StoredArrays, StoredMicrodata
from tasks.policy.assessment import CheckedClaim
from tasks.record.dossier import RepairSummary

Step: TypeAlias = Annotated[Parameters, Field(discriminator="method")]


@dataclass(frozen=True)
class ContinuousForm:
    """The paper's form of a release, before scores become levels: what was masked, and its masked scores."""

    data: StoredMicrodata
    scores: StoredArrays


@dataclass(frozen=True, kw_only=True)
class Masked:
    """The masked data by reference, with what the steps report about them.

    Parameters
    ----------
    released : rows in the order of the steps' output
    points : the same records as single values, where ranges are released
    continuous : where one step masked, and has scores
    confidential : what only the custodian may see, under "step<number>.<name>"
    claims : each claim as it was checked on ``released``
    repair : what had to be changed
    keeps_records : whether the index of ``released`` says from which original record a row stems
    notes : sentences for the method statement
    figures : what the steps measured, under "step<number>.<name>"
    hides : variables between whose values a group is hidden
    unprotected : whether single records are left as they were
    """

    released: StoredMicrodata
    points: StoredMicrodata | None = None
    continuous: ContinuousForm | None = None
    confidential: StoredArrays | None = None
    claims: tuple[CheckedClaim, ...] = ()
    repair: RepairSummary | None = None
    keeps_records: bool
    notes: tuple[str, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)
    hides: tuple[str, ...] = ()
    unprotected: bool = False

    @property
    def measured(self) -> StoredMicrodata:
        """The released records as single values, which most measures need."""
        return self.points or self.released


def mask(run: Run, data: StoredMicrodata, steps: tuple[Step, ...], edits: EditSet) -> Masked:
    """Carry out the steps on the original records.

    Variables that an edit computes from others are left out of the masking and computed again
    afterwards; what edits still break is repaired on the masked data.
    """
    original = data.load()
    if releases_ranges(steps):
        # A range holds what the record held, sums included: nothing to compute anew, nothing to repair.
        release, step_input = _chain(run, original, steps, edits)
        repaired = Repaired(release.data, {e.name: 0 for e in edits.edits}, 0, 0)
    else:
        release, step_input = _chain(run, without_dependents(original, edits), steps, edits)
        whole = complete(release.data, edits, _schema_after(original.schema, release.data.schema, edits))
        repaired = repair(whole, edits, rng=run.rng("repair"))
    final = replace(release, data=repaired.data.select(repaired.data.schema.masked))
    final = _with_counts_kept(final, edits, original.schema, run.rng("settle"))
    final = replace(final, data=_trimmed(final.data))
    store = run.workspace
    continuous = None
    if release.scores is not None:
        continuous = ContinuousForm(
            store.store("step-input", step_input), store.store_arrays("scores", scores=release.scores)
        )
    return Masked(
        released=store.store("released", final.data),
        points=None if final.points is None else store.store("points", final.points),
        continuous=continuous,
        confidential=store.store_arrays("confidential", **release.confidential) if release.confidential else None,
        claims=tuple(
            CheckedClaim(type(c).__name__, **vars(check)) for c, check in zip(final.claims, final.check(), strict=True)
        ),
        repair=RepairSummary(repaired.records_changed, repaired.cells_changed, repaired.changed),
        keeps_records=final.keeps_records,
        notes=final.notes,
        figures=dict(final.figures),
        hides=tuple(_telling({s.parameter for s in steps if isinstance(s, GroupAnonymity)}, edits)),
        unprotected=all(isinstance(s, PREPARATORY) for s in steps),
    )


def _chain(run: Run, data: Microdata, steps: tuple[Step, ...], edits: EditSet) -> tuple[Release, Microdata]:
    """Carry out the steps one after the other; return the release, and what the last step masked."""
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    figures: dict[str, float] = {}
    confidential: dict[str, np.ndarray] = {}
    keeps = True
    masked = 0
    release: Release | None = None
    for number, step in enumerate(steps, start=1):
        step_input = data
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
    whole = replace(
        release,
        claims=claims,
        keeps_records=keeps,
        notes=notes,
        figures=figures,
        scores=scores,
        confidential=confidential,
    )
    return whole, step_input


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
