"""Draft a commented plan from a data file, for a person to confirm.

Reading is the ingest step's own; the guesses and the rules are `anoncore.profile`'s. What is
written here is YAML and comments. No value that fewer than five records hold is written.
"""

from __future__ import annotations

import codecs
import csv
import os
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from anoncore.edits.model import to_dict
from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.profile import NESTED, Finding, Guess, find_rules, profile
from tasks.assessment.assess import AssessmentSection
from tasks.common.errors import Refused, named, odd, visible
from tasks.common.sections import Section
from tasks.connectors.copies import check_file
from tasks.connectors.csv import lines_of
from tasks.connectors.limits import LineCheck
from tasks.connectors.parquet import nested_of
from tasks.connectors.storage import BLOCK
from tasks.intake.ingest import SUFFIXES, Format, SourceSection, header_of, like_a_formula, read_file
from tasks.intake.split import ReferenceSection
from tasks.policy.verdict import PolicySection
from tasks.publication.candidate import PublicationSection

DELIMITERS = (",", ";", "\t", "|")
KINDS: dict[str, Format] = SUFFIXES | {".tsv": "csv"}
VALUE = re.compile(r"[-+]?\d+([.,]\d+)?|\d+[-/.]\d+[-/.]\d+.*|\S+@\S+\.\w+")
# The names are not shown, since they may be somebody's data.
NO_HEADER = "source: the first line of {} seems to be a record; it must hold the columns' names"
LISTS = "source: columns of {} hold lists or structures: {}; convert them"
MAX_DRAFTED = 1000  # columns among which rules are looked for in reasonable time
LONGEST_NAME = 200  # of a variable in an edit: YAML allows keys of 1024 characters


def draft_plan(data: Path, base: Path) -> str:
    """Return a commented plan for a table, as YAML.

    Parameters
    ----------
    data : Path
        A CSV, Parquet or Stata file; the delimiter and the encoding of a CSV file are found out.
    base : Path
        The folder in which the plan will stand; the source's path is written relative to it
        where the two have more than the root in common.

    Returns
    -------
    str
        A plan that loads and runs as it stands, unless every column looks like an identifier.
        Columns that look like identifiers, dates or free text are dropped until a person says
        otherwise; rules that hold in every record are active, others stand in comments; a
        person's approval is asked for. The same file gives the same draft.

    Raises
    ------
    Refused
        When the file cannot be read; the message holds no value.

    Examples
    --------
    >>> print(draft_plan(Path("survey.csv"), Path(".")))  # doctest: +SKIP
    """
    table = _Table.open(data, base)
    frame = table.natural()
    found = profile(frame, rng=np.random.default_rng(0))
    nested = [g.variable.name for g in found.guesses if g.reason.startswith(NESTED)]
    if nested:
        raise Refused(LISTS.format(visible(data.name), named(nested)))
    guesses, microdata = _readable(table, _without_formulas(frame, found.guesses))
    rules = find_rules(microdata, found.sums) if microdata is not None else ()
    return "\n".join([*_head(table, frame), *_variables(guesses), *_edits(rules), *_choices(table.path), ""])


def declared(data: Path) -> tuple[tuple[Variable, ...], SourceSection]:
    """Return a table's columns as they would be drafted, and how its file is read.

    Parameters
    ----------
    data : Path
        A CSV, Parquet or Stata file.

    Raises
    ------
    Refused
        When the file cannot be read; the message holds no value.

    Examples
    --------
    >>> declared(Path("survey.csv"))[0][0].kind  # doctest: +SKIP
    'continuous'
    """
    table = _Table.open(data, data.parent.resolve())
    found = profile(table.natural(), rng=np.random.default_rng(0))
    guesses, _ = _readable(table, found.guesses)
    return tuple(g.variable for g in guesses), table.source


def source_of(data: Path) -> SourceSection:
    """Return how a file is read, as its draft would say.

    Raises
    ------
    Refused
        When the file cannot be read; the message holds no value.

    Examples
    --------
    >>> source_of(Path("survey.csv")).delimiter  # doctest: +SKIP
    ','
    """
    return _Table.open(data, data.parent.resolve()).source


