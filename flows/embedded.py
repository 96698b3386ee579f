"""Prefect and MLflow inside the user's own command: private, quiet, with no service to start first.

Call in this order; the reasons and the seconds are in ``docs/startup.md``::

    embedded.apply(home)                      # before prefect or mlflow is imported
    with embedded.server(home) as server:     # returns at once, the server starts beside us
        with embedded.imports():              # import what the release needs meanwhile
            from prefect import flow
        with server.session():                # waits until the server answers
            release(...)                      # leaving it sends what is still queued

Only the standard library is imported at module level: this file is also the server's own program.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import gc
import http.client
import importlib.metadata
import logging
import os
import re
import secrets
import select
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

LOOPBACK = "127.0.0.1"
FRAMEWORKS = ("prefect", "mlflow")
OVERRIDES = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI")
TEMPLATES = Path(os.environ.get("ANONFLOW_TEMPLATES") or Path(sys.prefix) / "share" / "anonflow")
LOG_LIMIT = 1_000_000

# Schedules, events and automations belong to a server that stays. The task run recorder is not among these.
_UNUSED_SERVICES = (
    "SCHEDULER",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "CANCELLATION_CLEANUP",
    "CLEANUP_RECONCILER",
    "FOREMAN",
    "REPOSSESSOR",
    "TRIGGERS",
    "EVENT_PERSISTER",
    "EVENT_LOGGER",
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class EmbeddedServerError(RuntimeError):
    """The embedded server did not start or did not answer; the message names its log file."""


# ------------------------------------------------------------------------------------------
# Settings


def environment(home: Path) -> dict[str, str]:
    """Return every setting of a private, quiet run that calls nobody, as environment variables.

    Claim: with these settings no task result is stored, nothing is cached, no framework sends analytics, and
    all state lies below ``home``. What the user has set among ``OVERRIDES`` is kept.

    Parameters
    ----------
    home
        State directory (``ANONFLOW_HOME``); it need not exist yet.

    Raises
    ------
    ValueError
        If the path holds a character that a database address cannot carry.
    """
    home = Path(home).expanduser().resolve()
    if bad := sorted({c for c in str(home) if c in "?#$" or not c.isprintable()}):
        raise ValueError(
            f"ANONFLOW_HOME must not contain {' '.join(map(repr, bad))}, got {str(home)!r}: "
            "a database address cannot carry it, choose another directory"
        )
    prefect, mlflow = home / "prefect", home / "mlflow"
    settings = {
        "PREFECT_HOME": str(prefect),
        "PREFECT_PROFILE": "ephemeral",
        "PREFECT_PROFILES_PATH": str(prefect / "profiles.toml"),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{prefect / 'prefect.db'}",
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(prefect / "storage"),
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(prefect / "ui"),
        # Nothing of the data is kept, whatever a flow or a task forgets to say.
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
        "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "false",
        "PREFECT_TASKS_DEFAULT_NO_CACHE": "true",
        "PREFECT_TASKS_DISABLE_CACHING": "true",
        "PREFECT_LOGGING_LOG_PRINTS": "false",
        "PREFECT_DEBUG_MODE": "false",
        # The record keeps INFO; the terminal belongs to our own output.
        "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        # Never fall back silently to a temporary server of Prefect's own.
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
        "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
        "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P3650D",
        "PREFECT_SERVER_EVENTS_STREAM_OUT_ENABLED": "false",
        "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_V2_ENABLED": "false",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "MLFLOW_TRACKING_URI": f"sqlite:///{mlflow / 'mlflow.db'}",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": (mlflow / "artifacts").as_uri(),
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "false",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GX_ANALYTICS_ENABLED": "false",
        # MLflow reads the literal "true" only.
        "DO_NOT_TRACK": "true",
    }
    settings |= {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _UNUSED_SERVICES}
    chosen = {name: os.environ[name] for name in OVERRIDES if os.environ.get(name)}
    chosen = {name: value for name, value in chosen.items() if value not in _ours}
    if chosen.get("MLFLOW_TRACKING_URI", settings["MLFLOW_TRACKING_URI"]) != settings["MLFLOW_TRACKING_URI"]:
        del settings["_MLFLOW_SERVER_ARTIFACT_ROOT"]
    return settings | chosen


# Values of OVERRIDES that this process has set, as opposed to the user.
_ours: set[str] = set()


def apply(home: Path) -> None:
    """Make the settings this process's own, create the state directories, and set the umask to 077.

    Unless the user names a server of his own (``PREFECT_API_URL``), every other ``PREFECT_`` variable is
    removed, so that a run does not depend on what happens to be set. It may be repeated.

    Raises
    ------
    RuntimeError
        If Prefect or MLflow is already imported with other settings: they read them at import.
    ValueError
        If ``home`` cannot stand in a database address.
    """
    settings = environment(home)
    if any(os.environ.get(name) != value for name, value in settings.items()):
        if loaded := [name for name in FRAMEWORKS if name in sys.modules]:
            raise RuntimeError(f"embedded.apply must come before the import of {' and '.join(loaded)}")
        if "PREFECT_API_URL" not in settings:
            for name in [name for name in os.environ if name.startswith("PREFECT_")]:
                del os.environ[name]
        _ours.update(settings[name] for name in OVERRIDES if name in settings and not os.environ.get(name))
        os.environ |= settings
    for name in ("NO_PROXY", "no_proxy"):  # our server must not be looked for behind the user's proxy
        listed = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join([*listed, *(h for h in (LOOPBACK, "localhost") if h not in listed)])
    os.umask(0o077)
    private_directories(home)
    # Without this the interpreter spends over a second collecting the frameworks' modules before it ends.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)


def private_directories(home: Path) -> Path:
    """Create the state directories, which nobody else may enter; return ``home`` resolved.

    A ``home`` that exists already keeps its mode: it may be a directory of other things, too.
    """
    home = Path(home).expanduser().resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for directory in (home / "prefect", home / "mlflow", home / "mlflow" / "artifacts"):
        directory.mkdir(mode=0o700, exist_ok=True)
        if stat.S_IMODE(directory.stat().st_mode) & 0o077:
            directory.chmod(0o700)
    return home


def _prefect_database(home: Path) -> Path:
    return Path(home).expanduser().resolve() / "prefect" / "prefect.db"


def _mlflow_database(home: Path) -> Path:
    return Path(home).expanduser().resolve() / "mlflow" / "mlflow.db"


@contextlib.contextmanager
def imports() -> Iterator[None]:
    """Import heavy packages inside: about a quarter faster, because the collector finds nothing to collect.

    What was imported is afterwards left out of every later collection. Do not compute inside.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


