"""The plan: everything a custodian writes, in one YAML file and one model built of the tasks' sections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args

import yaml
from pydantic import Field, ValidationError

from anoncore.edits.serialization import to_dict
from anoncore.errors import AnonymizationError
from anoncore.method import public_parameters
from anoncore.microdata import Schema, Variable
from anoncore.names import format_look_alikes
from flows.plan.engine import Engine, engine_problems
from flows.plan.file import LONGEST_PROBLEM, Lines, Place, odd_values, parse, read_text, sentences
from flows.plan.hierarchies import with_hierarchies
from flows.plan.keys import keys_at
from flows.plan.schedule import ScheduleSection
from tasks.assessment.assess import AssessmentSection
from tasks.assessment.game import GameSection
from tasks.common.digests import digest_of
from tasks.common.errors import Refused, ReleaseError, cut, named, odd, visible
from tasks.common.randomness import SeedSection
from tasks.common.sections import Section, short_name
from tasks.connectors.statistical import LONGEST, unsuitable_names
from tasks.engine.section import ClusterSection
from tasks.intake.columns import like_a_formula, named_surplus, nearly
from tasks.intake.read import header_of
from tasks.intake.series import SeriesSection
from tasks.intake.source import SourceSection
from tasks.intake.split import ReferenceSection
from tasks.intake.units import Declared
from tasks.intake.validate import EditsSection
from tasks.masking.anonymize import Step
from tasks.policy.section import PolicySection
from tasks.publication.candidate import PublicationSection
from tasks.tracking.mlflow import TrackingSection

MAX_PROBLEMS = 30
T = TypeVar("T")
# Roles of columns that may name the sampling unit of a record.
_NAMES_SAMPLING_UNITS = ("excluded", "sampling-unit", "stratum")


class Plan(Section):
    """A release plan.

    Parameters
    ----------
    anonflow : Version of the format.
    name : Of the plan and its releases: lower-case letters, digits, ``-`` and ``_``, at most 63.
    variables : The columns of the source.
    unit : The columns that together name whom the release protects: a person, household, enterprise or patient. Each
        is an identifier or a household. Records that share this name, or any other identifier, are one unit.
    steps : The methods, in the order in which they are applied.
    engine : Where the table is: ``memory``; ``local``, in encrypted files of which processes of this machine hold a
        part each, for tables larger than memory; ``dask``, the same on a cluster; ``auto``, by the table's size.
    cluster : The cluster of ``engine: dask``.
    """

    anonflow: Literal[1]
    name: Annotated[str, short_name("-_", 63)]
    source: SourceSection
    variables: tuple[Variable, ...] = Field(min_length=1)
    unit: tuple[str, ...] = ()
    edits: EditsSection = EditsSection()
    reference: ReferenceSection = ReferenceSection()
    series: SeriesSection = SeriesSection()
    steps: tuple[Step, ...] = Field(min_length=1)
    assessment: AssessmentSection = AssessmentSection()
    game: GameSection = GameSection()
    policy: PolicySection = PolicySection()
    publication: PublicationSection = PublicationSection()
    tracking: TrackingSection = TrackingSection()
    seed: SeedSection = SeedSection()
    schedule: ScheduleSection = ScheduleSection()
    engine: Engine = "memory"
    cluster: ClusterSection = ClusterSection()

    @property
    def digest(self) -> str:
        """The SHA-256 of what the plan says, whatever its layout and comments, and whenever it runs.

        Nor does it matter where the release is delivered: one that stands goes to a target that is added.
        """
        return digest_of(
            self.model_dump(
                mode="json", exclude={"schedule": True, "engine": True, "cluster": True, "publication": {"to"}}
            )
        )

    @property
    def masking(self) -> str:
        """The SHA-256 of what masks the records, whatever the plan is called, tests, accepts and publishes beside them.

        A rejection counts for every plan that has it, since drawing anew under another title is the same attempt.
        """
        about = self.model_dump(
            mode="json",
            include={"steps": True, "unit": True, "reference": {"kind", "share"}, "series": {"kind", "left_out"}},
        )
        variables = sorted((v.name, v.kind, v.role) for v in self.variables if not v.is_dropped)
        rules = sorted(digest_of({**to_dict(rule), "name": ""}) for rule in self.edits.rules)
        return digest_of([about, variables, rules, self.edits.on_violation])

    @property
    def confides(self) -> bool:
        """Whether the plan states what is not published, so that guesses must not be checkable."""
        return bool(self.game.groups) or any(step.confidential_parameters for step in self.steps)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is in order and may be meant, and says more than a custodian may know."""
        named_there = self.reference.sampling_units
        codes = [v.name for v in self.variables if v.role == "sampling-unit" and v.is_masked and not named_there]
        if not codes:
            return ()
        return (
            f"variables: {named(codes)} with the role sampling-unit is released: its values name the sampling units "
            "that were drawn, and anyone who knows that a person is of one of them knows that the person may be in the "
            "data. Attacks do not see this while both sides hold the same sampling units; give the role excluded, or "
            "name the columns under reference: sampling_units",
        )

    def public_text(self) -> str:
        """Return the plan for auditors: without addresses, folders, the seed, a group's goals, targets' levels."""
        public = self.model_dump(mode="json", exclude={"seed", "cluster"}, exclude_defaults=True)
        public["steps"] = [public_parameters(*pair) for pair in zip(self.steps, public["steps"], strict=True)]
        for group in public.get("game", {}).get("groups", []):
            del group["level"]
        public["source"] = {"kind": "query" if self.source.sql is not None else "file"}
        if self.reference.source is not None:
            public["reference"]["source"] = {"kind": "query" if self.reference.source.sql is not None else "file"}
        if self.publication.to:
            kinds = [{"kind": "folder" if t.table is None else "table"} for t in self.publication.to]
            public["publication"]["to"] = kinds
        return yaml.safe_dump(public, sort_keys=False, allow_unicode=True)

    def problems(self, base: Path) -> list[str]:
        """Return what is wrong between the sections, and between the plan and its source's columns."""
        problems: list[str] = []
        schema = tried(lambda: Schema(self.variables), problems)
        edits = tried(self.edits.edit_set, problems)
        if schema is not None and edits is not None:
            problems += tried(lambda: edits.problems(schema), problems) or []
            for number, step in enumerate(self.steps, start=1):
                problems += [f"steps: {number} ({step.method}): {p}" for p in step.problems(schema, edits)]
        if schema is not None:
            problems += _name_problems(schema)
            problems += _unit_problems(self.unit, schema)
            problems += _sampling_problems(self.reference.sampling_units, schema)
            problems += self._weight_problems(schema)
            problems += tried(lambda: list(_column_problems(self.source, schema, base)), problems) or []
            problems += self._regression_problems(schema)
            problems += self._game_problems(schema)
        problems += [*self._format_problems(), *engine_problems(self)]
        return [*problems, *self._series_problems(), *self._step_problems(), *self._group_problems()]

    def _weight_problems(self, schema: Schema) -> Iterator[str]:
        """Yield where it is open which weight counts, and where released weights add up to a part of the population."""
        weights = [v.name for v in schema if v.role == "weight" and v.is_masked]
        if len(weights) > 1:
            yield (
                f"variables: {named(weights)} all have the role weight, and one counts; give it to the one by which "
                "records stand for the population, and the role other to the rest"
            )
        if weights and self.reference.kind == "holdout":
            yield (
                f"reference: holdout releases a part of the units, whose {named(weights)} adds up to that part of the "
                "population; choose kind: cross, which releases all, or give the variable the role other"
            )

    def _format_problems(self) -> Iterator[str]:
        """Yield which released variables a format of the release cannot hold."""
        names = [v.name for v in self.variables if v.is_masked]
        for kind in sorted(set(self.publication.formats) & set(LONGEST)):
            if unsuitable := unsuitable_names(kind, names):
                yield (
                    f"publication: {kind} files hold names of letters A to Z, digits and _, at most {LONGEST[kind]}: "
                    f"{named(unsuitable)}; rename them or leave the format out"
                )

    def _series_problems(self) -> Iterator[str]:
        """Yield what is wrong between the series and other sections."""
        series, named = self.series, bool(Declared(self.variables, self.unit).keys)
        if series.draws and self.seed.stated:
            yield (
                f"series: {series.kind} draws other units for every release, and a stated seed draws the same "
                "ones again; remove the seed"
            )
        if series.shared and not named:
            yield "series: shared needs a variable with the role identifier, by which other homes know units"
        if not series.pseudonym:
            return
        if not named or not series.draws or self.reference.kind != "cross":
            yield (
                "series: pseudonym needs a variable with the role identifier, kind: register or panel, and "
                "reference: {kind: cross}, by which the rows of a pseudonym are attacked together"
            )
        if made := [step.method for step in self.steps if step.makes_new_records]:
            yield (
                f"series: pseudonym needs steps that mask each record, and {', '.join(made)} makes rows that are no "
                "record's; remove it, or choose steps such as mdav, rhs, gower-microaggregation or additive-noise"
            )
        if series.pseudonym in {variable.name for variable in self.variables}:
            yield f"series: pseudonym is a new column, and {series.pseudonym} is a variable; choose another name"

    def _game_problems(self, schema: Schema) -> Iterator[str]:
        """Yield what is wrong with the targets of the in/out game."""
        if self.game.shadows and self.policy.individual_protection == "none":
            yield "game: single records are not protected by this plan, so that there is nothing to play; remove it"
        for group in self.game.groups:
            if group.variable not in schema.masked or not schema[group.variable].is_categorical:
                yield f"game: group {group.name} needs a released variable with levels, and {group.variable!r} is none"

    def _step_problems(self) -> Iterator[str]:
        """Yield what the steps hold against each other, the edits and the policy."""
        for number, step in enumerate(self.steps[:-1], start=1):
            if step.releases_ranges:
                yield (
                    f"steps: {number} ({step.method}) releases ranges, which no later step can read; make it "
                    "the last, or choose release: means"
                )
        if self.edits.on_violation == "repair" and self.steps[-1].releases_ranges:
            yield "edits: on_violation: ranges are not repaired; choose set-aside or refuse"
        void = {measure for step in self.steps for measure in step.void_by_design}
        if surplus := sorted(set(self.policy.by_design) - void):
            yield f"policy: by_design lists {', '.join(surplus)}, which no step makes void; remove it"
        if "uncertainty" in void and "uncertainty" not in self.policy.by_design:
            yield (
                "policy: a step publishes groups of identical records, so uncertainty is 0 by design; "
                "acknowledge it with by_design: [uncertainty]"
            )

    def _group_problems(self) -> Iterator[str]:
        """Yield what hiding a group requires of the other steps and of the policy."""
        hiding = [s.method for s in self.steps if s.hidden_variables]
        unprotected = bool(hiding) and all(s.prepares for s in self.steps)
        if unprotected and self.policy.individual_protection != "none":
            yield (
                f"policy: no step protects single records, which {', '.join(hiding)} leaves as they were; add "
                "one, or state individual_protection: none with an individual_protection_reason"
            )
        if not unprotected and self.policy.individual_protection == "none":
            yield "policy: individual_protection: none is for plans that only hide a group; remove it"
        defining = {name for s in self.steps for name in s.group_variables}
        mixing = [s for s in self.steps if s.void_by_design and not s.unmixes_levels]
        grouped = [s.method for s in mixing if not defining <= set(s.unmixed_variables)]
        if hiding and grouped:
            yield (
                f"steps: {', '.join(hiding)} and {', '.join(grouped)} cannot be combined: moving members breaks "
                "groups of identical records; use another masking step, optimal-boxes with categorical: constant, or "
                f"mdav with within: [{', '.join(sorted(defining))}]"
            )

    def _regression_problems(self, schema: Schema) -> Iterator[str]:
        hidden = {name for step in self.steps for name in step.hidden_variables}
        for regression in self.assessment.regressions:
            yield from (f"assessment: {problem}" for problem in regression.problems(schema))
            if telling := sorted(hidden & {regression.outcome, *regression.predictors}):
                yield (
                    f"assessment: regression {regression.formula}: how well it is preserved would reveal the "
                    f"group that is hidden along {', '.join(telling)}; leave it out"
                )


