"""The same release through Prefect: every step a task that a person can watch.

Imported late, because Prefect must find its settings in the environment when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from flows import embedded
from flows.release import Direct, Outcome, carry_out
from tasks.faults import InputOutputFault
from tasks.workspace import Home

T = TypeVar("T")
Told = Callable[[str, float | None], None]


class ThroughPrefect(Direct):
    """Steps as Prefect tasks: not cached, results not persisted, retried only on input and output."""

    def __init__(self, plan_name: str, told: Told) -> None:
        super().__init__(told)
        self.plan_name = plan_name

    def call(self, label: str, function: Callable[..., T], *args: Any, retry: bool) -> T:
        """Carry out one step as a task; its arguments stay out of Prefect's sight."""
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        step = task(
            name=label,
            task_run_name=label,
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
        from prefect.artifacts import create_markdown_artifact

        name = self.plan_name.replace("_", "-")
        create_markdown_artifact(markdown=markdown, key=f"{name}-{key}", description=description)


def carry_out_in_prefect(plan: Path, home: Home, *, told: Told, rebuild: bool = False) -> Outcome:
    """Run a plan as a Prefect flow, on the user's own server or on one that lives as long as the run.

    Raises
    ------
    ReleaseError
        As `flows.release.carry_out`; Prefect keeps its safe message and nothing else.
    """
    with embedded.server(home.path) as server:
        with embedded.imports():
            from flows.plan import load_plan

            file = load_plan(plan)
            embedded.tracking_ready(home.path)
            # The server needs seconds to start; what the steps will need is imported meanwhile.
            import great_expectations  # noqa: F401
            import matplotlib.figure  # noqa: F401
            import mlflow.store.tracking.sqlalchemy_store  # noqa: F401
            from prefect import flow
            from prefect.client.schemas.objects import State
            from prefect.states import Completed

        runner = ThroughPrefect(file.plan.name, told)
        ended: list[Outcome] = []

        @flow(
            name="Release",
            flow_run_name=file.plan.name,
            description="From plan to published release, or to a refusal that says why.",
            persist_result=False,
            validate_parameters=False,
            log_prints=False,
        )
        def release(plan: str) -> State[None]:
            outcome = carry_out(file, home, runner, rebuild=rebuild)
            ended.append(outcome)
            return Completed(name=outcome.status.capitalize(), message=f"{outcome.release}: {outcome.reason}")

        with server.session():
            release(file.path.name)
        return ended[0]


def _failed_on_input_or_output(task: Any, run: Any, state: Any) -> bool:
    return isinstance(state.result(raise_on_failure=False), InputOutputFault)
