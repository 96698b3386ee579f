"""The plan: everything a custodian writes, in one YAML file and one model built of the tasks' sections."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError

from anoncore.edits import EditSet
from anoncore.errors import AnonymizationError
from anoncore.methods import GroupAnonymity, SpectralSwap
from anoncore.microdata import Schema, Variable, alike_shown
from anoncore.registry import PREPARATORY
from flows.schedule import ScheduleSection
from tasks.anonymize import Step, releases_ranges, told
from tasks.assess import AssessmentSection
from tasks.decide import PolicySection
from tasks.faults import Refused, ReleaseError, visible
from tasks.ingest import SourceSection, header_of, like_a_formula, nearly
from tasks.places import cut, named
from tasks.publish import PublicationSection
from tasks.split import ReferenceSection
from tasks.track import TrackingSection
from tasks.validate import EditsSection
from tasks.workspace import Section, SeedSection, digest_of

MAX_BYTES = 5_000_000
MAX_WHOLE = 10**18
MAX_NODES = 200_000
MAX_DEPTH = 30
MAX_NUMBER = 1000
MAX_PROBLEMS = 30
LONGEST_PROBLEM = 500
T = TypeVar("T")
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Plan(Section):
    """A release plan.

    Every section is described where the task that reads it lives; ``docs/plan.md`` shows them all.
    """

    anonflow: Literal[1]
    name: str = Field(pattern=f"^{NAME.pattern}$")
    source: SourceSection
    variables: tuple[Variable, ...] = Field(min_length=1)
    edits: EditsSection = EditsSection()
    reference: ReferenceSection = ReferenceSection()
    steps: tuple[Step, ...] = Field(min_length=1)
    assessment: AssessmentSection = AssessmentSection()
    policy: PolicySection = PolicySection()
    publication: PublicationSection = PublicationSection()
    tracking: TrackingSection = TrackingSection()
    seed: SeedSection = SeedSection()
    schedule: ScheduleSection = ScheduleSection()

    @property
    def digest(self) -> str:
        """The SHA-256 of what the plan says, whatever its layout and comments, and whenever it runs.

        Nor does it matter where the release is delivered: one that stands goes to a target that is added.
        """
        return digest_of(self.model_dump(mode="json", exclude={"schedule": True, "publication": {"to"}}))

    @property
    def confides(self) -> bool:
        """Whether a step's parameters would tell what it hides, so that guesses must not be checkable."""
        return any(getattr(step, "confidential_parameters", ()) for step in self.steps)

    def public_text(self) -> str:
        """Return the plan for auditors: without the source's address, the seed, and a group's goals."""
        public = self.model_dump(mode="json", exclude={"seed"}, exclude_defaults=True)
        public["steps"] = [
            told(step, stated) for step, stated in zip(self.steps, public["steps"], strict=True)
        ]
        public["source"] = {"kind": "query" if self.source.sql is not None else "file"}
        if self.reference.source is not None:
            public["reference"]["source"] = {
                "kind": "query" if self.reference.source.sql is not None else "file"
            }
        if self.publication.to:
            kinds = [{"kind": "folder" if t.table is None else "table"} for t in self.publication.to]
            public["publication"]["to"] = kinds
        return yaml.safe_dump(public, sort_keys=False, allow_unicode=True)

    def _step_problems(self, schema: Schema | None, edits: EditSet | None) -> list[str]:
        """Return what the steps and the policy, or the steps and table and edits, hold against each other."""
        found = []
        for number, step in enumerate(self.steps, start=1):
            if schema is not None and edits is not None and hasattr(step, "problems"):
                found += [f"steps: {number} ({step.method}): {p}" for p in step.problems(schema, edits)]
            if number < len(self.steps) and releases_ranges((step,)):
                found.append(
                    f"steps: {number} ({step.method}) releases ranges, which no later step can read; make it "
                    "the last, or choose release: means"
                )
        found += _unrepaired(self.edits, self.steps)
        found += self._group_problems()
        void = {measure for step in self.steps for measure in getattr(step, "void_by_design", ())}
        surplus = sorted(set(self.policy.by_design) - void)
        if surplus:
            found.append(f"policy: by_design lists {', '.join(surplus)}, which no step makes void; remove it")
        if "uncertainty" in void and "uncertainty" not in self.policy.by_design:
            found.append(
                "policy: a step publishes groups of identical records, so uncertainty is 0 by design; "
                "acknowledge it with by_design: [uncertainty]"
            )
        if any(isinstance(s, SpectralSwap) and s.released == "probabilities" for s in self.steps):
            spread = {v.name for v in self.variables if v.kind in ("binary", "nominal")}
            broken = [e.name for e in self.edits.rules if spread & set(e.variables)]
            if broken:
                found.append(
                    "steps: released: probabilities replaces binary and nominal variables by one column per "
                    f"level, which these edits read: {', '.join(broken)}; remove them or choose calibrated"
                )
        return found

    def _group_problems(self) -> list[str]:
        """Return what hiding a group asks of the other steps and of the policy."""
        found = []
        hides = any(isinstance(s, GroupAnonymity) for s in self.steps)
        alone = hides and all(isinstance(s, PREPARATORY) for s in self.steps)
        if alone and self.policy.individual_protection != "none":
            found.append(
                "policy: no step protects single records, which group-anonymity leaves as they were; add "
                "one, or state individual_protection: none with an individual_protection_reason"
            )
        if not alone and self.policy.individual_protection == "none":
            found.append("policy: individual_protection: none is for plans that only hide a group; remove it")
        grouped = [s.method for s in self.steps if getattr(s, "void_by_design", ())]
        if hides and grouped:
            found.append(
                f"steps: group-anonymity and {', '.join(grouped)} cannot be combined: moving members breaks "
                "groups of identical records; use another masking step"
            )
        return found

    def _regression_problems(self, schema: Schema) -> list[str]:
        hidden = {s.parameter for s in self.steps if isinstance(s, GroupAnonymity)}
        found = []
        for regression in self.assessment.regressions:
            found += [f"assessment: {problem}" for problem in regression.problems(schema)]
            told = sorted(hidden & {regression.outcome, *regression.predictors})
            if told:
                found.append(
                    f"assessment: regression {regression.formula}: how well it survives would tell of the "
                    f"group that is hidden along {', '.join(told)}; leave it out"
                )
        return found

    def problems(self, base: Path) -> list[str]:
        """Return what is wrong between the sections, and between the plan and its source's columns."""
        found: list[str] = []
        schema = _tried(lambda: Schema(self.variables), found)
        edits = _tried(self.edits.edit_set, found)
        if schema is not None and edits is not None:
            found += _tried(lambda: edits.problems(schema), found) or []
        if schema is not None:
            if not schema.masked:
                found.append(
                    "variables: every one is an identifier or a household; nothing would be released"
                )
            formulas = [n for n in schema.masked if like_a_formula(n)]
            if formulas:
                found.append(
                    f"variables with names that a spreadsheet would take for formulas: {named(formulas)}; "
                    "rename them"
                )
            found += _tried(lambda: _column_problems(self.source, schema, base), found) or []
            found += self._regression_problems(schema)
        found += self._step_problems(schema, edits)
        return found


