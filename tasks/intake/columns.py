"""Bring a table to the declared variables: names, levels, numbers that can be computed with, identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pandas as pd

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.names import appearance, format_look_alikes
from tasks.common.errors import Refused, named, odd, visible

NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)*|[.,]\d+)(e[+-]?\d+)?\s?%?", re.IGNORECASE)
BLANK = "".join(c for c in map(chr, range(256)) if c.isspace() or not c.isprintable()) + "\u2028\u2029"
# Their products and sums must stay finite.
TOO_LARGE = 1e100


def to_microdata(frame: pd.DataFrame, variables: tuple[Variable, ...]) -> tuple[Microdata, list[str]]:
    """Return microdata without identifiers, and sentences on what a reader should know."""
    whole = Schema(variables)
    names = [str(c) for c in frame.columns]
    there = set(names)
    absent = [n for n in whole.names if n not in there]
    surplus = [n for n in names if n not in whole]
    problems = []
    if len(absent) == len(whole):
        # Without a header these are values of the first record, so they are not shown.
        raise Refused(
            f"none of the {len(whole)} declared variables is among the {len(names)} column(s) of the data; "
            "check that it is the right table, that its first line holds the names, and its delimiter"
        )
    if absent:
        problems.append(f"declared variables are not in the data: {named(absent)}")
    if surplus:
        problems.append(
            f"columns without a declaration: {named_surplus(surplus, len(whole) - len(absent), len(whole))}; "
            "declare them, as excluded to drop them"
        )
    if pairs := nearly(absent, surplus):
        problems.append(f"names that look alike and differ: {format_look_alikes(pairs)}; correct the plan")
    kept = [v for v in variables if not v.is_dropped]
    if not kept:
        problems.append("every variable is dropped (identifier or excluded); nothing would be released")
    if problems:
        raise Refused("\n".join(problems))
    try:
        data = Microdata(frame[[v.name for v in kept]].reset_index(drop=True), Schema(kept))
    except OverflowError:
        problem = f"variables hold whole numbers that are too large: {named(_too_large(frame, kept))}"
    else:
        vast = _vast(data)
        if not vast:
            return data, _notes(frame, variables, data)
        problem = f"variables hold numbers beyond 1e100, with which nothing can be computed: {named(vast)}"
    raise Refused(f"{problem}; correct them or declare a missing code")


def as_read(frame: pd.DataFrame, data: Microdata) -> pd.DataFrame:
    """Return all columns of a source: as microdata where they are, and those that are dropped as they were read."""
    read = frame.reset_index(drop=True)
    return pd.DataFrame({name: data.frame[name] if name in data.schema else read[name] for name in read.columns})


def check_levels(schema: Schema, variables: Iterable[Variable]) -> list[str]:
    """Refuse text that must not be released unseen, and return a sentence where a person has stated it."""
    stated = {v.name for v in variables if v.levels}
    broken, unseen, notes = [], [], []
    for variable in schema:
        levels = [v for v in variable.levels or () if isinstance(v, str)]
        if any(map(odd, levels)):
            broken.append(variable.name)
        formulas = sum(map(like_a_formula, levels))
        if formulas and variable.name in stated:
            notes.append(
                f"{formulas} level(s) of {visible(variable.name)} begin like a formula; a spreadsheet must "
                "open the CSV file as text alone"
            )
        elif formulas:
            unseen.append(f"{visible(variable.name)} ({formulas})")
    if broken:
        raise Refused(
            f"text with NUL or other control characters, tabs, line ends or half a character in "
            f"{named(broken)}; repair it"
        )
    if unseen:
        raise Refused(
            f"values that begin like a formula (= + - @), which a spreadsheet would carry out: "
            f"{named(unseen)}; correct them, or state the variable's levels if they are meant"
        )
    return notes


def identities(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return identifiers as text that is the same however a file writes them: 7, 7.0, 007 and " 7 "."""
    return pd.DataFrame({name: _identity(frame[name]) for name in names}, index=frame.index)


def nearly(absent: Iterable[str], surplus: Iterable[str]) -> list[tuple[str, str]]:
    """Return declared names with the source's names that look like them."""
    like = {appearance(name): name for name in absent}
    return [(like[drawn], name) for name in surplus if (drawn := appearance(name)) in like]


def named_surplus(surplus: Sequence[str], matching: int, declared: int) -> str:
    """Return columns that are not declared as a message may show them: by name, or as their number.

    Where a header is missing they are values of the first record, of which one or another may be a declared
    name by chance.
    """
    return named(surplus) if 2 * matching >= declared else f"{len(surplus)} (names are shown when most agree)"


def like_a_formula(text: str) -> bool:
    """Return whether a spreadsheet that opens a CSV file may take a cell for something to carry out.

    Numbers are none, nor are signs and ranges of numbers: what calls or fetches something needs a letter.

    Examples
    --------
    >>> [like_a_formula(t) for t in ("=1+1", "-2.5", "+", "-10-20", "+cmd|' /C calc'!A0", "@SUM(A1)")]
    [True, False, False, False, True, True]
    """
    drawn = appearance(text).lstrip(BLANK)
    if drawn[:1] in ("=", "@"):
        return len(drawn) > 1
    return drawn[:1] in ("+", "-") and not NUMBER.fullmatch(drawn) and any(c.isalpha() for c in drawn)


def _identity(column: pd.Series) -> pd.Series:
    known = column.dropna()
    if pd.api.types.is_float_dtype(column) and bool(((known % 1 == 0) & (known.abs() < 2**53)).all()):
        column = column.astype("Int64")
    if pd.api.types.is_integer_dtype(column):
        return column.astype("string")
    if column.dtype == object:
        column = column.map(str, na_action="ignore")
    text = column.astype("string").str.strip()
    text = text.str.replace(r"^([+-]?\d+)\.0+$", r"\1", regex=True)
    text = text.str.replace(r"^0+(\d+)$", r"\1", regex=True)
    return text.mask(text == "")


def _too_large(frame: pd.DataFrame, variables: Iterable[Variable]) -> list[str]:
    digits = {v.name: frame[v.name].astype("string").str.fullmatch(r"\s*[+-]?\d{300,}\s*") for v in variables}
    return [name for name, matches in digits.items() if bool(matches.any())]


def _vast(data: Microdata) -> list[str]:
    """Return the variables with numbers so large that their squares and sums would overflow."""
    names = []
    for variable in data.schema:
        column = data.frame[variable.name]
        vast = any(abs(v) > TOO_LARGE for v in variable.levels or () if not isinstance(v, str))
        if pd.api.types.is_numeric_dtype(column):
            vast = bool((column.abs() > TOO_LARGE).any())
        if vast:
            names.append(variable.name)
    return names


def _notes(frame: pd.DataFrame, variables: tuple[Variable, ...], data: Microdata) -> list[str]:
    notes = []
    for variable in variables:
        if variable.is_dropped:
            continue
        known = data.frame[variable.name].dropna()
        constant = not known.empty and bool((known == known.iloc[0]).all())
        notes += value_notes(variable.name, empty=known.empty, constant=constant)
    return notes


def value_notes(name: str, *, empty: bool, constant: bool) -> list[str]:
    """Return what a reader should know of a variable that holds no value, or one."""
    if empty:
        return [f"{visible(name)} is missing in every record and is released so"]
    return [f"{visible(name)} holds one value only, which is released as it is"] if constant else []
