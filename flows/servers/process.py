"""A server process of ours: it inherits its socket, answers when it is ready, and never outlives its parent."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from flows.servers.environment import LOOPBACK, NAMES

LOG_LIMIT = 1_000_000
# How many ports are tried, counted from the one that was asked for.
PORTS_TRIED = 20

# What PYTHONPATH must name for the child to import the ``flows`` that this process runs.
ROOT = Path(__file__).resolve().parents[2]


class ServerError(RuntimeError):
    """A server did not start or did not answer; the message names its log file."""


def listen(port: int = 0, host: str = LOOPBACK) -> socket.socket:
    """Return a listening socket, on the loopback address by default; port 0 lets the kernel choose.

    Claim: no other process can take the port before the server starts, and requests sent early wait instead of
    failing.

    Raises `OSError` if the port is taken.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    return sock


def listen_near(port: int, host: str = LOOPBACK) -> socket.socket:
    """Return a socket that listens on the port, or on the next free one."""
    for candidate in range(port, min(port + PORTS_TRIED, 65536)) if port else ():
        with contextlib.suppress(OSError):
            return listen(candidate, host)
    return listen(0, host)


def fetch(address: str, path: str, timeout: float) -> tuple[int, bytes]:
    """Return status and body of an HTTP GET; ``address`` is HOST:PORT.

    Raises `OSError` or `http.client.HTTPException` if there is no answer.
    """
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def answers(address: str, path: str, timeout: float) -> bool:
    """Return whether a server answers ``path`` with 200 within ``timeout`` seconds."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return fetch(address, path, timeout)[0] == 200
    return False


def open_log(path: Path) -> IO[bytes]:
    """Open a log of a process, which appends to it; created for the owner alone."""
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


class Child:
    """A server in a process of its own, which never outlives ours.

    It inherits the listening socket and the reading end of a pipe; when the pipe closes, however we ended, it
    ends, too. Secrets reach it through its environment, never through its command line.

    Parameters
    ----------
    module, role
        Run as ``python -m module role``; a role ends in the name of a part, such as ``migrate-prefect``.
    sock
        Listening socket; closed here once the child has it.
    variables
        Environment of the child, on top of ours.
    log
        Where its output goes (created 0600, started afresh above 1 MB).
    """

    def __init__(self, module: str, role: str, sock: socket.socket, variables: Mapping[str, str], log: Path) -> None:
        self.name, self.log = NAMES[role.rpartition("-")[2]], log
        self.port: int = sock.getsockname()[1]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        # The child runs the files that we run, wherever they were imported from.
        path = os.pathsep.join(filter(None, (str(ROOT), inherited.get("PYTHONPATH"))))
        with sock, open_log(log) as output:
            if output.tell() > LOG_LIMIT:
                output.truncate(0)
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-m", module, role, str(sock.fileno())],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=inherited | {**variables, "PYTHONPATH": path},
                cwd=log.parent,
                pass_fds=(sock.fileno(),),
                start_new_session=True,  # Ctrl-C is for us: the run still has to report to the server
                umask=0o077,
            )

    def wait(self, path: str, timeout: float = 120.0, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Return as soon as ``path`` answers with 200, or when ``cancelled`` says so.

        Raises `ServerError` if the process ended, or ``timeout`` seconds have passed.
        """
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0 and not cancelled():
            # The socket may be ours, too: it takes connections although the process has ended.
            self.check()
            if answers(f"{LOOPBACK}:{self.port}", path, min(left, 1.0)):
                return
            time.sleep(0.05)
        if not cancelled():
            raise ServerError(f"the {self.name} server did not answer; its log is {self.log}")

    def poll(self) -> int | None:
        """Return the exit code of the process, None while it runs."""
        return self.process.poll()

    def check(self) -> None:
        """Raise `ServerError` if the process has ended."""
        if (code := self.poll()) is not None:
            raise ServerError(f"the {self.name} server ended with code {code}; its log is {self.log}")

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
            # With what it has started, which is in its session.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
