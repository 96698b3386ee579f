"""The worker that carries out releases, and nothing else that the server may be told.

Whoever has the password of Prefect's page can give runs, deployments and the pool a command, variables, a
folder, code to fetch and steps to take first. None of it is followed here: a run is our own program on this
machine, with this process's own environment, and of what the server says it uses the plan's name.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from prefect.client.schemas.objects import FlowRun
from prefect.workers import process
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker, ProcessWorkerResult

COMMAND = f"{sys.executable} -P -m flows.served.engine"


async def _our_flow(*_: Any, **__: Any) -> Any:
    from flows.served.release import release

    return release


# Prefect loads a flow for the hooks of a run that was cancelled or has crashed, by the deployment's word.
process.load_flow_from_flow_run = _our_flow  # type: ignore[attr-defined]


class Worker(ProcessWorker):
    """A process worker whose runs are releases, whatever it is told."""

    async def run(
        self, flow_run: FlowRun, configuration: ProcessJobConfiguration, task_status: Any = None
    ) -> ProcessWorkerResult:
        """Carry out one run as a release."""
        configuration.command = COMMAND
        configuration._command_configured = True
        configuration.working_dir = Path(os.environ["ANONFLOW_HOME"])
        configuration.env = dict(os.environ)
        configuration.stream_output = True
        return await super().run(flow_run, configuration, task_status)
