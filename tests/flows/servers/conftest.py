"""Requests to an ASGI application, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.types import ASGIApp


@dataclass
class Answer:
    """The first message that an application sent, and the body of all."""

    kind: str
    status: int
    headers: dict[str, str]
    body: bytes


def _ask(
    app: ASGIApp,
    path: str = "/",
    query: str = "",
    kind: str = "http",
    host: str = "127.0.0.1:4200",
    method: str = "GET",
    **headers: str,
) -> Answer:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {}

    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in {"host": host, **headers}.items()]
    scope = {"type": kind, "method": method, "path": path, "query_string": query.encode(), "headers": given}
    asyncio.run(app(scope, receive, send))
    shown = {name.decode(): value.decode() for name, value in sent[0].get("headers", [])}
    body = b"".join(message.get("body", b"") for message in sent)
    return Answer(sent[0]["type"], sent[0].get("status", 0), shown, body)


@pytest.fixture
def ask() -> Callable[..., Answer]:
    """The function that gives an application one request and returns its answer."""
    return _ask


@pytest.fixture
def document() -> ASGIApp:
    """An application that answers everything with a page in two parts."""

    async def page(scope: Any, receive: Any, send: Any) -> None:
        kind = [(b"Content-Type", b"text/html"), (b"ETag", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        await send({"type": "http.response.body", "body": b"<html><head>", "more_body": True})
        await send({"type": "http.response.body", "body": b"</head></html>"})

    return page
