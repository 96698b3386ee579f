"""Runs that are forked from a process that has imported everything."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from flows.served import fork_server
from flows.served.fork_server import ADDRESS, ForkServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="on Linux alone")

# A program like that of a run: the fork server with an argument, a run without.
PROGRAM = """
import os, signal, socket, sys, time
from flows.served import fork_server
if len(sys.argv) > 1:
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        fork_server.serve(listener)
    how = "forked"
else:
    if "SIGNALLED" in os.environ:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)
    fork_server.run_in_fork()
    how = "started"
print(how, os.environ.get("TOLD"), os.getcwd(), os.getpid(), flush=True)
exec(os.environ.get("DO", ""))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv(ADDRESS, "")
    return f"{sys.executable} {file}"


@pytest.fixture
def process(program: str) -> Iterator[subprocess.Popen]:
    """Return the process of a fork server."""
    server = ForkServer()
    server.ensure(program)
    yield server._process
    server._process.stdin.close()
    server._process.wait(20)


def start(program: str, folder: Path, **variables: str) -> subprocess.Popen:
    return subprocess.Popen(program.split(), env=os.environ | variables, cwd=folder, text=True, stdout=-1, stderr=-1)


def test_a_run_has_its_own_environment_folder_and_output_and_ends_as_it_ends(process, program, tmp_path) -> None:
    for told, code in (("a", 0), ("b", 3)):
        run = start(program, tmp_path, TOLD=told, DO=f"sys.stderr.write('heard'); sys.exit({code})")
        out, err = run.communicate(timeout=60)
        how, heard, folder, pid = out.split()
        assert (how, heard, folder, err, run.returncode) == ("forked", told, str(tmp_path), "heard", code)
        assert int(pid) != run.pid


def test_without_a_fork_server_a_run_is_carried_out_in_the_process_that_was_started(
    program, tmp_path, monkeypatch
) -> None:
    assert start(program, tmp_path).communicate(timeout=60)[0].split()[0] == "started"
    monkeypatch.setenv(ADDRESS, "anonflow-nobody:key")
    assert start(program, tmp_path).communicate(timeout=60)[0].split()[0] == "started"


def test_it_is_started_again_when_it_has_ended(program, tmp_path) -> None:
    server = ForkServer()
    server.ensure(program)
    first, address = server._process, os.environ[ADDRESS]
    server.ensure(program)
    assert server._process is first
    first.kill()
    first.wait(20)
    server.ensure(program)
    assert os.environ[ADDRESS] != address
    assert start(program, tmp_path).communicate(timeout=60)[0].split()[0] == "forked"
    server._process.terminate()
    assert server._process.wait(20) == 0


def running(run: subprocess.Popen) -> int:
    """Return the process of a run that has begun."""
    assert run.stdout is not None
    return int(run.stdout.readline().split()[-1])


def gone(pid: int) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


WAITS = "time.sleep(60)"
SAYS = """
import signal
signal.signal(signal.SIGTERM, lambda *_: (print("asked", flush=True), sys.exit(4)))
print(flush=True)
time.sleep(60)
"""


def test_a_signal_is_forwarded_once(process, program, tmp_path) -> None:
    run = start(program, tmp_path, DO=SAYS)
    running(run)
    run.stdout.readline()
    run.terminate()
    assert (run.stdout.read(), run.wait(20)) == ("asked\n", 4)


def test_when_one_process_of_a_run_is_killed_the_others_end(process, program, tmp_path) -> None:
    requester, forked, both = (start(program, tmp_path, DO=WAITS) for _ in range(3))
    pids = [running(run) for run in (requester, forked, both)]
    requester.kill()
    assert gone(pids[0])
    os.kill(pids[1], signal.SIGKILL)
    assert forked.wait(20) == -signal.SIGKILL
    assert psutil.pid_exists(pids[2])
    process.kill()
    assert gone(pids[2])
    assert both.wait(20) == -signal.SIGKILL


def test_it_ends_after_its_last_run(process, program, tmp_path) -> None:
    run = start(program, tmp_path, DO="time.sleep(1); print('done', flush=True)")
    running(run)
    process.terminate()
    time.sleep(0.3)
    assert start(program, tmp_path).communicate(timeout=60)[0].split()[0] == "started"
    assert run.communicate(timeout=20)[0] == "done\n"
    assert process.wait(20) == 0


@pytest.fixture
def address(program, monkeypatch) -> str:
    """Return the address of a fork server in the environment."""
    name = f"anonflow-test-{secrets.token_hex(8)}"
    monkeypatch.setenv(ADDRESS, f"{name}:right")
    return name


