"""The statistical units of a draft: which guessed identifiers join records, and to how many units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pandas as pd

from anoncore.profile import Guess
from tasks.intake.units import Declared, joins_most, keys_of, units_of

TOO_COMMON = "its values join most of the records, so that they do not say whose record it is"


@dataclass(frozen=True)
class Units:
    """How many records and statistical units there are, and the columns that join records."""

    records: int
    units: int
    columns: tuple[str, ...]

    @classmethod
    def of(cls, guesses: Iterable[Guess], frame: pd.DataFrame) -> Units:
        """Join the records of a table by what it is guessed to be."""
        keys = _keys(guesses, frame)
        joining = tuple(name for name in keys.columns if keys[name].dropna().duplicated().any())
        return cls(len(frame), len(set(units_of(keys).tolist())), joining)


def told_apart(guesses: Iterable[Guess], frame: pd.DataFrame) -> tuple[Guess, ...]:
    """Exclude identifiers and households that would join most of the records; those with most values stay first."""
    checked = {guess.variable.name: guess for guess in guesses}
    joining = [name for name, g in checked.items() if g.variable.role in ("identifier", "household")]
    kept: list[Guess] = []
    for name in sorted(joining, key=lambda n: -len(_keys([checked[n]], frame).iloc[:, 0].unique())):
        guess = checked[name]
        if joins_most(_keys([*kept, guess], frame)):
            checked[name] = Guess(replace(guess.variable, role="excluded"), TOO_COMMON, confirm=True)
        else:
            kept.append(guess)
    return tuple(checked.values())


def _keys(guesses: Iterable[Guess], frame: pd.DataFrame) -> pd.DataFrame:
    return keys_of(frame, Declared(tuple(g.variable for g in guesses)).keys)