# ------------------------------------------------------------------------------------------
# A server process of ours


def listen(port: int = 0) -> socket.socket:
    """Return a socket listening on the loopback address; port 0 lets the kernel choose.

    Claim: the port is ours from here on, so that no other process can take it before the server starts, and
    requests sent early wait instead of failing.

    Raises
    ------
    OSError
        If the port is taken.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    return sock


class Child:
    """A server in a process of its own, which never outlives ours.

    It inherits the listening socket and the reading end of a pipe; when the pipe closes, however we ended, it
    finishes. Secrets reach it through its environment, never through its command line.

    Parameters
    ----------
    module, role
        Run as ``python -m module role``.
    sock
        Listening socket; closed here once the child has it.
    variables
        Environment of the child, on top of ours.
    log
        Where its output goes (created 0600, started afresh above 1 MB).
    """

    def __init__(
        self, module: str, role: str, sock: socket.socket, variables: dict[str, str], log: Path
    ) -> None:
        self.log = log
        self.port: int = sock.getsockname()[1]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        # The child runs the files that we run, wherever they were imported from.
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, (root, inherited.get("PYTHONPATH"))))
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(descriptor).st_size > LOG_LIMIT:
                os.ftruncate(descriptor, 0)
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-m", module, role, str(sock.fileno())],
                stdin=subprocess.PIPE,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                env=inherited | variables | {"PYTHONPATH": path},
                cwd=log.parent,
                pass_fds=(sock.fileno(),),
                start_new_session=True,  # Ctrl-C is for us: the run still has to report to the server
                umask=0o077,
            )
        finally:
            os.close(descriptor)
            sock.close()

    def wait(self, path: str, timeout: float = 120.0) -> None:
        """Return as soon as ``path`` answers with 200.

        Raises
        ------
        EmbeddedServerError
            If the process ended, or ``timeout`` seconds have passed.
        """
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=left)
            try:
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return
            except (OSError, http.client.HTTPException):
                if self.process.poll() is not None:
                    break
            finally:
                connection.close()
            time.sleep(0.05)
        ended = self.process.poll()
        what = "did not answer" if ended is None else f"ended with code {ended}"
        raise EmbeddedServerError(f"the embedded server {what}; its log is {self.log}")

    def stop(self, timeout: float = 60.0) -> None:
        """End the process: ask it to finish, wait (normally 0.3 s), and kill it only if it does not."""
        pipe = self.process.stdin
        if pipe is not None and not pipe.closed:
            with contextlib.suppress(OSError):
                pipe.write(b"q")
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


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
    _ours.add(server.url)
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


# ------------------------------------------------------------------------------------------
# Databases: migrated once


def _stamp(database: Path, package: str) -> tuple[int, int]:
    """Return the mark in the file, and the mark it must bear to need no migration by this ``package``."""
    uri = database.resolve().as_uri() + "?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=60)) as connection:
        (mark,) = connection.execute("PRAGMA user_version").fetchone()
        (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return mark, zlib.crc32(
        f"{package} {importlib.metadata.version(package)} {revision}".encode()
    ) & 0x7FFFFFFF


def migrated(database: Path, package: str) -> bool:
    """Whether this very version of ``package`` migrated the database, and no other has since."""
    if not database.is_file():
        return False
    try:
        mark, wanted = _stamp(database, package)
    except (sqlite3.Error, TypeError):
        return False
    return mark == wanted


def _mark(database: Path, package: str) -> None:
    _, wanted = _stamp(database, package)
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection:
        connection.execute(f"PRAGMA user_version = {wanted}")


@contextlib.contextmanager
def _locked(database: Path) -> Iterator[None]:
    with open(database.with_suffix(".lock"), "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _prepared(database: Path, package: str) -> bool:
    """Take the template if there is no database; put aside a copy of one to be migrated. Call it locked."""
    if migrated(database, package):
        return True
    template = TEMPLATES / f"{package}.db"
    if not database.exists() and migrated(template, package):
        partial = database.with_suffix(".partial")
        shutil.copyfile(template, partial)
        partial.chmod(0o600)
        partial.replace(database)
        return True
    if database.exists():
        kept = database.with_suffix(f".before-{importlib.metadata.version(package)}")
        with (
            contextlib.closing(sqlite3.connect(database)) as old,
            contextlib.closing(sqlite3.connect(kept)) as new,
        ):
            old.backup(new)
        kept.chmod(0o600)
    return False


def tracking_ready(home: Path) -> str:
    """Make sure that the MLflow store exists and fits this MLflow, without starting a server.

    With a marked database or a template this takes milliseconds and imports nothing. A store that the user
    named (``MLFLOW_TRACKING_URI``) is left alone.

    Returns
    -------
    str
        The tracking address, also to be given to ``MlflowClient(tracking_uri=...)``.
    """
    uri = environment(home)["MLFLOW_TRACKING_URI"]
    database = _mlflow_database(home)
    if uri != f"sqlite:///{database}" or migrated(database, "mlflow"):
        return uri
    private_directories(home)
    with _locked(database):
        if not _prepared(database, "mlflow"):
            import sqlalchemy
            from mlflow.store.db import utils

            engine = sqlalchemy.create_engine(uri)
            # It creates what is missing, then upgrades from whatever version is there.
            utils._initialize_tables(engine)  # type: ignore[no-untyped-call]
            engine.dispose()
            database.chmod(0o600)
            _mark(database, "mlflow")
    return uri


def prepare_templates(directory: Path = TEMPLATES) -> list[Path]:
    """Make the empty, migrated databases that fresh homes are copied from; ten seconds, once.

    They hold no data and lie in the virtual environment. A home made without them migrates for itself.

    Returns
    -------
    list of Path
        The files, those already fitting included.

    Raises
    ------
    EmbeddedServerError
        If a migration fails; the message ends with its log.
    """
    directory.mkdir(parents=True, exist_ok=True)
    databases = {"prefect": _prefect_database, "mlflow": _mlflow_database}
    templates = {package: directory / f"{package}.db" for package in databases}
    with tempfile.TemporaryDirectory() as scratch:
        home = private_directories(Path(scratch))
        variables = environment(home) | {"ANONFLOW_TEMPLATES": scratch}
        missing = [package for package, template in templates.items() if not migrated(template, package)]
        children = [
            Child("flows.embedded", f"migrate-{package}", listen(), variables, home / f"{package}.log")
            for package in missing
        ]
        for package, child in zip(missing, children, strict=True):
            code = child.process.wait()
            child.stop()
            if code:
                raise EmbeddedServerError(f"{package} could not migrate: {child.log.read_text()[-2000:]}")
            partial = templates[package].with_suffix(".partial")
            partial.unlink(missing_ok=True)
            with contextlib.closing(sqlite3.connect(databases[package](home))) as connection:
                connection.execute("VACUUM INTO ?", (str(partial),))
            _mark(partial, package)
            partial.replace(templates[package])
    return list(templates.values())


# ------------------------------------------------------------------------------------------
# The child's side


class Parent:
    """Watches the process that started us: it says good-bye through the pipe, or is gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orderly: bool | None = None
        # Before anything is served there is nothing to finish.
        self._then: Callable[[bool], object] = lambda orderly: os._exit(0)
        threading.Thread(target=self._watch, daemon=True).start()

    def at_end(self, then: Callable[[bool], object]) -> None:
        """Call ``then`` when the parent ends, with True if it said so; at once if it has ended."""
        with self._lock:
            self._then = then
            if self._orderly is not None:
                then(self._orderly)

    def _watch(self) -> None:
        parent = os.getppid()
        # A process forked by the parent may hold the pipe open after the parent's death: watch both.
        while not (said := select.select([0], [], [], 1.0)[0]) and os.getppid() == parent:
            pass
        with self._lock:
            self._orderly = bool(said) and os.read(0, 1) == b"q"
            self._then(self._orderly)


