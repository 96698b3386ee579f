"""The record of a served run in its home."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from flows.orchestration.compat import has_lost_its_place
from flows.served.state import active_runs
from tasks.common.errors import Refused
from tasks.common.home import Home

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]


def test_a_run_that_is_refused_leaves_no_record(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.served import release

    monkeypatch.setenv("ANONFLOW_PLANS", str(tmp_path))
    with pytest.raises(Refused, match="no readable plan"):
        release._recorded(home, "run", "plan")
    assert active_runs(home).all() == []


def test_a_process_that_is_ended_leaves_its_record(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.served import release

    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(release, "_carry_on", ended)
    with pytest.raises(KeyboardInterrupt):
        release._recorded(home, "run", "plan")
    assert [active.run for active in active_runs(home).all()] == ["run"]


def test_a_run_is_named_by_its_time_in_utc_whatever_the_zone_of_its_plan() -> None:
    from flows.served.release import run_name_of

    due = datetime(2026, 12, 1, 3, tzinfo=ZoneInfo("Europe/Paris"))
    assert run_name_of("census", due) == "census · 2026-12-01 02:00 UTC"


def test_only_what_prefect_cancelled_by_itself_is_started_again() -> None:
    assert has_lost_its_place("Deployment concurrency slot lost during provisioning - no slots available")
    assert not has_lost_its_place("by a person")
    assert not has_lost_its_place(None)
