"""The Prefect server as an ASGI application of ours, with what its start and its end need."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flows.orchestration import compat

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SET_STATE = re.compile(r"/api/flow_runs/([0-9a-f-]{36})/set_state$")
_UNFINISHED = ("PENDING", "RUNNING", "CANCELLING")
_CRASHED = {"type": "CRASHED", "name": "Crashed", "message": "The process ended before the run."}


class PrefectApplication:
    """Passes requests on to Prefect's application; warms it up, and stores every event before it ends.

    Parameters
    ----------
    app
        What `prefect.server.api.server.create_app` returns.
    on_ready
        Called once the application has started.
    """

    def __init__(self, app: ASGIApp, on_ready: Callable[[], None] = lambda: None) -> None:
        self.app, self.on_ready = app, on_ready
        self.runs: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; note which runs report."""
        if scope["type"] == "lifespan":
            return await self._lifespan(scope, receive, send)
        if scope["type"] == "http" and (match := _SET_STATE.search(scope["path"])):
            self.runs.add(match[1])
        await self.app(scope, receive, send)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def received() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await _events_stored()
            return message

        async def sent(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                self.on_ready()
                self.warming = asyncio.create_task(self._warm())
            await send(message)

        await self.app(scope, received, sent)

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

    async def mark_unfinished_as_crashed(self) -> None:
        """Mark as crashed what a lost parent left unfinished: the history must not show it as running."""
        async with self._client() as client:
            for run in sorted(self.runs):
                state = (await client.get(f"/api/flow_runs/{run}")).json()["state"]["type"]
                if state in _UNFINISHED:
                    await client.post(f"/api/flow_runs/{run}/set_state", json={"state": _CRASHED, "force": True})


async def _events_stored(timeout: float = 10.0) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end and not compat.events_are_stored():
        await asyncio.sleep(0.01)
