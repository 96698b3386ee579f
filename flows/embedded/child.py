"""The child's side: a server that serves until its parent says so or is gone, and the roles it can have."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import os
import re
import select
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

from flows.embedded.settings import imports
from flows.embedded.stores import mark_migrated, migrated, migration_lock, prepared, tracking_ready

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Parent:
    """Watches the process that started us: it says good-bye through the pipe, or is gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orderly: bool | None = None
        # Before anything is served there is nothing to finish.
        self._then: Callable[[bool], object] = lambda orderly: os._exit(0)
        threading.Thread(target=self._watch, daemon=True).start()

    def at_end(self, then: Callable[[bool], object]) -> None:
        """Call ``then`` when the parent ends, with True if it said so; at once if it has ended."""
        with self._lock:
            self._then = then
            if self._orderly is not None:
                then(self._orderly)

    def _watch(self) -> None:
        parent = os.getppid()
        # A process forked by the parent may hold the pipe open after the parent's death: watch both.
        while not (said := select.select([0], [], [], 1.0)[0]) and os.getppid() == parent:
            pass
        with self._lock:
            self._orderly = bool(said) and os.read(0, 1) == b"q"
            self._then(self._orderly)


def run_app(
    app: App, sock: socket.socket, parent: Parent, abandoned: Callable[[], Awaitable[None]] | None = None
) -> int:
    """Serve ``app`` until the parent says so or is gone; in the latter case ``abandoned`` is awaited first.

    Returns
    -------
    int
        Exit code: 0, or 3 if the application did not start.
    """
    import uvicorn

    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=10)
    running = uvicorn.Server(config)

    async def finish(orderly: bool) -> None:
        if not orderly and abandoned is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(abandoned(), 10)
        running.should_exit = True

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        parent.at_end(lambda orderly: asyncio.run_coroutine_threadsafe(finish(orderly), loop))
        await running.serve(sockets=[sock])

    try:
        asyncio.run(serve())
    except SystemExit as end:
        return int(end.code or 0)
    return 0


class Recording:
    """The Prefect application, with what an embedded server needs around its start and its end."""

    _STATE = re.compile(r"/api/flow_runs/([0-9a-f-]{36})/set_state$")

    def __init__(self, app: Any, ready: Callable[[], None]) -> None:
        self.app, self.ready = app, ready
        self.runs: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; note which runs report, warm up after the start, drain before the end."""
        if scope["type"] == "lifespan":

            async def received() -> MutableMapping[str, Any]:
                message = await receive()
                if message["type"] == "lifespan.shutdown":
                    await self._drained()
                return message

            async def sent(message: MutableMapping[str, Any]) -> None:
                if message["type"] == "lifespan.startup.complete":
                    self.ready()
                    self.warming = asyncio.create_task(self._warm())
                await send(message)

            await self.app(scope, received, sent)
            return
        if scope["type"] == "http" and (found := self._STATE.search(scope["path"])):
            self.runs.add(found[1])
        await self.app(scope, receive, send)

    async def _drained(self, timeout: float = 10.0) -> None:
        # A service that stops drops what it has not yet taken from its queue: task runs would be missing.
        from prefect.server.utilities.messaging.memory import METRICS, Topic

        end = time.monotonic() + timeout
        while time.monotonic() < end:
            queues = [q for t in Topic._topics.values() for s in t._subscriptions for q in (s._queue, s._retry)]
            if all(q.empty() for q in queues) and all(m["consumed"] >= m["published"] for m in METRICS.values()):
                return
            await asyncio.sleep(0.01)

    def _client(self) -> Any:
        import httpx

        user, _, password = os.environ.get("PREFECT_SERVER_API_AUTH_STRING", "").partition(":")
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://server", auth=(user, password)
        )

    async def _warm(self) -> None:
        # First requests compile statements and validators: half a second while the parent is still importing.
        async with self._client() as client:
            for what in ("flows", "flow_runs", "task_runs", "logs", "artifacts"):
                await client.post(f"/api/{what}/filter", json={"limit": 1})

    async def abandoned(self) -> None:
        """Mark as crashed what the vanished parent left unfinished: the history must not say "running"."""
        async with self._client() as client:
            for run in sorted(self.runs):
                state = (await client.get(f"/api/flow_runs/{run}")).json()["state"]["type"]
                if state in ("PENDING", "RUNNING", "CANCELLING"):
                    crashed = {
                        "type": "CRASHED",
                        "name": "Crashed",
                        "message": "The process ended before the run.",
                    }
                    await client.post(f"/api/flow_runs/{run}/set_state", json={"state": crashed, "force": True})


def one_interface() -> None:
    """Serve Prefect's first interface only: the second contacts its makers when it loads."""
    import prefect

    prefect.__ui_v2_static_path__ = Path(os.devnull) / "none"


def prefect_app(parent: Parent, *, ephemeral: bool) -> Recording:
    """Return the Prefect application on the home's database, which is migrated only if it must be.

    Two servers that start on a fresh home take turns.
    """
    database = Path(os.environ["PREFECT_HOME"]) / "prefect.db"
    turn = contextlib.ExitStack()
    fits = migrated(database, "prefect")
    if not fits:
        turn.enter_context(migration_lock(database))
        fits = prepared(database, "prefect")
        if fits:
            turn.close()
        else:  # a migration must not be cut short
            parent.at_end(lambda orderly: None)
    os.environ["PREFECT_SERVER_DATABASE_MIGRATE_ON_START"] = str(not fits).lower()
    with imports():
        from prefect.server.api.server import create_app

        app = create_app(ephemeral=ephemeral)

    def ready() -> None:
        if not fits:
            mark_migrated(database, "prefect")
        turn.close()

    return Recording(app, ready)


@contextlib.contextmanager
def inherited(descriptor: str) -> Iterator[tuple[socket.socket, Parent]]:
    """Take over the listening socket, watch the parent, and prepare for a quick exit."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    atexit.register(gc.freeze)
    with socket.socket(fileno=int(descriptor)) as sock:
        yield sock, Parent()


def main(arguments: Iterable[str]) -> int:
    """Be the server or do the migration that the parent asks for.

    Parameters
    ----------
    arguments
        The role (``prefect``, ``migrate-prefect`` or ``migrate-mlflow``) and the listening socket's
        descriptor.

    Returns
    -------
    int
        Exit code: 0, or 3 if the server did not start.
    """
    role, descriptor = arguments
    with inherited(descriptor) as (sock, parent):
        if role == "prefect":
            app = prefect_app(parent, ephemeral=True)
            return run_app(app, sock, parent, app.abandoned)
        if role == "migrate-mlflow":
            tracking_ready(Path(os.environ["PREFECT_HOME"]).parent)
        else:
            from prefect.server.database import provide_database_interface

            asyncio.run(provide_database_interface().create_db())
    return 0
