"""Assess released files of any origin: the same measures and gates, on two or three files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anoncore.edits.model import EditSet
from anoncore.microdata import Microdata
from anoncore.profile import find_rules, find_sums
from flows.draft import source_of
from flows.draft.together import declared_together
from flows.plan.model import load_plan
from flows.release import Direct
from tasks.assessment.assess import Assessed, AssessmentSection, assess, with_external_files
from tasks.assessment.hidden_units import with_hidden_units
from tasks.common.errors import ExitCode, Refused, sanitise_errors, visible
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.common.workspace import StoredRecords, wipe_abandoned
from tasks.intake.external import DeclaredFiles, File, Prepared, prepare, with_levels_of
from tasks.policy.assessment import Assessment
from tasks.policy.disclosure_control import without_source_levels
from tasks.policy.section import PolicySection
from tasks.policy.verdict import Verdict, decide

EXIT_CODES = {"publish": ExitCode.PUBLISHED, "reject": ExitCode.REJECTED, "await": ExitCode.AWAITING}


@dataclass(frozen=True)
class Files:
    """Files to compare, of any format that a source can have.

    Parameters
    ----------
    released, original : the release, and the records from which it was made
    reference : other people of the same population; without it each record is compared with the rest of the original
    aligned : row i of the release stems from row i of the original, so that linkage can be measured
    identifiers : columns that name people: any of their values in the release fails it
    """

    released: Path
    original: Path
    reference: Path | None = None
    aligned: bool = False
    identifiers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What was measured and what the policy says of it."""

    verdict: Verdict
    assessment: Assessment
    left_out: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def exit_code(self) -> ExitCode:
        """0 where every gate passes, 3 where one fails, 4 where a person must decide."""
        return EXIT_CODES[self.verdict.decision]


def judge(
    home: Home,
    files: Files,
    *,
    plan: Path | None = None,
    by_design: tuple[str, ...] = (),
    runner: Direct | None = None,
) -> Judgement:
    """Measure a released file against its original records, and apply the policy's gates.

    Parameters
    ----------
    home : Home, whose private workspace is used and wiped
    files : Files
    plan : whose declarations, assessment and policy apply; guessed from all files where there is none
    by_design : measures that carry no information, acknowledged here where no plan does
    runner : reports the steps; none by default

    Raises
    ------
    Refused
        When a file cannot be read or the files do not fit together; no message holds a value.

    Examples
    --------
    >>> judge(home, Files(Path("masked.csv"), Path("people.csv"))).exit_code  # doctest: +SKIP
    <ExitCode.REJECTED: 3>
    """
    step = (runner or Direct()).step
    people, release = _file(files.original, "original"), _file(files.released, "release")
    others = _file(files.reference, "reference") if files.reference else None
    section, policy, edits = AssessmentSection(), PolicySection(by_design=by_design), None
    if plan is not None:
        stated = load_plan(plan).plan
        edits = stated.edits.edit_set()
        declared, section, policy = DeclaredFiles(stated.variables, stated.unit), stated.assessment, stated.policy
    else:
        given = (files.original, files.reference, files.released)
        declared = DeclaredFiles.guessed_from(step("Guess the variables", declared_together, *given))
    declared = sanitise_errors(declared.with_identifiers)(files.identifiers)
    wipe_abandoned(home)
    # Nothing is masked here, so what is drawn, samples alone, needs no secret.
    with Run.opened(home, SeedSection(public=0, data_are_public=True)) as run:
        if plan is None and others is not None:
            declared = sanitise_errors(with_levels_of)(run, others, people, declared)
        prepared = step("Read the files", _prepared, run, (release, people, others), declared, files.aligned)
        _require_records(prepared, section.k)
        measured = step("Measure risk and utility", _measured, run, prepared, section, policy)
        shown = without_source_levels(measured.assessment, _released(prepared.masked.released.load(), section.k))
        found = with_external_files(shown, prepared)
        assessment = step("Look for records of one unit", _looked_for_units, found, prepared.sides.original, edits)
    return Judgement(
        verdict=decide(assessment, policy),
        assessment=assessment,
        left_out=prepared.left_out,
        unknown=prepared.unknown,
    )


def _prepared(run: Run, given: tuple[File, File, File | None], declared: DeclaredFiles, aligned: bool) -> Prepared:
    return prepare(run, *given, declared, aligned=aligned)


def _measured(run: Run, given: Prepared, section: AssessmentSection, policy: PolicySection) -> Assessed:
    return assess(run, given.sides, given.masked, section, policy, copied_parts=True)


def _looked_for_units(assessment: Assessment, original: StoredRecords, edits: EditSet | None) -> Assessment:
    """Look for records of one unit; where some are found and no edits are stated, once more with those of a draft."""
    found = with_hidden_units(assessment, original, edits or EditSet())
    if edits is not None or found.hidden_units is None or not found.hidden_units.variables:
        return found
    data = original.load()
    numbers = data.frame[[v.name for v in data.schema if v.is_masked and v.kind == "continuous"]]
    rules = find_rules(data, find_sums(numbers, rng=np.random.default_rng(0)))
    return with_hidden_units(assessment, original, EditSet(rule.edit for rule in rules if rule.active))


def _released(data: Microdata, k: int) -> dict[str, set[str]]:
    """Return the levels that at least k released units hold, or k rows without units: others may be one person's."""
    held = {v.name: data.level_units(v.name) for v in data.schema if v.is_categorical and v.is_masked}
    return {name: {str(level) for level, n in counts.items() if n >= k} for name, counts in held.items()}


def _file(path: Path, side: str) -> File:
    if not os.path.exists(path):  # unlike the method of a path, without an error of its own
        raise Refused(f"{side}: there is no file {visible(path.name)}; check the path")
    return File(path, sanitise_errors(source_of)(path))


def _require_records(prepared: Prepared, k: int) -> None:
    """Refuse tables with fewer records than the assessment looks at around each."""
    reference, original = prepared.sides.reference, len(prepared.sides.original.load())
    sides = {"original": original if reference else original - 1, "release": len(prepared.masked.released.load())}
    if reference is not None:
        sides["reference"] = len(reference.load())
    for side, records in sides.items():
        if records < k:
            raise Refused(
                f"{side}: too few records to be measured, as the assessment looks at the {k} nearest others of each; "
                "take more (gates need some hundreds to decide), or a plan with a smaller assessment: k"
            )
