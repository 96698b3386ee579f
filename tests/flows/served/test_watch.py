"""What is looked at from time to time."""

from __future__ import annotations

from datetime import UTC, datetime

from flows.plan.schedule import ScheduleSection
from flows.served.watch import due_between


def test_runs_that_were_due_are_counted_in_their_own_time_zone() -> None:
    begin, end = (datetime(2026, 3, day, 12, tzinfo=UTC).timestamp() for day in (28, 30))
    nightly = ScheduleSection(cron="30 1 * * *", timezone="Europe/Paris")
    # The clocks change on 29 March.
    assert [f"{due:%d %H:%M %z}" for due in due_between(nightly, begin, end)] == ["29 01:30 +0100", "30 01:30 +0200"]
    assert due_between(ScheduleSection(cron="30 1 * * *", active=False), begin, end) == []
    assert due_between(ScheduleSection(), begin, end) == []
