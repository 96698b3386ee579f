"""``anonflow ui``: the histories that embedded runs have left, shown by Prefect's and MLflow's own pages.

Both servers run on the loopback address, in processes that never outlive this one, behind a token drawn at
each start: other users of the machine see nothing, and the pages can call nobody but their own server.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import signal
import socket
import sys
import time
import webbrowser
from collections.abc import Iterable, Iterator
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from types import FrameType
from urllib.parse import parse_qsl, quote, urlencode

from rich.console import Console

from flows import embedded
from flows.embedded.child import (
    App,
    Parent,
    Receive,
    Scope,
    Send,
    inherited,
    one_interface,
    prefect_app,
    run_app,
)
from flows.embedded.settings import HEALTH, NAMES, NEIGHBOURS
from flows.servers.pages import Page, answer, refuse
from tasks.common.errors import visible


def serve_uis(
    home: Path,
    *,
    prefect_port: int = 4200,
    mlflow_port: int = 5000,
    open_browser: bool = True,
    console: Console | None = None,
) -> None:
    """Show the histories kept below ``home`` until interrupted (Ctrl-C or SIGTERM); then stop everything.

    A taken port is replaced by the next free one, and that is said. Where the user has a server of his own
    (``PREFECT_API_URL``, an ``http`` address in ``MLFLOW_TRACKING_URI``), its address is printed instead.

    Parameters
    ----------
    home
        State directory; a fresh one shows empty histories.
    prefect_port, mlflow_port
        Wished-for ports; 0 takes any.
    open_browser
        Also open both addresses, if there is a desktop.
    console
        Where to print; standard output if not given.

    Raises
    ------
    embedded.EmbeddedServerError
        If a server does not start, or ends by itself. The message names its log.
    ValueError
        If called elsewhere than in the main thread, or ``home`` cannot stand in a database address.
    """
    out = console or Console()
    home = embedded.private_directories(home)
    with contextlib.suppress(KeyboardInterrupt), _interruptible(), contextlib.ExitStack() as stack:
        addresses: dict[str, str] = {}
        children: dict[str, embedded.Child] = {}
        for role, port in (("prefect", prefect_port), ("mlflow", mlflow_port)):
            if elsewhere := _elsewhere(role):
                addresses[role] = elsewhere
                continue
            children[role], addresses[role] = _start(role, home, port)
            stack.callback(children[role].stop)
            if children[role].port != port != 0:
                out.print(f"Port {port} is taken: {NAMES[role]} is on {children[role].port}.", highlight=False)
        for role, child in children.items():
            child.wait(HEALTH[role])
        for role, address in addresses.items():
            out.print(f"{NAMES[role]:8} {visible(address)}", soft_wrap=True, highlight=False, markup=False)
            if open_browser and _desktop():
                webbrowser.open(stack.enter_context(_page(home, role, address)))
        _watch(children, out)


def _watch(children: dict[str, embedded.Child], out: Console) -> None:
    if children:
        out.print("Ctrl-C ends it.", highlight=False)
    while children:
        time.sleep(0.5)
        for role, child in children.items():
            if (code := child.process.poll()) is not None:
                raise embedded.EmbeddedServerError(
                    f"the {NAMES[role]} server ended with code {code}; its log is {child.log}"
                )


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Turn SIGTERM into the interruption that Ctrl-C is."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _desktop() -> bool:
    """Whether there is a browser in a window, as opposed to one that would take over the terminal."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


@contextlib.contextmanager
def _page(home: Path, role: str, address: str) -> Iterator[str]:
    """Return a private page that leads on to the address, whose token must not show in a command line."""
    page = home / role / "open.html"
    page.unlink(missing_ok=True)
    with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">')
    try:
        yield page.as_uri()
    finally:
        page.unlink(missing_ok=True)


def _elsewhere(role: str) -> str | None:
    """Return the address of the user's own server, if there is one."""
    name = {"prefect": "PREFECT_API_URL", "mlflow": "MLFLOW_TRACKING_URI"}[role]
    value = os.environ.get(name, "")
    return value.removesuffix("/").removesuffix("/api") if value.startswith(("http://", "https://")) else None


