"""Start the parts of the stack, restart what dies, stop everything in order."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from flows.served.clock import Clock
from flows.served.logs import logs, trim_logs
from flows.served.postgres import Postgres, create_databases, has_trigrams
from flows.served.report import Report
from flows.served.settings import DATABASES, variables, with_database
from flows.servers.environment import HEALTH, LOOPBACK, NAMES, PARTS, private_directories
from flows.servers.layout import Layout, lock_of, read_layout, state_folder, write_layout
from flows.servers.process import Child, fetch, listen, listen_near
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.locks import locked
from tasks.common.values import from_json

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# A part that lived this long has recovered: its next death is a first one.
RECOVERED = 60.0
# A part that has not ended by then is killed; the databases bear it.
STOPPING = 20.0
# A part that answered nothing for so many seconds is killed, and started again like one that has died.
HUNG = 120.0
# Seconds between two questions to each part, and in which it has to answer.
ASK_PACE, ANSWER = 10.0, 8.0
# With fewer free bytes a disk is called full.
FULL = 10_000_000
# Seconds between two looks at the size of the logs.
LOGS_PACE = 15.0
SERVERS = ("prefect", "mlflow", "worker")


@dataclass(frozen=True)
class Request:
    """What to start, and where; of what is not started here, the environment names the address."""

    plans: Path
    parts: tuple[str, ...] = PARTS
    prefect_port: int = 4200
    mlflow_port: int = 5000
    metrics_port: int = 0
    host: str = LOOPBACK
    allow: tuple[str, ...] = ()
    database: str | None = None


class Process(Protocol):
    """A running part: PostgreSQL, or a child of ours."""

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""

    def stop(self, timeout: float) -> None:
        """End it."""


@dataclass
class _Part:
    """One process of the stack, and how often it died of late."""

    name: str
    start: Callable[[], Process]
    process: Process
    begun: float
    deaths: int = 0
    restart_at: float = 0.0
    answered: float = 0.0

    @classmethod
    def started(cls, name: str, start: Callable[[], Process]) -> _Part:
        return cls(name, start, start(), time.monotonic())

    def restart(self) -> None:
        self.begun, self.restart_at = time.monotonic(), 0.0
        self.process = self.start()

    def is_hung(self, now: float) -> bool:
        """Return whether a child of ours has answered nothing for too long."""
        return isinstance(self.process, Child) and now - max(self.begun, self.answered) > HUNG

    def ask(self) -> None:
        """Note whether it answers, whatever it says of its health."""
        if isinstance(self.process, Child):
            # Whatever one answer is, the others are asked, too: who is not asked would count as hung.
            with contextlib.suppress(Exception):
                fetch(f"{LOOPBACK}:{self.process.port}", HEALTH[self.name], ANSWER)
                self.answered = time.monotonic()

    def died(self) -> float:
        """Plan the restart, after a pause that grows with every death; return the pause."""
        now = time.monotonic()
        self.deaths = 1 if now - self.begun > RECOVERED else self.deaths + 1
        pause: float = min(FIRST_PAUSE * 2 ** (self.deaths - 1), LONGEST_PAUSE)
        self.restart_at = now + pause
        return pause


class Stack:
    """The processes of one home.

    The listening sockets are ours and stay open while a server is restarted: its callers wait, and notice
    nothing. Every process ends when we end, however we end.
    """

    def __init__(self, home: Home, request: Request, report: Callable[[str], None]) -> None:
        self.home, self.request, self.report = home, request, report
        self.postgres = Postgres(home) if "postgres" in request.parts and request.database is None else None
        ports = {"prefect": request.prefect_port, "mlflow": request.mlflow_port}
        self.sockets = {
            part: self._listen(part, port, request.host) for part, port in ports.items() if part in request.parts
        }
        if "worker" in request.parts:
            self.sockets["worker"] = self._listen("metrics", request.metrics_port, LOOPBACK)
        self.layout = write_layout(home, self._addresses)
        self.parts: list[_Part] = []
        self.trigrams = False

    def _addresses(self, stored: Layout) -> Layout:
        """Return the addresses: ours, those that the environment names, and for the others the stored ones."""
        parts = self.request.parts
        elsewhere = {
            "prefect": os.environ.get("PREFECT_API_URL", "").removesuffix("/").removesuffix("/api"),
            "mlflow": os.environ.get("MLFLOW_TRACKING_URI", "").removesuffix("/"),
        }
        addresses = {part: elsewhere.get(part) or getattr(stored, part) for part in SERVERS}
        addresses |= {part: f"http://{LOOPBACK}:{sock.getsockname()[1]}" for part, sock in self.sockets.items()}
        if "worker" in parts and not addresses["prefect"]:
            raise Refused("the worker needs a Prefect server: give its address in PREFECT_API_URL")
        if "worker" in parts and not addresses["mlflow"]:
            raise Refused("the worker needs an MLflow server: give its address in MLFLOW_TRACKING_URI")
        hosts = self.request.allow or (() if "prefect" in parts else stored.hosts)
        return Layout(str(self.request.plans.resolve()), **addresses, hosts=hosts)

    def start(self, cancelled: Callable[[], bool]) -> None:
        """Start every part and return when all are healthy, or when ``cancelled`` says so.

        Raises `ReleaseError` or `ServerError` if a part does not start; the message names its log.
        """
        private_directories(self.home.path)
        if self.postgres is not None:
            self.parts.append(_Part.started("postgres", self.postgres.start))
            self.postgres.wait()
        databases = self._databases()
        children = []
        for name in SERVERS:
            if name in self.sockets:
                child = partial(self._child, name, databases)
                self.parts.append(_Part.started(name, child))
                children.append(self.parts[-1])
        for part in children:
            if isinstance(part.process, Child):
                part.process.wait(HEALTH[part.name], cancelled=cancelled)

    def _databases(self) -> dict[str, str]:
        if not {"prefect", "mlflow"} & {*self.request.parts}:
            return {}
        if self.postgres is not None:
            return {name: self.postgres.url(name) for name in DATABASES}
        if self.request.database is None:
            raise Refused("Prefect and MLflow need a database server: give its address in ANONFLOW_DATABASE_URL")
        self.trigrams = _prepared(self.request.database)
        return {name: with_database(self.request.database, name) for name in DATABASES}

    def _child(self, name: str, databases: dict[str, str]) -> Child:
        environment = variables(name, self.home, self.layout, databases, self.request.parts)
        environment["ANONFLOW_WITHOUT_TRIGRAMS"] = "" if self.trigrams else "1"
        return Child("flows.served.child", name, self.sockets[name].dup(), environment, logs(self.home) / f"{name}.log")

    def watch(self, cancelled: Callable[[], bool]) -> None:
        """Restart whatever dies, after a pause that grows, until ``cancelled`` says so."""
        trimmed, clock = 0.0, Clock()
        threading.Thread(target=self._ask_all, args=(cancelled,), daemon=True).start()
        while not cancelled():
            time.sleep(0.1)
            now = time.monotonic()
            if now - trimmed > LOGS_PACE:
                trimmed = now
                trim_logs(self.home)
            if moved := clock.moved():
                self._follow_clock(moved)
            for part in self.parts:
                if part.restart_at:
                    if now >= part.restart_at:
                        self._restart(part)
                elif part.is_hung(now) and isinstance(part.process, Child) and part.process.poll() is None:
                    self.report(f"{NAMES[part.name]} has not answered for {HUNG:g} s and is killed.")
                    part.process.process.kill()
                elif (code := part.process.poll()) is not None:
                    why = "; the disk is full" if shutil.disk_usage(self.home.path).free < FULL else ""
                    self.report(f"{NAMES[part.name]} ended with code {code}{why}; restarting in {part.died():g} s.")

    def _follow_clock(self, moved: float) -> None:
        """End Prefect, to be started again: what its services have planned by a clock that was ahead, they do late.

        Such a service, which starts schedules or finds late runs, would otherwise stand still for as many hours as
        the clock was set back.
        """
        for part in self.parts:
            if part.name == "prefect" and isinstance(part.process, Child):
                way = "forward" if moved > 0 else "back"
                self.report(f"The clock was set {way} by {abs(moved):.0f} s; {NAMES[part.name]} is started again.")
                part.process.process.terminate()

    def _ask_all(self, cancelled: Callable[[], bool]) -> None:
        while not cancelled():
            for part in self.parts:
                part.ask()
            time.sleep(ASK_PACE)

    def _restart(self, part: _Part) -> None:
        trim_logs(self.home)
        try:
            part.restart()
        except (OSError, RuntimeError) as error:
            part.restart_at = time.monotonic() + LONGEST_PAUSE
            self.report(
                f"{NAMES[part.name]} could not be started ({type(error).__name__}); trying again in "
                f"{LONGEST_PAUSE:g} s."
            )

    def stop(self) -> None:
        """End every part, the last started first."""
        for part in reversed(self.parts):
            part.process.stop(STOPPING)
        for sock in self.sockets.values():
            sock.close()

    def worker_report(self) -> Report:
        """Return what the worker reports of itself and its plans."""
        port = self.sockets["worker"].getsockname()[1]
        return from_json(Report, json.loads(fetch(f"{LOOPBACK}:{port}", HEALTH["worker"], 30)[1]))

    def _listen(self, part: str, port: int, host: str) -> socket.socket:
        """Listen on the port; where all parts are ours, on the next free one, with a message. 0 takes any.

        Raises `Refused` when the port of a part that others look for is taken.
        """
        if self.request.parts != PARTS:
            try:
                return listen(port, host)
            except OSError:
                taken = f"port {port} is taken; free it, or choose another with --{part}-port"
            raise Refused(taken)
        sock = listen_near(port, host)
        if port and sock.getsockname()[1] != port:
            self.report(f"Port {port} is taken: {NAMES.get(part, part)} is on {sock.getsockname()[1]}.")
        return sock


def _prepared(url: str) -> bool:
    """Create the databases on the user's own server; return whether it can search parts of names fast."""
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

    Raises `Refused` when another process runs one of them.
    """

    def refused(part: str, holder: str) -> Refused:
        layout = read_layout(home)
        where = f"; Prefect is on {layout.prefect}, MLflow on {layout.mlflow}" if layout else ""
        return Refused(
            f"anonflow serve runs for this home already (process {holder}), with {NAMES[part]}{where}. "
            "Changed plans need no restart"
        )

    state_folder(home)
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.enter_context(locked(lock_of(home, part), busy=partial(refused, part)))
        yield


@contextlib.contextmanager
def until_signal() -> Iterator[Callable[[], bool]]:
    """Return a function that says whether SIGTERM, SIGINT or SIGHUP has come."""
    received: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.signal(number, lambda given, _: received.append(given)) for number in numbers]
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
