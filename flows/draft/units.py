"""The statistical units of a draft: which guessed identifiers join records, and to how many units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from anoncore.microdata import Variable
from anoncore.microdata.inference import MAX_LEVELS, TIMES, words_of
from anoncore.profile import GROUP_NUMBERS, NAMES, Guess
from tasks.intake.units import Declared, joins_most, keys_of, units_of

TOO_COMMON = "its values join most of the records, so that they do not say whose record it is"
BY_CHANCE = "; it repeats in few records, perhaps by chance; identifier if it says whose record it is"


PANEL = "each value has one record for each {}, so that it names the unit of a panel"
WITHIN = "it counts from the start again within each {}, so that equal values are of different units"
NESTED = "whole numbers in the order of {}, which repeat, so that they number groups of records"
FEWEST_UNITS = 5
LARGEST = 5  # records of a mother, on average; schools have more
MOST_TIMES = 100  # of a panel, as months of eight years
COLLISIONS = 20.0  # records of one unit at one time that chance would give, where there are none


@dataclass(frozen=True, eq=False)
class Units:
    """The statistical unit of each record, (N,), and the columns that, taken together, join records."""

    of_records: np.ndarray = field(repr=False)
    keys: tuple[tuple[str, ...], ...]

    @property
    def records(self) -> int:
        """The number of records."""
        return len(self.of_records)

    @property
    def units(self) -> int:
        """The number of statistical units."""
        return len(np.unique(self.of_records))

    @classmethod
    def of(cls, guesses: Iterable[Guess], frame: pd.DataFrame) -> Units:
        """Join the records of a table by what it is guessed to be."""
        columns = Declared(tuple(g.variable for g in guesses)).keys
        keys = keys_of(frame, columns)
        joining = tuple(key for key, name in zip(columns, keys.columns, strict=True) if _repeats(keys[name]))
        return cls(units_of(keys), joining)


def panel_named(guesses: Iterable[Guess], frame: pd.DataFrame) -> tuple[Guess, ...]:
    """Take for an identifier what names the units of a panel: with a time it distinguishes records, and repeats.

    Not where an identifier that repeats is named as such.
    """
    guesses = tuple(guesses)
    if any(g.variable.role in ("identifier", "household") and _repeats(frame[g.variable.name]) for g in guesses):
        return guesses
    rest = [g.variable.name for g in guesses if g.variable.role not in ("identifier", "weight", "household")]
    names = [n for n in rest if not frame[n].isna().any()]
    # A time that hardly repeats distinguishes records by itself.
    times = [n for n in names if words_of(n) & TIMES and 2 < frame[n].nunique() <= len(frame) / 2]
    for time in times:
        for place, guess in enumerate(guesses):
            name = guess.variable.name
            if name in names and name not in times and _names_units(frame, name, time):
                variable = Variable(name, "nominal", role="identifier")
                return (*guesses[:place], Guess(variable, PANEL.format(time), True), *guesses[place + 1 :])
    return guesses


def _names_units(frame: pd.DataFrame, name: str, time: str) -> bool:
    """Whether a column without missing values names a unit, is no amount, and each has one record at a time at most."""
    column, n = frame[name], len(frame)
    if pd.api.types.is_numeric_dtype(column.dtype) and not (column == column.round()).all():
        return False
    counts, moments = column.value_counts().to_numpy(), frame[time].nunique()
    repeated = len(counts) >= FEWEST_UNITS and n >= 2 * len(counts)
    by_chance = float((counts * (counts - 1.0)).sum()) / (2.0 * moments)
    return repeated and by_chance >= COLLISIONS and not frame.duplicated([name, time]).any()


def time_of_panel(guesses: Iterable[Guess], frame: pd.DataFrame, units: Units) -> str:
    """Return the released time of which no unit has two records; "" where there is none, or units seldom recur."""
    if units.records < 2 * units.units:
        return ""
    names = [g.variable.name for g in guesses if g.variable.is_masked and words_of(g.variable.name) & TIMES]
    unit = pd.Series(units.of_records, index=frame.index)
    for name in names:
        moments = frame[name]
        if 2 < moments.nunique() <= MOST_TIMES and not pd.DataFrame({"unit": unit, "time": moments}).duplicated().any():
            return name
    return ""


def numbered_groups(guesses: Iterable[Guess], frame: pd.DataFrame) -> tuple[Guess, ...]:
    """Take for identifiers whole numbers that repeat and rise with an identifier that never does.

    As the numbers of mothers in a table of children that both were numbered in.
    """
    guesses = tuple(guesses)
    given = [g.variable.name for g in guesses if g.variable.role == "identifier" and _rises(frame[g.variable.name])]
    single = next((name for name in given if frame[name].is_unique), None)
    if single is None:
        return guesses
    rest = [g.variable.name for g in guesses if g.variable.role not in ("identifier", "weight")]
    groups = [name for name in rest if _numbers_groups(frame[name])]
    finest = max(groups, key=lambda name: frame[name].nunique(), default=None)
    return tuple(
        Guess(Variable(g.variable.name, "nominal", role="identifier"), NESTED.format(single), True)
        if g.variable.name == finest
        else g
        for g in guesses
    )


def _rises(column: pd.Series) -> bool:
    whole = pd.api.types.is_numeric_dtype(column.dtype) and not column.isna().any()
    return bool(whole and (column == column.round()).all() and column.is_monotonic_increasing)


def _numbers_groups(column: pd.Series) -> bool:
    return _rises(column) and MAX_LEVELS < column.nunique() <= 0.9 * len(column) <= LARGEST * column.nunique()


def distinguished(guesses: Iterable[Guess], frame: pd.DataFrame) -> tuple[Guess, ...]:
    """Exclude guessed identifiers and households that would join records which have nothing to do with each other.

    Those are columns that join most of the records, numbers that are given out within each group, as to the pupils of a
    school, and, where a name says which column distinguishes units, numbers that are taken for identifiers because they
    hardly repeat.
    """
    checked = {guess.variable.name: guess for guess in guesses}
    groups = [name for name, g in checked.items() if g.reason.startswith(GROUP_NUMBERS)]
    joining = [name for name, g in checked.items() if g.variable.role in ("identifier", "household")]
    named = [name for name in joining if _is_named(checked[name])]
    kept: list[Guess] = []
    for name in sorted(joining, key=lambda n: (n not in named, -frame[n].astype(str).nunique())):
        guess = checked[name]
        by_chance = not _numbers_groups(frame[name]) and _repeats(_keys([guess], frame).iloc[:, 0])
        if name not in named and named and by_chance:
            checked[name] = _excluded(guess, guess.reason + BY_CHANCE)
        elif guess.variable.role == "identifier" and (group := _within(frame, name, groups)):
            checked[name] = _excluded(guess, WITHIN.format(group))
        elif joins_most(_keys([*kept, guess], frame)):
            checked[name] = _excluded(guess, TOO_COMMON)
        else:
            kept.append(guess)
    return tuple(checked.values())


def names_asked_about(guesses: Iterable[Guess], frame: pd.DataFrame) -> tuple[Guess, ...]:
    """Ask about names that repeat in few records, where no identifier joins records: they may be of one person."""
    guesses = tuple(guesses)
    if Units.of(guesses, frame).keys:
        return guesses
    return tuple(replace(g, confirm=g.confirm or _may_join(g, frame[g.variable.name])) for g in guesses)


def _may_join(guess: Guess, column: pd.Series) -> bool:
    texts = guess.reason == NAMES and not pd.api.types.is_numeric_dtype(column.dtype)
    return texts and _repeats(column) and 2 * column.nunique() > column.notna().sum()


def _within(frame: pd.DataFrame, name: str, groups: Iterable[str]) -> str:
    """Return the one of ``groups`` with which an identifier that repeats distinguishes records; or ""."""
    n = len(frame)
    several = 2 * frame[name].nunique() <= n
    return next((g for g in groups if several and len(frame[[g, name]].drop_duplicates()) >= 0.98 * n), "")


def _is_named(guess: Guess) -> bool:
    return guess.variable.role == "household" or not guess.confirm


def _excluded(guess: Guess, reason: str) -> Guess:
    return Guess(replace(guess.variable, role="excluded"), reason, confirm=True)


def _repeats(key: pd.Series) -> bool:
    return bool(key.dropna().duplicated().any())


def _keys(guesses: Iterable[Guess], frame: pd.DataFrame) -> pd.DataFrame:
    return keys_of(frame, Declared(tuple(g.variable for g in guesses)).keys)
