"""``anonflow ui``: the histories of embedded runs, shown by Prefect's and MLflow's own pages.

Both servers run on the loopback address, in processes that never outlive this one, behind a token drawn at
each start: other users of the machine see nothing, and the pages can call no server but their own.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import time
import webbrowser
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType

from rich.console import Console

from flows.embedded.settings import environment
from flows.servers.environment import HEALTH, LOOPBACK, NAMES, private_directories
from flows.servers.process import Child, listen_near
from tasks.common.errors import visible


def serve_uis(
    home: Path,
    *,
    prefect_port: int = 4200,
    mlflow_port: int = 5000,
    open_browser: bool = True,
    console: Console | None = None,
) -> None:
    """Show the histories below ``home`` until interrupted (Ctrl-C or SIGTERM); then stop everything.

    A taken port is replaced by the next free one, with a message. Where the user has a server of their own
    (``PREFECT_API_URL``, an ``http`` address in ``MLFLOW_TRACKING_URI``), its address is printed instead.

    Parameters
    ----------
    home
        State directory; a fresh one shows empty histories.
    prefect_port, mlflow_port
        Ports to try first; 0 takes any.
    open_browser
        Also open both addresses, if there is a desktop.
    console
        Where to print; standard output if not given.

    Raises
    ------
    ServerError
        If a server does not start, or ends by itself. The message names its log.
    ValueError
        If called elsewhere than in the main thread, or a database address cannot hold ``home``.
    """
    out = console or Console()
    home = private_directories(home)
    with contextlib.suppress(KeyboardInterrupt), _interruptible(), contextlib.ExitStack() as stack:
        addresses: dict[str, str] = {}
        children: dict[str, Child] = {}
        for part, port in (("prefect", prefect_port), ("mlflow", mlflow_port)):
            if elsewhere := _own_server(part):
                addresses[part] = elsewhere
                continue
            children[part], addresses[part] = _start(part, home, port)
            stack.callback(children[part].stop)
            if children[part].port != port != 0:
                out.print(f"Port {port} is taken: {NAMES[part]} is on {children[part].port}.", highlight=False)
        for part, child in children.items():
            child.wait(HEALTH[part])
        for part, address in addresses.items():
            out.print(f"{NAMES[part]:8} {visible(address)}", soft_wrap=True, highlight=False, markup=False)
            if open_browser and _has_desktop():
                webbrowser.open(stack.enter_context(_redirect_page(home, part, address)))
        if children:
            out.print("Press Ctrl-C to stop.", highlight=False)
            _watch(children.values())


def _watch(children: Iterable[Child]) -> None:
    while True:
        time.sleep(0.5)
        for child in children:
            child.check()


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


def _has_desktop() -> bool:
    """Whether there is a browser in a window, as opposed to one that would take over the terminal."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


@contextlib.contextmanager
def _redirect_page(home: Path, part: str, address: str) -> Iterator[str]:
    """Return a private page that leads on to the address, whose token must not show in a command line."""
    page = home / part / "open.html"
    page.unlink(missing_ok=True)
    with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">')
    try:
        yield page.as_uri()
    finally:
        page.unlink(missing_ok=True)


def _own_server(part: str) -> str | None:
    """Return the address of the user's own server, if there is one."""
    name = {"prefect": "PREFECT_API_URL", "mlflow": "MLFLOW_TRACKING_URI"}[part]
    value = os.environ.get(name, "")
    return value.removesuffix("/").removesuffix("/api") if value.startswith(("http://", "https://")) else None


def _start(part: str, home: Path, port: int) -> tuple[Child, str]:
    token = secrets.token_urlsafe(24)
    variables = environment(home) | {"ANONFLOW_UI_TOKEN": token, "PREFECT_SERVER_UI_API_URL": "/api"}
    child = Child("flows.embedded.child", f"ui-{part}", listen_near(port), variables, home / part / "ui.log")
    return child, f"http://{LOOPBACK}:{child.port}/?token={token}"