def tried(function: Callable[[], T], problems: list[str]) -> T | None:
    """Return the result; or None, with the reason added to ``problems``, so that all problems are reported at once."""
    try:
        return function()
    except (AnonymizationError, ReleaseError) as error:
        problems.append(str(error))
        return None


def _name_problems(schema: Schema) -> Iterator[str]:
    if not schema.masked:
        yield "variables: every one is an identifier, excluded or a household; nothing would be released"
    if control := [n for n in schema.masked if odd(n)]:
        yield f"variables with names that hold control characters: {named(control)}; rename them"
    if ours := [n for n in schema.names if n.startswith("__") and n.endswith("__")]:
        why = "begin and end with two underscores, as columns of anonflow do"
        yield f"variables with names that {why}: {named(ours)}; rename them"
    if formulas := [n for n in schema.masked if like_a_formula(n)]:
        yield f"variables with names that a spreadsheet would take for formulas: {named(formulas)}; rename them"


def _unit_problems(unit: tuple[str, ...], schema: Schema) -> Iterator[str]:
    if unknown := [n for n in unit if n not in schema]:
        yield f"unit: {named(unknown)} is no declared variable; name columns of the source"
    if shown := [n for n in unit if n in schema and schema[n].role not in ("identifier", "household")]:
        yield (
            f"unit: {named(shown)} would be released or only dropped; what names a unit has the role identifier or "
            "household, or is no part of the unit"
        )
    if twice := sorted({n for n in unit if unit.count(n) > 1}):
        yield f"unit: {named(twice)} is named twice; name each column once"


