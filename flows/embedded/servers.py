"""The Prefect API of one run: started beside it, and stopped when everything is recorded."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.embedded.settings import environment, ours
from flows.orchestration import compat
from flows.servers.environment import HEALTH, LOOPBACK, private_directories
from flows.servers.process import Child, listen


class Server:
    """The Prefect API that a run reports to: ours, or the one the user named.

    Attributes
    ----------
    url
        Address of the API.
    auth
        The secret it asks for, drawn anew at each start; ``None`` for the user's own server.
    """

    def __init__(self, home: Path, url: str, auth: str | None, child: Child | None) -> None:
        self.home, self.url, self.auth, self._child = home, url, auth, child
        self._owner = os.getpid()

    @property
    def external(self) -> bool:
        """Whether the server is the user's own, and nothing was started."""
        return self._child is None

    @property
    def pid(self) -> int | None:
        """Process of our server, ``None`` for the user's own."""
        return self._child.process.pid if self._child else None

    def wait(self, timeout: float = 120.0) -> None:
        """Return as soon as our server answers; for the user's own server, at once.

        Raises `ServerError` if it ended, or does not answer in time. The message names the log file.
        """
        if self._child:
            self._child.wait(HEALTH["prefect"], timeout)

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Run flows inside, from synchronous code.

        It waits for the server first. Claim: flows report to this server, and at the end nothing of it is
        still queued. Runs print nothing; what they log from INFO upwards is recorded.

        Raises `ServerError` as `wait`.
        """
        self.wait()
        from prefect.settings import temporary_settings

        updates: dict[Any, Any] = {}
        if not self.external:
            updates = {
                "PREFECT_API_URL": self.url,
                "PREFECT_API_AUTH_STRING": self.auth,
                "PREFECT_HOME": self.home / "prefect",
                "PREFECT_RESULTS_LOCAL_STORAGE_PATH": self.home / "prefect" / "storage",
                # The server sees our end by itself, and joining the heartbeat's thread costs a second per
                # flow. No environment variable can say None.
                "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": None,
            }
            compat.emit_events(enabled=True)
        with compat.silent_runs(), temporary_settings(updates):
            try:
                yield
            finally:
                compat.send_queued()

    def stop(self) -> None:
        """Send what is queued and end our server once it is in the database; harmless when repeated."""
        if self._owner != os.getpid():  # a forked worker must not end its parent's server
            return
        atexit.unregister(self.stop)
        if self._child is None:
            return
        if self._child.poll() is None:
            compat.send_queued()
        compat.emit_events(enabled=False)
        self._child.stop()
        if os.environ.get("PREFECT_API_URL") == self.url:
            del os.environ["PREFECT_API_URL"], os.environ["PREFECT_API_AUTH_STRING"]


def start(home: Path) -> Server:
    """Start a Prefect API server for this process alone and return at once.

    Each process has its own server on the common database, so that none depends on another's life. If the
    user has set ``PREFECT_API_URL``, that server is used and nothing is started.

    Claim: the server listens on the loopback address only, asks for a secret that only this process knows,
    and ends when this process ends, however it ends; runs then left unfinished are marked as crashed.

    Raises `ValueError` if a database address cannot hold ``home``.
    """
    home = Path(home).expanduser().resolve()
    settings = environment(home)
    if "PREFECT_API_URL" in settings:
        return Server(home, settings["PREFECT_API_URL"], None, None)
    private_directories(home)
    auth = f"anonflow:{secrets.token_urlsafe(24)}"
    variables = settings | {"PREFECT_SERVER_API_AUTH_STRING": auth}
    child = Child("flows.embedded.child", "prefect", listen(), variables, home / "prefect" / "server.log")
    server = Server(home, f"http://{LOOPBACK}:{child.port}/api", auth, child)
    os.environ |= {"PREFECT_API_URL": server.url, "PREFECT_API_AUTH_STRING": auth}
    ours.add(server.url)
    atexit.register(server.stop)
    return server


@contextlib.contextmanager
def server(home: Path) -> Iterator[Server]:
    """Start a server (see :func:`start`), and stop it at the end with everything recorded."""
    running = start(home)
    try:
        yield running
    finally:
        running.stop()
