"""What stands before both servers: known names only, and one password."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable

from flows.embedded.child import App, Receive, Scope, Send
from flows.embedded.settings import LOOPBACK
from flows.servers.pages import answer, refuse


class Door:
    """Lets in requests that name this server, with the password where one is asked for.

    Parameters
    ----------
    app
        The application behind.
    hosts
        Names under which this server may be called, besides the loopback address (DNS rebinding); a page of
        another name may not send anything (forged requests).
    health
        The one path that is open to all.
    password
        User and password of HTTP basic authentication; None where the application asks by itself.
    """

    def __init__(self, app: App, hosts: Iterable[str], health: str, password: str | None = None) -> None:
        self.app, self.health = app, health
        self.hosts = {LOOPBACK, "localhost", *hosts}
        self.expected = None if password is None else b"Basic " + base64.b64encode(password.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the application's lifespan."""
        if scope["type"] == "lifespan" or (scope["type"] == "http" and scope["path"] == self.health):
            return await self.app(scope, receive, send)
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if not self._named(headers):
            return await refuse(scope, send, 403, b"This server has another name; see anonflow serve --allow.")
        given = headers.get(b"authorization", b"")
        if self.expected is not None and not hmac.compare_digest(given, self.expected):
            asks = [(b"www-authenticate", b'Basic realm="anonflow"'), (b"content-type", b"text/plain")]
            return await answer(send, 401, asks, b"The password is told by: anonflow serve --secrets")
        return await self.app(scope, receive, send)

    def _named(self, headers: dict[bytes, bytes]) -> bool:
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        own = not origin or origin.partition("://")[2] == host
        return own and (host in self.hosts or host.partition(":")[0] in self.hosts)