def _unrepaired(edits: EditsSection, steps: tuple[Step, ...]) -> list[str]:
    if edits.on_violation == "repair" and releases_ranges(steps):
        return ["edits: on_violation: ranges are not repaired; choose set-aside or refuse"]
    return []


def _tried(function: Callable[[], T], found: list[str]) -> T | None:
    """Return the result; or None, with the reason added to ``found``, so that all is told at once."""
    try:
        return function()
    except (AnonymizationError, ReleaseError) as error:
        found.append(str(error))
        return None


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


def load_plan(path: Path) -> PlanFile:
    """Read and check a plan.

    Raises
    ------
    Refused
        With everything that is wrong, one line each, with its line number in the file.
    """
    shown = cut(visible(path.name))
    text = _read(path)
    document, lines = _parse(text, shown)
    problems = _odd_values(document, (), lines)
    plan = None
    try:
        plan = Plan.model_validate(document)
    except ValidationError as error:
        problems += _sentences(error, lines)
    if plan is not None and not problems:
        problems = [_placed(p, plan, lines) for p in plan.problems(path.resolve().parent)]
    if plan is None or problems:
        raise Refused("\n".join(f"{shown}: {p}" for p in _few(problems))) from None
    return PlanFile(plan, path.resolve(), text)


def _few(problems: Iterable[str]) -> list[str]:
    """Return problems as they may be shown: each once, on a line of its own, and no more than a page."""
    every = [cut(visible(line), LONGEST_PROBLEM) for p in dict.fromkeys(problems) for line in p.split("\n")]
    more = len(every) - MAX_PROBLEMS
    return every[:MAX_PROBLEMS] + ([f"and {more} more; mend these first"] if more > 0 else [])


