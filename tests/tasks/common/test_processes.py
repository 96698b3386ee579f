"""A process is recognised by its number and its start."""

from __future__ import annotations

import os
import subprocess
import sys

from tasks.common.processes import is_running, process_start_time


def test_a_process_is_the_one_that_started_then() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = process_start_time(child.pid)
    assert is_running(child.pid, started)
    assert started == process_start_time(child.pid)
    assert float(started) >= float(process_start_time(os.getpid()))
    assert not is_running(child.pid, f"{float(started) - 1:.2f}")
    child.communicate(b"\n", timeout=60)
    assert not is_running(child.pid, started)


def test_numbers_that_no_process_can_have() -> None:
    for pid in (-1, 10**12, 10**30):
        assert process_start_time(pid) == ""
        assert not is_running(pid, "")
