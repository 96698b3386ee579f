"""The Prefect API of one run: started beside it, and stopped when everything is recorded."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.embedded.settings import LOOPBACK, environment, ours, private_directories
from flows.servers.process import Child, listen


class Server:
    """The Prefect API that a run reports to: ours, or the one the user named.

    Attributes
    ----------
    url
        Address of the API.
    auth
        The secret it asks for, drawn anew at each start; ``None`` for the user's own server.
    external
        True if the user's own server is used and nothing was started.
    """

    def __init__(self, home: Path, url: str, auth: str | None, child: Child | None) -> None:
        self.home, self.url, self.auth, self._child = home, url, auth, child
        self._owner = os.getpid()

    @property
    def external(self) -> bool:
        """Whether the server is the user's own."""
        return self._child is None

    @property
    def pid(self) -> int | None:
        """Process of our server, ``None`` for the user's own."""
        return self._child.process.pid if self._child else None

    def wait(self, timeout: float = 120.0) -> None:
        """Return as soon as our server answers; for the user's own server, at once.

        Raises
        ------
        EmbeddedServerError
            If it ended, or does not answer in time. The message names the log file.
        """
        if self._child:
            self._child.wait("/api/health", timeout)

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Run flows inside, from synchronous code.

        It waits for the server first. Claim: flows report to this server, and at the end nothing of it is
        still queued. Runs print nothing; what they log from INFO upwards is recorded.

        Raises
        ------
        EmbeddedServerError
            As :meth:`wait`.
        """
        self.wait()
        from prefect.events.worker import EventsWorker
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
            EventsWorker.set_client_override(None)
        loggers = [logging.getLogger(name) for name in ("prefect.flow_runs", "prefect.task_runs")]
        before = [logger.propagate for logger in loggers]
        for logger in loggers:
            logger.propagate = False
        try:
            with temporary_settings(updates):
                try:
                    yield
                finally:
                    flush()
        finally:
            for logger, propagate in zip(loggers, before, strict=True):
                logger.propagate = propagate

    def stop(self) -> None:
        """Send what is queued and end our server once it is in the database; harmless when repeated."""
        if self._owner != os.getpid():  # a forked worker must not end its parent's server
            return
        atexit.unregister(self.stop)
        if self._child is None:
            return
        if self._child.process.poll() is None:
            flush()
        if "prefect" in sys.modules:
            # An event emitted from here on would wait for a server that is gone.
            from prefect.events.clients import NullEventsClient
            from prefect.events.worker import EventsWorker

            EventsWorker.set_client_override(NullEventsClient)
        self._child.stop()
        if os.environ.get("PREFECT_API_URL") == self.url:
            del os.environ["PREFECT_API_URL"], os.environ["PREFECT_API_AUTH_STRING"]


def start(home: Path) -> Server:
    """Start a Prefect API server for this process alone and return at once.

    Each process has its own server on the common database, so that none depends on another's life. If the
    user has set ``PREFECT_API_URL``, that server is used and nothing is started.

    Claim: the server listens on the loopback address only, asks for a secret that only this process knows,
    and ends when this process ends, however it ends; runs then left unfinished are marked as crashed.

    Raises
    ------
    ValueError
        If ``home`` cannot stand in a database address.
    """
    home = Path(home).expanduser().resolve()
    settings = environment(home)
    if "PREFECT_API_URL" in settings:
        return Server(home, settings["PREFECT_API_URL"], None, None)
    private_directories(home)
    auth = f"anonflow:{secrets.token_urlsafe(24)}"
    variables = settings | {"PREFECT_SERVER_API_AUTH_STRING": auth}
    child = Child("flows.embedded", "prefect", listen(), variables, home / "prefect" / "server.log")
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


def flush(timeout: float = 30.0) -> None:
    """Send the events and logs that Prefect still has queued in this process. Call from synchronous code."""
    if "prefect.events.worker" not in sys.modules:
        return
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        # It warns about each queue that is not empty yet, which is what we are here for.
        logging.getLogger(worker.__name__).setLevel(logging.ERROR)
        worker.drain_all(timeout=timeout)
