"""The statistical units of a draft: which guessed identifiers join records, and to how many units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pandas as pd

from anoncore.profile import Guess
from tasks.intake.units import Declared, joins_most, keys_of, units_of

TOO_COMMON = "its values join most of the records, so that they do not say whose record it is"
BY_CHANCE = "; it repeats in few records, perhaps by chance; identifier if it says whose record it is"


@dataclass(frozen=True)
class Units:
    """How many records and statistical units there are, and the columns that, taken together, join records."""

    records: int
    units: int
    keys: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, guesses: Iterable[Guess], frame: pd.DataFrame) -> Units:
        """Join the records of a table by what it is guessed to be."""
        columns = Declared(tuple(g.variable for g in guesses)).keys
        keys = keys_of(frame, columns)
        joining = tuple(key for key, name in zip(columns, keys.columns, strict=True) if _repeats(keys[name]))
        return cls(len(frame), len(set(units_of(keys).tolist())), joining)


def told_apart(guesses: Iterable[Guess], frame: pd.DataFrame) -> tuple[Guess, ...]:
    """Exclude guessed identifiers and households that would join records which have nothing to do with each other.

    Those are columns that join most of the records, and, where a name says which column tells units apart, numbers
    that are taken for identifiers because they hardly repeat.
    """
    checked = {guess.variable.name: guess for guess in guesses}
    joining = [name for name, g in checked.items() if g.variable.role in ("identifier", "household")]
    named = [name for name in joining if _is_named(checked[name])]
    kept: list[Guess] = []
    for name in sorted(joining, key=lambda n: (n not in named, -frame[n].astype(str).nunique())):
        guess = checked[name]
        if name not in named and named and _repeats(_keys([guess], frame).iloc[:, 0]):
            checked[name] = _excluded(guess, guess.reason + BY_CHANCE)
        elif joins_most(_keys([*kept, guess], frame)):
            checked[name] = _excluded(guess, TOO_COMMON)
        else:
            kept.append(guess)
    return tuple(checked.values())


def _is_named(guess: Guess) -> bool:
    return guess.variable.role == "household" or not guess.confirm


def _excluded(guess: Guess, reason: str) -> Guess:
    return Guess(replace(guess.variable, role="excluded"), reason, confirm=True)


def _repeats(key: pd.Series) -> bool:
    return bool(key.dropna().duplicated().any())


def _keys(guesses: Iterable[Guess], frame: pd.DataFrame) -> pd.DataFrame:
    return keys_of(frame, Declared(tuple(g.variable for g in guesses)).keys)
