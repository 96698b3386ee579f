"""The text of a draft: YAML, and comments for the person who confirms it."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np
import yaml

from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.product import ProductEdit
from anoncore.edits.serialization import to_dict
from anoncore.microdata import Microdata
from anoncore.microdata.inference import AREA, words_of
from anoncore.profile import GROUP_NUMBERS, NAMES, Finding, Guess, StandsOut
from anoncore.utility.totals import total_kept
from flows.draft.figures import COMPUTED
from flows.draft.roles import DIFFER
from flows.draft.table import Table
from flows.draft.units import Units
from tasks.assessment.assess import AssessmentSection
from tasks.assessment.game import GameSection
from tasks.common.errors import visible
from tasks.common.sections import Section
from tasks.connectors.parsing import FileNotes
from tasks.intake.split import ReferenceSection
from tasks.policy.section import PolicySection
from tasks.publication.candidate import PublicationSection

MOST_NAMED = 6  # columns of one question
LONGEST_NAME = 200  # of a variable in an edit: YAML allows keys of 1024 characters
WIDTH = 108

HEAD = """\
#
# A draft is a list of guesses that runs as it stands. Rules and steps that start with # are proposals: remove the #
# to use one. It holds no value that fewer than 5 records hold, and limits are rounded away from the extremes.
# Every key is described in the documentation, page "Plan file" (make docs: site/reference/plan.html).
# Next: anonflow check PLAN, then anonflow run PLAN
anonflow: 1"""

QUESTIONS = "# Confirm before the first run, in order of consequence, and delete the comment at the line:"
NO_QUESTIONS = """\
# No column raises a question by its name or values. Check the roles nevertheless: what may identify people is a
# quasi-identifier, what must not be guessed of them is sensitive; a role that is missing leaves attacks untested."""
READ_SO = {
    "decimal": "numbers are read with a decimal comma",
    "encoding": "latin-1 reads any file: look at accented letters",
    "sheet": "one sheet of several is read",
}
DROPPED = "# Dropped, never released; give a column another role to keep it:"

VARIABLES = """\
# kind is the scale of the values, role what the variable means for disclosure; levels lists the values, missing the
# codes for missing values."""

GROUPS_NUMBERED = (
    "numbers of groups of records: identifier or household if they say whose record it is, continuous if not"
)
AREA_NUMBERS = (
    "numbers of areas: role area to release them, best grouped into larger ones; identifier or household if they say "
    "whose record it is"
)

MAYBE_KNOWN = (
    "people differ by them, and names say no role: quasi-identifier if outsiders may know them, sensitive if none may"
)

GROUP_FIGURES = (
    "numbers computed from all records of a group, excluded since they give one person's value away: another role if "
    "every group is large, or the figures are public"
)

NOTHING_LEFT = """\
# confirm: every column would be dropped, so nothing would be released; give one another role."""

UNIT = """\
# Whom the release protects: a person, a household, an enterprise. Records that share any identifier, or all columns of
# unit, are one unit: they stay in one half of the table and count once."""

SEVERAL = (
    "# confirm: records that no identifier joins agree in {} as several of one unit do. If they are, add the column "
    "that says whose a record is to the file, and name it here with the role identifier. If each is of another unit, "
    "as where these belong to an area or a product, write untested: [several records] under policy. Until then a "
    "person decides."
)
SEVERAL_ASKED = (
    "records agree in {} as several of one unit do: add and name the column that says whose they are, or write "
    "untested: [several records] under policy"
)

EDITS = """\
# What every record must satisfy, before masking and after it.
edits:
  # Raw records that violate an edit: refuse ends the run, set-aside leaves them out, repair keeps them as they
  # are; only the released data are made to fit.
  on_violation: """

PUBLISHED = """\
  # Which of these rules the published documents name: all, or a list. Rules that were found in the data may hold
  # because one person is not in them, so list those that you know to hold of everybody.
  published: []"""