def run_app(
    app: App, sock: socket.socket, parent: Parent, abandoned: Callable[[], Awaitable[None]] | None = None
) -> int:
    """Serve ``app`` until the parent says so or is gone; in the latter case ``abandoned`` is awaited first.

    Returns
    -------
    int
        Exit code: 0, or 3 if the application did not start.
    """
    import uvicorn

    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=10
    )
    running = uvicorn.Server(config)

    async def finish(orderly: bool) -> None:
        if not orderly and abandoned is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(abandoned(), 10)
        running.should_exit = True

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        parent.at_end(lambda orderly: asyncio.run_coroutine_threadsafe(finish(orderly), loop))
        await running.serve(sockets=[sock])

    try:
        asyncio.run(serve())
    except SystemExit as end:
        return int(end.code or 0)
    return 0


class _Recording:
    """The Prefect application, with what an embedded server needs around its start and its end."""

    _STATE = re.compile(r"/api/flow_runs/([0-9a-f-]{36})/set_state$")

    def __init__(self, app: Any, ready: Callable[[], None]) -> None:
        self.app, self.ready = app, ready
        self.runs: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":

            async def received() -> MutableMapping[str, Any]:
                message = await receive()
                if message["type"] == "lifespan.shutdown":
                    await self._drained()
                return message

            async def sent(message: MutableMapping[str, Any]) -> None:
                if message["type"] == "lifespan.startup.complete":
                    self.ready()
                    self.warming = asyncio.create_task(self._warm())
                await send(message)

            await self.app(scope, received, sent)
            return
        if scope["type"] == "http" and (found := self._STATE.search(scope["path"])):
            self.runs.add(found[1])
        await self.app(scope, receive, send)

    async def _drained(self, timeout: float = 10.0) -> None:
        # A service that stops drops what it has not yet taken from its queue: task runs would be missing.
        from prefect.server.utilities.messaging.memory import METRICS, Topic

        end = time.monotonic() + timeout
        while time.monotonic() < end:
            queues = [
                q for t in Topic._topics.values() for s in t._subscriptions for q in (s._queue, s._retry)
            ]
            if all(q.empty() for q in queues) and all(
                m["consumed"] >= m["published"] for m in METRICS.values()
            ):
                return
            await asyncio.sleep(0.01)

    def _client(self) -> Any:
        import httpx

        user, _, password = os.environ.get("PREFECT_SERVER_API_AUTH_STRING", "").partition(":")
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://server", auth=(user, password)
        )

    async def _warm(self) -> None:
        # First requests compile statements and validators: half a second while the parent is still importing.
        async with self._client() as client:
            for what in ("flows", "flow_runs", "task_runs", "logs", "artifacts"):
                await client.post(f"/api/{what}/filter", json={"limit": 1})

    async def abandoned(self) -> None:
        """Mark as crashed what the vanished parent left unfinished: the history must not say "running"."""
        async with self._client() as client:
            for run in sorted(self.runs):
                state = (await client.get(f"/api/flow_runs/{run}")).json()["state"]["type"]
                if state in ("PENDING", "RUNNING", "CANCELLING"):
                    crashed = {
                        "type": "CRASHED",
                        "name": "Crashed",
                        "message": "The process ended before the run.",
                    }
                    await client.post(
                        f"/api/flow_runs/{run}/set_state", json={"state": crashed, "force": True}
                    )