def _sampling_problems(names: tuple[str, ...], schema: Schema) -> Iterator[str]:
    if unsuitable := [n for n in names if n not in schema or schema[n].role not in _NAMES_SAMPLING_UNITS]:
        yield (
            f"reference: sampling_units names {named(unsuitable)}, which is no column with the role excluded, "
            "sampling-unit or stratum"
        )


def _column_problems(source: SourceSection, schema: Schema, base: Path) -> Iterator[str]:
    """Yield what is wrong between the variables and the source's columns."""
    header = header_of(source, base, schema.names)
    if header is None:
        return
    absent = [n for n in schema.names if n not in set(header)]
    surplus = [n for n in header if n not in schema]
    if len(absent) == len(schema):
        # Without a header these are values of the first record, so they are not shown.
        yield (
            f"source: none of the {len(schema)} variables is among its {len(header)} columns; check that it "
            "is the right table, that its first line holds the names, and its delimiter"
        )
        return
    if absent:
        yield f"variables that the source does not have: {named(absent)}"
    if surplus:
        shown = named_surplus(surplus, len(schema) - len(absent), len(schema))
        yield f"columns of the source without a declaration: {shown}; declare them, as excluded to drop them"
    if pairs := nearly(absent, surplus):
        yield f"variables that only look like columns of the source: {format_look_alikes(pairs)}"


