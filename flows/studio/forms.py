"""What the forms of a plan show, and the text of the plan after a form was sent: plain functions on a document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from anoncore.microdata import Variable
from anoncore.microdata.variable import Kind, Role
from anoncore.registry import METHODS
from expectations.suite import describe as edit_in_words
from flows.draft.document import descriptions
from flows.plan.edit import plain_step
from flows.plan.file import Place, node_of, yaml_value
from flows.plan.layout import end_of, flow, line_end, value_of, with_item, with_value, without_value
from flows.plan.model import CONFIRM, Plan
from flows.studio.workbook import Document
from tasks.common.errors import Refused, cut, visible
from tasks.common.sections import Section

Form = Mapping[str, str]
KINDS, ROLES = get_args(Kind), get_args(Role)
# A rule that a draft proposes in a comment.
PROPOSAL = re.compile(r"^(\s*)# - (\{.*\})(\s*#.*)?$")
SETTINGS: tuple[Place, ...] = (
    ("policy", "approval"),
    ("policy", "approvers"),
    ("policy", "requester_may_approve"),
    ("policy", "decide_within_days"),
    ("policy", "inconclusive"),
    ("policy", "membership_auc"),
    ("policy", "tail_p"),
    ("reference", "kind"),
    ("publication", "title"),
    ("publication", "description"),
    ("publication", "contact"),
    ("publication", "licence"),
)


@dataclass(frozen=True)
class Field:
    """One input of a form.

    Parameters
    ----------
    name : under which the form sends it
    label, help : what a person reads
    value : as the plan states it, or its default, as text
    options : the allowed values, where there is a list of them
    is_list : whether it takes several values, which are written with commas between them
    """

    name: str
    label: str
    value: str
    help: str = ""
    options: tuple[str, ...] = ()
    is_list: bool = False


@dataclass(frozen=True)
class VariableRow:
    """One variable as its form shows it; ``note`` is the comment of its line, ``confirm`` whether it asks a person."""

    number: int
    variable: Variable
    note: str
    confirm: bool


@dataclass(frozen=True)
class RuleRow:
    """One rule of the edits, in force or a proposal in a comment, with the line at which it stands."""

    line: int
    name: str
    text: str
    note: str
    active: bool


@dataclass(frozen=True)
class StepRow:
    """One masking step with its parameters."""

    number: int
    method: str
    title: str
    description: str
    parameters: tuple[Field, ...]


def variable_rows(document: Document) -> list[VariableRow]:
    """Return the variables with the comments of their lines."""
    plan, rows = _plan(document), []
    for number, item in enumerate(value_of(node_of(document.text), "variables").value):
        end = end_of(item)
        comment = document.text[end : line_end(document.text, end)].strip().removeprefix("#").strip()
        confirm = comment.startswith("confirm:")
        rows.append(VariableRow(number, plan.variables[number], comment.removeprefix("confirm:").strip(), confirm))
    return rows


def with_variables(document: Document, form: Form) -> str:
    """Return the text with the roles, kinds and descriptions that a form states."""
    text, plan = document.text, _plan(document)
    for number, variable in enumerate(plan.variables):
        place: Place = ("variables", number)
        kind, role = form.get(f"v{number}.kind", variable.kind), form.get(f"v{number}.role", variable.role)
        if kind != variable.kind:
            for key in ("levels",) if kind == "continuous" else ("precision",):
                if getattr(variable, key) is not None:
                    text = without_value(text, (*place, key))
            text = with_value(text, (*place, "kind"), kind)
        if role != variable.role:
            text = with_value(text, (*place, "role"), role)
        about = form.get(f"v{number}.description", variable.description).strip()
        if about != variable.description:
            text = with_value(text, (*place, "description"), about)
    unit = [v.name for v in plan.variables if form.get(f"unit.{v.name}")]
    if "unit" in form and unit != list(plan.unit):
        text = with_value(text, ("unit",), unit)
    return text


def confirmed(document: Document, form: Form) -> str:
    """Return the text without the comments by which a draft asks a person, at the lines that a form names."""
    lines = document.text.split("\n")
    chosen = {int(name.removeprefix("confirm.")) for name in form if re.fullmatch(r"confirm\.\d{1,7}", name)}
    for number in sorted(chosen, reverse=True):
        if number <= len(lines) and (match := CONFIRM.search(lines[number - 1])):
            rest = lines[number - 1][: match.start()].rstrip()
            lines[number - 1 : number] = [rest] if rest else []
    return "\n".join(lines)


def rule_rows(document: Document) -> list[RuleRow]:
    """Return the rules in the order of the file, those in comments too."""
    plan, text = _plan(document), document.text
    node = value_of(node_of(text), "edits", "rules")
    rows = []
    for rule, item in zip(plan.edits.rules, node.value if node is not None else (), strict=True):
        end = end_of(item)
        note = text[end : line_end(text, end)].strip().removeprefix("#").strip()
        rows.append(RuleRow(item.start_mark.line + 1, rule.name, edit_in_words(rule), note, active=True))
    for number, line in enumerate(text.split("\n"), start=1):
        if (match := PROPOSAL.match(line)) and "edit:" in match[2]:
            name = re.search(r"name: ('[^']*'|\"[^\"]*\"|[^,}]*)", match[2])
            note = (match[3] or "").strip().removeprefix("#").strip()
            rows.append(RuleRow(number, name[1].strip("'\"") if name else "", match[2], note, active=False))
    return sorted(rows, key=lambda row: row.line)


def with_rules(document: Document, form: Form) -> str:
    """Return the text with other rules in force: one that is not is turned into a comment, and one that is, back."""
    text, rows = document.text, rule_rows(document)
    wanted = {row.line: bool(form.get(f"rule.{row.line}")) for row in rows}
    node = value_of(node_of(text), "edits", "rules")
    items = {item.start_mark.line + 1: item for item in (node.value if node is not None else ())}
    if any(wanted[row.line] != row.active for row in rows):
        if node is not None and node.flow_style and node.value:
            raise Refused("The rules are written in one line; change them in the text of the plan.")
        lines = text.split("\n")
        for row in rows:
            if row.active and not wanted[row.line]:
                _comment(lines, row.line - 1, text.count("\n", 0, end_of(items[row.line])))
            elif not row.active and wanted[row.line]:
                lines[row.line - 1] = lines[row.line - 1].replace("# - {", "- {", 1)
        _mark_empty(lines, node, is_empty=not any(wanted.values()))
        text = "\n".join(lines)
    violation = form.get("on_violation", document.plan.edits.on_violation if document.plan else "")
    if document.plan is not None and violation != document.plan.edits.on_violation:
        text = with_value(text, ("edits", "on_violation"), violation)
    return text


def step_rows(document: Document) -> list[StepRow]:
    """Return the steps with their parameters."""
    rows = []
    for number, step in enumerate(_plan(document).steps):
        shown = tuple(
            _field(f"s{number}.{f.name}", f.name.replace("_", " "), getattr(step, f.name), hint)
            for f, hint in _parameters(type(step))
        )
        rows.append(StepRow(number, step.method, step.title, step.description, shown))
    return rows


def method_fields() -> list[tuple[str, str]]:
    """Return the methods that can be added as they are, with their titles."""
    return [
        (name, method.title)
        for name, method in METHODS.items()
        if all(f.default is not MISSING or f.default_factory is not MISSING for f in fields(method))
    ]


def setting_fields(document: Document) -> list[Field]:
    """Return the inputs of policy, reference and publication."""
    return list(_settings(_plan(document)))


def with_steps(document: Document, form: Form) -> str:
    """Return the text with the parameters and settings that a form states, and a step moved, removed or added."""
    text, plan = document.text, _plan(document)
    for row in step_rows(document):
        for one in row.parameters:
            text = _with_field(text, ("steps", row.number, one.name.partition(".")[2]), one, form)
    for one, place in zip(_settings(plan), SETTINGS, strict=True):
        text = _with_field(text, place, one, form)
    action, _, given = form.get("action", "").partition(":")
    number = int(given) if given.isdecimal() and int(given) < len(plan.steps) else None
    if action == "remove" and number is not None:
        if len(plan.steps) == 1:
            raise Refused("A plan needs a step; add another one before you remove this.")
        text = without_value(text, ("steps", number))
    elif action == "earlier" and number:
        stated = plain_step(plan.steps[number])
        text = with_item(without_value(text, ("steps", number)), ("steps",), number - 1, stated)
    elif action == "add" and (method := form.get("method", "")) in METHODS:
        text = with_item(text, ("steps",), len(plan.steps), {"method": method})
    return text


def _plan(document: Document) -> Plan:
    if document.plan is None:
        raise Refused("\n".join(("The plan cannot be read; correct its text:", *document.problems)))
    return document.plan


def _comment(lines: list[str], first: int, last: int) -> None:
    """Turn a rule's lines into a comment that `PROPOSAL` finds where it is one line."""
    for at in range(first, last + 1):
        indent = len(lines[at]) - len(lines[at].lstrip())
        lines[at] = f"{lines[at][:indent]}# {lines[at][indent:]}"


