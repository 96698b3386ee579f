"""The short form of `make soak`: plans are released while every part and the runs are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.platform


def test_whatever_is_killed_every_run_ends_in_a_stated_outcome() -> None:
    words = ["--runs", "8", "--minutes", "10", "--patience", "5", "--pace", "15", "--seed", "3", "--at-once", "2"]
    words += ["--only", "SIGKILL", "--json"]
    command = [sys.executable, "-m", "tests.served.soak.run", *words]
    root = Path(__file__).resolve().parents[2]
    # It ends when nothing moves on. A session of its own, so that nothing of it outlives the time that it may take.
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            written, _ = process.communicate(timeout=3600)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    found = json.loads(written.splitlines()[-1])
    assert not found["problems"], "\n".join(found["problems"])
    assert sum(found["ends"].values()) >= 8
    assert sum(found["faults"].values()) >= 2