@dataclass(frozen=True)
class PlanFile:
    """A plan with the folder to which its paths are relative."""

    plan: Plan
    path: Path
    text: str

    @property
    def base(self) -> Path:
        """The plan's own folder."""
        return self.path.parent

    def with_engine(self, engine: str) -> PlanFile:
        """Return the plan with another engine; refuse one that it cannot be carried out with."""
        if engine not in get_args(Engine):
            raise Refused(f"--engine must be one of {', '.join(get_args(Engine))}, got {cut(visible(engine))}")
        plan = self.plan.model_copy(update={"engine": engine})
        if problems := list(engine_problems(plan)):
            raise Refused("\n".join(problems))
        return replace(self, plan=plan)

    @property
    def unconfirmed(self) -> list[str]:
        """The comments of a draft by which a person must still decide, each with its line."""
        lines = enumerate(self.text.splitlines(), start=1)
        return [f"line {n}: {cut(match[1], LONGEST_PROBLEM)}" for n, text in lines if (match := CONFIRM.search(text))]


def load_plan(path: Path) -> PlanFile:
    """Read and check a plan.

    Raises `Refused` with everything that is wrong, one line each, with its line number in the file.
    """
    text = read_text(path)
    plan, problems = judged(text, path)
    if plan is None or problems:
        raise Refused("\n".join(f"{cut(visible(path.name))}: {p}" for p in problems)) from None
    return PlanFile(plan, path.resolve(), text)


def judged(text: str, path: Path) -> tuple[Plan | None, list[str]]:
    """Return the plan that a text states for a file, where its sections can be read, and what is wrong with it.

    Raises `Refused` when the text is not readable YAML.
    """
    document, lines = parse(text, cut(visible(path.name)))
    problems = odd_values(document, (), lines) + with_hierarchies(document, path.resolve().parent, lines)
    plan = None
    try:
        plan = Plan.model_validate(document)
    except ValidationError as error:
        problems += sentences(error, lines, lambda place: keys_at(Plan, place))
    if plan is not None and not problems:
        problems = [_with_line(p, plan, lines) for p in plan.problems(path.resolve().parent)]
    return plan, _few(problems)


def _few(problems: Iterable[str]) -> list[str]:
    """Return problems as they may be shown: each once, on a line of its own, and no more than a page."""
    every = [cut(visible(line), LONGEST_PROBLEM) for p in dict.fromkeys(problems) for line in p.split("\n")]
    more = len(every) - MAX_PROBLEMS
    return every[:MAX_PROBLEMS] + ([f"and {more} more; correct these first"] if more > 0 else [])


def _with_line(problem: str, plan: Plan, lines: Lines) -> str:
    """Put the line in front of a sentence about the whole plan."""
    first = re.split(r"\W", problem, maxsplit=1)[0]
    at: Place = (SUBJECTS.get(first, first),)
    if step := STEP.match(problem):
        at = ("steps", int(step[1]) - 1)
    for section, items in (("edits", plan.edits.rules), ("variables", plan.variables)):
        for number, item in enumerate(items):
            if problem.startswith(f"{section.removesuffix('s')} {item.name!r}"):
                at = (section, "rules", number) if section == "edits" else (section, number)
    return f"line {lines[at]}: {problem}" if at in lines else problem


# The section of a sentence, by its first word, where that is not the section's name.
CONFIRM = re.compile(r"#\s*confirm:\s*(.*)")
STEP = re.compile(r"steps: (\d+) \(")
SUBJECTS = {"columns": "variables", "no": "edits", "computed": "edits"}
