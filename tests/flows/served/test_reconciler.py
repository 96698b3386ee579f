"""Runs that are started again, and runs of which people are told, as Prefect's answers require."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from flows.served import notices
from flows.served.plans import Folder
from flows.served.report import Report
from flows.served.watch import RECENT, Watch
from tasks.common.home import Home, make_private

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.states import State

# Prefect is imported in the functions: it must not be before the settings of the tests apply.
pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]

LOST = "Deployment concurrency slot lost during provisioning - no slots available to continue execution"


@dataclass
class Client:
    """The part of Prefect's client that is used here: it selects runs as the server does, and keeps the states set."""

    runs: list[FlowRun]
    states: dict[UUID, str | None] = field(default_factory=dict)

    async def read_flow_runs(self, *, flow_run_filter: Any, offset: int = 0, **_: Any) -> list[FlowRun]:
        asked = flow_run_filter.state
        after = flow_run_filter.end_time.after_ if flow_run_filter.end_time else datetime.min.replace(tzinfo=UTC)
        return [
            run for run in self.runs
            if (run.state_name in asked.name.any_ if asked.name else run.state_type in asked.type.any_)
            and run.end_time and run.end_time > after
        ][offset:]  # fmt: skip

    async def set_flow_run_state(self, run: UUID, state: State[Any], *, force: bool) -> None:
        assert force, "a run that has ended takes no other state unless it is forced to"
        self.states[run] = state.name

    async def read_workers_for_work_pool(self, _: str) -> list[Any]:
        return []


@dataclass
class Holding:
    """A worker that holds runs."""

    held: frozenset[UUID] = frozenset()
    name: str = "worker"


def run_of(plan: str, state: State[Any], ago: timedelta = timedelta(minutes=1)) -> FlowRun:
    """Return a run of a plan that reached a state a while ago."""
    from prefect.client.schemas.objects import FlowRun

    ended = datetime.now(UTC) - ago
    return FlowRun(
        id=uuid4(), flow_id=uuid4(), name=plan, parameters={"plan": plan}, state=state, state_name=state.name,
        state_type=state.type, expected_start_time=ended, end_time=ended,
    )  # fmt: skip


def told(home: Home) -> list[tuple[str, str]]:
    """Return the subject and the plan of every notice that is to be delivered."""
    found = [json.loads(path.read_text()) for path in (home.path / "notices").glob("*.json")]
    return sorted((one["subject"], one["plan"]) for one in found)


def test_a_run_that_prefect_cancelled_by_itself_is_started_again(home: Home, tmp_path: Path) -> None:
    from prefect.states import Cancelled

    from flows.served.reconciler import AGAIN, Reconciler

    lost, by_hand = run_of("lost", Cancelled(message=LOST)), run_of("by-hand", Cancelled(message="by a person"))
    skipped = run_of("skipped", Cancelled(name="Skipped", message=LOST))
    long_ago = run_of("long-ago", Cancelled(message=LOST), ago=RECENT + timedelta(minutes=1))
    client = Client([lost, by_hand, skipped, long_ago])
    reconciler = Reconciler(client, home, tmp_path, Report(), Holding())  # type: ignore[arg-type]
    asyncio.run(reconciler.restart_dropped())
    assert client.states == {lost.id: AGAIN}


def test_a_run_that_no_worker_begins_is_started_again_and_one_that_ours_holds_is_left_to_it(
    home: Home, tmp_path: Path
) -> None:
    from prefect.states import Pending

    from flows.served.reconciler import AGAIN, UNSTARTED, Reconciler

    ago = timedelta(seconds=UNSTARTED + 10)
    orphan, held = (run_of(plan, Pending(timestamp=datetime.now(UTC) - ago), ago) for plan in ("orphan", "held"))
    young = run_of("young", Pending())
    ahead = run_of("ahead", Pending(timestamp=datetime.now(UTC) + timedelta(hours=2)))
    client = Client([orphan, held, young, ahead])
    reconciler = Reconciler(client, home, tmp_path, Report(), Holding(frozenset({held.id})))  # type: ignore[arg-type]
    asyncio.run(reconciler.restart_unstarted())
    assert client.states == {orphan.id: AGAIN, ahead.id: AGAIN}


def test_a_run_that_was_started_while_the_clock_was_ahead_is_started_now(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.states import Scheduled

    from flows.served.reconciler import AGAIN, Reconciler

    in_two_hours, tomorrow = (datetime.now(UTC) + timedelta(hours=hours) for hours in (2, 24))
    at_once = run_of("at-once", Scheduled(scheduled_time=in_two_hours, timestamp=in_two_hours), -timedelta(hours=2))
    planned = run_of("planned", Scheduled(scheduled_time=tomorrow, timestamp=in_two_hours), -timedelta(hours=24))
    later = run_of("later", Scheduled(scheduled_time=in_two_hours), -timedelta(hours=2))
    client = Client([at_once, planned, later])
    reconciler = Reconciler(client, home, tmp_path, Report(), Holding())  # type: ignore[arg-type]
    asyncio.run(reconciler.restart_ahead())
    assert client.states == {at_once.id: AGAIN}
    # Asked again only when the clock was set.
    client.states.clear()
    asyncio.run(reconciler.restart_ahead())
    assert not client.states
    monkeypatch.setattr(reconciler.clock, "moved", lambda: -7200.0)
    asyncio.run(reconciler.restart_ahead())
    assert client.states == {at_once.id: AGAIN}


def test_people_are_told_once_of_runs_that_could_not_say_so_themselves(home: Home) -> None:
    from prefect.states import Failed

    has_told = run_of("has-told", Failed())
    runs = [has_told, run_of("failed", Failed()), run_of("refused", Failed(name="Refused"))]
    runs += [run_of("rejected", Failed(name="Rejected")), run_of("long-ago", Failed(), RECENT + timedelta(minutes=1))]
    make_private(home.path / "served")
    notices.enqueue(home, notices.stopped("has-told", str(has_told.id), is_refused=False))
    for _ in range(2):
        asyncio.run(Watch(Client(runs), home, "worker").round(Folder({}, {})))  # type: ignore[arg-type]
    stopped = [(subject, plan) for subject, plan in told(home) if subject != "the disk is nearly full"]
    assert stopped == [("a run failed", "failed"), ("a run failed", "has-told"), ("a run was refused", "refused")]
