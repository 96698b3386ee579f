"""Every use of a private or undocumented name of Prefect and MLflow, one function each.

No other module names them. `tests/flows/orchestration/test_compat.py` checks each name against the installed
version, and says after an upgrade which function has to be looked at. Nothing heavy is imported at module level.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# By these variables MLflow's own command line configures its server application (`mlflow.server.constants`).
MLFLOW_BACKEND_STORE = "_MLFLOW_SERVER_FILE_STORE"
MLFLOW_REGISTRY_STORE = "_MLFLOW_SERVER_REGISTRY_STORE"
MLFLOW_ARTIFACT_ROOT = "_MLFLOW_SERVER_ARTIFACT_ROOT"
MLFLOW_ARTIFACTS_DESTINATION = "_MLFLOW_SERVER_ARTIFACT_DESTINATION"
MLFLOW_SERVE_ARTIFACTS = "_MLFLOW_SERVER_SERVE_ARTIFACTS"


def serve_first_interface_only() -> None:
    """Serve Prefect's first web interface only: the second contacts its makers when it loads.

    The setting that disables the second one leaves it reachable under its own path.
    """
    import prefect

    prefect.__ui_v2_static_path__ = Path(os.devnull) / "none"


def events_are_stored() -> bool:
    """Return whether Prefect's server has taken every event from its queues.

    A service that stops drops what is still queued: task runs would be missing from the history.
    """
    from prefect.server.utilities.messaging.memory import METRICS, Topic

    queues = [q for t in Topic._topics.values() for s in t._subscriptions for q in (s._queue, s._retry)]
    return all(q.empty() for q in queues) and all(m["consumed"] >= m["published"] for m in METRICS.values())


def send_queued(timeout: float = 30.0) -> None:
    """Send the events and logs that Prefect still has queued in this process. Call from synchronous code."""
    if "prefect.events.worker" not in sys.modules:
        return
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        # It warns about each queue that is not empty yet, which is the reason for this call.
        logging.getLogger(worker.__name__).setLevel(logging.ERROR)
        worker.drain_all(timeout=timeout)


def emit_events(*, enabled: bool) -> None:
    """Let this process emit events, or drop them: without a server they would wait for one."""
    if not enabled and "prefect" not in sys.modules:
        return
    from prefect.events.clients import NullEventsClient
    from prefect.events.worker import EventsWorker

    EventsWorker.set_client_override(None if enabled else NullEventsClient)


@contextmanager
def silent_runs() -> Iterator[None]:
    """Keep what runs log out of the terminal; Prefect's server gets it all the same."""
    loggers = [logging.getLogger(name) for name in ("prefect.flow_runs", "prefect.task_runs")]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.propagate = propagate


def report_cancellation() -> None:
    """Let the worker that started this process announce that its run was cancelled."""
    from prefect._internal.control_listener import configure_from_env

    configure_from_env()


def load_flow_with(loader: Callable[..., Awaitable[Any]]) -> None:
    """Have Prefect's process worker load the flow of every run by ``loader``.

    It loads a flow for the hooks of a run that was cancelled or has crashed, by default the one that the
    deployment names.
    """
    from prefect.workers import process

    process.load_flow_from_flow_run = loader  # type: ignore[assignment, attr-defined]


def run_command(configuration: Any, command: str) -> None:
    """Have Prefect's process worker start ``command`` for a run, and take none of the deployment's steps."""
    configuration.command = command
    configuration._command_configured = True


def pass_over_held(worker: Any) -> None:
    """Have a worker of Prefect leave a scheduled run for later that still holds its place in the worker.

    Its former process may not have ended yet; the worker takes a second place for it, and ends with all its runs.
    """
    submit = worker._submit_scheduled_flow_runs

    async def submit_others(flow_run_response: list[Any]) -> Any:
        held = worker.limiter.statistics().borrowers
        return await submit(flow_run_response=[one for one in flow_run_response if one.flow_run.id not in held])

    worker._submit_scheduled_flow_runs = submit_others


def create_mlflow_tables(uri: str) -> None:
    """Create the tables of an MLflow store, or migrate them from whatever version is there."""
    import sqlalchemy
    from mlflow.store.db import utils

    engine = sqlalchemy.create_engine(uri)
    utils._initialize_tables(engine)  # type: ignore[no-untyped-call]
    engine.dispose()


def has_lost_its_place(message: str | None) -> bool:
    """Return whether Prefect cancelled a run by itself, since its place in the deployment's queue expired meanwhile."""
    return (message or "").startswith("Deployment concurrency slot lost")