def prefect_app(parent: Parent, *, ephemeral: bool) -> _Recording:
    """Return the Prefect application on the home's database, which is migrated only if it must be.

    Two servers that start on a fresh home take turns.
    """
    database = Path(os.environ["PREFECT_HOME"]) / "prefect.db"
    turn = contextlib.ExitStack()
    fits = migrated(database, "prefect")
    if not fits:
        turn.enter_context(_locked(database))
        fits = _prepared(database, "prefect")
        if fits:
            turn.close()
        else:  # a migration must not be cut short
            parent.at_end(lambda orderly: None)
    os.environ["PREFECT_SERVER_DATABASE_MIGRATE_ON_START"] = str(not fits).lower()
    with imports():
        from prefect.server.api.server import create_app

        app = create_app(ephemeral=ephemeral)

    def ready() -> None:
        if not fits:
            _mark(database, "prefect")
        turn.close()

    return _Recording(app, ready)


@contextlib.contextmanager
def inherited(descriptor: str) -> Iterator[tuple[socket.socket, Parent]]:
    """Take over the listening socket, watch the parent, and prepare for a quick exit."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    atexit.register(gc.freeze)
    with socket.socket(fileno=int(descriptor)) as sock:
        yield sock, Parent()


def _main(arguments: Iterable[str]) -> int:
    role, descriptor = arguments
    with inherited(descriptor) as (sock, parent):
        if role == "prefect":
            app = prefect_app(parent, ephemeral=True)
            return run_app(app, sock, parent, app.abandoned)
        if role == "migrate-mlflow":
            tracking_ready(Path(os.environ["PREFECT_HOME"]).parent)
        else:
            from prefect.server.database import provide_database_interface

            asyncio.run(provide_database_interface().create_db())
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
