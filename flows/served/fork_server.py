"""The fork server of a worker: processes of runs are forked from one that has imported everything.

The worker starts it (`ForkServer`). The process that Prefect's worker starts for a run sends the fork server its
environment, folder and standard streams (`run_in_fork`), passes signals on, and exits as the run does; to Prefect it is
a process as any other. The fork server forks (`serve`); it has one thread of Python and reads no data of a run.

A run is killed when the process that requested it ends, or the fork server does. Without a fork server, the run is
carried out in the process that Prefect started. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import hmac
import json
import os
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial

# The socket's name, which no file has, and a key that both sides must know: names are visible to other users.
ADDRESS = "ANONFLOW_FORK_SERVER"
# Seconds that a run waits for the fork server, which may still be importing, before it is carried out without it.
START_TIMEOUT = 60.0
# Seconds in which a request must be complete.
REQUEST_TIMEOUT = 5.0
NUMBER = struct.Struct("!i")
# What the kernel says of the other side: process, user, group.
CREDENTIALS = struct.Struct("3i")
NONCE_BYTES = DIGEST_BYTES = 32
STANDARD_STREAMS = (0, 1, 2)
FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGINT)
PR_SET_PDEATHSIG = 1


class ForkServer:
    """The worker's handle on its fork server, which is started again when it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self, command: str) -> None:
        """Start it by a command if it does not run, and put its address into the environment."""
        if sys.platform != "linux" or (self._process is not None and self._process.poll() is None):
            return
        name = f"anonflow-{secrets.token_hex(16)}"
        os.environ[ADDRESS] = f"{name}:{secrets.token_hex(32)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(f"\0{name}")
            listener.listen(128)
            # The end of this process closes its standard input.
            self._process = subprocess.Popen(  # noqa: S603
                [*command.split(), str(listener.fileno())], stdin=subprocess.PIPE, pass_fds=(listener.fileno(),)
            )


def run_in_fork() -> None:
    """Have the fork server carry out this run, and exit as it does; return if no fork server answers."""
    name, _, key = os.environ.get(ADDRESS, "").partition(":")
    if not key:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        # A signal that arrives before the run's process is known stays pending.
        signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED_SIGNALS)
        try:
            run = _request(connection, name, key)
            for one in FORWARDED_SIGNALS:
                signal.signal(one, lambda number, frame: _kill(run, number))
        except OSError:
            return
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED_SIGNALS)
        _exit_as(connection)


def _request(connection: socket.socket, name: str, key: str) -> int:
    """Request a process for this run, and return its number."""
    connection.settimeout(START_TIMEOUT)
    connection.connect(f"\0{name}")
    nonce, asked = secrets.token_bytes(NONCE_BYTES), _receive(connection, NONCE_BYTES)
    connection.sendall(nonce + _proof(key, b"requester", asked))
    # The environment holds secrets: the other side proves first that it knows the key, too.
    if not hmac.compare_digest(_receive(connection, DIGEST_BYTES), _proof(key, b"server", nonce)):
        raise ConnectionRefusedError("another process listens at the address of the fork server")
    message = json.dumps({"environ": dict(os.environ), "folder": os.getcwd()}).encode()
    socket.send_fds(connection, [NUMBER.pack(len(message))], STANDARD_STREAMS)
    connection.sendall(message)
    run = _receive_number(connection)
    connection.settimeout(None)
    return run


def _exit_as(connection: socket.socket) -> None:
    """Wait for the end of the run, and exit with its code or by its signal."""
    try:
        code = _receive_number(connection)
    except OSError:
        # The fork server was killed, and with it the run.
        code = -signal.SIGKILL
    if code < 0:
        if -code in FORWARDED_SIGNALS:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


@dataclass(frozen=True)
class Request:
    """A requested run: the connection that waits for its end, and its standard streams, environment and folder."""

    connection: socket.socket
    streams: list[int]
    environ: dict[str, str]
    folder: str

    def close(self) -> None:
        """Close the connection and the streams."""
        self.connection.close()
        _close(self.streams)


def serve(listener: socket.socket) -> None:
    """Fork a process for every run that is requested; return in each of these processes, and in no other.

    The fork server exits with its last run after SIGTERM, or after the process that started it has ended.
    """
    _Server(listener).serve()


