"""What a run's page says of a decision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tasks.common.home import Home
from tasks.record.entry import Terms
from tests.tasks.facts import enter

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]


@pytest.mark.parametrize(("days", "why"), [(-1, "time to decide is over"), (1, "was published"), (0, "was published")])
def test_a_candidate_that_another_release_overtook_has_not_run_out_of_time(home: Home, days: int, why: str) -> None:
    from flows.served.approval import why_expired

    until = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds") if days else ""
    entry = enter(home, "expired", terms=Terms(expires=until))
    assert why in why_expired(entry)
