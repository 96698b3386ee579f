"""Runs that are forked from a process that has imported everything."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flows.served import prepared
from flows.served.prepared import NAME, Prepared

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="on Linux alone")

# A program like that of a run: prepared with an argument, and handing itself over without.
PROGRAM = """
import os, socket, sys, time
from flows.served import prepared
if len(sys.argv) > 1:
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        prepared.take_over(listener)
    how = "forked"
else:
    prepared.hand_over()
    how = "started"
print(how, os.environ.get("TOLD"), os.getcwd(), os.getpid(), flush=True)
exec(os.environ.get("DO", ""))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv(NAME, "")
    return f"{sys.executable} {file}"


@pytest.fixture
def process(program: str) -> Iterator[subprocess.Popen]:
    """Return a prepared process."""
    made = Prepared()
    made.ensure(program)
    yield made._process
    made._process.stdin.close()
    made._process.wait(20)


def start(program: str, folder: Path, **variables: str) -> subprocess.Popen:
    return subprocess.Popen(program.split(), env=os.environ | variables, cwd=folder, text=True, stdout=-1, stderr=-1)


def test_a_run_has_its_own_environment_folder_and_output_and_ends_as_it_ends(process, program, tmp_path) -> None:
    for told, code in (("a", 0), ("b", 3)):
        run = start(program, tmp_path, TOLD=told, DO=f"sys.stderr.write('heard'); sys.exit({code})")
        out, err = run.communicate(timeout=60)
        how, heard, folder, pid = out.split()
        assert (how, heard, folder, err, run.returncode) == ("forked", told, str(tmp_path), "heard", code)
        assert int(pid) != run.pid


def test_where_there_is_none_a_run_is_carried_out_where_it_was_started(program, tmp_path, monkeypatch) -> None:
    assert start(program, tmp_path).communicate(timeout=60)[0].split()[0] == "started"
    monkeypatch.setenv(NAME, "anonflow-nobody")
    assert start(program, tmp_path).communicate(timeout=60)[0].split()[0] == "started"


def test_it_is_started_again_when_it_has_ended(program, tmp_path) -> None:
    made = Prepared()
    made.ensure(program)
    first, name = made._process, os.environ[NAME]
    made.ensure(program)
    assert made._process is first
    first.kill()
    first.wait(20)
    made.ensure(program)
    assert os.environ[NAME] != name
    assert start(program, tmp_path).communicate(timeout=60)[0].split()[0] == "forked"
    made._process.terminate()
    assert made._process.wait(20) == 0


def running(run: subprocess.Popen) -> int:
    """Return the process of a run that has begun."""
    assert run.stdout is not None
    return int(run.stdout.readline().split()[-1])


def gone(pid: int) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
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


def test_a_signal_is_passed_on_once(process, program, tmp_path) -> None:
    run = start(program, tmp_path, DO=SAYS)
    running(run)
    run.stdout.readline()
    run.terminate()
    assert (run.stdout.read(), run.wait(20)) == ("asked\n", 4)


def test_who_is_killed_takes_the_others_of_the_run_along(process, program, tmp_path) -> None:
    handed, forked, both = (start(program, tmp_path, DO=WAITS) for _ in range(3))
    pids = [running(run) for run in (handed, forked, both)]
    handed.kill()
    assert gone(pids[0])
    os.kill(pids[1], signal.SIGKILL)
    assert forked.wait(20) == -signal.SIGKILL
    assert psutil.pid_exists(pids[2])
    process.kill()
    assert gone(pids[2])
    assert both.wait(20) == -signal.SIGKILL


def test_runs_end_before_it_does(process, program, tmp_path) -> None:
    run = start(program, tmp_path, DO="time.sleep(1); print('done', flush=True)")
    running(run)
    process.terminate()
    time.sleep(0.3)
    assert start(program, tmp_path).communicate(timeout=60)[0].split()[0] == "started"
    assert run.communicate(timeout=20)[0] == "done\n"
    assert process.wait(20) == 0


@pytest.mark.parametrize("waits", [True, False])
def test_who_has_given_up_is_not_carried_out_a_second_time(waits, tmp_path) -> None:
    name = f"anonflow-test-{os.getpid()}-{waits}"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as connection:
        listener.bind(f"\0{name}")
        listener.listen()
        connection.connect(f"\0{name}")
        said = json.dumps({"environ": {"TOLD": "a"}, "folder": str(tmp_path)}).encode()
        socket.send_fds(connection, [prepared.NUMBER.pack(len(said))], [0, 1, 2])
        connection.sendall(said)
        if not waits:
            connection.close()
        work = prepared._accepted(listener)
        assert (work is not None) == waits
        if work is not None:
            assert (work.environ, work.folder) == ({"TOLD": "a"}, str(tmp_path))
            prepared._close(work.output)
            work.connection.close()


def test_another_users_process_is_not_trusted(monkeypatch) -> None:
    here, there = prepared.socket.socketpair()
    assert prepared._is_ours(here)
    monkeypatch.setattr(prepared.os, "geteuid", lambda: 12345)
    assert not prepared._is_ours(there)
