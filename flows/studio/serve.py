"""Serve the pages of ``anonflow studio`` until interrupted."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flows.servers.environment import LOOPBACK
from flows.servers.layout import read_layout
from flows.servers.process import listen_near
from flows.studio.access import OnePerson, People
from flows.studio.app import application
from flows.studio.jobs import Jobs
from flows.studio.pages import Studio
from flows.studio.releases import entries_of
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.record.logins import logins


@dataclass(frozen=True)
class Serving:
    """Where the pages are, and for whom."""

    folder: Path
    port: int = 4300
    host: str = LOOPBACK
    allow: tuple[str, ...] = ()


def serve_studio(home: Home, serving: Serving, ready: Callable[[str, bool], object]) -> None:
    """Serve the pages of a home until interrupted (Ctrl-C or SIGTERM); then end the work that is under way.

    Parameters
    ----------
    ready : called with the address, and whether people have logins, once requests are answered

    Raises
    ------
    Refused
        When the folder is none, or another address than the loopback one is asked for in a home without logins.
    """
    import uvicorn

    if not serving.folder.is_dir():
        raise Refused(f"{serving.folder.name} is not a folder of plans")
    people = bool(logins(home))
    if serving.host != LOOPBACK and not people:
        raise Refused("other machines reach these pages by logins only; add them with anonflow people login")
    with contextlib.closing(_listen(serving)) as sock:
        port = sock.getsockname()[1]
        token, jobs = secrets.token_urlsafe(24), Jobs(home)
        studio = Studio(home, serving.folder.resolve(), jobs, _links(home), people)
        backend = People(home, serving.allow) if people else OnePerson(token, port)
        config = uvicorn.Config(
            application(studio, backend), log_config=None, access_log=False, timeout_graceful_shutdown=5
        )
        # The first reading of a long ledger takes longer than a page may.
        entries_of(home)
        try:
            ready(f"http://{serving.host}:{port}/" + ("" if people else f"?token={token}"), people)
            with contextlib.suppress(KeyboardInterrupt):
                uvicorn.Server(config).run(sockets=[sock])
        finally:
            jobs.stop()


def _listen(serving: Serving) -> socket.socket:
    return listen_near(serving.port, serving.host)


def _links(home: Home) -> tuple[tuple[str, str], ...]:
    """Return the addresses of Prefect's and MLflow's pages, where the home is served."""
    layout = read_layout(home)
    pages = (("Prefect", layout.prefect), ("MLflow", layout.mlflow)) if layout else ()
    return tuple((name, address) for name, address in pages if address.startswith(("http://", "https://")))
