"""Draft a commented plan from a data file, for a person to confirm.

Reading is the ingest step's own; the guesses and the rules are `anoncore.profile`'s. No value that fewer than five
records hold is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from anoncore.microdata.inference import words_of
from anoncore.microdata.inference.vocabulary import DESIGN_WEIGHT
from anoncore.profile import NESTED, Guess, find_rules, groups_that_stand_out, profile
from anoncore.risk import hidden_units
from flows.draft.document import Observed, document, has_heavy_amounts
from flows.draft.figures import without_group_figures
from flows.draft.readable import dropped, readable
from flows.draft.roles import asked_about
from flows.draft.table import NESTED_COLUMNS, Table
from flows.draft.units import Units, distinguished, names_asked_about, numbered_groups, panel_named, time_of_panel
from tasks.common.errors import Refused, named, odd, visible
from tasks.intake.columns import like_a_formula
from tasks.intake.source import SourceSection

FORMULA = "its name or values begin like a formula (= + - @), which spreadsheets carry out"
CONTROL = "its name or values hold control characters, tabs or line ends"


def draft_plan(data: Path, base: Path) -> str:
    """Return a commented plan for a table, as YAML.

    Parameters
    ----------
    data : Path
        A file of a format that a source can have, or a folder of Parquet files; the delimiter and the encoding of a CSV
        file are detected.
    base : Path
        The folder in which the plan will stand; the source's path is written relative to it
        where the two have more than the root in common.

    Returns
    -------
    str
        A plan that loads and runs as it stands, unless every column looks like an identifier.
        Columns that look like identifiers, dates or free text are dropped until a person says
        otherwise; identifiers that repeat are proposed as the statistical unit; rules that hold
        in every record are active, others are comments; a person's approval is asked for. The
        same file gives the same draft.

    Raises
    ------
    Refused
        When the file cannot be read; the message holds no value.

    Examples
    --------
    >>> print(draft_plan(Path("survey.csv"), Path(".")))  # doctest: +SKIP
    """
    table = Table.open(data, base)
    frame = table.natural()
    profiled = profile(frame, rng=np.random.default_rng(0))
    nested = [g.variable.name for g in profiled.guesses if g.reason.startswith(NESTED)]
    if nested:
        raise Refused(NESTED_COLUMNS.format(visible(data.name), named(nested)))
    guesses = numbered_groups(panel_named((_checked(guess, frame) for guess in profiled.guesses), frame), frame)
    guesses = names_asked_about(_of_one_weight(distinguished(guesses, frame)), frame)
    guesses, microdata = readable(table, guesses, frame)
    units = Units.of(guesses, frame)
    if microdata is None:
        return document(table, guesses, units)
    guesses, microdata = without_group_figures(guesses, frame, microdata.with_units(units.of_records))
    rules, groups = find_rules(microdata, profiled.sums), groups_that_stand_out(microdata)
    computed = {str(name) for f in rules if f.active and (name := getattr(f.edit, "dependent", None))}
    guesses = asked_about(guesses, microdata, computed)
    same_unit = hidden_units(microdata, computed=computed).variables
    observed = Observed(tuple(groups), time_of_panel(guesses, frame, units), has_heavy_amounts(microdata), same_unit)
    return document(table, guesses, units, rules, observed)


def source_of(data: Path) -> SourceSection:
    """Return how a file is read, as its draft would say; raises `Refused` as `declared`.

    Examples
    --------
    >>> source_of(Path("survey.csv")).delimiter  # doctest: +SKIP
    ','
    """
    return Table.open(data, data.parent.resolve()).source


def _checked(guess: Guess, frame: pd.DataFrame) -> Guess:
    """Drop a column that a spreadsheet could carry out or a terminal obey, until a person says otherwise."""
    name = guess.variable.name
    if not guess.variable.is_masked:
        return guess
    are_numbers = guess.variable.kind == "continuous" or pd.api.types.is_numeric_dtype(frame[name].dtype)
    values = () if are_numbers else frame[name].dropna().unique()
    texts = [name, *(v for v in values if isinstance(v, str))]
    if any(map(like_a_formula, texts)):
        return dropped(name, FORMULA)
    return dropped(name, CONTROL) if any(map(odd, texts)) else guess


def _of_one_weight(guesses: Iterable[Guess]) -> tuple[Guess, ...]:
    """Leave the role weight to the first column that has it, and is not of the design alone, where there is one."""
    guesses = tuple(guesses)
    weights = [g for g in guesses if g.variable.role == "weight"]
    first = min(weights, key=lambda g: bool(words_of(g.variable.name) & DESIGN_WEIGHT), default=None)
    return tuple(
        Guess(replace(g.variable, role="other"), f"a weight, too; {visible(first.variable.name)} counts", confirm=False)
        if first is not None and g is not first and g.variable.role == "weight"
        else g
        for g in guesses
    )
