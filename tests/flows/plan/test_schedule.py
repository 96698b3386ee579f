"""Which schedules are accepted, and that cronsim and Prefect read them alike."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from flows.plan.schedule import ScheduleSection, check_cron

ACCEPTED = (
    "* * * * *", "0 3 * * *", "*/5 0-6,22 1,15 jan-mar MON-FRI", "0 0 31 12 7", "10-50/20 * * * *", "5/15 * * * *",
    "0 5 */2 * *", "0 5 * * */2", "0 5 13 * fri", "0 4 29 2 *", "0 0 * * 5-7", "30 2 * * *", "0 12 * jan-mar,oct *",
)  # fmt: skip
REFUSED = """@daily | * * * * | * * * * * * | 60 * * * * | * 24 * * * | * * 0 * * | * * * 13 * | * * * * 8
| 5-1 * * * * | */0 * * * * | *-3 * * * * | a * * * * | 1,,2 * * * * | * * * foo * | | 0 0 30 2 *
| 0 0 L * * | 0 0 LW * * | 0 0 * * fri#2 | 0 0 * * 5L"""
ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Cairo")


@pytest.mark.parametrize("line", ACCEPTED)
def test_lines_that_are_accepted(line: str) -> None:
    check_cron(line)


@pytest.mark.parametrize("line", [line.strip() for line in REFUSED.split("|")])
def test_lines_that_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="five fields"):
        check_cron(line)


@pytest.mark.parametrize("line", ["0 5 */2 * mon", "0 5 1 * */2", "0 5 */2 * */3"])
def test_two_day_fields_that_cron_and_prefect_combine_differently_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="list the days"):
        check_cron(line)


def test_a_schedule_names_a_time_zone_and_says_when_it_runs() -> None:
    schedule = ScheduleSection(cron="0 3 * * *", timezone="Europe/Paris", active=False)
    assert schedule.in_words == "at 0 3 * * * (Europe/Paris), suspended"
    assert ScheduleSection().in_words == "on request"
    for wrong in ({"cron": "@daily"}, {"timezone": "Paris"}, {"crom": "* * * * *"}):
        with pytest.raises(ValueError, match=r"cron|timezone|crom"):
            ScheduleSection.model_validate(wrong)


# --- Prefect's own clock, which carries the schedules out


def by_cronsim(line: str, zone: str, start: datetime, count: int) -> list[datetime]:
    return [due.astimezone(UTC) for due in islice(CronSim(line, start.astimezone(ZoneInfo(zone))), count)]


@pytest.fixture(scope="module")
def prefect_home(tmp_path_factory: pytest.TempPathFactory, tracking: Path) -> Path:
    """Prefect reads its settings when it is imported: those of the tests' common home."""
    return tracking


def by_prefect(line: str, zone: str, start: datetime, count: int) -> list[datetime]:
    from prefect.server.schemas.schedules import CronSchedule

    schedule = CronSchedule(cron=line, timezone=zone)
    dates = asyncio.run(schedule.get_dates(count, start=start + timedelta(seconds=1)))
    return [due.astimezone(UTC) for due in dates]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("line", ACCEPTED)
def test_prefect_runs_plans_when_their_line_says(prefect_home: Path, line: str, zone: str) -> None:
    for start in (datetime(2025, 1, 10, tzinfo=UTC), datetime(2024, 2, 27, 22, tzinfo=UTC)):
        assert by_prefect(line, zone, start, 10) == by_cronsim(line, zone, start, 10)


@pytest.mark.parametrize(("zone", "spring", "autumn"), [
    ("Europe/Paris", datetime(2025, 3, 28, tzinfo=UTC), datetime(2025, 10, 24, tzinfo=UTC)),
    ("America/New_York", datetime(2025, 3, 7, tzinfo=UTC), datetime(2025, 10, 31, tzinfo=UTC)),
])  # fmt: skip
def test_a_change_of_the_clocks_neither_drops_nor_repeats_a_daily_run(
    prefect_home: Path, zone: str, spring: datetime, autumn: datetime
) -> None:
    for start in (spring, autumn):
        assert by_prefect("0 5 * * *", zone, start, 5) == by_cronsim("0 5 * * *", zone, start, 5)
        # In the hour that is left out or comes twice: once a day for both, at half past one or at three in spring.
        for clock in (by_prefect, by_cronsim):
            days = [due.astimezone(ZoneInfo(zone)).date() for due in clock("30 2 * * *", zone, start, 5)]
            assert days == [days[0] + timedelta(days=i) for i in range(5)]
    assert times_besides("02:30", by_prefect("30 2 * * *", zone, spring, 5), zone) == {"01:30"}
    assert times_besides("02:30", by_cronsim("30 2 * * *", zone, spring, 5), zone) == {"03:00"}
    assert by_prefect("30 2 * * *", zone, autumn, 5) == by_cronsim("30 2 * * *", zone, autumn, 5)


def times_besides(usual: str, runs: list[datetime], zone: str) -> set[str]:
    return {due.astimezone(ZoneInfo(zone)).strftime("%H:%M") for due in runs} - {usual}
