"""The worker and its reconciler: changed plans, decisions made elsewhere, interrupted runs."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterEndTime,
    FlowRunFilterState,
    FlowRunFilterStateName,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed, Scheduled

from flows.orchestration import compat
from flows.served import monitor, notices, state
from flows.served.alarms import ready_alarm
from flows.served.clock import LEAST, Clock
from flows.served.deployments import TAG, deploy, ready_pool
from flows.served.notices import Notice, run_sender
from flows.served.plans import Folder, read_folder, stamp
from flows.served.release import run_name_of
from flows.served.report import Report
from flows.served.settings import POOL, runs_at_once
from flows.served.watch import RECENT, Watch
from flows.served.worker import Worker
from tasks.common.errors import Refused, visible
from tasks.common.home import Home
from tasks.decision import outcomes

# Seconds between two rounds.
PACE = 2.0
# Seconds after which plans are read again that have not changed: a source may be there now, a deployment be deleted.
DEPLOY_PACE = 30.0
UNCHANGED = {"unchanged"}
# Seconds between two looks for a notification block to send alarms with.
ALARMS_PACE = 20.0
# An interrupted run is started again this often; one that always dies is not started for ever.
ATTEMPTS = 3
# Seconds in which a run that a worker took must have begun.
UNSTARTED = 90.0
# Seconds in which a run must have a record of the home: it has none before it begins, and when it has just ended.
UNRECORDED = 40.0
# Seconds in which a worker reports by itself that a run's process died, and a new process records that it began.
GRACE = 5.0
UNFINISHED = (StateType.RUNNING, StateType.CRASHED, StateType.CANCELLING)
AGAIN = "Started again"

log = logging.getLogger("anonflow.served")


async def run_reconciler(report: Report) -> None:
    """Work until cancelled; ``report`` is what the health endpoint answers."""
    home, plans = Home.locate(), Path(os.environ["ANONFLOW_PLANS"])
    if ended := state.end_stranded(home):
        log.warning("ended %d process(es) of runs that reported to a Prefect that is no more", ended)
    async with get_client() as client:
        await ready_pool(client, home)
        name = f"anonflow on {socket.gethostname()}"
        worker = Worker(POOL, name=name, create_pool_if_not_found=False, limit=runs_at_once())
        reconciler = Reconciler(client, home, plans, report, worker)
        await reconciler.deploy_plans()
        await ready_alarm(client)
        working = asyncio.ensure_future(worker.start(printer=lambda *_: None))
        sending = asyncio.ensure_future(run_sender(client, home))
        report.ready, report.reached = True, time.time()
        try:
            while not working.done():
                await asyncio.sleep(PACE)
                await reconciler.round()
            working.result()
        finally:
            working.cancel()
            sending.cancel()
            await asyncio.wait([working, sending], timeout=20)


class Reconciler:
    """Brings Prefect in step with what the home and the folder of plans say."""

    def __init__(self, client: PrefectClient, home: Home, plans: Path, report: Report, worker: Worker) -> None:
        self.client, self.home, self.plans, self.report = client, home, plans, report
        self.worker, self.watch = worker, Watch(client, home, worker.name)
        self.folder = Folder({}, {})
        self.deployed = 0.0
        self.stamp: tuple[tuple[str, int, int], ...] = ()
        self.alarms_checked = time.monotonic()
        self.clock, self.looked_ahead = Clock(), False
        # Runs whose process is gone, and since when that is known.
        self.gone: dict[str, float] = {}
        # Runs that Prefect takes for running and the home does not know, and since when.
        self.unrecorded: dict[str, float] = {}

    async def round(self) -> None:
        """Do everything once; what a server does not answer is tried again in the next round."""
        if time.monotonic() - self.alarms_checked > ALARMS_PACE:
            self.alarms_checked = time.monotonic()
            await self._tried(self._ready_alarm)
        jobs = [
            self.resume_decided,
            self.restart_interrupted,
            self.restart_unstarted,
            self.restart_unrecorded,
            self.restart_dropped,
            self.restart_ahead,
            self.name_scheduled,
            self.look,
        ]
        if stamp(self.plans) != self.stamp or time.monotonic() - self.deployed > DEPLOY_PACE:
            jobs.insert(0, self.deploy_plans)
        if all([await self._tried(job) for job in jobs]):
            self.report.reached = time.time()

    async def _tried(self, job: Callable[[], Awaitable[None]]) -> bool:
        try:
            await job()
        except Exception as error:
            log.warning("%s: %s; tried again", getattr(job, "__name__", ""), type(error).__name__)
            return False
        return True

    async def _ready_alarm(self) -> None:
        """Take up a notification block that was made or removed meanwhile."""
        await ready_alarm(self.client)

    async def look(self) -> None:
        """Look at what no run reports by itself."""
        await self.watch.round(self.folder)

    async def deploy_plans(self) -> None:
        """Bring the deployments in step with the folder, and report what was done."""
        current = stamp(self.plans)
        self.folder = await asyncio.to_thread(read_folder, self.plans)
        changes = await deploy(self.client, self.folder)
        self.deployed = time.monotonic()
        if current == self.stamp and self.folder.problems == self.report.problems and {*changes.values()} <= UNCHANGED:
            return
        self.report.changes = changes
        self.report.schedules = {name: file.plan.schedule.in_words for name, file in self.folder.plans.items()}
        self.report.problems = self.folder.problems
        self.stamp = current
        log.info("plans: %s; not readable: %s", self.report.changes, sorted(self.folder.problems))

    async def resume_decided(self) -> None:
        """Resume runs whose release was decided elsewhere, or whose time is over; remind people of the others."""
        now = time.time()
        for pending in state.pending_decisions(self.home).all():
            run = await self._run(pending.run)
            if run is None or (run.state is not None and run.state.is_final() and not run.state.is_crashed()):
                # Removed or ended by hand: the candidate waits on, and the plan's next run shows it again.
                state.pending_decisions(self.home).remove(pending.release)
            elif run.state is None or not run.state.is_paused():
                continue
            elif not self._is_open(pending.release):
                await self._schedule(run, "Decided")
            elif pending.remind and now >= pending.remind:
                state.pending_decisions(self.home).put(pending.release, replace(pending, remind=0.0))
                monitor.emit("reminder", pending.plan, pending.release, run=pending.run, until=pending.until)
                self._notify_again(pending)

    def _notify_again(self, pending: state.PendingDecision) -> None:
        key, subject = f"reminder-{pending.release}", "a release still awaits a decision"
        about = Notice(key, subject, pending.plan, pending.release, until=pending.deadline, action=monitor.DECIDE)
        notices.enqueue(self.home, replace(about, link=notices.page_of(pending.run)))

    def _notify_of_crash(self, active: state.ActiveRun, *, last: bool) -> None:
        number, key = active.attempts + 1, f"crashed-{active.run}-{active.attempts}"
        text = f"its process ended before the run did, attempt {number} of {ATTEMPTS + 1}"
        subject = "a run crashed and is given up" if last else "a run crashed and is resumed"
        action = f"see the run's page and {'run the plan again' if last else 'the log; nothing has to be done'}"
        link = notices.page_of(active.run)
        notices.enqueue(self.home, Notice(key, subject, active.plan, text=text, link=link, action=action))

    def _is_open(self, release: str) -> bool:
        """Return whether people can still decide on a release."""
        try:
            candidate = outcomes.waiting_candidate(self.home, release)
        except Refused:
            return False
        return not (candidate.approved or outcomes.has_expired(candidate))

    async def restart_interrupted(self) -> None:
        """Start runs again whose process is gone before they ended.

        Claim: no run is started twice. One that is scheduled again is left alone until its new process is there,
        or has had time to be.
        """
        gone = {}
        for active in state.active_runs(self.home).all():
            if state.is_carried_out(self.home, active.run):
                continue
            run = await self._run(active.run)
            if run is None or run.state is None or run.state.is_paused():
                state.remove_run(self.home, active.run)
            elif run.state.type not in UNFINISHED:
                if run.state.is_final():
                    state.remove_run(self.home, active.run)
            elif (since := self.gone.get(active.run, time.monotonic())) > time.monotonic() - GRACE:
                gone[active.run] = since
            else:
                await self._restart(active, run, run.state)
        self.gone = gone

    async def _restart(self, active: state.ActiveRun, run: FlowRun, last: State[Any]) -> None:
        self._notify_of_crash(active, last=active.attempts >= ATTEMPTS)
        if active.attempts < ATTEMPTS:
            state.active_runs(self.home).put(active.run, replace(active, attempts=active.attempts + 1))
            await self._schedule(run, AGAIN)
            return
        state.remove_run(self.home, active.run)
        if last.type is not StateType.CRASHED:
            message = f"Its process ended {active.attempts + 1} times before the run did."
            crashed: State[Any] = Crashed(message=message)
            await self.client.set_flow_run_state(run.id, crashed, force=True)

    async def restart_unstarted(self) -> None:
        """Schedule runs again that a worker took and never began, because it was killed in between."""
        held = self.worker.held
        for run in await self._runs_in(StateType.PENDING):
            if run.id in held:
                continue
            due = run.next_scheduled_start_time or run.expected_start_time
            taken = run.state.timestamp.timestamp() if run.state is not None else 0.0
            since = max(taken, due.timestamp() if due is not None else 0.0)
            # One that was taken while the clock was ahead would have hours to begin.
            if abs(time.time() - since) > UNSTARTED and not state.is_carried_out(self.home, str(run.id)):
                await self._schedule(run, AGAIN)

    async def restart_ahead(self) -> None:
        """Schedule runs again that were to start at once while the clock was ahead: they would start in hours.

        Looked for when this process has begun, and whenever the clock was set.
        """
        self.looked_ahead = self.looked_ahead and not self.clock.moved()
        if self.looked_ahead:
            return
        now = datetime.now(UTC).timestamp()
        runs: list[FlowRun] = []
        while page := await self._runs_in(StateType.SCHEDULED, len(runs)):
            runs += page
        for run in runs:
            due = run.next_scheduled_start_time or run.expected_start_time
            made = run.state.timestamp.timestamp() if run.state is not None else 0.0
            if made > now + LEAST and due is not None and due.timestamp() < made + LEAST:
                await self._schedule(run, AGAIN)
        self.looked_ahead = True

    async def restart_unrecorded(self) -> None:
        """Schedule runs again that Prefect takes for running, and of which the home has had no record for a while.

        So are those of a home that was restored from a backup; they would block their plans for ever.
        """
        recorded = {active.run for active in state.active_runs(self.home).all()}
        seen, self.unrecorded = self.unrecorded, {}
        for run in await self._runs_in(StateType.RUNNING):
            if (name := str(run.id)) in recorded:
                continue
            self.unrecorded[name] = seen.get(name, time.monotonic())
            if time.monotonic() - self.unrecorded[name] > UNRECORDED:
                await self._schedule(run, AGAIN)

    async def restart_dropped(self) -> None:
        """Schedule runs again that Prefect cancelled by itself, as their place in the queue was lost in an outage."""
        for run in await self.client.read_flow_runs(
            flow_run_filter=FlowRunFilter(
                state=FlowRunFilterState(name=FlowRunFilterStateName(any_=["Cancelled"])),
                end_time=FlowRunFilterEndTime.model_validate({"after_": datetime.now(UTC) - RECENT}),
            ),
            deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG])),
            limit=50,
        ):
            if run.state is not None and compat.has_lost_its_place(run.state.message):
                await self._schedule(run, AGAIN)

    async def name_scheduled(self) -> None:
        """Give runs that are still to come the name they will have."""
        for run in await self._runs_in(StateType.SCHEDULED):
            plan = str(run.parameters.get("plan", ""))
            if plan in self.folder.plans and not run.name.startswith(f"{plan} · ") and run.expected_start_time:
                await self.client.update_flow_run(run.id, name=run_name_of(plan, run.expected_start_time))

    async def _runs_in(self, kind: StateType, offset: int = 0) -> list[FlowRun]:
        """Return runs of our deployments in a state of this kind, those that are due first; after ``offset`` others."""
        return await self.client.read_flow_runs(
            flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[kind]))),
            deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG])),
            sort=FlowRunSort.EXPECTED_START_TIME_ASC,
            limit=50,
            offset=offset,
        )

    async def _schedule(self, run: FlowRun, why: str) -> None:
        await self.client.set_flow_run_state(run.id, Scheduled(name=why), force=True)
        log.info("%s: %s", visible(run.name), why)

    async def _run(self, run: str) -> FlowRun | None:
        try:
            return await self.client.read_flow_run(UUID(run))
        except ObjectNotFound:
            return None
