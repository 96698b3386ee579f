"""When a plan runs by itself: the plan's section, checked without any framework."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import available_timezones

from cronsim import CronSim, CronSimError
from pydantic import model_validator

from tasks.common.sections import Section

# Any time will do: a cron line is checked when the clock is made.
_SOME_TIME = datetime(2024, 1, 1, tzinfo=UTC)


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
    def _is_readable(self) -> ScheduleSection:
        if self.timezone not in available_timezones():
            raise ValueError("timezone must be a name such as Europe/Paris or UTC")
        if self.cron is not None:
            check_cron(self.cron)
        return self

    @property
    def in_words(self) -> str:
        """When the plan runs, for people."""
        if self.cron is None:
            return "on request"
        return f"at {self.cron} ({self.timezone})" + ("" if self.active else ", suspended")


def check_cron(line: str) -> None:
    """Refuse a line that is not cron's, or that Prefect, which keeps the schedule, would read in another way.

    Prefect keeps the schedule. It reads ``L``, ``LW`` and ``#`` in the day fields differently or not at all; and steps
    over all days (``*/2``) beside another day field as "either day", where cron takes them as "both".

    Raises
    ------
    ValueError
        With what is allowed.

    Examples
    --------
    >>> check_cron("*/15 8-18 * * mon-fri")
    >>> check_cron("60 3 * * *")
    Traceback (most recent call last):
    ...
    ValueError: cron must have five fields within their bounds, such as 0 3 * * * for every night at 03:00
    """
    try:
        CronSim(line, _SOME_TIME)
        readable = len(line.split()) == 5
    except CronSimError:
        readable = False
    if not readable or set("L#") & set("".join(line.upper().split()[2::2])):
        raise ValueError("cron must have five fields within their bounds, such as 0 3 * * * for every night at 03:00")
    days = line.split()[2::2]
    if "*" not in days and any(day.startswith("*") for day in days):
        raise ValueError("cron must not combine steps over all days (*/2) with the other day field; list the days")