# --------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class _Table:
    """A file, how it is read, and what a person should know about that."""

    path: Path
    source: SourceSection
    kind: Format
    names: tuple[str, ...]
    remark: str = ""

    @classmethod
    def open(cls, data: Path, base: Path) -> _Table:
        """Find out how to read the file, and its column names."""
        kind = KINDS.get(data.suffix.lower())
        if kind is None:
            raise Refused(
                f"source: {visible(data.name)} does not tell its format; "
                f"a draft is made from a file that ends in {', '.join(KINDS)}"
            )
        remark, encoding, delimiter = "", "utf-8-sig", ","
        head = _head_of(data)
        if kind == "csv":
            encoding, remark = _encoding(data, head)
            delimiter = _delimiter(data, encoding)
        elif kind == "parquet" and (nested := nested_of(data, f"source: {visible(data.name)}")):
            raise Refused(LISTS.format(visible(data.name), named(nested)))
        where = _relative(data, base)
        source = SourceSection(path=where, format=kind, delimiter=delimiter, encoding=encoding)
        table = cls(data, source, kind, (), remark)
        header = header_of(source, base.resolve())
        if header is None:
            header = [str(c) for c in table.read(()).columns]
        return replace(table, names=_names(data, header))

    def read(self, variables: Iterable[Variable]) -> pd.DataFrame:
        """Read the file as the ingest step would with these declarations."""
        return read_file(self.path, self.kind, self.source, variables, shown=visible(self.path.name))

    def natural(self) -> pd.DataFrame:
        """Read the file with nothing declared, to guess what its columns are."""
        if len(self.names) > MAX_DRAFTED:
            raise Refused(
                f"source: {visible(self.path.name)} has {len(self.names)} columns; a draft is made of at "
                f"most {MAX_DRAFTED}: draft parts of the table and put their variables together"
            )
        frame = self.read([Variable(n, "nominal") for n in self.names])
        if list(frame.columns) != list(self.names):
            raise Refused(f"source: the column names of {visible(self.path.name)} cannot be read; simplify them")
        if frame.empty:
            raise Refused(f"source: {visible(self.path.name)} holds no records")
        if self.kind == "csv" and sum(bool((frame[n] == n).any()) for n in self.names) > 1:
            raise Refused(NO_HEADER.format(visible(self.path.name)))
        return frame


def _head_of(data: Path) -> bytes:
    problem = ""
    try:
        check_file(data)
        with data.open("rb") as file:
            head = file.read(4)
        if head:
            return head
        problem = f"{visible(data.name)} is empty"
    except PermissionError:
        problem = f"{visible(data.name)} may not be read by this user"
    except Refused as error:
        problem = str(error)
    raise Refused(f"source: {problem}")


