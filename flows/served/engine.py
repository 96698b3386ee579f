"""The process of one served run: ``python -m flows.served.engine``, as the worker starts it.

Prefect's own engine would take the deployment's steps first and load the flow that it names: the flow is ours
here, and of the run nothing but its parameters is used. ``python -m flows.served.engine FD`` is the fork server, which
listens at this socket.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from uuid import UUID

from flows.orchestration import compat
from flows.served import fork_server
from flows.servers.environment import imports, private_directories

# What runs need, some of it at a step alone.
NEEDED = (
    "prefect.engine", "prefect.flow_engine", "prefect.task_engine", "prefect.logging.loggers", "prefect.runtime",
    "great_expectations", "matplotlib.figure", "mlflow", "numba", "sklearn.ensemble", "tasks.tracking.mlflow",
    "flows.orchestration.prefect", "flows.served.approval", "flows.served.release",
)  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Carry out the run that the environment names, or serve forks to those that do."""
    os.umask(0o077)
    if arguments:
        with imports():
            for module in NEEDED:
                import_module(module)
        with socket.socket(fileno=int(arguments[0])) as listener:
            fork_server.serve(listener)
        import numpy as np

        # Otherwise all runs draw the same numbers from numpy's global generator; Python reseeds its own at a fork.
        np.random.seed()  # noqa: NPY002
    else:
        fork_server.run_in_fork()
    carry_out()


def carry_out() -> None:
    """Carry out the run that the environment names, in this process."""
    private_directories(Path(os.environ["ANONFLOW_HOME"]))
    with imports():
        from prefect.engine import handle_engine_signals
        from prefect.flow_engine import load_flow_run, run_flow
        from prefect.logging.loggers import flow_run_logger
        from prefect.runtime import flow_run

        from flows.served.release import release

    run_id = UUID(flow_run.id)
    compat.report_cancellation()
    with handle_engine_signals(run_id):
        run = load_flow_run(flow_run_id=run_id)
        # A run that is refused or rejected has ended in order: as a state it is not reported as an error, too.
        run_flow(release, flow_run=run, return_type="state", error_logger=flow_run_logger(run).logger)


if __name__ == "__main__":
    main(sys.argv[1:])
