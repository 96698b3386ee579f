"""The worker that carries out releases, and nothing else that the server may ask for.

A holder of the password of Prefect's page can give runs, deployments and the pool a command, variables, a
folder, code to fetch and steps to take first. None of it is followed here: a run is our own program on this
machine, with this process's own environment, and of what the server says it uses the plan's name.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker, ProcessWorkerResult

from flows.orchestration import compat
from flows.served.fork_server import ForkServer

COMMAND = f"{sys.executable} -P -m flows.served.engine"


async def _our_flow(*_: Any, **__: Any) -> Any:
    from flows.served.release import release

    return release


compat.load_flow_with(_our_flow)


class Worker(ProcessWorker):
    """A process worker whose runs are releases, whatever the server asks for."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        compat.pass_over_held(self)
        self._fork_server = ForkServer()
        self._fork_server.ensure(COMMAND)

    @property
    def held(self) -> frozenset[UUID]:
        """The runs that this worker is about to start, or carries out."""
        return frozenset(run for run in self.limiter.statistics().borrowers if isinstance(run, UUID))

    async def run(
        self, flow_run: FlowRun, configuration: ProcessJobConfiguration, task_status: Any = None
    ) -> ProcessWorkerResult:
        """Carry out one run as a release."""
        self._fork_server.ensure(COMMAND)
        compat.run_command(configuration, COMMAND)
        configuration.working_dir = Path(os.environ["ANONFLOW_HOME"])
        configuration.env = dict(os.environ)
        configuration.stream_output = True
        return await super().run(flow_run, configuration, task_status)