def _encoding(data: Path, head: bytes) -> tuple[str, str]:
    """Return the encoding, and a remark where it is a guess."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", ""
    decoder = codecs.getincrementaldecoder("utf-8")()
    unicode, lines = True, LineCheck(f"source: {visible(data.name)}")
    with data.open("rb") as file:
        while block := file.read(BLOCK):
            lines.add(block)
            try:
                unicode = unicode and decoder.decode(block) is not None
            except UnicodeDecodeError:
                unicode = False
    if unicode:
        return "utf-8-sig", ""
    return "latin-1", "confirm: the file is not UTF-8, and latin-1 reads anything; look at accented letters"


def _delimiter(data: Path, encoding: str) -> str:
    """Return the delimiter that splits the header, and most of the first records like the header."""
    best, score = ",", (False, 1)
    for delimiter in DELIMITERS:
        try:
            with data.open(encoding=encoding, newline="") as file:
                some = islice(csv.reader(lines_of(file, visible(data.name)), delimiter=delimiter), 50)
                rows = [len(r) for r in some if r]
        except (csv.Error, UnicodeError):
            continue
        if rows and rows[0] > 1:
            regular = sum(n == rows[0] for n in rows) >= 0.9 * len(rows)
            if (regular, rows[0]) > score:
                best, score = delimiter, (regular, rows[0])
    return best


def _relative(data: Path, base: Path) -> str:
    """Return the path as the plan states it."""
    # The folder is resolved, but not a link that the file itself may be: it may come to point elsewhere.
    target, folder = data.parent.resolve() / data.name, base.resolve()
    try:
        shared = Path(os.path.commonpath([target, folder]))
    except ValueError:
        return str(target)
    near = shared != Path(shared.anchor) or folder == shared
    return Path(os.path.relpath(target, folder)).as_posix() if near else str(target)


def _names(data: Path, header: list[str]) -> tuple[str, ...]:
    if KINDS[data.suffix.lower()] == "csv" and _is_record(header):
        raise Refused(NO_HEADER.format(visible(data.name)))
    if any(not name.strip() for name in header):
        raise Refused(f"source: {visible(data.name)} has a column without a name")
    return tuple(header)


def _is_record(header: list[str]) -> bool:
    """Whether at least half of the names are numbers, dates or e-mail addresses, and no series of years."""
    odd = [n.strip() for n in header if VALUE.fullmatch(n.strip())]
    series = [int(n) for n in odd if n.isdecimal()]
    counted = 1 < len(odd) == len(series) and series in (sorted(set(series)), sorted(set(series))[::-1])
    return len(odd) >= 0.5 * len(header) and not counted


def _without_formulas(frame: pd.DataFrame, guesses: Iterable[Guess]) -> list[Guess]:
    """Drop columns that a spreadsheet could carry out or a terminal obey, until a person says otherwise."""
    kept = []
    for guess in guesses:
        name = guess.variable.name
        texts = [name, *(v for v in frame[name].dropna().unique() if isinstance(v, str))]
        if guess.variable.is_masked and any(map(like_a_formula, texts)):
            reason = "its name or values begin like a formula (= + - @), which spreadsheets carry out"
            guess = Guess(Variable(name, "nominal", role="identifier"), reason, confirm=True)
        elif guess.variable.is_masked and any(map(odd, texts)):
            reason = "its name or values hold control characters, tabs or line ends"
            guess = Guess(Variable(name, "nominal", role="identifier"), reason, confirm=True)
        kept.append(guess)
    return kept


def _readable(table: _Table, guesses: Iterable[Guess]) -> tuple[tuple[Guess, ...], Microdata | None]:
    """Read the table as guessed; drop what cannot be read so. None when nothing would be released."""
    kept = list(guesses)
    frame = table.read([g.variable for g in kept])
    columns: dict[str, pd.Series] = {}
    completed: list[Variable] = []
    for place, guess in enumerate(kept):
        variable = guess.variable
        if not variable.is_masked:
            continue
        try:
            one = Microdata(frame[[variable.name]], Schema([variable]))
        except AnonymizationError:
            dropped = Variable(variable.name, "nominal", role="identifier")
            kept[place] = Guess(dropped, "its values do not agree with any kind; look at them", confirm=True)
            continue
        columns[variable.name] = one.frame[variable.name]
        completed += one.schema.variables
    whole = Microdata(pd.DataFrame(columns), Schema(completed)) if completed else None
    return tuple(kept), whole


# --------------------------------------------------------------------------- writing


HEAD = """\
#
# A draft is a list of guesses, safe to run but not yet right:
#   - what is marked "confirm" is for you to decide before the first run;
#   - identifiers are dropped and never released; give a column another role to keep it;
#   - rules and steps that start with # are proposals: remove the # to use one.
# No value that fewer than 5 records hold stands here, and limits are rounded away from the extremes.
# Every key is described in docs/how-to/plan.md. Next: anonflow check PLAN, then anonflow run PLAN
anonflow: 1"""

VARIABLES = """\
# kind says on which scale a value lives, role what it is to a person; levels lists the values, missing
# the codes that mean "not known". Whole numbers taken for codes in an order (ordinal) may as well be codes
# without one (nominal), a count (continuous), or yes and no beside a code for "not known" (binary).
"""

NOTHING_LEFT = """\
# confirm: every column looks like an identifier, so nothing would be released; give one another role."""

EDITS = """\
# What every record must satisfy, before masking and after it.
edits:
  # Raw records that break a rule: refuse ends the run, set-aside leaves them out, repair keeps them as they
  # are; only the released data are made to fit.
  on_violation: refuse"""


def _head(table: _Table, frame: pd.DataFrame) -> Iterator[str]:
    size = f"{len(frame)} records, {len(frame.columns)} columns"
    yield f"# Drafted by anonflow from {_scalar(table.path.name)}: {size}."
    yield HEAD
    yield f"name: {_scalar(_slug(table.path.stem))}"
    yield ""
    yield "source:"
    yield f"  path: {_scalar(table.source.path)}  # relative to this file, or absolute"
    yield f"  format: {table.kind}"
    if table.kind == "csv":
        yield f"  delimiter: {_scalar(table.source.delimiter)}"
        yield f"  encoding: {table.source.encoding}{_comment(table.remark)}"
    yield ""


def _variables(guesses: tuple[Guess, ...]) -> Iterator[str]:
    yield VARIABLES.rstrip()
    if not any(g.variable.is_masked for g in guesses):
        yield NOTHING_LEFT
    yield "variables:"
    for guess in guesses:
        yield f"  - {_flow(_facts(guess.variable))}{_comment(_reason(guess))}"
        for value, count in guess.codes:
            known = guess.variable.levels is not None and value in guess.variable.levels
            moved = "move it from levels to missing" if known else f"add missing: [{_scalar(value)}]"
            yield f"    # does {_scalar(value)} mean not known ({count} records)? then {moved}"
    yield ""


