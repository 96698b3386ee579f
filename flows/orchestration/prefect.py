"""Releases and comparisons as Prefect flows: every step is a task that can be watched.

Imported late, because Prefect must find its settings in the environment when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.done import done
from flows.orchestration.retries import pauses
from flows.plan.model import PlanFile
from flows.release import Direct, OnStep
from tasks.common.errors import InputOutputFault

T = TypeVar("T")


class PrefectRunner(Direct):
    """Steps as Prefect tasks: not cached, results not persisted, retried only on input and output."""

    def __init__(self, plan_name: str, on_progress: OnStep) -> None:
        super().__init__(on_progress)
        self.plan_name = plan_name

    def call(self, label: str, function: Callable[..., T], *args: Any, retry: bool) -> T:
        """Carry out one step as a task; its arguments stay out of Prefect's sight."""
        waits = pauses() if retry else []
        step = task(
            name=label,
            # Prefect would fill in braces.
            task_run_name=label.replace("{", "{{").replace("}", "}}"),
            retries=len(waits),
            retry_delay_seconds=waits,
            retry_condition_fn=_failed_on_input_or_output,
            cache_policy=NO_CACHE,
            persist_result=False,
            log_prints=False,
        )(lambda: _logged(function(*args)))
        return step()

    def show(self, key: str, markdown: str, description: str) -> None:
        """Store a markdown artifact, whose history grows with every run of the plan."""
        name = self.plan_name.replace("_", "-")
        create_markdown_artifact(markdown=markdown, key=f"{name}-{key}", description=description)

    def progress(self, label: str, done: int, of: int, more: str = "") -> None:
        """Log how far a step is, and report it."""
        get_run_logger().info("%s: %d of %d%s", label, done, of, more)
        super().progress(label, done, of, more)


def run_as_flow(
    name: str, description: str, file: PlanFile, on_progress: OnStep, body: Callable[[Direct], tuple[T, str, str]]
) -> T:
    """Carry ``body`` out as a flow that is given the plan's file name and nothing else.

    Parameters
    ----------
    body
        Takes what carries out the steps; returns its result, and the name and message of the flow's last state.

    Raises `ReleaseError` as ``body``; Prefect keeps its safe message and nothing else.
    """
    results: list[T] = []

    @flow(
        name=name,
        flow_run_name=file.plan.name,
        description=description,
        persist_result=False,
        validate_parameters=False,
        log_prints=False,
    )
    def run(plan: str) -> State[None]:
        result, state, message = body(PrefectRunner(file.plan.name, on_progress))
        results.append(result)
        return Completed(name=state, message=message)

    run(file.path.name)
    return results[0]


def _logged(result: T) -> T:
    """Return a step's result, and log what the step has done: Prefect logs that it has ended."""
    if text := done(result):
        get_run_logger().info(text)
    return result


def _failed_on_input_or_output(task: Any, run: Any, state: Any) -> bool:
    return isinstance(state.result(raise_on_failure=False), InputOutputFault)
