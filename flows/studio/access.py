"""Who uses the pages: one person with the token of this start, or people with logins and roles of their own."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Iterable

from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse

from flows.servers.environment import LOOPBACK
from flows.servers.middleware import Answered, TokenAuth, check_host
from tasks.common.home import Home
from tasks.record.logins import ROLES, logins

COMMAND = "anonflow studio"
HEALTH = "/health"
CHALLENGE = {"www-authenticate": 'Basic realm="anonflow studio", charset="UTF-8"'}
OTHER_HOST = "This server has another name; see anonflow studio --allow."
Identified = tuple[AuthCredentials, SimpleUser]


class OnePerson(AuthenticationBackend):
    """Admits who has the token of this start; this person has every role and states a name with each decision."""

    def __init__(self, token: str, port: int) -> None:
        self.token = TokenAuth(token, port, HEALTH, COMMAND)

    async def authenticate(self, conn: HTTPConnection) -> Identified:
        """Admit a request, or raise `Answered`."""
        await self.token.authenticate(conn)
        _check_origin(conn)
        return AuthCredentials(ROLES), SimpleUser("")


class People(AuthenticationBackend):
    """Admits people with a login of the home, by HTTP basic authentication; roles come from the list alone.

    Parameters
    ----------
    home : whose logins are read anew for each request, so that one that is removed ends at once
    hosts : names under which this server may be called, besides the loopback address
    """

    def __init__(self, home: Home, hosts: Iterable[str]) -> None:
        self.home, self.hosts = home, {LOOPBACK, "localhost", *hosts}
        # Checking a password is slow on purpose; one that was right is recognised by a keyed digest.
        self._key, self._checked = secrets.token_bytes(32), dict[str, str]()

    async def authenticate(self, conn: HTTPConnection) -> Identified:
        """Admit a request, or raise `Answered`."""
        check_host(conn, self.hosts, OTHER_HOST)
        _check_origin(conn)
        name, password = _stated(conn.headers.get("authorization", ""))
        for login in logins(self.home):
            if login.name == name:
                seen = hmac.new(self._key, f"{login.digest} {password}".encode(), "sha256").hexdigest()
                if self._checked.get(name) == seen or login.accepts(password):
                    self._checked[name] = seen
                    return AuthCredentials(login.roles), SimpleUser(name)
        text = "Your login is needed; who runs this home gives one with: anonflow people login NAME --role ROLE"
        raise Answered(PlainTextResponse(text, 401, CHALLENGE))


def _check_origin(conn: HTTPConnection) -> None:
    """Refuse what another page, or something that is no browser, sends in a person's name."""
    if conn.scope.get("method") == "POST" and not conn.headers.get("origin"):
        raise Answered(PlainTextResponse("A form is sent by one of these pages only.", 403))


def _stated(header: str) -> tuple[str, str]:
    """Return name and password of HTTP basic authentication; empty where there are none."""
    try:
        name, _, password = base64.b64decode(header.removeprefix("Basic "), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "", ""
    return name, password
