"""What is looked at from time to time, and of which people are told: late and missed runs, other workers, the disk."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cronsim import CronSim

from flows.plan.schedule import ScheduleSection
from flows.served import notices
from flows.served.notices import Notice
from flows.served.plans import Folder
from flows.served.settings import POOL
from tasks.common.digests import digest_of
from tasks.common.errors import Refused, visible
from tasks.common.home import Home, write_private
from tasks.common.workspace import wipe_abandoned

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

# Seconds between two looks.
PACE = 10.0
# Free space below which people are told, in GB; the operator may set it.
LOW_DISK, LOW_DISK_GB = "ANONFLOW_LOW_DISK_GB", 2.0
# A run that was due so many seconds before the stack ended, or after it has begun, was not missed.
AROUND = 60.0
# How long ago a run may have failed that people are told of.
RECENT = timedelta(hours=6)
# So many missed runs are counted at most.
MOST = 1000

log = logging.getLogger("anonflow.served")


class Watch:
    """Looks at what no run reports by itself."""

    def __init__(self, client: PrefectClient, home: Home, worker: str) -> None:
        self.client, self.home, self.worker = client, home, worker
        self.looked, self.begun = -PACE, time.time()
        # When the stack was last seen to work, before this start.
        self.before = last_alive(home)
        self.missed_told = False

    async def round(self, folder: Folder) -> None:
        """Do everything once, when it is time."""
        if time.monotonic() - self.looked < PACE:
            return
        self.looked = time.monotonic()
        if wiped := await asyncio.to_thread(wipe_abandoned, self.home):
            log.info("wiped the workspaces of %d run(s) that were given up", wiped)
        self._missed(folder)
        write_private(_alive(self.home), str(int(time.time())).encode())
        self._refused_plans(folder)
        self._disk()
        await self._late()
        await self._untold()
        await self._other_workers()

    def _missed(self, folder: Folder) -> None:
        """Tell once which runs were due while nothing ran."""
        if self.missed_told or not self.before:
            return
        self.missed_told = True
        until = time.time()
        for name, file in folder.plans.items():
            if times := due_between(file.plan.schedule, self.before + AROUND, until - AROUND):
                first, last = (time_.astimezone(UTC) for time_ in (times[0], times[-1]))
                span = f"between {first:%Y-%m-%d %H:%M} and {last:%Y-%m-%d %H:%M} UTC"
                text = f"{len(times)} run(s) were due {span} while nothing ran"
                action = "runs that were listed already start now; start others in the page (Run), if needed"
                key = f"missed-{name}-{int(self.before)}"
                notices.enqueue(self.home, Notice(key, "scheduled runs were missed", name, text=text, action=action))

    def _refused_plans(self, folder: Folder) -> None:
        for file, problem in folder.problems.items():
            key = f"plan-{digest_of([file, problem])[:16]}"
            action = "correct the file; it is read again within half a minute. A plan read before runs as it was"
            notices.enqueue(self.home, Notice(key, "a plan is refused", file, text=problem, action=action))

    def _disk(self) -> None:
        free, least = shutil.disk_usage(self.home.path).free / 1e9, least_free()
        if free < least:
            text = f"{free:.1f} GB are free where the home is; fewer than {least:g} GB ({LOW_DISK})"
            action = "make room; a release that finds none stops, and nothing of it is published"
            key = f"disk-{datetime.now(UTC):%Y-%m-%d}"
            notices.enqueue(self.home, Notice(key, "the disk is nearly full", text=text, action=action))

    async def _late(self) -> None:
        from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateName

        named = FlowRunFilterState(name=FlowRunFilterStateName(any_=["Late"]))
        for run in await self.client.read_flow_runs(flow_run_filter=FlowRunFilter(state=named), limit=50):
            plan, link = str(run.parameters.get("plan", "")), notices.page_of(str(run.id))
            due = f"{run.expected_start_time:%Y-%m-%d %H:%M} UTC" if run.expected_start_time else "before now"
            text = f"it was due at {due}; either as many runs as may are under way, or the worker cannot start it"
            action = "see anonflow serve --status and the worker's log"
            about = Notice(f"late-{run.id}", "a run is late", visible(plan), text=text, link=link, action=action)
            notices.enqueue(self.home, about)

    async def _untold(self) -> None:
        """Report runs that failed, and could not say so themselves: the disk was full, or Prefect ended them."""
        from prefect.client.schemas.filters import (
            FlowRunFilter,
            FlowRunFilterEndTime,
            FlowRunFilterState,
            FlowRunFilterStateName,
        )

        named = FlowRunFilterState(name=FlowRunFilterStateName(any_=["Failed", "Refused"]))
        recent = FlowRunFilterEndTime.model_validate({"after_": datetime.now(UTC) - RECENT})
        found = FlowRunFilter(state=named, end_time=recent)
        for run in await self.client.read_flow_runs(flow_run_filter=found, limit=50):
            plan, is_refused = visible(str(run.parameters.get("plan", ""))), run.state_name == "Refused"
            notices.enqueue(self.home, notices.stopped(plan, str(run.id), is_refused=is_refused))

    async def _other_workers(self) -> None:
        from prefect.exceptions import ObjectNotFound

        try:
            workers = await self.client.read_workers_for_work_pool(POOL)
        except ObjectNotFound:
            return
        for worker in workers:
            # One of this home that was ended, on a host of another name, has sent its last sign before.
            last_seen = worker.last_heartbeat_time.timestamp() if worker.last_heartbeat_time else 0.0
            if worker.name != self.worker and last_seen > self.begun + AROUND:
                text = f"{visible(worker.name)} takes runs of this home's pool, and runs whatever the server says"
                action = "stop it, unless you have started it; only anonflow serve may run releases"
                about = Notice(f"worker-{worker.id}", "another worker takes runs", text=text, action=action)
                notices.enqueue(self.home, about)


def _alive(home: Home) -> Path:
    return home.path / "served" / "alive"


def last_alive(home: Home) -> float:
    """Return when the worker of a home was last seen at work, seconds since 1970; 0 where it never was."""
    try:
        return float(_alive(home).read_text())
    except (OSError, ValueError):
        return 0.0


def least_free() -> float:
    """Return the free space below which people are told, in GB.

    Raises
    ------
    Refused
        When the environment states no number.
    """
    try:
        return float(os.environ.get(LOW_DISK) or LOW_DISK_GB)
    except ValueError:
        raise Refused(f"{LOW_DISK} must be a number of gigabytes, such as 5") from None


def due_between(schedule: ScheduleSection, begin: float, end: float) -> list[datetime]:
    """Return when a schedule was due between two times, in seconds since 1970, in its own time zone."""
    if schedule.cron is None or not schedule.active:
        return []
    zone = ZoneInfo(schedule.timezone)
    times: list[datetime] = []
    for due in CronSim(schedule.cron, datetime.fromtimestamp(begin, zone)):
        if due.timestamp() > end or len(times) == MOST:
            break
        times.append(due)
    return times
