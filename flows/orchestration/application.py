"""The Prefect server as an ASGI application of ours, with what its start and its end need."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from flows.orchestration import compat

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SET_STATE = re.compile(r"/api/flow_runs/([0-9a-f-]{36})/set_state$")
_UNFINISHED = ("PENDING", "RUNNING", "CANCELLING")
_CRASHED = {"type": "CRASHED", "name": "Crashed", "message": "The process ended before the run."}
# Seconds within which a run that is over has reported it.
REPORTED = 10.0


@dataclass(frozen=True)
class _Unfinished:
    """A run that has not ended, as Prefect's server describes it; ``since`` is when it reached its state."""

    id: str
    name: str
    created: str
    since: datetime

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> _Unfinished:
        """Return a run from the server's answer."""
        run, name, created, state = itemgetter("id", "name", "created", "state")(described)
        return cls(run, name, created, datetime.fromisoformat(state.get("timestamp")))


class PrefectApplication:
    """Passes requests on to Prefect's application; warms it up, and stores every event before it ends.

    Parameters
    ----------
    app
        What `prefect.server.api.server.create_app` returns.
    on_ready
        Called once the application has started.
    under_way
        Returns the names of the runs that processes carry out. Others that are unfinished at the start are marked as
        crashed. None where another part of the program settles them.
    """

    def __init__(
        self,
        app: ASGIApp,
        on_ready: Callable[[], None] = lambda: None,
        under_way: Callable[[], frozenset[str]] | None = None,
    ) -> None:
        self.app, self.on_ready, self.under_way = app, on_ready, under_way
        # Before the parent's own run can begin: one of the same plan is not the killed one.
        self.begun, self.at_first = datetime.now(UTC), under_way() if under_way else frozenset()
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
            # A run that has just given its plan free is about to report how it ended; one may be about to take it.
            if self.under_way is not None and (lost := await self._lost(client, self.at_first)):
                await asyncio.sleep(REPORTED)
                for run in lost & await self._lost(client, self.under_way()):
                    await self._mark_as_crashed(client, run)

    async def _lost(self, client: Any, under_way: frozenset[str]) -> set[str]:
        """Return the runs that were killed together with their server, which could not record their end.

        Of the runs of a plan that is under way the newest is the one that is carried out.
        """
        unfinished = {"flow_runs": {"state": {"type": {"any_": _UNFINISHED}}, "deployment_id": {"is_null_": True}}}
        found = (await client.post("/api/flow_runs/filter", json=unfinished)).json()
        runs = sorted(map(_Unfinished.of, found), key=attrgetter("created"))
        newest = {one.name: one for one in runs}
        earlier = (one for one in runs if one.since < self.begun)
        return {one.id for one in earlier if one.name not in under_way or newest[one.name] is not one}

    async def mark_unfinished_as_crashed(self) -> None:
        """Mark as crashed what a lost parent left unfinished: the history must not show it as running."""
        async with self._client() as client:
            for run in sorted(self.runs):
                state = (await client.get(f"/api/flow_runs/{run}")).json()["state"]["type"]
                if state in _UNFINISHED:
                    await self._mark_as_crashed(client, run)

    @staticmethod
    async def _mark_as_crashed(client: Any, run: str) -> None:
        """Mark a run, and those of its tasks that had not ended."""
        state = {"state": _CRASHED, "force": True}
        await client.post(f"/api/flow_runs/{run}/set_state", json=state)
        unfinished = {"state": {"type": {"any_": _UNFINISHED}}, "flow_run_id": {"any_": [run]}}
        for task in (await client.post("/api/task_runs/filter", json={"task_runs": unfinished})).json():
            await client.post(f"/api/task_runs/{task['id']}/set_state", json=state)


async def _events_stored(timeout: float = 10.0) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end and not compat.events_are_stored():
        await asyncio.sleep(0.01)