# The kinds of rules, in the order of a draft, and what stands above each.
LIMITS = "Limits, rounded outward where fewer than 5 units hold the extreme."
GROUPS = (
    (LinearEdit, "Sums and orders. A dependent is not masked but computed from the other terms."),
    (ProductEdit, "Products and ratios. The dependent is not masked but computed from its factors."),
    (LookupEdit, "What follows from another variable is not masked but looked up again."),
    (BoundEdit, LIMITS),
    (ConditionalEdit, "Cells that are missing, and values that never occur, beside others."),
)

STEPS = """\
# What is done to the records, in this order.
steps:
  # A level that fewer than k units hold identifies them by itself: redistribute replaces it by a level of others
  # at random, so that nothing marks the cell; suppress empties it, merge joins the level with others.
  - {{method: rare-levels, k: {k}, action: redistribute}}
  # Records far from all others tend to be reproduced. To leave them out:
  # - {{method: extreme-records, action: set-aside}}"""

TREES = """\
  # Every variable is drawn from groups of people who are alike in the variables before it, so that limits, zeros,
  # cells that are missing, and relations stay. Smaller leaves keep more, larger ones hide people better; anonflow tune
  # PLAN searches. Proposed because other methods lost zeros, limits and relations of mixed tables in our measurements.
  - {{method: sequential-trees, leaf: {leaf}{first}}}
"""
TIME_FIRST = """\
  # The time of a panel is drawn first: drawn late, points in time became rarer and trends were lost.
"""

SWAP = """\
  # Every principal score is permuted, so that no released record stems from one person; calibrated keeps the
  # number of records at each level. Proposed because sequential-trees, which keeps more, is proposed from 400 units.
  - {{method: spectral-swap, released: calibrated{numbers}}}
"""
# Where amounts have heavy tails or many zeros: on other scales zeros were lost, and a quarter of totals.
BY_RANK = ", numeric: normal, marginals: drawn"
HEAVY = 0.05  # standard error of a total from which they do
# Leaves of sequential trees by the units of a table, whose halves are tested; with fewer units, no trees.
LEAVES = ((1600, 40), (400, 20))
# Leaves are twice as large with fewer units for each column: what columns give away of single people adds up.
WIDE = 40
# Units that hold a level at least: of units with several records, 5 hold it in ten records or more.
RARE, RARE_OF_SEVERAL = 10, 5

GROUPS_ON_MAPS = """\
  # Groups of which one area holds at least three times what its population explains; of tables whose columns have
  # nothing to do with areas one in 100 has such a proposal, at most. It hides where a group is: as the last step, or
  # of a table in partitions (engine: local or dask) as the first; match_on should name variables that say nothing
  # about the group."""

NO_SEED = """\
# There is no seed section on purpose: the operating system supplies the seed, and it is not kept, since it can
# undo the masking."""

# The sections in which nothing depends on the data, and the keys that a first plan should show.
REFERENCE = ("kind",)
ASSESSMENT = ("k", "margin", "alpha", "tau", "exhaustive", "sample_above", "epsilon")
GAME = ("shadows",)
POLICY = ("approval", "inconclusive", "by_design", "tail_p", "membership_auc", "utility")
PUBLICATION = ("title", "description", "contact", "licence", "formats")


@dataclass(frozen=True)
class _Line:
    """A line of the draft, and what a person should confirm there: the more it matters, the lower the rank."""

    text: str
    question: str = ""
    rank: int = 0
    subject: str = ""


@dataclass(frozen=True)
class Observed:
    """What steps are chosen by, and what is asked about units.

    Parameters
    ----------
    groups : that stand out on a map
    time : of a panel
    heavy : whether amounts are
    same_unit : variables in which records agree as several of one unit do
    """

    groups: tuple[StandsOut, ...] = ()
    time: str = ""
    heavy: bool = False
    same_unit: tuple[str, ...] = ()


def has_heavy_amounts(data: Microdata) -> bool:
    """Return whether the total of a number of a table would differ by 5 % and more between samples of its units."""
    numbers = [v for v in data.schema if v.is_masked and v.kind == "continuous"]
    totals = (total_kept((data, data), v, (None, None)) for v in numbers)
    return any(total is not None and total.error > HEAVY for total in totals)


