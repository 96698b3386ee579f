"""A process that has imported everything, from which those of runs are forked: imports are most of a small run.

The worker starts one (`Prepared`). The process that Prefect's worker starts for a run hands the run over to it with
its environment and its output (`hand_over`), passes signals on, and ends as the run ends; so Prefect sees a process as
any other. The prepared process forks (`take_over`), before it has started a thread or read anything of a run.

A run never outlives the process that handed it over, nor the prepared one. Where there is none, the run is carried out
where it was started. On Linux alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

# The name of the socket, which is in no folder and ends with the process that listens.
NAME = "ANONFLOW_PREPARED"
# Seconds that a run waits for its process, while what it needs is being imported, before it goes on by itself.
PATIENCE = 60.0
# Seconds in which a run must have said what it is.
SAYING = 5.0
NUMBER = struct.Struct("!i")
OUTPUT = (0, 1, 2)
PASSED_ON = (signal.SIGTERM, signal.SIGINT)
PR_SET_PDEATHSIG = 1


class Prepared:
    """The prepared process of a worker, started again when it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self, command: str) -> None:
        """Start it by a command where there is none, and tell where it listens by the environment."""
        if sys.platform != "linux" or (self._process is not None and self._process.poll() is None):
            return
        os.environ[NAME] = name = f"anonflow-{secrets.token_hex(16)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(f"\0{name}")
            listener.listen(128)
            # When we end, so does its standard input.
            self._process = subprocess.Popen(  # noqa: S603
                [*command.split(), str(listener.fileno())], stdin=subprocess.PIPE, pass_fds=(listener.fileno(),)
            )


def hand_over() -> None:
    """Have the prepared process carry out this run, and end as it ends; return where there is none."""
    name = os.environ.get(NAME, "")
    if not name:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        # A signal that comes before the run has a process waits for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        try:
            run = _handed_over(connection, name)
            for one in PASSED_ON:
                signal.signal(one, lambda number, frame: _signal(run, number))
        except OSError:
            return
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        _end_as(connection)


def _handed_over(connection: socket.socket, name: str) -> int:
    """Return the process that carries out this run."""
    connection.settimeout(PATIENCE)
    connection.connect(f"\0{name}")
    if not _is_ours(connection):
        raise ConnectionRefusedError("another user listens")
    said = json.dumps({"environ": dict(os.environ), "folder": os.getcwd()}).encode()
    socket.send_fds(connection, [NUMBER.pack(len(said))], OUTPUT)
    connection.sendall(said)
    run = _number(connection)
    connection.settimeout(None)
    return run


def _end_as(connection: socket.socket) -> None:
    """Wait for the end of the run, and end with its code or by its signal."""
    try:
        code = _number(connection)
    except OSError:
        # The prepared process was killed, and with it the run.
        code = -signal.SIGKILL
    if code < 0:
        if -code in PASSED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


@dataclass(frozen=True)
class Work:
    """A run that was handed over: who waits for its end, and its output, environment and folder."""

    connection: socket.socket
    output: list[int]
    environ: dict[str, str]
    folder: str


def take_over(listener: socket.socket) -> None:
    """Fork a process for every run that is handed over; return in each of these, and in no other.

    Ends when the process that started it has ended, or at SIGTERM, with the last run.
    """
    Forks(listener).until_one_is_made()


class Forks:
    """The runs that were handed over, and what a prepared process waits for: more of them, their ends, its own."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener, self._runs = listener, dict[int, socket.socket]()
        self._woken, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        for one in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(one, lambda number, frame: None)
        self._selector = selectors.DefaultSelector()
        for source, then in ((listener, self._accept), (self._woken, self._look), (0, self._take_no_more)):
            self._selector.register(source, selectors.EVENT_READ, then)
        self._is_open = True

    def until_one_is_made(self) -> None:
        """Return in the process of a run; this one ends by itself."""
        while self._is_open or self._runs:
            for key, _ in self._selector.select():
                # What came before it may have ended a run.
                if key.fileobj in self._selector.get_map() and key.data():
                    return
        os._exit(0)

    def _accept(self) -> bool:
        """Fork a process for a run; true in it."""
        work, parent = _accepted(self._listener), os.getpid()
        if work is None:
            return False
        try:
            run = os.fork()
        except OSError:
            # Where no process can be made, the run is carried out where it was started.
            work.connection.close()
            _close(work.output)
            return False
        if run == 0:
            self._selector.close()
            for one in (self._listener, self._woken, self._wakes, work.connection, *self._runs.values()):
                one.close()
            _become(work, parent)
            return True
        _close(work.output)
        self._runs[run] = work.connection
        # It is heard from again when it has ended.
        self._selector.register(work.connection, selectors.EVENT_READ, partial(_signal, run, signal.SIGKILL))
        with contextlib.suppress(OSError):
            work.connection.sendall(NUMBER.pack(run))
        return False

    def _look(self) -> None:
        """Tell those who wait how their runs have ended."""
        signals = self._woken.recv(4096)
        for run, connection in list(self._runs.items()):
            ended, status = os.waitpid(run, os.WNOHANG)
            if ended:
                with contextlib.suppress(OSError):
                    connection.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
                self._selector.unregister(connection)
                self._runs.pop(run).close()
        if signal.SIGTERM in signals:
            self._take_no_more()

    def _take_no_more(self) -> None:
        for source in (self._listener, 0) if self._is_open else ():
            self._selector.unregister(source)
        self._is_open = False
        self._listener.close()


def _accepted(listener: socket.socket) -> Work | None:
    """Return what is handed over; None where nobody of ours does, or has given up."""
    connection, _ = listener.accept()
    output: list[int] = []
    try:
        connection.settimeout(SAYING)
        if _is_ours(connection):
            size, output, _, _ = socket.recv_fds(connection, NUMBER.size, len(OUTPUT))
            said = json.loads(_exactly(connection, NUMBER.unpack(size)[0]))
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                # Who has given up meanwhile carries it out by itself.
                connection.recv(1)
                raise ConnectionResetError
            connection.setblocking(True)
            return Work(connection, output, said["environ"], said["folder"])
    except (OSError, ValueError, KeyError, struct.error):
        pass
    connection.close()
    _close(output)
    return None


def _become(work: Work, parent: int) -> None:
    """Be the process of a run, as if it had been started with its environment."""
    signal.set_wakeup_fd(-1)
    for one in (signal.SIGCHLD, *PASSED_ON):
        signal.signal(one, signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL)
    # Signals to the worker's group reach the process that handed the run over, which passes them on, once.
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    for here, there in zip(work.output, OUTPUT, strict=True):
        os.dup2(here, there)
        os.close(here)
    os.environ.clear()
    os.environ.update(work.environ)
    os.chdir(work.folder)


def _is_ours(connection: socket.socket) -> bool:
    """Return whether the other side is a process of the same user."""
    other = struct.Struct("3i")
    user = other.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, other.size))[1]
    return bool(user == os.geteuid())


def _number(connection: socket.socket) -> int:
    return int(NUMBER.unpack(_exactly(connection, NUMBER.size))[0])


def _exactly(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes; an `OSError` where the other side ends before."""
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionResetError("the other side has ended")
        found += part
    return found


def _signal(run: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(run, number)


def _close(output: list[int]) -> None:
    for one in output:
        os.close(one)