def _read(path: Path) -> str:
    shown, problem = f"plan {cut(visible(path.name))}", ""
    try:
        # A pipe would wait for ever, and a device might never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                problem = "cannot be read as a file"
            elif len(content := file.read(MAX_BYTES + 1)) > MAX_BYTES:
                problem = f"is larger than {MAX_BYTES // 1_000_000} MB, which no plan needs"
            else:
                return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        problem = "does not exist"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    except (OSError, ValueError):
        problem = "cannot be read as a file"
    raise Refused(f"{shown} {problem}")


def _parse(text: str, name: str) -> tuple[Any, dict[tuple[Any, ...], int]]:
    """Return the document and the line on which each of its parts stands."""
    problem, loader = "", None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            problem = "is empty"
        else:
            lines: dict[tuple[Any, ...], int] = {}
            _note_lines(node, (), lines)
            return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        problem = _unreadable(error)
    except (yaml.YAMLError, ValueError, RecursionError):
        problem = "is not readable YAML"
    finally:
        if loader is not None:
            loader.dispose()
    raise Refused(f"plan {name} {problem}")


def _unreadable(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f", line {mark.line + 1}" if mark else ""
    return cut(
        f"is not readable YAML{where}: {visible(error.problem or 'check the layout')}", LONGEST_PROBLEM
    )


def yaml_value(text: str) -> Any:
    """Return a value as a plan would have it.

    Raises
    ------
    ValueError
        When it is not readable as one.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  a SafeLoader without aliases
    except (yaml.YAMLError, RecursionError):
        pass
    raise ValueError("not readable YAML")


class _Loader(yaml.SafeLoader):
    """YAML without aliases, which can be made to grow without bound, and without doubled keys."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._nodes += 1
        self._depth += 1
        problem = ""
        if self._depth > MAX_DEPTH:
            problem = f"lists and keys inside each other more than {MAX_DEPTH} times"
        elif self._nodes > MAX_NODES:
            problem = f"more than {MAX_NODES} values, which no plan needs"
        if problem:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        node = self._compose(parent, index)
        self._depth -= 1
        return node

    def _compose(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not allowed in a plan", problem_mark=event.start_mark
            )
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.MappingNode):
            self._check_keys(node)
        return node

    def _check_keys(self, node: yaml.MappingNode) -> None:
        seen = set()
        for key, _ in node.value:
            problem = ""
            if not isinstance(key, yaml.ScalarNode):
                problem = "a key must be one word or text"
            elif key.tag != "tag:yaml.org,2002:str":
                problem = f"the key {cut(key.value)} is not text to YAML; quote it"
            elif key.value in seen:
                problem = f"the key {cut(key.value)} stands twice"
            if problem:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        read = not (
            isinstance(node, yaml.ScalarNode) and node.tag in NUMBERS and len(node.value) > MAX_NUMBER
        )
        try:
            value = super().construct_object(node, deep) if read else None
        except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError):
            read = False
        if not read or isinstance(value, bytes):
            problem = (
                "a value that YAML takes for a number or a date, and cannot read; quote it if it is text"
            )
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        if isinstance(value, int) and abs(value) >= MAX_WHOLE:
            problem = "a number with more than 18 digits, which no plan needs"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return value


# To a number in groups of sixty, what is read grows with the square of its length.
NUMBERS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))


def _note_lines(node: Any, at: tuple[Any, ...], lines: dict[tuple[Any, ...], int]) -> None:
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _note_lines(value, (*at, key.value), lines)
            lines[(*at, key.value)] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _note_lines(value, (*at, number), lines)


def _odd_values(value: Any, at: tuple[Any, ...], lines: dict[tuple[Any, ...], int]) -> list[str]:
    """Return what is said to readers and would write to their terminals, and codes that are none.

    YAML makes truth values of yes and no.

    Such a list is then replaced by plain codes, so that the rest of the plan can be judged too.
    """
    if isinstance(value, dict):
        return [p for key, part in value.items() for p in _odd_values(part, (*at, key), lines)]
    if isinstance(value, str) and at[-1:] and at[-1] in TEXTS and CONTROL.search(value):
        return [f"line {lines[at]}: {_shown(at)}: {NO_CONTROL}"]
    if not isinstance(value, list):
        return []
    if at and at[-1] in CODES and not all(_is_code(v) for v in value):
        value[:] = [str(i) for i in range(len(value))]
        return [f"line {lines[at]}: {_shown(at)}: {NO_CODE}"]
    return [p for i, part in enumerate(value) for p in _odd_values(part, (*at, i), lines)]