def document(
    table: Table,
    guesses: tuple[Guess, ...],
    units: Units,
    rules: Iterable[Finding] = (),
    observed: Observed | None = None,
) -> str:
    """Return the draft of a table's plan; what needs a person is listed first, with its lines."""
    observed = observed or Observed()
    rules = tuple(rules)
    computed = {getattr(f.edit, "dependent", None) for f in rules if f.active}
    rest = [*_edits(rules), *_choices(table, units, observed, "" if observed.time in computed else observed.time)]
    body = [*_opening(table), *_variables(guesses, table.notes), *_unit(units, observed.same_unit), *map(_line, rest)]
    some = f", of which {units.records} are looked at for relations" if table.records > units.records else ""
    records = f"{table.records or units.records} records{some}"
    head = [f"# Drafted by anonflow from {to_yaml(table.path.name)}: {records}, {len(table.names)} columns."]
    dropped = list(_dropped(guesses))
    # The lines of the questions are known once it is known how many lines stand before them.
    questions = _questions(body, 0)
    before = len(head) + len(questions) + len(dropped)
    return "\n".join([*head, *_questions(body, before), *dropped, *(line.text for line in body), ""])


def _line(text: str) -> _Line:
    return _Line(text)


def _questions(body: list[_Line], before: int) -> list[str]:
    """Return what to confirm, numbered, questions of one kind together."""
    asked: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for number, line in enumerate(body, start=before + 1):
        if line.question:
            asked.setdefault((line.rank, line.question), []).append((number, line.subject))
    lines = []
    for place, ((_, question), at) in enumerate(sorted(asked.items(), key=lambda item: item[0][0]), start=1):
        where = ", ".join(f"{number} ({subject})" if subject else str(number) for number, subject in at[:MOST_NAMED])
        more = f" and {len(at) - MOST_NAMED} more" if len(at) > MOST_NAMED else ""
        lines.append(f"#   {place}. line{'s' if len(at) > 1 else ''} {where}{more}: {question}")
    return [QUESTIONS, *lines] if lines else [NO_QUESTIONS]


def _dropped(guesses: tuple[Guess, ...]) -> Iterator[str]:
    """Yield the columns that are not released, those of one reason on one line."""
    reasons: dict[str, list[str]] = {}
    for guess in guesses:
        if not guess.variable.is_masked:
            reason = f"{guess.variable.role}: {guess.reason}"
            reasons.setdefault(reason, []).append(visible(guess.variable.name))
    if reasons:
        yield DROPPED
    for reason, names in reasons.items():
        yield from textwrap.wrap(
            f"{', '.join(names)} ({reason})", WIDTH, initial_indent="#   ", subsequent_indent="#     "
        )


def _opening(table: Table) -> Iterator[_Line]:
    yield from map(_line, HEAD.splitlines())
    yield _line(f"name: {to_yaml(_slug(table.path.stem))}")
    yield _line("")
    yield _line("source:")
    yield _line(f"  path: {to_yaml(table.source.path)}  # relative to this file, or absolute")
    yield _line(f"  format: {table.kind}")
    if table.sampled is not None:
        yield _line("")
        yield _line("# A table beyond memory is kept in encrypted partitions on the disk, with the same release.")
        yield _line("engine: auto")
    keys = ("delimiter", "decimal", "encoding") if table.kind == "csv" else ("sheet",) if table.source.sheet else ()
    for key in keys:
        remark = table.remarks.get(key, "")
        yield _Line(
            f"  {key}: {to_yaml(getattr(table.source, key))}{_comment(remark)}", READ_SO[key] if remark else "", 5
        )
    yield _line("")


def _variables(guesses: tuple[Guess, ...], notes: FileNotes) -> Iterator[_Line]:
    yield from map(_line, VARIABLES.splitlines())
    if not any(g.variable.is_masked for g in guesses):
        yield _Line(NOTHING_LEFT, "every column would be dropped; give one another role", 1)
    yield _line("variables:")
    for guess in guesses:
        rank, question = _question(guess)
        reason = f"confirm: {guess.reason}" if question else guess.reason
        subject = visible(guess.variable.name)
        yield _Line(f"  - {to_yaml(_facts(guess, notes))}{_comment(reason)}", question, rank, subject)
        for value, count in guess.codes:
            code, listed = to_yaml(value), value in (guess.variable.levels or ())
            action = "move it from levels to missing" if listed else f"add missing: [{code}]"
            yield _line(f"    # does {code} mean a missing value ({count} records)? then {action}")
    yield _line("")


