"""The plan: everything a custodian writes, in one YAML file and one model built of the tasks' sections."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError

from anoncore.errors import AnonymizationError
from anoncore.methods import SpectralRHS
from anoncore.microdata import Schema, Variable
from tasks.anonymize import Step
from tasks.assess import AssessmentSection
from tasks.decide import PolicySection
from tasks.faults import Refused, ReleaseError
from tasks.ingest import SourceSection, header_of
from tasks.publish import PublicationSection
from tasks.split import ReferenceSection
from tasks.track import TrackingSection
from tasks.validate import EditsSection
from tasks.workspace import Section, SeedSection, digest_of

MAX_BYTES = 5_000_000
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

    @property
    def digest(self) -> str:
        """The SHA-256 of what the plan says, whatever its layout and comments."""
        return digest_of(self.model_dump(mode="json"))

    def problems(self, base: Path) -> list[str]:
        """Return what is wrong between the sections, and between the plan and its source's columns."""
        found = []
        try:
            schema = Schema(self.variables)
            found += self.edits.edit_set().problems(schema)
            if not schema.masked:
                found.append(
                    "variables: every one is an identifier or a household; nothing would be released"
                )
            found += _column_problems(self.source, schema, base)
        except (AnonymizationError, ReleaseError) as error:
            found.append(str(error))
        if self.seed.secret is not None and self.seed.public is not None:
            found.append("seed: give secret or public, not both")
        last = self.steps[-1]
        if isinstance(last, SpectralRHS) and "uncertainty" not in self.policy.by_design:
            found.append(
                "policy: spectral-rhs publishes groups of identical records, so uncertainty is 0 by design; "
                "acknowledge it with by_design: [uncertainty]"
            )
        return found


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
    text = _read(path)
    document, lines = _parse(text, path.name)
    problems: list[str] = []
    plan = None
    try:
        plan = Plan.model_validate(document)
        problems = plan.problems(path.resolve().parent)
    except ValidationError as error:
        problems = [_sentence(e, lines) for e in error.errors(include_url=False, include_input=False)]
    if plan is None or problems:
        raise Refused("\n".join(f"{path.name}: {p}" for p in dict.fromkeys(problems))) from None
    return PlanFile(plan, path.resolve(), text)


def _read(path: Path) -> str:
    problem = ""
    try:
        if path.stat().st_size > MAX_BYTES:
            problem = f"is larger than {MAX_BYTES // 1_000_000} MB, which no plan needs"
        else:
            return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        problem = "does not exist"
    except (IsADirectoryError, PermissionError):
        problem = "cannot be read as a file"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    raise Refused(f"plan {path.name} {problem}") from None


def _parse(text: str, name: str) -> tuple[Any, dict[tuple[Any, ...], int]]:
    """Return the document and the line on which each of its parts stands."""
    problem = ""
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is None:
            problem = "is empty"
        else:
            lines: dict[tuple[Any, ...], int] = {}
            _note_lines(node, (), lines)
            return yaml.load(text, Loader=_Loader), lines  # noqa: S506  a SafeLoader without aliases
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark else ""
        problem = f"is not readable YAML{where}: {error.problem or 'check the layout'}"
    except (yaml.YAMLError, ValueError, RecursionError):
        problem = "is not readable YAML"
    raise Refused(f"plan {name} {problem}") from None


class _Loader(yaml.SafeLoader):
    """YAML without aliases, which can be made to grow without bound, and without doubled keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not allowed in a plan", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value} stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _note_lines(node: Any, at: tuple[Any, ...], lines: dict[tuple[Any, ...], int]) -> None:
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _note_lines(value, (*at, key.value), lines)
            lines[(*at, key.value)] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _note_lines(value, (*at, number), lines)


WORDS = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "missing_keyword_only_argument": "is missing",
    "extra_forbidden": "is not a key that stands here; check its spelling",
    "unexpected_keyword_argument": "is not a key that stands here; check its spelling",
}


def _sentence(error: Any, lines: dict[tuple[Any, ...], int]) -> str:
    """Say where and what; parts of the place that the file does not have are tags of a union."""
    at: tuple[Any, ...] = ()
    for part in error["loc"]:
        if (*at, part) in lines:
            at = (*at, part)
    known = error["type"] in WORDS
    place = (*at, error["loc"][-1]) if known and at[-1:] != error["loc"][-1:] else at
    shown = ".".join(str(p + 1) if isinstance(p, int) else str(p) for p in place)
    what = WORDS.get(error["type"], error["msg"].removeprefix("Value error, "))
    return f"line {lines[at]}: {shown}: {what}" if shown else what


def _column_problems(source: SourceSection, schema: Schema, base: Path) -> list[str]:
    header = header_of(source, base)
    if header is None:
        return []
    absent = [n for n in schema.names if n not in header]
    surplus = [n for n in header if n not in schema]
    found = []
    if absent:
        found.append(f"variables that the source does not have: {', '.join(absent)}")
    if surplus:
        found.append(
            f"columns of the source without a declaration: {', '.join(surplus)}; "
            "declare them, as identifier to drop them"
        )
    return found
