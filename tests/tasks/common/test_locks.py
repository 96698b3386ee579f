"""Locks between processes: held by one at a time, and by none that has ended."""

from __future__ import annotations

import multiprocessing
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.common.errors import Busy
from tasks.common.locks import is_held, locked

FORK = multiprocessing.get_context("fork")


def busy(holder: str) -> Busy:
    return Busy(f"process {holder} holds it")


def hold(path: Path, acquired: multiprocessing.queues.SimpleQueue[int]) -> None:
    with locked(path, busy=busy):
        acquired.put(os.getpid())
        time.sleep(600)


def test_one_process_holds_a_lock_and_a_killed_one_holds_none(tmp_path: Path) -> None:
    path, acquired = tmp_path / "a.lock", FORK.SimpleQueue()
    other = FORK.Process(target=hold, args=(path, acquired), daemon=True)
    other.start()
    assert acquired.get() == other.pid
    assert is_held(path)
    with pytest.raises(Busy, match=f"process {other.pid} holds it"), locked(path, busy=busy):
        pytest.fail("two hold one lock")
    other.kill()
    other.join(60)
    assert not is_held(path)
    with locked(path):
        assert is_held(path)


def test_looking_for_a_lock_makes_no_file_and_needs_no_right_to_write(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    assert not is_held(path)
    assert not path.exists()
    with locked(path, busy=busy):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o400)
    assert not is_held(path)


def test_a_program_that_is_started_does_not_inherit_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with locked(path):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        child = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], close_fds=False, **pipes)
        assert child.stdout.read(1) == b"1"
    assert not is_held(path)
    child.communicate(b"\n", timeout=60)


def test_an_error_inside_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"), locked(path, busy=busy):
            raise KeyError("mine")