def _listen(port: int) -> socket.socket:
    """Listen on the port, or on the next free one."""
    for candidate in range(port, min(port + NEIGHBOURS, 65536)) if port else ():
        with contextlib.suppress(OSError):
            return embedded.listen(candidate)
    return embedded.listen()


def _start(role: str, home: Path, port: int) -> tuple[embedded.Child, str]:
    token = secrets.token_urlsafe(24)
    variables = embedded.environment(home) | {"ANONFLOW_UI_TOKEN": token, "PREFECT_SERVER_UI_API_URL": "/api"}
    child = embedded.Child("flows.ui", role, _listen(port), variables, home / role / "ui.log")
    return child, f"http://{embedded.LOOPBACK}:{child.port}/?token={token}"


# ------------------------------------------------------------------------------------------
# The child's side


class Gate:
    """Lets in only who has the token.

    The token comes once, with the address; then the browser keeps it in a cookie that scripts cannot read.

    Parameters
    ----------
    app
        The application behind.
    token
        The secret of this start.
    port
        Our port, part of the cookie's name. Requests that name another machine or come from another page are
        refused (DNS rebinding, forged requests); the port they name may differ, as through a tunnel.
    health
        The one path that is open.
    """

    def __init__(self, app: App, token: str, port: int, health: str) -> None:
        self.app, self.token, self.health = app, token.encode(), health
        self.cookie = f"anonflow-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the application's lifespan."""
        if scope["type"] == "lifespan" or (scope["type"] == "http" and scope["path"] == self.health):
            return await self.app(scope, receive, send)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        if not _own(headers):
            return await refuse(scope, send, 403, b"This address belongs to another page.")
        if scope["type"] == "http" and self._is_token(dict(query).get("token", "")):
            return await self._welcome(scope, send, [pair for pair in query if pair[0] != "token"])
        if not self._is_token(_cookie(headers.get(b"cookie", ""), self.cookie)):
            return await refuse(scope, send, 403, b"Open the address that anonflow ui has printed.")
        return await self.app(scope, receive, send)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token)

    async def _welcome(self, scope: Scope, send: Send, query: list[tuple[str, str]]) -> None:
        cookie = f"{self.cookie}={self.token.decode()}; Path=/; HttpOnly; SameSite=Lax"
        headers = [(b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
        # One slash only: two would name another host.
        target = "/" + quote(scope["path"].lstrip("/")) + (f"?{urlencode(query)}" if query else "")
        return await answer(send, 303, [*headers, (b"location", target.encode())], b"")


def _own(headers: dict[bytes, str]) -> bool:
    host = headers.get(b"host", "")
    name, _, _ = host.partition(":")
    return name in (embedded.LOOPBACK, "localhost") and headers.get(b"origin", f"http://{host}") == f"http://{host}"


def _cookie(header: str, name: str) -> str:
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def _prefect_app(parent: Parent) -> App:
    os.environ["PREFECT__SERVER_WEBSERVER_ONLY"] = "1"
    one_interface()
    return prefect_app(parent, ephemeral=False)


def _mlflow_app(parent: Parent) -> App:
    parent.at_end(lambda orderly: None)  # a migration must not be cut short
    uri = embedded.tracking_ready(Path(os.environ["PREFECT_HOME"]).parent)
    os.environ["_MLFLOW_SERVER_FILE_STORE"] = uri
    with embedded.imports():
        from mlflow.server.fastapi_app import app
    served: App = app
    return served


def _main(arguments: Iterable[str]) -> int:
    role, descriptor = arguments
    token = os.environ.pop("ANONFLOW_UI_TOKEN")
    with inherited(descriptor) as (sock, parent):
        app = _prefect_app(parent) if role == "prefect" else _mlflow_app(parent)
        gate = Gate(Page(app, role), token, sock.getsockname()[1], HEALTH[role])
        return run_app(gate, sock, parent)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
