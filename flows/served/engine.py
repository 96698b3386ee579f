"""The process of one served run: ``python -m flows.served.engine``, as the worker starts it.

Prefect's own engine would take the deployment's steps first and load the flow that it names: the flow is ours
here, and of the run nothing but its parameters is used.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

from flows.orchestration import compat
from flows.servers.environment import imports, private_directories


def main() -> None:
    """Carry out the run that the environment names."""
    os.umask(0o077)
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
    main()
