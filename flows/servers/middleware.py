"""ASGI middleware: host allow-list with basic authentication, or with the token of one start.

Both are Starlette authentication backends: `guard` puts one in front of an application, for requests and
websockets alike.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable
from urllib.parse import quote, urlencode

from starlette.authentication import AuthenticationBackend, AuthenticationError
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from flows.servers.environment import LOOPBACK


class Answered(AuthenticationError):
    """A request is not passed on to the application; it is answered with ``response``."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def guard(app: ASGIApp, backend: AuthenticationBackend) -> ASGIApp:
    """Return ``app`` behind a backend; the lifespan passes, websockets that are refused are closed."""

    def answer(connection: HTTPConnection, error: AuthenticationError) -> Response:
        if isinstance(error, Answered):
            return error.response
        raise error

    return AuthenticationMiddleware(app, backend=backend, on_error=answer)


class HostAndBasicAuth(AuthenticationBackend):
    """Admits requests that name this server, with the password where one is asked for.

    Parameters
    ----------
    hosts
        Names under which this server may be called, besides the loopback address (DNS rebinding); a page of
        another origin may not send anything (forged requests).
    health
        The one path that is open to all.
    password
        User and password of HTTP basic authentication; None where the application asks by itself.
    """

    def __init__(self, hosts: Iterable[str], health: str, password: str | None = None) -> None:
        self.hosts, self.health = {LOOPBACK, "localhost", *hosts}, health
        self.expected = None if password is None else "Basic " + base64.b64encode(password.encode()).decode()

    async def authenticate(self, conn: HTTPConnection) -> None:
        """Admit a request, or raise `Answered`."""
        if _is_health_check(conn, self.health):
            return
        check_host(conn, self.hosts, "This server has another name; see anonflow serve --allow.")
        if self.expected is not None and not same(conn.headers.get("authorization", ""), self.expected):
            challenge = {"www-authenticate": 'Basic realm="anonflow"'}
            text = "A password is needed; it is printed by: anonflow serve --secrets"
            raise Answered(PlainTextResponse(text, 401, challenge))


class TokenAuth(AuthenticationBackend):
    """Admits requests that carry the token of this start.

    The token comes once, with the address; then the browser keeps it in a cookie that scripts cannot read.

    Parameters
    ----------
    token
        The secret of this start.
    port
        Our port, part of the cookie's name. Requests that name another machine or come from another page are
        refused (DNS rebinding, forged requests); the port they name may differ, as through a tunnel.
    health
        The one path that is open to all.
    command
        What has printed the address.
    """

    def __init__(self, token: str, port: int, health: str, command: str = "anonflow ui") -> None:
        self.token, self.cookie, self.health, self.command = token, f"anonflow-{port}", health, command

    async def authenticate(self, conn: HTTPConnection) -> None:
        """Admit a request, or raise `Answered`."""
        if _is_health_check(conn, self.health):
            return
        check_host(conn, {LOOPBACK, "localhost"}, "This address belongs to another page.")
        if conn.scope["type"] == "http" and same(conn.query_params.get("token", ""), self.token):
            raise Answered(self._set_cookie(conn))
        if not same(conn.cookies.get(self.cookie, ""), self.token):
            raise Answered(PlainTextResponse(f"Open the address that {self.command} has printed.", 403))

    def _set_cookie(self, conn: HTTPConnection) -> Response:
        """Return the redirection to the same address without the token, which the cookie carries from here on."""
        query = [pair for pair in conn.query_params.multi_items() if pair[0] != "token"]
        # One slash only: two would name another host.
        target = "/" + quote(conn.scope["path"].lstrip("/")) + (f"?{urlencode(query)}" if query else "")
        response = RedirectResponse(target, 303, {"cache-control": "no-store"})
        response.set_cookie(self.cookie, self.token, httponly=True, samesite="lax")
        return response


def _is_health_check(conn: HTTPConnection, path: str) -> bool:
    return (conn.scope["type"], conn.scope["path"]) == ("http", path)


def check_host(conn: HTTPConnection, allowed: set[str], otherwise: str) -> None:
    """Raise `Answered` where a request names another server, or comes from a page of another origin."""
    host = conn.headers.get("host", "")
    origin = conn.headers.get("origin", "")
    same_origin = not origin or origin.partition("://")[2] == host
    if not same_origin or not {host, host.partition(":")[0]} & allowed:
        raise Answered(PlainTextResponse(otherwise, 403))


def same(given: str, expected: str) -> bool:
    """Return whether two secrets are the same, in a time that does not tell how far they agree."""
    return hmac.compare_digest(given.encode(), expected.encode())
