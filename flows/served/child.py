"""The processes of the stack: ``python -m flows.served.child PART DESCRIPTOR``, as ``stack`` starts them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flows import embedded
from flows.embedded.child import App, Parent, Recording, inherited, one_interface, run_app
from flows.embedded.settings import HEALTH, USER
from flows.servers.middleware import Door
from flows.servers.pages import Page

# A worker that has not reached Prefect for so many seconds is not well.
UNSEEN = 60.0


def _without_trigrams() -> None:
    """Let Prefect's migrations pass on a PostgreSQL that lacks the extension pg_trgm, as our own does.

    It serves indexes that speed up the search for parts of names; plain ones stand in their place.
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


def _prefect_app() -> App:
    if os.environ.pop("ANONFLOW_WITHOUT_TRIGRAMS", ""):
        _without_trigrams()
    one_interface()
    with embedded.imports():
        from prefect.server.api.server import create_app

        app = create_app()
    return Recording(app, lambda: None)


def _mlflow_app() -> App:
    store = os.environ.pop("ANONFLOW_MLFLOW_STORE")
    artifacts = (Path(os.environ["ANONFLOW_HOME"]) / "mlflow" / "artifacts").as_uri()
    os.environ |= {
        "_MLFLOW_SERVER_FILE_STORE": store,
        "_MLFLOW_SERVER_REGISTRY_STORE": store,
        "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
        "_MLFLOW_SERVER_ARTIFACT_DESTINATION": artifacts,
        "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
        # Names are checked at our own door, which also knows those that were allowed.
        "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE": "true",
    }
    with embedded.imports():
        from mlflow.server.fastapi_app import app
        from mlflow.server.handlers import initialize_backend_stores
    initialize_backend_stores(store, store, "mlflow-artifacts:/")
    served: App = app
    return served


def _serve(part: str, sock: socket.socket, parent: Parent) -> int:
    hosts = [name for name in os.environ.get("ANONFLOW_HOSTS", "").split(",") if name]
    word = os.environ.pop("ANONFLOW_PASSWORD", None)
    # A migration must not be cut short; the servers have nothing else to finish before they serve.
    parent.at_end(lambda orderly: None)
    app = _prefect_app() if part == "prefect" else _mlflow_app()
    password = None if word is None else f"{USER}:{word}"
    page = Page(app, part, login=part == "prefect")
    return run_app(Door(page, hosts, HEALTH[part], password), sock, parent)


async def _work(sock: socket.socket, parent: Parent) -> None:
    """Keep deployments in step with the plans, run what is due, and wake what was decided or cut short."""
    with embedded.imports():
        from flows.served.keeper import keep
    logging.getLogger("anonflow").setLevel(logging.INFO)
    # It names runs by their numbers, and says nothing that the run's own page does not.
    logging.getLogger("prefect.flow_runs.worker").setLevel(logging.WARNING)
    loop = asyncio.get_running_loop()
    told: dict[str, Any] = {"ready": False, "seen": 0.0}
    health = await asyncio.start_server(lambda r, w: _tell(told, r, w), sock=sock)
    task = asyncio.ensure_future(keep(told))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    parent.at_end(lambda orderly: loop.call_soon_threadsafe(task.cancel))
    with contextlib.suppress(asyncio.CancelledError):
        await task
    health.close()


async def _tell(told: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer whoever asks whether the worker works, and which plans it has."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        await reader.readuntil(b"\r\n\r\n")
        well = told["ready"] and time.time() - told["seen"] < UNSEEN
        status = b"200 OK" if well else b"503 Service Unavailable"
        body = json.dumps(told).encode()
        head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % (
            status,
            len(body),
        )
        writer.write(head + b"Connection: close\r\n\r\n" + body)
        await writer.drain()
    writer.close()


def main(arguments: Iterable[str]) -> int:
    """Be one part of the stack until the parent says so or is gone."""
    part, descriptor = arguments
    with inherited(descriptor) as (sock, parent):
        if part != "worker":
            return _serve(part, sock, parent)
        asyncio.run(_work(sock, parent))
        # What the worker has started must not outlive it; it is taken up at the next start.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(os.getpgrp(), signal.SIGTERM)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
