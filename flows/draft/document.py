"""The text of a draft: YAML, and comments for the person who confirms it."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import yaml

from anoncore.edits.serialization import to_dict
from anoncore.microdata import Variable
from anoncore.profile import Finding, Guess
from flows.draft.table import Table
from flows.draft.units import Units
from tasks.assessment.assess import AssessmentSection
from tasks.assessment.game import GameSection
from tasks.common.sections import Section
from tasks.intake.split import ReferenceSection
from tasks.policy.section import PolicySection
from tasks.publication.candidate import PublicationSection

LONGEST_NAME = 200  # of a variable in an edit: YAML allows keys of 1024 characters
WIDTH = 108

HEAD = """\
#
# A draft is a list of guesses, safe to run but not yet right:
#   - what is marked "confirm" is for you to decide before the first run;
#   - identifiers and excluded columns are dropped and never released; give a column another role to keep it;
#   - rules and steps that start with # are proposals: remove the # to use one.
# It holds no value that fewer than 5 records hold, and limits are rounded away from the extremes.
# Every key is described in the documentation, page "Plan file" (make docs: site/reference/plan.html).
# Next: anonflow check PLAN, then anonflow run PLAN
anonflow: 1"""

VARIABLES = """\
# kind is the scale of the values, role what the variable means for disclosure; levels lists the values, missing the
# codes for missing values. Whole numbers taken for ordered codes (ordinal) may as well be codes without an order
# (nominal), a count (continuous), or yes and no beside a code for a missing value (binary)."""

NOTHING_LEFT = """\
# confirm: every column would be dropped, so nothing would be released; give one another role."""

UNIT = """\
# Whom the release protects: a person, a household, an enterprise. Records that share any identifier, or all columns of
# unit, are one unit: they are held out together and count once. A column that is dropped without saying whose record
# it is, such as a date, has the role excluded."""

EDITS = """\
# What every record must satisfy, before masking and after it.
edits:
  # Raw records that violate an edit: refuse ends the run, set-aside leaves them out, repair keeps them as they
  # are; only the released data are made to fit.
  on_violation: refuse"""

STEPS = """\
# What is done to the records, in this order.
steps:
  # A level that fewer than k records hold identifies them by itself: suppress empties those cells, merge joins
  # the level with others.
  - {method: rare-levels, k: 5, action: suppress}
  # Records far from all others tend to be reproduced. To leave them out:
  # - {method: extreme-records, action: set-aside}
  # Every principal score is permuted, so that no released record stems from one person; calibrated keeps the
  # number of records at each level.
  - {method: spectral-swap, released: calibrated}
"""

NO_SEED = """\
# There is no seed section on purpose: the operating system supplies the seed, and it is not stored, since it can
# undo the masking."""

# The sections in which nothing depends on the data, and the keys that a first plan should show.
REFERENCE = ("kind",)
ASSESSMENT = ("k", "margin", "alpha", "tau", "exhaustive", "sample_above", "epsilon")
GAME = ("shadows",)
POLICY = ("approval", "inconclusive", "by_design", "tail_p", "membership_auc", "utility")
PUBLICATION = ("title", "description", "contact", "licence", "formats")


def document(table: Table, guesses: tuple[Guess, ...], units: Units, rules: Iterable[Finding]) -> str:
    """Return the draft of a table's plan."""
    parts = (_head(table, units.records), _variables(guesses), _unit(units), _edits(rules), _choices(table), [""])
    return "\n".join(line for part in parts for line in part)


def _head(table: Table, records: int) -> Iterator[str]:
    name = to_yaml(table.path.name)
    yield f"# Drafted by anonflow from {name}: {records} records, {len(table.names)} columns."
    yield HEAD
    yield f"name: {to_yaml(_slug(table.path.stem))}"
    yield ""
    yield "source:"
    yield f"  path: {to_yaml(table.source.path)}  # relative to this file, or absolute"
    yield f"  format: {table.kind}"
    if table.kind == "csv":
        yield f"  delimiter: {to_yaml(table.source.delimiter)}"
        yield f"  encoding: {table.source.encoding}{_comment(table.remark)}"
    yield ""


def _variables(guesses: tuple[Guess, ...]) -> Iterator[str]:
    yield VARIABLES
    if not any(g.variable.is_masked for g in guesses):
        yield NOTHING_LEFT
    yield "variables:"
    for guess in guesses:
        reason = f"confirm: {guess.reason or 'a guess'}" if guess.confirm else guess.reason
        yield f"  - {to_yaml(_facts(guess.variable))}{_comment(reason)}"
        for value, count in guess.codes:
            code, listed = to_yaml(value), value in (guess.variable.levels or ())
            action = "move it from levels to missing" if listed else f"add missing: [{code}]"
            yield f"    # does {code} mean a missing value ({count} records)? then {action}"
    yield ""


