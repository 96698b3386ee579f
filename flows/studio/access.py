"""Who uses the pages: one person with the token of this start, or people with logins and roles of their own."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
import time
from collections.abc import Iterable

from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse

from flows.servers.environment import LOOPBACK
from flows.servers.middleware import Answered, TokenAuth, check_host
from tasks.common.home import Home
from tasks.record.logins import ROLES, Login, logins

COMMAND = "anonflow studio"
# Passwords checked at once; wrong ones from an address that are free, and the longest wait in seconds after more.
CHECKED_AT_ONCE, FREE, LONGEST_WAIT, MOST_SENDERS = 2, 10, 60.0, 1000
CHALLENGE = {"www-authenticate": 'Basic realm="anonflow studio", charset="UTF-8"'}
OTHER_HOST = "This server has another name; see anonflow studio --allow."
Identified = tuple[AuthCredentials, SimpleUser]


class OnePerson(AuthenticationBackend):
    """Admits who has the token of this start; this person has every role and states a name with each decision."""

    def __init__(self, token: str, port: int) -> None:
        self.token = TokenAuth(token, port, health="", command=COMMAND)

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
        # A name that nobody has takes as long as one that somebody has; few are checked at once.
        self._nobody, self._turn = Login("", (), secrets.token_hex(16), ""), asyncio.Semaphore(CHECKED_AT_ONCE)
        self._wrong = dict[str, tuple[int, float]]()

    async def authenticate(self, conn: HTTPConnection) -> Identified:
        """Admit a request, or raise `Answered`."""
        check_host(conn, self.hosts, OTHER_HOST)
        _check_origin(conn)
        name, password = _stated(conn.headers.get("authorization", ""))
        if name:
            login = next((one for one in logins(self.home) if one.name == name), self._nobody)
            seen = hmac.new(self._key, f"{login.digest} {password}".encode(), "sha256").hexdigest()
            if self._checked.get(name) == seen or await self._accepts(login, password, conn):
                self._checked[name] = seen
                return AuthCredentials(login.roles), SimpleUser(name)
        text = "Your login is needed; who runs this home gives one with: anonflow people login NAME --role ROLE"
        raise Answered(PlainTextResponse(text, 401, CHALLENGE))

    async def _accepts(self, login: Login, password: str, conn: HTTPConnection) -> bool:
        """Check a password, unless its sender has to wait after wrong ones: longer with each."""
        sender = conn.client.host if conn.client else ""
        async with self._turn:
            count, last = self._wrong.get(sender, (0, 0.0))
            left = last + min(2.0 ** (count - FREE), LONGEST_WAIT) - time.monotonic()
            if count >= FREE and left > 0:
                text = f"Too many wrong passwords came from this address; wait {left:.0f} seconds."
                raise Answered(PlainTextResponse(text, 429, {"retry-after": f"{left + 1:.0f}"}))
            accepted = await run_in_threadpool(login.accepts, password)
            count = self._wrong.pop(sender, (0, 0.0))[0]
        if not accepted:
            self._wrong[sender] = (count + 1, time.monotonic())
            while len(self._wrong) > MOST_SENDERS:
                self._wrong.pop(next(iter(self._wrong)))
        return accepted


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