@pytest.fixture
def listener(address) -> Iterator[socket.socket]:
    """Return what listens at the address."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{address}")
        listening.listen()
        yield listening


@pytest.fixture
def requester(address, listener) -> Iterator[socket.socket]:
    """Return a connection to it."""
    with socket.socket(socket.AF_UNIX) as connected:
        connected.connect(f"\0{address}")
        yield connected


@pytest.mark.parametrize(
    ("key", "complete", "accepted"), [("right", True, True), ("right", False, False), ("wrong", True, False)]
)
def test_a_request_that_is_not_complete_or_lacks_the_key_is_not_carried_out(
    key, complete, accepted, listener, requester, tmp_path
) -> None:
    environ = {"TOLD": "a"}
    message = json.dumps({"environ": environ, "folder": str(tmp_path)}).encode()
    with ThreadPoolExecutor() as pool:
        received = pool.submit(fork_server._receive_request, listener)
        nonce = fork_server._receive(requester, fork_server.NONCE_BYTES)
        requester.sendall(nonce + fork_server._proof(key, b"requester", nonce))
        with suppress(OSError):
            socket.send_fds(requester, [fork_server.NUMBER.pack(len(message))], [0, 1, 2])
            requester.sendall(message if complete else message[:-1])
        if not complete:
            requester.close()
        request = received.result(20)
    assert (request is not None) == accepted
    if request is not None:
        assert (request.environ, request.folder) == (environ, str(tmp_path))
        request.close()


def test_another_user_cannot_keep_the_server_waiting(listener, requester, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    begun = time.monotonic()
    assert fork_server._receive_request(listener) is None
    assert time.monotonic() - begun < 1
    assert requester.recv(1) == b""


def test_a_requester_that_has_given_up_is_noticed() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert not fork_server._has_ended(here)
        there.close()
        assert fork_server._has_ended(here)


def test_a_process_that_takes_the_address_learns_no_environment(listener, program, tmp_path) -> None:
    run = start(program, tmp_path)
    connection, _ = listener.accept()
    with connection:
        connection.sendall(secrets.token_bytes(fork_server.NONCE_BYTES))
        answer = fork_server._receive(connection, fork_server.NONCE_BYTES + fork_server.DIGEST_BYTES)
        # All that it has to answer with is what the requester has sent.
        connection.sendall(answer[fork_server.NONCE_BYTES :])
        assert connection.recv(1) == b""
    assert run.communicate(timeout=60)[0].split()[0] == "started"


def is_forking(program: str, folder: Path) -> bool:
    return start(program, folder).communicate(timeout=60)[0].split()[0] == "forked"


def test_what_strangers_send_ends_nothing(process, program, tmp_path) -> None:
    for sent in (b"", b"[]", secrets.token_bytes(200), b"{" * 100_000):
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
            connection.connect(f"\0{os.environ[ADDRESS].partition(':')[0]}")
            connection.sendall(sent)
    assert is_forking(program, tmp_path)


def test_a_sender_that_dawdles_is_given_up(listener, requester, monkeypatch) -> None:
    monkeypatch.setattr(fork_server, "REQUEST_TIMEOUT", 0.5)
    with ThreadPoolExecutor() as pool:
        received = pool.submit(fork_server._receive_request, listener)
        begun = time.monotonic()
        while not received.done() and time.monotonic() < begun + 10:
            with suppress(OSError):
                requester.sendall(b"x")
            time.sleep(0.2)
        assert received.result(1) is None
        assert time.monotonic() < begun + 5


def test_a_signal_before_the_run_has_begun_ends_it_and_not_the_server(process, program, tmp_path) -> None:
    runs = [start(program, tmp_path, SIGNALLED="1", DO=WAITS) for _ in range(5)]
    assert [run.wait(60) for run in runs] == [-signal.SIGTERM] * 5
    assert is_forking(program, tmp_path)


def test_a_run_and_its_requester_may_end_at_once(process, program, tmp_path) -> None:
    runs = [start(program, tmp_path, DO=WAITS) for _ in range(3)]
    pids = [running(run) for run in runs]
    process.send_signal(signal.SIGSTOP)
    for run, pid in zip(runs, pids, strict=True):
        os.kill(pid, signal.SIGKILL)
        run.kill()
        run.wait(20)
    process.send_signal(signal.SIGCONT)
    assert is_forking(program, tmp_path)