def _question(guess: Guess) -> tuple[int, str]:
    """Return what a person should confirm of a column, and how much it matters; nothing of most."""
    if guess.reason.endswith(DIFFER):
        return 6, MAYBE_KNOWN
    if guess.confirm and guess.reason.startswith(COMPUTED):
        return 2, GROUP_FIGURES
    if guess.confirm and guess.variable.role == "identifier":
        return 2, "identifiers by their values, not by name: if they do not say whose record it is, another role"
    if guess.confirm and guess.reason.startswith(GROUP_NUMBERS):
        return (2, AREA_NUMBERS if words_of(guess.variable.name) & AREA else GROUPS_NUMBERED)
    if guess.confirm and guess.reason == NAMES:
        return 2, "names that repeat: identifier if they say whose record it is, so that all records of one count once"
    if guess.confirm and guess.variable.is_masked and guess.variable.role != "weight":
        return 3, "whole numbers that hardly repeat, taken for amounts: role identifier if they say whose record it is"
    return (
        (4, "survey weights: if they are not, another role") if guess.confirm and guess.variable.is_masked else (0, "")
    )


def _unit(units: Units, same_unit: tuple[str, ...]) -> Iterator[_Line]:
    yield from map(_line, UNIT.splitlines())
    if same_unit:
        first, *rest = textwrap.wrap(SEVERAL.format(_some(same_unit)), WIDTH, subsequent_indent="# ")
        yield _Line(first, SEVERAL_ASKED.format(_some(same_unit)), 1)
        yield from map(_line, rest)
    if units.keys:
        columns = " or ".join(" and ".join(map(visible, key)) for key in units.keys)
        question = f"{units.records} records are of {units.units} units, joined by {columns}"
        yield _line(f"# confirm: {question}.")
        yield _Line(f"unit: {to_yaml(list(units.keys[0]) if len(units.keys) == 1 else [])}", question, 1)
    else:
        yield _line("unit: []  # no identifier repeats, so each record is a unit of its own; by its identifier, if it")
        yield _line("          # has one, it is recognised in later releases, without being named here")
    yield _line("")


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(map(visible, names[:MOST_NAMED])) + (", …" if len(names) > MOST_NAMED else "")


def _facts(guess: Guess, notes: FileNotes) -> dict[str, object]:
    variable = guess.variable
    stated = {"name": variable.name, "kind": variable.kind, "role": variable.role}
    rest: dict[str, object] = {"levels": variable.levels, "missing": variable.missing, "precision": variable.precision}
    # Of the labels that the file holds, those of levels that no few records hold.
    shown = variable.levels or guess.frequent
    labels = [pair for pair in notes.values.get(variable.name, ()) if pair[0] in shown]
    description = "".join(filter(str.isprintable, notes.labels.get(variable.name, "")))
    rest |= {"temporal": variable.temporal, "labels": labels, "description": description}
    return stated | {k: v for k, v in rest.items() if v}


def _edits(rules: Iterable[Finding]) -> Iterator[str]:
    writable = [f for f in rules if all(len(n) <= LONGEST_NAME for n in f.edit.variables)]
    active, proposed = [f for f in writable if f.active], [f for f in writable if not f.active]
    yield EDITS + ("repair" if any(f.broken for f in active) else "refuse")
    yield PUBLISHED
    yield "  rules:" if active else "  rules: []  # no rule holds and not by chance; write your own in place of []"
    for kind, title in GROUPS:
        lines = [f"    - {_rule(f)}" for f in active if isinstance(f.edit, kind)]
        yield from [f"    # {title}", *lines] if lines else []
    if proposed:
        yield "    # Proposals: no rule of its own would be computed, or not every record satisfies it."
        yield from (f"    # - {_rule(f)}" for f in proposed)
    yield ""


