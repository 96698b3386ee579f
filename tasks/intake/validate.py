"""Check the declared edits, on the raw data and again on what is to be released."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from anoncore.boxes.edits import over_ranges
from anoncore.edits.coarser import coarser
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import EditSet
from anoncore.edits.product import ProductEdit
from expectations import Suite, ValidationReport, validate
from tasks.common.errors import Fault, Refused
from tasks.common.partitions import SIDE, StoredPartitions
from tasks.common.run import Run
from tasks.common.sections import Section
from tasks.common.workspace import StoredRecords, StoredTable
from tasks.intake.ingest import Ingested
from tasks.masking.anonymize import Masked

Rule = Annotated[
    LinearEdit | BoundEdit | SetEdit | ConditionalEdit | RatioEdit | LookupEdit | ProductEdit,
    Field(discriminator="edit"),
]


class EditsSection(Section):
    """What every record must satisfy, before and after masking.

    Parameters
    ----------
    on_violation : What happens to source records that violate an edit: ``refuse`` ends the run and names the edits;
        ``set-aside`` leaves the records out of the release; ``repair`` keeps them, since masked records are made to
        satisfy every edit in any case.
    rules : Each of the kind ``linear``, ``bound``, ``set``, ``conditional``, ``ratio``, ``lookup`` or ``product``.
    published : Which rules the published documents name: ``all``, or a list of their names. A rule that was found in
        the data, as drafts do, may hold because one person is not in them: name those that you know to hold of
        everybody.
    """

    on_violation: Literal["refuse", "set-aside", "repair"] = "refuse"
    rules: tuple[Rule, ...] = ()
    published: Literal["all"] | tuple[str, ...] = "all"

    @model_validator(mode="after")
    def _known(self) -> Self:
        unknown = sorted(set(self.published) - {rule.name for rule in self.rules}) if self.published != "all" else []
        if unknown:
            raise ValueError(f"published names {', '.join(unknown)}, which no rule is called; correct or remove it")
        return self

    @property
    def unpublished(self) -> tuple[str, ...]:
        """Names of the rules that published documents do not name."""
        return () if self.published == "all" else tuple(r.name for r in self.rules if r.name not in self.published)

    def edit_set(self) -> EditSet:
        """Return the edits as one set."""
        return EditSet(self.rules)


@dataclass(frozen=True)
class Checked:
    """The records that may be released, by reference, and how the raw data fared.

    Parameters
    ----------
    data, keys, sampling_units : as in `Ingested`, the data without the records that were set aside
    set_aside : how many records were set aside
    report : the outcome of every rule on the raw data
    """

    data: StoredRecords
    keys: StoredTable | None
    set_aside: int
    report: ValidationReport
    sampling_units: StoredTable | None = None


@dataclass(frozen=True)
class Validated:
    """The outcome of every rule on the data to be released.

    Parameters
    ----------
    suite : what is published of the suite that was run
    unverifiable : edits that ranges cannot be shown to satisfy, or that say nothing in coarser levels
    """

    report: ValidationReport
    suite: Suite
    unverifiable: tuple[str, ...]


def validate_raw(run: Run, ingested: Ingested, section: EditsSection) -> Checked:
    """Count violations in the raw data, and carry out the plan's policy on them.

    Raises
    ------
    Refused
        With policy ``refuse`` and a violated edit; with ``set-aside`` when too few records are left.
    AnonymizationError
        When the determinants of a lookup nearly identify records.
    """
    edits, sets_aside = section.edit_set(), section.on_violation == "set-aside"
    reports, good = [], []
    for part in ingested.data.parts():
        edits.refuse_identifying(part)
        reports.append(validate(part.frame, Suite.of(part.schema, edits)))
        whole = not (sets_aside and reports[-1].violated)
        good.append(np.ones(len(part), dtype=bool) if whole else edits.satisfied(part.frame))
    report = ValidationReport.of_parts(reports)
    broken = report.violated
    failed = [rule for rule in broken if rule.error]
    if failed:
        raise Fault(f"checks that could not be carried out: {', '.join(r.name for r in failed)}")
    if broken and section.on_violation == "refuse":
        raise Refused(_refusal(section.rules, {rule.name: rule.violated for rule in broken}))
    kept, stored = np.concatenate(good), ingested.data
    aside = int((~kept).sum())
    if aside:
        if kept.sum() < 4:
            raise Refused(f"{aside} of {len(kept)} records violate an edit; too few are left to release")
        stored = _only(run, stored, kept)
    return Checked(stored, ingested.keys, aside, report, ingested.sampling_units)


def _only(run: Run, data: StoredRecords, kept: np.ndarray) -> StoredRecords:
    """Return some of the records."""
    if isinstance(data, StoredPartitions):
        return data.with_column(SIDE, (~kept).astype(np.int8)).where("checked", 0)
    return run.workspace.store("checked", data.load().take(np.flatnonzero(kept)))


def _refusal(rules: Iterable[Rule], violated: Mapping[str, int]) -> str:
    """Return which edits how many records violate, with the limits that the plan states, and what can be done."""
    broken = [rule for rule in rules if rule.name in violated]
    limits = any(isinstance(rule, BoundEdit) for rule in broken)
    widen = "; where values beyond a limit are right, widen its lower or upper" if limits else ""
    names = ", ".join(f"{rule.name}{_allowed(rule)} ({violated[rule.name]})" for rule in broken)
    return (
        f"the raw data violate edits (records): {names}; correct the data{widen}; remove an edit that correct records "
        "break, or state on_violation: set-aside, which leaves those records out, or repair, which keeps them"
    )


def _allowed(rule: Rule) -> str:
    if not isinstance(rule, BoundEdit):
        return ""
    lower, upper = (None if limit is None else f"{limit:.12g}" for limit in (rule.lower, rule.upper))
    words = [f"at least {lower}"] * (lower is not None) + [f"at most {upper}"] * (upper is not None)
    return f": {' and '.join(words)}"


def validate_masked(masked: Masked, section: EditsSection, original: StoredRecords) -> Validated:
    """Prove that the data to be released satisfy every edit, lookups by the table of the records that were masked.

    Of ranges it is shown that each holds a value with which the edit is satisfied; edits about recoded variables are
    those of their coarser levels.

    Raises
    ------
    Fault
        When one does not hold, since the repair step has promised it.
    Refused
        When ranges hold no such value.
    """
    edits = section.edit_set()
    if edits.lookups:
        edits = edits.learned(original.load())
    edits, unverifiable = coarser(edits, masked.recodings)
    schema = next(iter(masked.released.parts())).schema
    if masked.points is not None:
        names = next(iter(masked.points.parts())).schema.names
        edits, unverifiable = over_ranges(edits, [n for n in names if n not in schema])
    suite = Suite.of(schema, edits)
    reports = [validate(data.frame, suite, edits) for data in masked.released.parts()]
    report = ValidationReport.of_parts(reports)
    broken = [rule.name for rule in report.violated]
    if broken and masked.points is not None:
        raise Refused(
            f"no value in some ranges satisfies: {', '.join(broken)}; records that break an edit must be "
            "set aside before they are put into boxes (on_violation: set-aside)"
        )
    if broken:
        raise Fault(f"after repair the masked data still violate: {', '.join(broken)}; nothing is released")
    named = EditSet(edit for edit in edits.edits if edit.name not in section.unpublished)
    return Validated(report, Suite.of(schema, named), unverifiable)
