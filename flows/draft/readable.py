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
    columns: dict[str, pd.Series] = {}
    completed: list[Variable] = []
    for place, guess in enumerate(read):
        name = guess.variable.name
        if not guess.variable.is_masked:
            continue
        try:
            one = Microdata(frame[[name]], Schema([guess.variable]))
        except AnonymizationError:
            read[place] = dropped(name, UNREADABLE)
            continue
        columns[name] = one.frame[name]
        completed += one.schema.variables
    whole = Microdata.trusted(pd.DataFrame(columns), Schema(completed)) if completed else None
    return tuple(read), whole


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
