"""The flow that a schedule starts: from plan to publication, with approval by people in between.

It is given the plan's name and nothing else; home and plans are named by the environment. It may be started again
at any point, after a wait or after a crash: what it had reached is in the ledger and in the home, and is never
made a second time.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.exceptions import Pause
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed

from flows.plan.model import PlanFile
from flows.served import logs, state
from flows.served.plans import read_folder
from tasks.common.errors import Busy, Refused, ReleaseError, sanitise_errors, visible
from tasks.common.home import Home
from tasks.decision.outcomes import Outcome

DESCRIPTION = """From plan to published release, or to a refusal that says why.

Where the plan or the figures ask for a person's approval, the run waits: **Resume** opens the form. The decision is
recorded, signed, in the ledger of the home; this page shows it."""
STATES = {"published": "Published", "unchanged": "Unchanged", "rejected": "Rejected"}


def run_name() -> str:
    """Return the plan and the time it was due."""
    plan = str(flow_run.parameters.get("plan", "release"))
    pending = state.pending_of_run(Home.locate(), str(flow_run.id))
    if pending is not None:
        return pending.name
    return run_name_of(plan, flow_run.scheduled_start_time or datetime.now(UTC))


def run_name_of(plan: str, due: datetime) -> str:
    """Return the name of a run, with its time in UTC as in the ledger: plans may have different time zones."""
    return f"{plan} · {due.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


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
    logs.ABOUT.plan = visible(plan)
    try:
        return sanitise_errors(_recorded)(home, run, plan)
    except ReleaseError as error:
        return _stopped(error)


def _recorded(home: Home, run: str, plan: str) -> State[Any]:
    """Carry a run out with a record in the home, which stays where its process ends before the run does."""
    with state.carried_out(home, run, str(flow_run.name), plan):
        try:
            ended = _carry_on(home, run, plan)
        except (Exception, Pause):
            state.remove_run(home, run)
            raise
        state.remove_run(home, run)
    return ended


def _carry_on(home: Home, run: str, plan: str) -> State[Any]:
    # Late: a run that is refused, or has been decided, does without the numerics.
    from flows.served import approval

    pending = state.pending_of_run(home, run)
    if pending is None:
        outcome = _carry_out(home, plan)
        if outcome.status != "awaiting":
            kind = Failed if outcome.status == "rejected" else Completed
            return kind(name=STATES[outcome.status], message=f"{outcome.release}: {outcome.reason}")
        pending = approval.enter(home, outcome, run, str(flow_run.name), plan)
        if pending is None:
            return Completed(name="Awaits already", message=f"{outcome.release} waits in another run")
    return approval.ask(home, pending)


def _carry_out(home: Home, plan: str) -> Outcome:
    from flows.orchestration.prefect import PrefectRunner
    from flows.release import carry_out
    from flows.served import monitor

    file = plan_file(plan)
    runner = PrefectRunner(file.plan.name, monitor.Progress(plan))
    outcome = sanitise_errors(carry_out)(file, home, runner)
    logs.ABOUT.release = outcome.release
    monitor.report_assessment(home, plan, outcome)
    return outcome


def plan_file(plan: str) -> PlanFile:
    """Return the plan of that name from the folder of plans.

    Raises `Refused` when there is none any more, or what is wrong with it.
    """
    folder = read_folder(Path(os.environ["ANONFLOW_PLANS"]))
    if plan in folder.plans:
        return folder.plans[plan]
    unreadable = "".join(f"\n{file}: {problem}" for file, problem in folder.problems.items())
    raise Refused(f"no readable plan of the folder is named {visible(plan)}{unreadable}")


def _stopped(error: ReleaseError) -> State[Any]:
    """Return how a run ends that cannot go on: refused for a reason to correct, or failed on our side."""
    from flows.served import monitor

    if isinstance(error, Busy):
        return Cancelled(name="Skipped", message=str(error))
    # On a full disk the notice cannot be stored: the worker informs people when there is room again.
    with suppress(OSError):
        monitor.report_failure(Home.locate(), error)
    return Failed(name="Refused" if isinstance(error, Refused) else "Failed", message=str(error))
