"""ASGI middleware before Prefect: only our own runs state what their forms ask.

Whoever has Prefect's password may answer forms. One who could replace the text above a form would have approvers sign
for another release, and one who could plant an answer would keep them from giving theirs.
"""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flows.servers.environment import RUN_HEADER
from flows.servers.middleware import same

# What forms ask and what was answered; a POST to …/input/filter reads it.
RUN_INPUTS = re.compile(r"/flow_runs/[^/]*/input(?!/filter/*$)(?:/|$)")
# The part of a state that says where a form's text and its answer are.
KEYSET = "run_input_keyset"
READS = ("GET", "HEAD", "OPTIONS")
ANSWER = (
    "Only a run itself changes what its form asks; people answer by Resume. If a run gets this answer, the files "
    "secrets/runs of Prefect and of the worker differ."
)


class RunInputs:
    """Passes on to Prefect what does not write inputs of a run, and all that our own runs send.

    Parameters
    ----------
    secret
        What our runs send in the header `RUN_HEADER`; without one nobody is taken for a run.
    """

    def __init__(self, app: ASGIApp, secret: str) -> None:
        self.app, self.secret = app, secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 403."""
        if scope["type"] != "http" or scope["method"] in READS:
            return await self.app(scope, receive, send)
        request = Request(scope, receive)
        if self.secret and same(request.headers.get(RUN_HEADER, ""), self.secret):
            return await self.app(scope, receive, send)
        body = await request.body()
        if RUN_INPUTS.search(scope["path"]) or _names_inputs(body):
            return await PlainTextResponse(ANSWER, 403)(scope, receive, send)
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Message:
            return next(given, None) or await receive()

        await self.app(scope, again, send)


def _names_inputs(body: bytes) -> bool:
    """Return whether a body, read as Prefect reads it, holds a state that names inputs of a run."""
    try:
        parts: list[Any] = [json.loads(body)]
    except (ValueError, RecursionError):
        return False
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            if part.get(KEYSET):
                return True
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)
    return False
