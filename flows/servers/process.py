"""A server process of ours: it gets its socket from us, answers when it is ready, and never outlives us."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from flows.embedded.settings import LOOPBACK

LOG_LIMIT = 1_000_000

# What PYTHONPATH must name for the child to import the ``flows`` that we run.
_ROOT = Path(__file__).resolve().parents[2]


class EmbeddedServerError(RuntimeError):
    """The embedded server did not start or did not answer; the message names its log file."""


def listen(port: int = 0, host: str = LOOPBACK) -> socket.socket:
    """Return a listening socket, on the loopback address by default; port 0 lets the kernel choose.

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
        sock.bind((host, port))
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

    def __init__(self, module: str, role: str, sock: socket.socket, variables: dict[str, str], log: Path) -> None:
        self.log = log
        self.port: int = sock.getsockname()[1]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        # The child runs the files that we run, wherever they were imported from.
        path = os.pathsep.join(filter(None, (str(_ROOT), inherited.get("PYTHONPATH"))))
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
