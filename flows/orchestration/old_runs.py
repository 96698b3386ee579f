"""Runs of Prefect that have ended long ago; read and removed through its own interface."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterEndTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES
from prefect.exceptions import ObjectNotFound

# The server gives no more at once.
AT_ONCE = 200


def old_runs(before: datetime) -> list[UUID]:
    """Return the runs that ended before a time; what waits or is under way is never among them."""
    ended = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(TERMINAL_STATES))),
        end_time=FlowRunFilterEndTime.model_validate({"before_": before}),
    )
    found: list[UUID] = []
    with get_client(sync_client=True) as client:
        while page := client.read_flow_runs(flow_run_filter=ended, limit=AT_ONCE, offset=len(found)):
            found += [run.id for run in page]
    return found


def remove_runs(runs: Iterable[UUID]) -> None:
    """Remove runs with their tasks; their logs and tables go when the server next cleans up."""
    with get_client(sync_client=True) as client:
        for run in runs:
            try:
                client.delete_flow_run(run)
            except ObjectNotFound:
                continue