class _Server:
    """The runs under way, and the events that the fork server waits for: requests, ends of runs, its own end."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener, self._runs = listener, dict[int, socket.socket]()
        self._signals, self._wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        for one in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(one, lambda number, frame: None)
        self._selector = selectors.DefaultSelector()
        for source, then in ((listener, self._accept), (self._signals, self._on_signal), (0, self._stop_listening)):
            self._selector.register(source, selectors.EVENT_READ, then)
        self._is_listening = True

    def serve(self) -> None:
        """Return in the process of a run; exit in this one."""
        while self._is_listening or self._runs:
            for key, _ in self._selector.select():
                # An earlier event of the same round may have closed what this one is of.
                if self._selector.get_map().get(key.fd) is key and key.data():
                    return
        os._exit(0)

    def _accept(self) -> bool:
        """Fork a process for a run; return true in it."""
        request, parent = _receive_request(self._listener), os.getpid()
        if request is None:
            return False
        # A signal to the new process waits until its handlers are those of a run.
        signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED_SIGNALS)
        try:
            run = os.fork()
        except OSError:
            # Its process then carries the run out by itself.
            run = -1
        if run == 0:
            self._selector.close()
            for one in (self._listener, self._signals, self._wakeup, request.connection, *self._runs.values()):
                one.close()
            _become(request, parent)
            return True
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED_SIGNALS)
        if run < 0:
            request.close()
            return False
        _close(request.streams)
        self._runs[run] = request.connection
        # The next event of the connection is its end.
        self._selector.register(request.connection, selectors.EVENT_READ, partial(self._lose_requester, run))
        with contextlib.suppress(OSError):
            request.connection.sendall(NUMBER.pack(run))
        return False

    def _lose_requester(self, run: int) -> None:
        self._selector.unregister(self._runs[run])
        _kill(run, signal.SIGKILL)

    def _on_signal(self) -> None:
        """Report the ends of runs; after SIGTERM, stop listening."""
        received = self._signals.recv(4096)
        for run, connection in list(self._runs.items()):
            ended, status = os.waitpid(run, os.WNOHANG)
            if ended:
                with contextlib.suppress(OSError):
                    connection.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
                # It was unregistered if its other side had ended.
                with contextlib.suppress(KeyError):
                    self._selector.unregister(connection)
                self._runs.pop(run).close()
        if signal.SIGTERM in received:
            self._stop_listening()

    def _stop_listening(self) -> None:
        for source in (self._listener, 0) if self._is_listening else ():
            self._selector.unregister(source)
        self._is_listening = False
        self._listener.close()


def _receive_request(listener: socket.socket) -> Request | None:
    """Return the next request; None if it is not complete, without the key, or was given up."""
    connection, _ = listener.accept()
    # Every user can see the address: without waiting for a message, connections of others are closed.
    if _user(connection) != os.getuid():
        connection.close()
        return None
    key, streams = os.environ.get(ADDRESS, "").partition(":")[2], list[int]()
    deadline, asked = time.monotonic() + REQUEST_TIMEOUT, secrets.token_bytes(NONCE_BYTES)
    try:
        connection.settimeout(REQUEST_TIMEOUT)
        connection.sendall(asked)
        answer = _receive(connection, NONCE_BYTES + DIGEST_BYTES, deadline)
        nonce, proof = answer[:NONCE_BYTES], answer[NONCE_BYTES:]
        if not hmac.compare_digest(proof, _proof(key, b"requester", asked)):
            raise ConnectionRefusedError("another process requests a run")
        connection.sendall(_proof(key, b"server", nonce))
        header, streams, _, _ = socket.recv_fds(connection, NUMBER.size, len(STANDARD_STREAMS))
        message = json.loads(_receive(connection, NUMBER.unpack(header)[0], deadline))
        if not _has_ended(connection):
            return Request(connection, streams, message["environ"], message["folder"])
    except (OSError, ValueError, KeyError, struct.error):
        pass
    connection.close()
    _close(streams)
    return None


def _user(connection: socket.socket) -> int:
    """Return the number of the user on the other side."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(credentials)[1])


def _has_ended(connection: socket.socket) -> bool:
    """Return whether the other side has ended, and carries the run out by itself if it lives."""
    connection.setblocking(False)
    try:
        return not connection.recv(1)
    except BlockingIOError:
        return False
    finally:
        connection.setblocking(True)


def _become(request: Request, parent: int) -> None:
    """Make this process that of a run, as if it had been started with its environment."""
    signal.set_wakeup_fd(-1)
    for one in (signal.SIGCHLD, *FORWARDED_SIGNALS):
        signal.signal(one, signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED_SIGNALS)
    # A signal to the worker's group reaches the process that requested the run, which forwards it, once.
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    for received, standard in zip(request.streams, STANDARD_STREAMS, strict=True):
        os.dup2(received, standard)
        os.close(received)
    os.environ.clear()
    os.environ.update(request.environ)
    os.chdir(request.folder)


def _proof(key: str, side: bytes, nonce: bytes) -> bytes:
    """Return what only a process that knows the key can compute; neither side can repeat the other's."""
    return hmac.digest(key.encode(), side + nonce, "sha256")


def _receive_number(connection: socket.socket) -> int:
    return int(NUMBER.unpack(_receive(connection, NUMBER.size))[0])


def _receive(connection: socket.socket, size: int, deadline: float | None = None) -> bytes:
    """Return so many bytes.

    Raises
    ------
    OSError
        If the other side ends, or is silent for too long, before.
    """
    received = b""
    while len(received) < size:
        if deadline is not None:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("the other side has ended")
        received += part
    return received


def _kill(run: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(run, number)


def _close(descriptors: list[int]) -> None:
    for one in descriptors:
        os.close(one)