def _unit(units: Units) -> Iterator[str]:
    yield UNIT
    if units.keys:
        columns = " or ".join(" and ".join(map(to_yaml, key)) for key in units.keys)
        yield f"# confirm: {units.records} records are of {units.units} units, joined by {columns}."
        yield f"unit: {to_yaml(list(units.keys[0]) if len(units.keys) == 1 else [])}"
    else:
        yield "unit: []  # confirm: no identifier repeats, so each record is a unit of its own"
    yield ""


def _facts(variable: Variable) -> dict[str, Any]:
    stated = {"name": variable.name, "kind": variable.kind, "role": variable.role}
    rest = {"levels": variable.levels, "missing": variable.missing, "precision": variable.precision}
    return stated | {k: v for k, v in rest.items() if v}


def _edits(rules: Iterable[Finding]) -> Iterator[str]:
    writable = [f for f in rules if all(len(n) <= LONGEST_NAME for n in f.edit.variables)]
    active = [f"    - {_rule(f)}" for f in writable if f.active]
    proposed = [f"    # - {_rule(f)}" for f in writable if not f.active]
    yield EDITS
    if active:
        yield "  # These hold in every record, and not by chance. Remove what is no law of the subject."
        yield "  rules:"
        yield from active
    else:
        yield "  rules: []  # no rule holds in every record and not by chance; write your own in place of []"
    if proposed:
        yield "    # Proposals: they hold in every record, or up to rounding, and may be no more than chance."
        yield from proposed
    yield ""


def _rule(finding: Finding) -> str:
    """Return the edit without what it leaves at its default."""
    edit = finding.edit
    defaults = {f.name: f.default for f in fields(edit) if f.default is not MISSING and f.name != "edit"}
    stated = {k: v for k, v in to_dict(edit).items() if k not in defaults or v != defaults[k]}
    return to_yaml(stated) + _comment(finding.reason)


def _choices(table: Table) -> Iterator[str]:
    """Yield the sections in which nothing depends on the data, with their defaults."""
    title = "".join(c for c in table.path.stem if c.isprintable())
    yield from _section("reference", ReferenceSection(), REFERENCE)
    yield STEPS
    yield from _section("assessment", AssessmentSection(), ASSESSMENT)
    yield from _section("game", GameSection(), GAME)
    yield from _section("policy", PolicySection(approval="person"), POLICY)
    yield from _section("publication", PublicationSection(title=title), PUBLICATION)
    yield NO_SEED


def _section(name: str, section: Section, keys: Iterable[str]) -> Iterator[str]:
    """Yield a section with its values written out, each with the description that its class gives."""
    summary, descriptions = _descriptions(type(section))
    yield from textwrap.wrap(summary, WIDTH, initial_indent="# ", subsequent_indent="# ")
    yield f"{name}:"
    values = section.model_dump(mode="json", exclude_none=True)
    for key in keys:
        line, comment = f"  {key}: {to_yaml(values[key])}", descriptions[key]
        if len(line) + len(comment) <= WIDTH - 3:
            yield f"{line}  # {comment}"
        else:
            yield from textwrap.wrap(comment, WIDTH, initial_indent="  # ", subsequent_indent="  # ")
            yield line
    yield ""


def _descriptions(section: type[Section]) -> tuple[str, dict[str, str]]:
    """Return the summary of a section's docstring, and the description of each of its keys, inherited ones too."""
    descriptions: dict[str, str] = {}
    for base in reversed([base for base in section.__mro__ if issubclass(base, Section)]):
        text = inspect.cleandoc(base.__doc__ or "").replace("``", "")
        summary, _, parameters = text.partition("\n\nParameters\n----------\n")
        joined = re.sub(r"\n +", " ", parameters.partition("\n\n")[0])
        descriptions |= dict(line.split(" : ", 1) for line in joined.splitlines() if " : " in line)
    return summary.replace("\n", " "), descriptions


def _slug(stem: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:63].rstrip("-") or "release"


def _comment(text: str) -> str:
    return f"  # {text}" if text else ""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML on one line, with numbers as people write them."""


def _represent_number(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    number = float(value)
    if number.is_integer() and abs(number) < 1e15:
        return dumper.represent_scalar("tag:yaml.org,2002:int", str(int(number)))
    return dumper.represent_scalar("tag:yaml.org,2002:float", np.format_float_positional(number, trim="0"))


_Dumper.add_representer(float, _represent_number)
_Dumper.add_multi_representer(np.number, _represent_number)
_Dumper.add_multi_representer(np.bool_, lambda dumper, value: dumper.represent_bool(bool(value)))
_Dumper.add_representer(tuple, lambda dumper, value: dumper.represent_list(value))


def to_yaml(value: Any) -> str:
    """Return a value as YAML on one line, which reads back as itself."""
    options: dict[str, Any] = {"default_flow_style": True, "sort_keys": False, "allow_unicode": True}
    text: str = yaml.dump([value], Dumper=_Dumper, width=2**31 - 1, **options)
    return text.rstrip("\n")[1:-1]
