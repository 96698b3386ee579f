"""Start the parts of the stack, restart what dies, stop everything in order."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from flows import embedded
from flows.embedded import LOOPBACK, Child, EmbeddedServerError
from flows.embedded.settings import NEIGHBOURS
from flows.served import settings
from flows.served.postgres import Postgres, create_databases, has_trigrams
from flows.served.settings import DATABASES, HEALTH, NAMES, PARTS, Layout
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.locks import locked

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# A part that lived this long has recovered: its next death is a first one.
RECOVERED = 60.0
# A part that has not ended by then is killed; the databases bear it.
STOPPING = 20.0
# Seconds between two looks at the size of the logs.
LOGS_PACE = 15.0
Told = Callable[[str], None]


@dataclass
class Wanted:
    """What to start, and where; of what is not started here, the environment names the address."""

    plans: Path
    parts: tuple[str, ...] = PARTS
    prefect_port: int = 4200
    mlflow_port: int = 5000
    host: str = LOOPBACK
    allow: tuple[str, ...] = ()
    database: str | None = None


@dataclass
class _Part:
    """One process of the stack, with how often it died of late."""

    name: str
    start: Callable[[], Any]
    running: Any = None
    begun: float = 0.0
    deaths: int = 0
    due: float = field(default=0.0)

    def run(self) -> None:
        self.begun, self.due = time.monotonic(), 0.0
        self.running = self.start()

    @property
    def code(self) -> int | None:
        """Exit code of the process, None while it runs."""
        ended: int | None = self.running.process.poll()
        return ended


class Stack:
    """The processes of one home.

    The listening sockets are ours and stay open while a server is restarted: its callers wait, and notice
    nothing. Every process ends when we end, however we end.
    """

    def __init__(self, home: Home, wanted: Wanted, told: Told) -> None:
        self.home, self.wanted, self.told = home, wanted, told
        self.postgres = Postgres(home) if self._has("postgres") and wanted.database is None else None
        self.sockets = {
            "prefect": self._listen("prefect", wanted.prefect_port),
            "mlflow": self._listen("mlflow", wanted.mlflow_port),
            "worker": embedded.listen(),
        }
        self.layout = settings.write_layout(home, self._laid_out)
        self.parts: list[_Part] = []
        self.trigrams = False

    def _has(self, part: str) -> bool:
        return part in self.wanted.parts

    def _laid_out(self, known: Layout | None) -> Layout:
        """Return the addresses: ours, those that the environment names, and of the others what is known."""
        known = known or Layout()
        ours = {part: f"http://{LOOPBACK}:{sock.getsockname()[1]}" for part, sock in self.sockets.items()}
        there = {
            "prefect": os.environ.get("PREFECT_API_URL", "").removesuffix("/").removesuffix("/api"),
            "mlflow": os.environ.get("MLFLOW_TRACKING_URI", "").removesuffix("/"),
        }
        found = {part: ours[part] if self._has(part) else there.get(part) or getattr(known, part) for part in ours}
        if self._has("worker") and not found["prefect"]:
            raise Refused("name the Prefect server that the worker works for in PREFECT_API_URL")
        if self._has("worker") and not found["mlflow"]:
            raise Refused("name the MLflow server that the worker writes to in MLFLOW_TRACKING_URI")
        hosts = self.wanted.allow or (() if self._has("prefect") else known.hosts)
        return Layout(str(self.wanted.plans.resolve()), **found, hosts=hosts)

    def start(self, ended: Callable[[], bool]) -> None:
        """Start every part and return when all are healthy, or when ``ended`` says that it need not be.

        Raises
        ------
        ReleaseError, EmbeddedServerError
            If a part does not start; the message names its log.
        """
        embedded.private_directories(self.home.path)
        if self.postgres is not None:
            postgres = self.postgres
            self.parts.append(_Part("postgres", lambda: postgres.start() or postgres))  # type: ignore[func-returns-value]
            self.parts[-1].run()
            postgres.wait()
        databases = self._databases()
        for name in ("prefect", "mlflow", "worker"):
            if self._has(name):
                self.parts.append(_Part(name, self._starter(name, databases)))
                self.parts[-1].run()
        for part in self.parts:
            if part.name in HEALTH and not ended():
                _healthy(part, ended)

    def _databases(self) -> dict[str, str]:
        if not (self._has("prefect") or self._has("mlflow")):
            return {}
        if self.postgres is not None:
            return {name: self.postgres.url(name) for name in DATABASES}
        if self.wanted.database is None:
            raise Refused("name the database server of the other parts in ANONFLOW_DATABASE_URL")
        self.trigrams = _prepared(self.wanted.database)
        return {name: settings.with_database(self.wanted.database, name) for name in DATABASES}

    def _starter(self, name: str, databases: dict[str, str]) -> Callable[[], Child]:
        variables = settings.variables(name, self.home, self.layout, databases, self.wanted.parts)
        variables["ANONFLOW_WITHOUT_TRIGRAMS"] = "" if self.trigrams else "1"
        log = settings.logs(self.home) / f"{name}.log"
        return lambda: Child("flows.served.child", name, self.sockets[name].dup(), variables, log)

    def watch(self, ended: Callable[[], bool]) -> None:
        """Restart whatever dies, after a pause that grows, until ``ended`` says so."""
        looked = 0.0
        while not ended():
            time.sleep(0.1)
            now = time.monotonic()
            if now - looked > LOGS_PACE:
                looked = now
                settings.trim_logs(self.home)
            for part in self.parts:
                if part.due:
                    if now >= part.due:
                        self._again(part)
                elif (code := part.code) is not None:
                    part.deaths = 1 if now - part.begun > RECOVERED else part.deaths + 1
                    pause = min(FIRST_PAUSE * 2 ** (part.deaths - 1), LONGEST_PAUSE)
                    part.due = now + pause
                    self.told(f"{NAMES[part.name]} ended with code {code}; it is started again in {pause:g} s.")

    def _again(self, part: _Part) -> None:
        settings.trim_logs(self.home)
        try:
            part.run()
        except (OSError, RuntimeError) as error:
            part.due = time.monotonic() + LONGEST_PAUSE
            self.told(f"{NAMES[part.name]} could not be started ({type(error).__name__}); tried again later.")

    def stop(self) -> None:
        """End every part, the last started first."""
        for part in reversed(self.parts):
            if part.running is not None:
                part.running.stop(STOPPING)
        for sock in self.sockets.values():
            sock.close()

    def report(self) -> dict[str, Any]:
        """Return what the worker says of the plans it has."""
        connection = http.client.HTTPConnection(LOOPBACK, self.sockets["worker"].getsockname()[1], timeout=30)
        try:
            connection.request("GET", "/")
            told: dict[str, Any] = json.loads(connection.getresponse().read())
            return told
        finally:
            connection.close()

    def _listen(self, part: str, port: int) -> socket.socket:
        """Listen on the port; where all parts are ours, on the next free one, and say so. 0 takes any.

        Raises
        ------
        Refused
            When a part that others look for at its port cannot have it.
        """
        if not self._has(part):
            return embedded.listen()
        alone = self.wanted.parts != PARTS
        for candidate in range(port, port + 1 if alone else min(port + NEIGHBOURS, 65536)) if port else ():
            with contextlib.suppress(OSError):
                found = embedded.listen(candidate, self.wanted.host)
                if candidate != port:
                    self.told(f"Port {port} is taken: {NAMES[part]} is on {candidate}.")
                return found
        if alone and port:
            raise Refused(f"port {port} is taken; free it, or name another with --{part}-port")
        return embedded.listen(0, self.wanted.host)


def _healthy(part: _Part, ended: Callable[[], bool], timeout: float = 120.0) -> None:
    """Return as soon as a part answers; its socket is ours too, so that a dead one must be looked for."""
    end = time.monotonic() + timeout
    while not ended() and time.monotonic() < end:
        if part.code is not None:
            raise EmbeddedServerError(f"{NAMES[part.name]} ended with code {part.code}; its log is {part.running.log}")
        connection = http.client.HTTPConnection(LOOPBACK, part.running.port, timeout=1.0)
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", HEALTH[part.name])
            if connection.getresponse().status == 200:
                return
        connection.close()
        time.sleep(0.1)
    if not ended():
        raise EmbeddedServerError(f"{NAMES[part.name]} did not answer; its log is {part.running.log}")


def _prepared(url: str) -> bool:
    """Create the databases on somebody's server, and return whether it can search parts of names fast."""
    import psycopg2

    try:
        create_databases(url)
        return has_trigrams(url)
    except psycopg2.Error as error:
        problem = type(error).__name__
    raise Refused(f"ANONFLOW_DATABASE_URL: the databases cannot be reached or created ({problem})")


@contextlib.contextmanager
def only_one(home: Home, parts: Sequence[str]) -> Iterator[None]:
    """Hold the home's parts for this process.

    Raises
    ------
    Refused
        When another process runs one of them.
    """

    def refused(part: str, holder: str) -> Refused:
        known = settings.read_layout(home)
        where = f"; Prefect is on {known.prefect}, MLflow on {known.mlflow}" if known else ""
        return Refused(
            f"anonflow serve runs for this home already (process {holder}), with {NAMES[part]}{where}. "
            "It takes up changed plans by itself"
        )

    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.enter_context(locked(settings.served(home) / f"{part}.lock", busy=partial(refused, part)))
        yield


@contextlib.contextmanager
def until_signal() -> Iterator[Callable[[], bool]]:
    """Give what says whether SIGTERM, SIGINT or SIGHUP has come."""
    came: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.signal(number, lambda received, _: came.append(received)) for number in numbers]
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