def _facts(variable: Variable) -> dict[str, Any]:
    stated = {"name": variable.name, "kind": variable.kind, "role": variable.role}
    rest = {"levels": variable.levels, "missing": variable.missing, "precision": variable.precision}
    return stated | {k: v for k, v in rest.items() if v}


def _reason(guess: Guess) -> str:
    return f"confirm: {guess.reason or 'a guess'}" if guess.confirm else guess.reason


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
    usual = {f.name: f.default for f in fields(edit) if f.default is not MISSING and f.name != "edit"}
    stated = {k: v for k, v in to_dict(edit).items() if k not in usual or v != usual[k]}
    return _flow(stated) + _comment(finding.reason)


def _choices(data: Path) -> Iterator[str]:
    """Yield the sections in which nothing depends on the data, with their defaults."""
    yield "# Against whom risk is measured."
    yield from _section("reference", ReferenceSection(), REFERENCE)
    yield STEPS
    yield "# How risk is measured."
    yield from _section("assessment", AssessmentSection(), ASSESSMENT)
    yield "# When a release may be published."
    yield from _section("policy", PolicySection(approval="person"), POLICY)
    yield "# What is published beside the data."
    yield from _section("publication", PublicationSection(title=_printable(data.stem)), PUBLICATION)
    yield "# There is no seed section on purpose: the operating system supplies the seed and nobody keeps it,"
    yield "# since whoever has it can undo the masking."


REFERENCE = {
    "kind": "holdout: a random half of the records is set apart, never released, and shows how close "
    "strangers come to each other. leave-one-out: all records are released, but it cannot be tested whether "
    "members are told from strangers. file: the strangers come from another table."
}
STEPS = """\
# What is done to the records, in this order.
steps:
  # A level that fewer than k records hold points at them by itself: suppress empties those cells, merge joins
  # the level with others.
  - {method: rare-levels, k: 5, action: suppress}
  # Records far from all others tend to be recreated. To leave them out:
  # - {method: extreme-records, action: set-aside}
  # Every principal score is permuted, so that no released record stems from one person; calibrated keeps the
  # number of records at each level.
  - {method: spectral-swap, released: calibrated}
"""
ASSESSMENT = {
    "k": "neighbours looked at around each record",
    "margin": "by how much the release may be riskier than the reference",
    "alpha": "1 minus the confidence with which that must be shown",
    "tau": "unusually close: below this share of the nearest neighbour's distance",
    "exhaustive": "true compares every record, however many there are",
    "sample_above": "with more records than this, a sample of them is compared",
    "epsilon": "how exact that sample's curves are, at 99 % confidence",
}
POLICY = {
    "approval": "person: even when every gate passes, nothing is published before someone runs anonflow "
    "approve. automatic: publishes when every gate passes.",
    "inconclusive": "person: ask when the sample is too small to tell. reject: refuse then.",
    "by_design": "measures that say nothing about the method: [uncertainty] for spectral-rhs",
    "tail_p": "fail when chance alone makes as many unusually close records less often than this",
    "membership_auc": "fail when members are told from strangers better than this (0.5 is guessing)",
    "utility": "largest accepted median differences, such as {correlation: 0.05}; not gated when not stated",
}
PUBLICATION = {
    "title": "as readers see it",
    "description": "a sentence or two on the table",
    "contact": "who answers questions",
    "licence": "under which the release may be used",
    "formats": "of the data: parquet, csv, or both",
}


def _section(name: str, section: Section, comments: dict[str, str]) -> Iterator[str]:
    """Yield a section with its values written out, and what each choice means."""
    yield f"{name}:"
    values = section.model_dump(mode="json", exclude_none=True)
    for key, comment in comments.items():
        line = f"  {key}: {_flow(values[key])}"
        if len(line) + len(comment) <= 105:
            yield f"{line}  # {comment}"
        else:
            yield from textwrap.wrap(comment, 108, initial_indent="  # ", subsequent_indent="  # ")
            yield line
    yield ""


def _slug(stem: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:63].rstrip("-") or "release"


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())


def _comment(text: str) -> str:
    return f"  # {text}" if text else ""


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(v) for v in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """Return a scalar that reads back as itself."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    number = float(value)
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return np.format_float_positional(number, trim="0")


@lru_cache(maxsize=10_000)
def _text(value: str) -> str:
    """Return text, quoted wherever YAML might take it for something else."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*", value) is not None
    if plain and yaml.safe_load(value) == value:
        return value
    quoted: str = yaml.safe_dump(value, default_style='"', width=float("inf"), allow_unicode=True)
    return quoted.removesuffix("\n")
