"""Dates in columns of their own: days that their month does not have."""

from __future__ import annotations

from calendar import isleap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit
from anoncore.profile.findings import Finding
from anoncore.profile.support import needed
from anoncore.profile.tables import Table

# Days of each month, of February those of a leap year.
DAYS = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
SHORTER = (30, 29)
FEBRUARY, LEAP_DAY = 2, 29
# Different numbers from which a column may hold the months of dates, or their days.
MONTHS, MONTH_DAYS = 6, 28
YEARS = (1800, 2100)


class _Whole(NamedTuple):
    """A variable of whole numbers: (N,) values, NaN where missing, and each with what the table holds for it."""

    name: str
    values: np.ndarray
    held: dict[int, Any]

    def spans(self, least: int, most: int, different: int = 1) -> bool:
        """Whether all numbers lie in a range, and enough of them occur."""
        return least <= min(self.held) and max(self.held) <= most and len(self.held) >= different


def calendar_rules(table: Table) -> list[Finding]:
    """Find numbers that are the days of months in another column, and state which days there are.

    That no record has a day which its month lacks is the evidence, where chance would give some; where the names of
    both differ in the words for day and month alone, it is enough that days beyond the 28th occur. A year goes with a
    day by its name: beside it the 29th of February is of leap years.
    """
    whole = list(_whole(table))
    days = [one for one in whole if one.name in table.numeric and one.spans(1, 31, MONTH_DAYS)]
    months = [one for one in whole if one.spans(1, 12, MONTHS)]
    years = [one for one in whole if one.spans(*YEARS)]
    evidence = needed(len(days) * len(months)) / table.weight
    pairs = ((day, month) for day in days for month in months if _are_dates(day, month, evidence))
    return [Finding(rule) for day, month in pairs for rule in _rules(table, day, month, years)]


def _whole(table: Table) -> Iterator[_Whole]:
    """Yield the numbers that are whole, and variables whose levels are such numbers."""
    for name, column in table.numeric.items():
        present = np.unique(column[~np.isnan(column)])
        if name not in table.weights and len(present) and not (present % 1).any():
            yield _Whole(name, column, {int(number): number for number in present.tolist()})
    for name, levels in table.levels.items():
        text = [str(level) for level in levels]
        if all(one.isdecimal() for one in text) and len({*map(int, text)}) == len(text):
            numbers = np.array([*map(float, text), np.nan])
            yield _Whole(name, numbers[table.codes[name]], dict(zip(map(int, text), levels, strict=True)))


def _are_dates(day: _Whole, month: _Whole, evidence: float) -> bool:
    """Whether no record has a day that its month lacks, and this is no accident."""
    both = ~np.isnan(day.values) & ~np.isnan(month.values)
    days, length = day.values[both], DAYS[month.values[both].astype(np.intp) - 1]
    if not len(days) or (days > length).any():
        return False
    by_chance = sum((length == one).sum() * (days > one).mean() for one in SHORTER)
    named = _named_alike(day.name, "day", month.name, "month")
    return bool(by_chance >= evidence) or (named and max(day.held) > MONTH_DAYS)


def _named_alike(one: str, word: str, other: str, another: str) -> bool:
    """Whether two names differ in a word of each alone."""
    return word in one.lower() and one.lower().replace(word, another) == other.lower()


def _rules(table: Table, day: _Whole, month: _Whole, years: list[_Whole]) -> Iterator[BoundEdit | ConditionalEdit]:
    yield BoundEdit(name=f"limits of {day.name}", variable=day.name, lower=1.0, upper=31.0)
    for length in SHORTER:
        months = tuple(held for number, held in month.held.items() if DAYS[number - 1] == length)
        if months:
            then = Condition(variable=day.name, upper=float(length), missing=_missing(table, day))
            when = Condition(variable=month.name, values=months)
            yield ConditionalEdit(name=f"{day.name} by {month.name}", when=(when,), then=then)
    year = next((one for one in years if _named_alike(day.name, "day", one.name, "year")), None)
    if year is not None and FEBRUARY in month.held and (leap := _leap_years(table, year)):
        on_leap_day = (
            Condition(variable=month.name, values=(month.held[FEBRUARY],)),
            Condition(variable=day.name, values=(float(LEAP_DAY),)),
        )
        then = Condition(variable=year.name, values=leap, missing=_missing(table, year))
        yield ConditionalEdit(name=f"{year.name} of a leap day", when=on_leap_day, then=then)


def _leap_years(table: Table, year: _Whole) -> tuple[Any, ...]:
    """Return the leap years among the levels; of numbers those of whole decades, not to state the first and last."""
    if year.name not in table.numeric:
        return tuple(held for number, held in year.held.items() if isleap(number))
    decades = range(min(year.held) // 10 * 10, max(year.held) // 10 * 10 + 10)
    return tuple(float(number) for number in decades if isleap(number))


def _missing(table: Table, one: _Whole) -> bool | None:
    return True if table.missing[one.name].any() else None
