"""Columns that can be read as they were guessed."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.profile import Guess
from flows.draft.table import Table

UNREADABLE = "its values do not agree with any kind; look at them"


def readable(
    table: Table, guesses: Iterable[Guess], natural: pd.DataFrame
) -> tuple[tuple[Guess, ...], Microdata | None]:
    """Read the table as guessed; drop what cannot be read so. None when nothing would be released.

    ``natural`` is the table as it was read with nothing declared.
    """
    read = list(guesses)
    frame = _as_guessed(table, [g.variable for g in read], natural)
    released = [g.variable for g in read if g.variable.is_masked]
    if not released:
        return tuple(read), None
    try:
        return tuple(read), _microdata(frame, released)
    except AnonymizationError:
        unreadable = {v.name for v in released if not _can_be_read(frame, v)}
    read = [dropped(g.variable.name, UNREADABLE) if g.variable.name in unreadable else g for g in read]
    rest = [v for v in released if v.name not in unreadable]
    return tuple(read), _microdata(frame, rest) if rest else None


def _microdata(frame: pd.DataFrame, variables: list[Variable]) -> Microdata:
    return Microdata(frame[[v.name for v in variables]], Schema(variables))


def _can_be_read(frame: pd.DataFrame, variable: Variable) -> bool:
    try:
        _microdata(frame, [variable])
    except AnonymizationError:
        return False
    return True


def _as_guessed(table: Table, variables: list[Variable], natural: pd.DataFrame) -> pd.DataFrame:
    """Return the table as the ingest step reads it with these declarations; what was read so already is not again."""
    other = [v for v in variables if table.kind != "csv" or not (v.is_dropped or _same(natural[v.name], v))]
    if not other:
        return natural
    rest = [Variable(v.name, "nominal", role="excluded") for v in variables if v not in other]
    return natural.assign(**table.read([*other, *rest])[[v.name for v in other]])


def _same(column: pd.Series, variable: Variable) -> bool:
    """Whether a column of a CSV file is read as it was with nothing declared: numbers, or levels that are no texts."""
    are_numbers = pd.api.types.is_numeric_dtype(column.dtype)
    if variable.kind == "continuous":
        return are_numbers
    return not (are_numbers and variable.levels and isinstance(variable.levels[0], str))


def dropped(name: str, reason: str) -> Guess:
    """Return the guess of a column that is not released, until a person says otherwise."""
    return Guess(Variable(name, "nominal", role="excluded"), reason, confirm=True)
