"""The worker and what it looks after: plans that change, decisions made elsewhere, runs cut short."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed, Scheduled

from flows.served import waiting
from flows.served.alarms import ready_alarms, remind
from flows.served.deployments import TAG, deploy, ready_pool
from flows.served.plans import Folder, read_folder, stamp
from flows.served.release import named
from flows.served.settings import POOL
from flows.served.worker import Worker
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.decision import outcomes

# Seconds between two looks.
PACE = 2.0
# Seconds between two looks for somebody to send alarms to.
ALARMS_PACE = 20.0
# A run that was cut short is taken up this often; what always dies is not begun for ever.
ATTEMPTS = 3
# Seconds in which a run that a worker took must have begun.
UNBEGUN = 90.0
# Seconds in which a worker reports by itself that a run's process died, and a new process says that it began.
GRACE = 5.0
UNFINISHED = (StateType.RUNNING, StateType.CRASHED, StateType.CANCELLING)

# Runs whose process is gone, and since when that is known.
_gone: dict[str, float] = {}

log = logging.getLogger("anonflow.served")


async def keep(told: dict[str, Any]) -> None:
    """Work until cancelled; ``told`` is what is answered to whoever asks how it goes."""
    home, plans = Home.locate(), Path(os.environ["ANONFLOW_PLANS"])
    async with get_client() as client:
        await ready_pool(client)
        seen = stamp(plans)
        folder = await _step(client, plans, told)
        await ready_alarms(client)
        worker = Worker(POOL, name=f"anonflow on {socket.gethostname()}", create_pool_if_not_found=False)
        working = asyncio.ensure_future(worker.start(printer=lambda *_: None))
        told |= {"ready": True, "seen": time.time()}
        alarmed = time.monotonic()
        try:
            while not working.done():
                await asyncio.sleep(PACE)
                if time.monotonic() - alarmed > ALARMS_PACE:
                    alarmed = time.monotonic()
                    await _tried(_alarms, client, home, folder)
                if stamp(plans) != seen:
                    seen = stamp(plans)
                    folder = await _step(client, plans, told)
                looks = (wake_decided, take_up, take_up_unbegun, name_ahead)
                if all([await _tried(look, client, home, folder) for look in looks]):
                    told["seen"] = time.time()
            working.result()
        finally:
            working.cancel()
            await asyncio.wait([working], timeout=20)


async def _step(client: PrefectClient, plans: Path, told: dict[str, Any]) -> Folder:
    """Bring the deployments in step with the folder, and say what was done."""
    folder = await asyncio.to_thread(read_folder, plans)
    done = await deploy(client, folder)
    told |= {
        "plans": {n: _clock(f.plan.schedule) for n, f in folder.plans.items()},
        "done": done,
        "problems": folder.problems,
    }
    log.info("plans: %s; not readable: %s", done, sorted(folder.problems))
    return folder


def _clock(schedule: Any) -> str:
    if schedule.cron is None:
        return "when asked"
    return f"{schedule.cron} ({schedule.timezone})" + ("" if schedule.active else ", switched off")


async def _tried(
    look: Callable[[PrefectClient, Home, Folder], Awaitable[None]],
    client: PrefectClient,
    home: Home,
    folder: Folder,
) -> bool:
    """Look once, and return whether it went well; a server that is away is asked again at the next look."""
    try:
        await look(client, home, folder)
    except Exception as error:
        log.warning("%s: %s; tried again", look.__name__, type(error).__name__)
        return False
    return True


async def _alarms(client: PrefectClient, home: Home, folder: Folder) -> None:
    """Take up a notification block that was made or removed meanwhile."""
    await ready_alarms(client)


async def wake_decided(client: PrefectClient, home: Home, folder: Folder) -> None:
    """Wake runs whose release was decided elsewhere, or whose time is over; remind people of the others."""
    now = time.time()
    for entry in waiting.waiting(home):
        run = await _run(client, entry.run)
        if run is None or (run.state is not None and run.state.is_final() and not run.state.is_crashed()):
            # Removed or ended by hand: the candidate waits on, and the plan's next run shows it again.
            waiting.settled(home, entry)
        elif run.state is None or not run.state.is_paused():
            continue
        elif not _open(home, entry.release):
            await _again(client, run, "Decided")
        elif entry.remind and now >= entry.remind:
            waiting.wait(home, replace(entry, remind=0.0))
            await remind(entry)


def _open(home: Home, release: str) -> bool:
    """Return whether people can still decide on a release."""
    try:
        awaited = outcomes.awaited(home, release)
    except Refused:
        return False
    return not (awaited.approved or awaited.expired)


async def take_up(client: PrefectClient, home: Home, folder: Folder) -> None:
    """Begin runs again whose process is gone before they ended.

    Claim: no run is begun twice. One that is scheduled again is left alone until its new process is there, or
    has had time to be.
    """
    gone = {}
    for entry in waiting.working(home):
        if entry.lives:
            continue
        run = await _run(client, entry.run)
        if run is None or run.state is None or run.state.is_paused():
            waiting.end(home, entry.run)
        elif run.state.type not in UNFINISHED:
            if run.state.is_final():
                waiting.end(home, entry.run)
        elif (since := _gone.get(entry.run, time.monotonic())) > time.monotonic() - GRACE:
            gone[entry.run] = since
        elif entry.attempts >= ATTEMPTS:
            waiting.end(home, entry.run)
            if run.state.type is not StateType.CRASHED:
                told = f"Its process ended {entry.attempts + 1} times before the run did."
                crashed: State[Any] = Crashed(message=told)
                await client.set_flow_run_state(run.id, crashed, force=True)
        else:
            waiting.tried(home, entry)
            await _again(client, run, "Taken up again")
    _gone.clear()
    _gone.update(gone)


async def take_up_unbegun(client: PrefectClient, home: Home, folder: Folder) -> None:
    """Schedule runs again that a worker took and never began, because it was killed in between."""
    pending = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PENDING]))
    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    begun = {entry.run for entry in waiting.working(home) if entry.lives}
    for run in await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(state=pending), deployment_filter=ours, limit=50
    ):
        due = run.next_scheduled_start_time or run.expected_start_time
        taken = run.state.timestamp.timestamp() if run.state is not None else 0.0
        since = max(taken, due.timestamp() if due is not None else 0.0)
        if str(run.id) not in begun and time.time() - since > UNBEGUN:
            await _again(client, run, "Taken up again")


async def name_ahead(client: PrefectClient, home: Home, folder: Folder) -> None:
    """Give runs that are still to come the name they will have."""
    scheduled = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED]))
    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    for run in await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(state=scheduled), deployment_filter=ours, limit=50
    ):
        plan = str(run.parameters.get("plan", ""))
        if plan in folder.plans and not run.name.startswith(f"{plan} · ") and run.expected_start_time:
            name = named(plan, run.expected_start_time, folder.plans[plan].plan.schedule.timezone)
            await client.update_flow_run(run.id, name=name)


async def _again(client: PrefectClient, run: FlowRun, why: str) -> None:
    await client.set_flow_run_state(run.id, Scheduled(name=why), force=True)
    log.info("%s: %s", run.name, why)


async def _run(client: PrefectClient, run: str) -> FlowRun | None:
    try:
        return await client.read_flow_run(UUID(run))
    except ObjectNotFound:
        return None