def _mark_empty(lines: list[str], node: Any, *, is_empty: bool) -> None:
    """Write an empty list after the key of the rules where none is in force, and take it away where one is."""
    if node is None:
        return
    at = node.start_mark.line
    if node.value and is_empty:
        at = next(i for i in range(at, -1, -1) if lines[i].strip().startswith("rules:"))
        lines[at] = lines[at].replace("rules:", "rules: []", 1)
    elif not node.value and not is_empty:
        lines[at] = lines[at].replace("rules: []", "rules:", 1)


def _parameters(method: type) -> Iterator[tuple[Any, Any]]:
    hints = get_type_hints(method)
    return ((one, hints[one.name]) for one in fields(method) if one.name != "method")


def _field(name: str, label: str, value: Any, hint: Any, about: str = "") -> Field:
    is_list = get_origin(hint) is tuple and get_args(hint)[0] is str
    shown = _shown(value)
    if is_list:
        shown, about = shown[1:-1], f"{about} (several: a, b)".strip()
    return Field(name, label, shown, about, _options(hint), is_list)


def _options(hint: Any) -> tuple[str, ...]:
    if hint is bool:
        return ("false", "true")
    return tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else ()


def _settings(plan: Plan) -> Iterator[Field]:
    for section, key in SETTINGS:
        part: Section = getattr(plan, str(section))
        texts = descriptions(type(part))[1]
        hint = type(part).model_fields[str(key)].annotation
        label = f"{section}: {str(key).replace('_', ' ')}"
        yield _field(f"{section}.{key}", label, getattr(part, str(key)), hint, texts.get(str(key), ""))


def _with_field(text: str, place: Place, one: Field, form: Form) -> str:
    """Return the text with what a form states for one input, where that is something else."""
    given = form.get(one.name, one.value).strip()
    if given == one.value:
        return text
    if one.options and given not in one.options:
        raise Refused(f"{one.label}: choose one of {', '.join(one.options)}")
    if one.is_list:
        given = given if given.startswith("[") else f"[{given}]"
    if place[0] == "publication":
        return with_value(text, place, given)
    try:
        return with_value(text, place, yaml_value(given) if given else None)
    except ValueError:
        pass
    raise Refused(f"{one.label}: {cut(visible(given))} is not a value that a plan can hold")


def _shown(value: Any) -> str:
    """Return a value as an input shows it: texts as they are, anything else as YAML."""
    if value is None:
        return ""
    return value if isinstance(value, str) else flow(list(value) if isinstance(value, tuple) else value)
