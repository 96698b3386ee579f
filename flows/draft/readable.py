"""Columns that can be read as they were guessed."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.profile import Guess
from flows.draft.table import Table

UNREADABLE = "its values do not agree with any kind; look at them"


def readable(table: Table, guesses: Iterable[Guess]) -> tuple[tuple[Guess, ...], Microdata | None]:
    """Read the table as guessed; drop what cannot be read so. None when nothing would be released."""
    read = list(guesses)
    frame = table.read([g.variable for g in read])
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


def dropped(name: str, reason: str) -> Guess:
    """Return the guess of a column that is not released, until a person says otherwise."""
    return Guess(Variable(name, "nominal", role="excluded"), reason, confirm=True)
