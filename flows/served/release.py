"""The flow that a schedule starts: from plan to publication, with people asked in between.

It knows nothing but the plan's name; home and plans stand in the environment. It may be begun again at any
point, after a wait or after a crash: what it had reached stands in the ledger and in the home, and is never
made a second time.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.exceptions import Pause
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed

from flows.served import waiting
from tasks.common.errors import Busy, Refused, ReleaseError, sanitise_errors, visible
from tasks.common.home import Home

DESCRIPTION = """From plan to published release, or to a refusal that says why.

Where the plan or the figures ask for people, the run waits: **Resume** opens the form. What they decide is
entered, signed, in the ledger of the home; this page shows it."""


def run_name() -> str:
    """Return the plan and the time it was due, in the plan's own time zone."""
    plan = str(flow_run.parameters.get("plan", "release"))
    entry = waiting.waiting_of(Home.locate(), run=str(flow_run.id))
    if entry is not None:
        return entry.name
    return named(plan, flow_run.scheduled_start_time or datetime.now(UTC), _zone(plan))


def named(plan: str, due: datetime, zone: str) -> str:
    """Return the name of a run."""
    return f"{plan} · {due.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M}"


@flow(
    name="Release",
    flow_run_name=run_name,
    description=DESCRIPTION,
    persist_result=False,
    log_prints=False,
    validate_parameters=False,
)
def release(plan: str) -> State[Any]:
    """Carry out a plan, or go on with the candidate that this run waits with."""
    home, run = Home.locate(), str(flow_run.id)
    waiting.begin(home, run, str(flow_run.name), plan)
    state: State[Any] | None = None
    try:
        state = sanitise_errors(_ended)(home, run, plan)
    except Pause:
        waiting.end(home, run)
        raise
    except ReleaseError as error:
        state = _stopped(error)
    waiting.end(home, run)
    return state


def _ended(home: Home, run: str, plan: str) -> State[Any]:
    from flows.served import approval

    entry = waiting.waiting_of(home, run=run)
    if entry is None:
        outcome = _carried_out(home, plan)
        if outcome.status != "awaiting":
            return _state(outcome)
        entry = approval.enter(home, outcome, run, str(flow_run.name), plan)
        if entry is None:
            return Completed(name="Awaits already", message=f"{outcome.release} waits in another run")
    return approval.ask(home, entry)


def _carried_out(home: Home, plan: str) -> Any:
    from flows.orchestration.prefect import ThroughPrefect
    from flows.release import carry_out
    from flows.served import monitor

    file = plan_file(plan)
    runner = ThroughPrefect(file.plan.name, monitor.Progress(plan))
    outcome = sanitise_errors(carry_out)(file, home, runner)
    monitor.assessed(home, plan, outcome)
    return outcome


def plan_file(plan: str) -> Any:
    """Return the plan of that name from the folder of plans.

    Raises
    ------
    Refused
        When there is none any more, or what is wrong with it.
    """
    from flows.served.plans import read_folder

    folder = read_folder(Path(os.environ["ANONFLOW_PLANS"]))
    if plan in folder.plans:
        return folder.plans[plan]
    said = "".join(f"\n{file}: {problem}" for file, problem in folder.problems.items())
    raise Refused(f"no readable plan of the folder is named {visible(plan)}{said}")


def _zone(plan: str) -> str:
    """Return the time zone of a plan; UTC where the plan cannot be read."""
    try:
        return str(plan_file(plan).plan.schedule.timezone)
    except ReleaseError:
        return "UTC"


def _state(outcome: Any) -> State[Any]:
    names = {"published": "Published", "unchanged": "Unchanged", "rejected": "Rejected"}
    return Completed(name=names[outcome.status], message=f"{outcome.release}: {outcome.reason}")


def _stopped(error: ReleaseError) -> State[Any]:
    """Return how a run ends that cannot go on: refused for a reason to mend, or failed on our side."""
    from flows.served import monitor

    if isinstance(error, Busy):
        return Cancelled(name="Skipped", message=str(error))
    monitor.failed(error)
    return Failed(name="Refused" if isinstance(error, Refused) else "Failed", message=str(error))
