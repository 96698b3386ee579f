"""When a plan runs by itself: the plan's section, checked without any framework."""

from __future__ import annotations

import re
from zoneinfo import available_timezones

from pydantic import model_validator

from tasks.common.sections import Section

# Lowest and highest number of each field, and the names that stand for numbers.
FIELDS = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    (0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
PART = re.compile(r"(\*|[0-9a-z]+)(?:-([0-9a-z]+))?(?:/([0-9]+))?")


class ScheduleSection(Section):
    """When `anonflow serve` runs the plan. It does not affect the release or the plan's digest.

    Parameters
    ----------
    cron : Five fields: minute, hour, day, month, weekday. Without it the plan runs only on request.
    timezone : In which the fields are read, such as ``Europe/Paris``.
    active : ``false`` keeps the schedule and suspends it.
    """

    cron: str | None = None
    timezone: str = "UTC"
    active: bool = True

    @model_validator(mode="after")
    def _a_clock_can_read_it(self) -> ScheduleSection:
        if self.timezone not in available_timezones():
            raise ValueError("timezone must be a name such as Europe/Paris or UTC")
        if self.cron is not None and not is_cron(self.cron):
            raise ValueError("cron must have five fields, such as 0 3 * * * for every night at three")
        return self


def is_cron(text: str) -> bool:
    """Return whether a line has five fields of numbers, names, ranges, lists and steps within bounds.

    Examples
    --------
    >>> is_cron("*/15 8-18 * * mon-fri"), is_cron("60 3 * * *"), is_cron("@daily")
    (True, False, False)
    """
    fields = text.lower().split()
    return len(fields) == len(FIELDS) and all(
        _fits(part, *bounds) for field, bounds in zip(fields, FIELDS, strict=True) for part in field.split(",")
    )


def _fits(part: str, low: int, high: int, names: tuple[str, ...]) -> bool:
    found = PART.fullmatch(part)
    if found is None or (found[1] == "*" and found[2] is not None) or found[3] == "0":
        return False
    ends = [_number(end, low, high, names) for end in (found[1], found[2]) if end not in (None, "*")]
    return None not in ends and ends == sorted(e for e in ends if e is not None)


def _number(text: str, low: int, high: int, names: tuple[str, ...]) -> int | None:
    number = low + names.index(text) if text in names else int(text) if text.isdigit() else None
    return number if number is not None and low <= number <= high else None