# What writes to a terminal, or turns the direction of writing.
CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
TEXTS = ("title", "description", "contact", "licence", "individual_protection_reason", "experiment")
NO_CONTROL = "must not hold control characters, which a terminal or a reader takes for something else"
CODES = ("levels", "missing", "values")
NO_CODE = (
    "must hold numbers or text; quote what YAML takes for something else (yes, no, true, null, dates), "
    "and write the truth values of a column as 0 and 1"
)


def _is_code(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _placed(problem: str, plan: Plan, lines: dict[tuple[Any, ...], int]) -> str:
    """Put the line in front of a sentence about the whole plan."""
    at: tuple[Any, ...] = ()
    for number, rule in enumerate(plan.edits.rules):
        if problem.startswith(f"edit {rule.name!r}"):
            at = ("edits", "rules", number)
    for number, variable in enumerate(plan.variables):
        if problem.startswith(f"variable {variable.name!r}"):
            at = ("variables", number)
    first = re.split(r"\W", problem, maxsplit=1)[0]
    at = at or (SUBJECTS.get(first, first),)
    return f"line {lines[at]}: {problem}" if at in lines else problem


# The section that a sentence speaks of, by its first word, where that is not the section's name.
SUBJECTS = {"columns": "variables", "no": "edits", "computed": "edits"}

WORDS = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "missing_keyword_only_argument": "is missing",
    "extra_forbidden": "is not a key that stands here; check its spelling",
    "unexpected_keyword_argument": "is not a key that stands here; check its spelling",
    "model_type": "must hold keys with values",
    "model_attributes_type": "must hold keys with values",
    "dataclass_type": "must hold keys with values",
    "dict_type": "must hold keys with values",
    "tuple_type": "must be a list",
    "string_type": "must be text; quote it",
    "union_tag_not_found": "does not say of which kind it is; add method (of a step) or edit (of a rule)",
    "too_short": "must not be empty",
}


def _sentences(error: ValidationError, lines: dict[tuple[Any, ...], int]) -> list[str]:
    """Return one sentence each; a list is not called empty because its items were refused."""
    found: list[Any] = error.errors(include_url=False, include_input=False)
    places = [e["loc"] for e in found]
    return [
        _sentence(e, lines)
        for e in found
        if e["type"] != "too_short"
        or not any(len(p) > len(e["loc"]) and p[: len(e["loc"])] == e["loc"] for p in places)
    ]


def _sentence(error: Any, lines: dict[tuple[Any, ...], int]) -> str:
    """Say where and what; parts of the place that the file does not have are tags of a union."""
    at: tuple[Any, ...] = ()
    for part in error["loc"]:
        if (*at, part) in lines:
            at = (*at, part)
    absent = error["type"].startswith("missing") and at[-1:] != error["loc"][-1:]
    place = (*at, error["loc"][-1]) if absent else at
    what = WORDS.get(error["type"], error["msg"].removeprefix("Value error, "))
    return f"line {lines[at]}: {_shown(place) or 'the plan'}: {what}"


def _shown(place: tuple[Any, ...]) -> str:
    """Return a place as a person counts: variables.3.name."""
    return ".".join(str(p + 1) if isinstance(p, int) else cut(visible(p)) for p in place)


def _column_problems(source: SourceSection, schema: Schema, base: Path) -> list[str]:
    header = header_of(source, base, schema.names)
    if header is None:
        return []
    there = set(header)
    absent = [n for n in schema.names if n not in there]
    surplus = [n for n in header if n not in schema]
    if len(absent) == len(schema):
        # Without a header the first record would stand here, so what was found is not shown.
        return [
            f"source: none of the {len(schema)} variables is among its {len(header)} columns; check that it "
            "is the right table, that its first line holds the names, and its delimiter"
        ]
    found = []
    if absent:
        found.append(f"variables that the source does not have: {named(absent)}")
    if surplus:
        found.append(
            f"columns of the source without a declaration: {named(surplus)}; declare them, as identifier to "
            "drop them"
        )
    if pairs := nearly(absent, surplus):
        found.append(f"variables that only look like columns of the source: {alike_shown(pairs)}")
    return found