def _rule(finding: Finding) -> str:
    """Return the edit without what it leaves at its default."""
    edit = finding.edit
    defaults = {f.name: f.default for f in fields(edit) if f.default is not MISSING and f.name != "edit"}
    stated = {k: v for k, v in to_dict(edit).items() if k not in defaults or v != defaults[k]}
    return to_yaml(stated) + _comment(finding.reason)


def _choices(table: Table, units: Units, observed: Observed, time: str) -> Iterator[str]:
    """Yield the sections in which nothing depends on the data but what was ``observed``."""
    title = "".join(c for c in table.path.stem if c.isprintable())
    yield from _section("reference", ReferenceSection(kind="cross"), REFERENCE)
    yield STEPS.format(k=RARE_OF_SEVERAL if units.records >= 2 * units.units else RARE)
    leaf = next((leaf for least, leaf in LEAVES if units.units >= least), None)
    wide = 2 if len(table.names) * WIDE > units.units else 1
    first = f", first: {to_yaml([time])}" if time else ""
    swap = SWAP.format(numbers=BY_RANK if observed.heavy else "")
    trees = (TIME_FIRST if time else "") + TREES.format(leaf=wide * (leaf or 0), first=first)
    yield (swap if leaf is None else trees).rstrip("\n")
    yield from _groups(observed.groups)
    yield ""
    yield from _section("assessment", AssessmentSection(), ASSESSMENT)
    yield from _section("game", GameSection(), GAME)
    yield from _section("policy", PolicySection(approval="person"), POLICY)
    yield from _section("publication", PublicationSection(title=title), PUBLICATION)
    yield NO_SEED


def _groups(groups: Iterable[StandsOut]) -> Iterator[str]:
    """Yield a proposal for each group that one area holds far more of than its population explains."""
    groups = list(groups)
    if groups:
        yield GROUPS_ON_MAPS
    for one in groups:
        cap = max(2.0 * one.expected, 1.0)
        stated: dict[str, Any] = {"method": "group-anonymity", "vital": [{one.variable: [one.level]}]}
        stated |= {"parameter": one.parameter, "order": list(one.order), "caps": {str(one.area): float(f"{cap:.1g}")}}
        stated |= {"details": "winsorised", "pad": "repeat"} if len(one.order) % 4 else {"details": "winsorised"}
        yield f"  # - {to_yaml(stated)}"


def _section(name: str, section: Section, keys: Iterable[str]) -> Iterator[str]:
    """Yield a section with its values written out, each with the description that its class gives."""
    summary, texts = descriptions(type(section))
    yield from textwrap.wrap(summary, WIDTH, initial_indent="# ", subsequent_indent="# ")
    yield f"{name}:"
    values = section.model_dump(mode="json", exclude_none=True)
    for key in keys:
        line, comment = f"  {key}: {to_yaml(values[key])}", texts[key]
        if len(line) + len(comment) <= WIDTH - 3:
            yield f"{line}  # {comment}"
        else:
            yield from textwrap.wrap(comment, WIDTH, initial_indent="  # ", subsequent_indent="  # ")
            yield line
    yield ""


def descriptions(section: type[Section]) -> tuple[str, dict[str, str]]:
    """Return the summary of a section's docstring, and the description of each of its keys, inherited ones too."""
    texts: dict[str, str] = {}
    for base in reversed([base for base in section.__mro__ if issubclass(base, Section)]):
        text = inspect.cleandoc(base.__doc__ or "").replace("``", "")
        summary, _, parameters = text.partition("\n\nParameters\n----------\n")
        joined = re.sub(r"\n +", " ", parameters.partition("\n\n")[0])
        texts |= dict(line.split(" : ", 1) for line in joined.splitlines() if " : " in line)
    return summary.replace("\n", " "), texts


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
    text: str = yaml.dump(
        [value], Dumper=_Dumper, width=2**31 - 1, default_flow_style=True, sort_keys=False, allow_unicode=True
    )
    return text.rstrip("\n")[1:-1]
