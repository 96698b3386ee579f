"""The processes of the stack: ``python -m flows.served.child PART FD``, as ``stack`` starts them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from flows.orchestration import compat
from flows.orchestration.application import PrefectApplication
from flows.servers.environment import HEALTH, RUN_HEADER_VARIABLE, imports
from flows.servers.http import Parent, hide_values_of_statements, inherited, run_app
from flows.servers.layout import USER

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.types import ASGIApp

# A worker that has not reached Prefect for so many seconds is not healthy.
UNREACHED = 60.0
# Seconds that runs under way have to end by themselves when the worker ends.
ENDING = 5.0


def _without_trigrams() -> None:
    """Let Prefect's migrations pass on a PostgreSQL that lacks the extension pg_trgm, as our own does.

    It serves indexes that speed up the search for parts of names; plain ones replace them.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    @event.listens_for(Engine, "before_cursor_execute", retval=True)
    def plain(
        connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
    ) -> tuple[str, Any]:
        if statement.startswith("CREATE EXTENSION IF NOT EXISTS pg_trgm"):
            statement = "SELECT 1"
        elif "gin_trgm_ops" in statement:
            statement = statement.replace("USING gin (name gin_trgm_ops)", "USING btree (name)")
        return statement, parameters


def _prefect_app() -> ASGIApp:
    if os.environ.pop("ANONFLOW_WITHOUT_TRIGRAMS", ""):
        _without_trigrams()
    compat.serve_first_interface_only()
    with imports():
        from prefect.server.api.server import create_app

        return PrefectApplication(create_app())


def _mlflow_app() -> ASGIApp:
    store = os.environ.pop("ANONFLOW_MLFLOW_STORE")
    os.environ |= {
        compat.MLFLOW_BACKEND_STORE: store,
        compat.MLFLOW_REGISTRY_STORE: store,
        compat.MLFLOW_ARTIFACT_ROOT: "mlflow-artifacts:/",
        compat.MLFLOW_ARTIFACTS_DESTINATION: (Path(os.environ["ANONFLOW_HOME"]) / "mlflow" / "artifacts").as_uri(),
        compat.MLFLOW_SERVE_ARTIFACTS: "true",
        # Host names are checked by our own middleware, which also knows those that were allowed.
        "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE": "true",
    }
    with imports():
        from mlflow.server.fastapi_app import app
        from mlflow.server.handlers import initialize_backend_stores
    initialize_backend_stores(store, store, "mlflow-artifacts:/")
    served: ASGIApp = app
    return served


def _serve(part: str, sock: socket.socket, parent: Parent) -> int:
    hosts = [name for name in os.environ.get("ANONFLOW_HOSTS", "").split(",") if name]
    password, run_secret = os.environ.pop("ANONFLOW_PASSWORD", None), os.environ.pop(RUN_HEADER_VARIABLE, "")
    parent.finish_first()
    hide_values_of_statements()
    from flows.servers.middleware import HostAndBasicAuth, guard
    from flows.servers.pages import Page
    from flows.servers.run_inputs import RunInputs

    app = RunInputs(_prefect_app(), run_secret) if part == "prefect" else _mlflow_app()

    page = Page(app, part, login=part == "prefect")
    login = None if password is None else f"{USER}:{password}"
    return run_app(guard(page, HostAndBasicAuth(hosts, HEALTH[part], login)), sock, parent)


def _worker_app() -> ASGIApp:
    """Return the worker's endpoints for health and metrics, whose lifespan is the reconciler's."""
    with imports():
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse, PlainTextResponse
        from starlette.routing import Route

        from flows.served.reconciler import run_reconciler
        from flows.served.report import Report
        from flows.served.status import prometheus, status
        from flows.servers.middleware import HostAndBasicAuth, guard
        from tasks.common.home import Home
        from tasks.common.values import to_json

    report = Report()

    async def metrics(request: Request) -> PlainTextResponse:
        found = await asyncio.to_thread(status, Home.locate(), parts=False)
        return PlainTextResponse(prometheus(found, report), media_type="text/plain; version=0.0.4")

    async def health(request: Request) -> JSONResponse:
        healthy = report.ready and time.time() - report.reached < UNREACHED
        return JSONResponse(to_json(report), 200 if healthy else 503)

    def on_end(reconciler: asyncio.Future[None]) -> None:
        # Without it the worker is of no use: it ends, and is started again.
        if not reconciler.cancelled():
            logging.getLogger("anonflow").error("the reconciler ended", exc_info=reconciler.exception())
            os.kill(os.getpid(), signal.SIGTERM)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        reconciler = asyncio.ensure_future(run_reconciler(report))
        reconciler.add_done_callback(on_end)
        yield
        reconciler.cancel()
        await asyncio.wait([reconciler])

    app = Starlette(routes=[Route(HEALTH["worker"], health), Route("/metrics", metrics)], lifespan=lifespan)
    return guard(app, HostAndBasicAuth((), health=""))


def _work(sock: socket.socket, parent: Parent) -> int:
    """Keep deployments in step with the plans, run what is due, and resume what was decided or interrupted."""
    app = _worker_app()
    # Prefect sets the levels of its loggers when it is imported.
    logging.getLogger("anonflow").setLevel(logging.INFO)
    # It names runs by their numbers, and says nothing that the run's own page does not.
    logging.getLogger("prefect.flow_runs.worker").setLevel(logging.WARNING)
    # The server passes on the signal that ended it: the processes that the worker has started come first.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return run_app(app, sock, parent)


def _end_runs() -> None:
    """End what the worker has started, which must not outlive it; it is resumed at the next start.

    A run that is asked to end first reports to the server, and waits for it as long as it does not answer.
    """
    started = psutil.Process().children(recursive=True)
    os.killpg(os.getpgrp(), signal.SIGTERM)
    for process in psutil.wait_procs(started, ENDING)[1]:
        with contextlib.suppress(psutil.Error):
            process.kill()


def main(arguments: Iterable[str]) -> int:
    """Be one part of the stack until the parent asks it to stop or is lost."""
    part, descriptor = arguments
    with inherited(descriptor) as (sock, parent):
        if part != "worker":
            return _serve(part, sock, parent)
        code = _work(sock, parent)
        _end_runs()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
