"""Releases and comparisons through Prefect: every step a task that a person can watch.

Imported late, because Prefect must find its settings in the environment when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.compare import Comparison, Wanted, checked_settings, compare
from flows.embedded import Server, tracking_ready
from flows.plan.model import PlanFile, load_plan
from flows.release import Direct, carry_out
from tasks.common.errors import InputOutputFault
from tasks.common.home import Home
from tasks.decision.outcomes import Outcome

T = TypeVar("T")
Told = Callable[[str, float | None], None]


class ThroughPrefect(Direct):
    """Steps as Prefect tasks: not cached, results not persisted, retried only on input and output."""

    def __init__(self, plan_name: str, told: Told) -> None:
        super().__init__(told)
        self.plan_name = plan_name

    def call(self, label: str, function: Callable[..., T], *args: Any, retry: bool) -> T:
        """Carry out one step as a task; its arguments stay out of Prefect's sight."""
        step = task(
            name=label,
            # Prefect fills braces in.
            task_run_name=label.replace("{", "{{").replace("}", "}}"),
            retries=2 if retry else 0,
            retry_delay_seconds=[1, 5],
            retry_condition_fn=_failed_on_input_or_output,
            cache_policy=NO_CACHE,
            persist_result=False,
            log_prints=False,
        )(lambda: function(*args))
        return step()

    def show(self, key: str, markdown: str, description: str) -> None:
        """Store a markdown artifact, whose history grows with every run of the plan."""
        name = self.plan_name.replace("_", "-")
        create_markdown_artifact(markdown=markdown, key=f"{name}-{key}", description=description)


def carry_out_in_prefect(plan: Path, home: Home, server: Server, *, told: Told, rebuild: bool = False) -> Outcome:
    """Run a plan as a Prefect flow that reports to ``server``.

    Raises
    ------
    ReleaseError
        As `flows.release.carry_out`; Prefect keeps its safe message and nothing else.
    """
    file = load_plan(plan)
    tracking_ready(home.path)
    runner = ThroughPrefect(file.plan.name, told)

    def body() -> tuple[Outcome, State[None]]:
        outcome = carry_out(file, home, runner, rebuild=rebuild)
        message = f"{outcome.release}: {outcome.reason}"
        return outcome, Completed(name=outcome.status.capitalize(), message=message)

    description = "From plan to published release, or to a refusal that says why."
    return _as_flow("Release", description, file, server, body)


def compare_in_prefect(plan: Path, home: Home, server: Server, wanted: Wanted, *, told: Told) -> Comparison:
    """Compare settings of a plan in a Prefect flow that reports to ``server``.

    Raises
    ------
    ReleaseError
        As `flows.compare.compare`.
    """
    file = load_plan(plan)
    checked_settings(file, wanted)
    tracking_ready(home.path)
    runner = ThroughPrefect(file.plan.name, told)

    def body() -> tuple[Comparison, State[None]]:
        found = compare(file, home, runner, wanted)
        name = "Nothing passes" if found.best is None else "Compared"
        return found, Completed(name=name, message=found.sentence)

    description = "Settings of one plan beside each other; nothing is published."
    return _as_flow("Compare", description, file, server, body)


def _as_flow(
    name: str, description: str, file: PlanFile, server: Server, body: Callable[[], tuple[T, State[None]]]
) -> T:
    """Carry ``body`` out as a flow that knows nothing but the plan's file name; return its outcome."""
    ended: list[T] = []

    @flow(
        name=name,
        flow_run_name=file.plan.name,
        description=description,
        persist_result=False,
        validate_parameters=False,
        log_prints=False,
    )
    def carried(plan: str) -> State[None]:
        outcome, state = body()
        ended.append(outcome)
        return state

    with server.session():
        carried(file.path.name)
    return ended[0]


def _failed_on_input_or_output(task: Any, run: Any, state: Any) -> bool:
    return isinstance(state.result(raise_on_failure=False), InputOutputFault)
