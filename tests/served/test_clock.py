"""The clock that is made to step, itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.served.clock import Clock

ASKS = "import time, datetime; print(time.time(), datetime.datetime.now().timestamp(), time.monotonic(), flush=True)"


def test_a_process_sees_its_clock_step_and_others_do_not(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    if not clock.variables:
        pytest.skip("no C compiler")
    program = f"{ASKS}; input(); {ASKS}; input(); {ASKS}"
    with subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | clock.variables, text=True, stdin=-1, stdout=-1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        seen = []
        for hours in (0, 26, -3):
            clock.step(hours)
            if hours:
                process.stdin.write("\n")
                process.stdin.flush()
            seen.append([float(one) for one in process.stdout.readline().split()])
    first, ahead, behind = seen
    for place in (0, 1):
        assert ahead[place] - first[place] == pytest.approx(26 * 3600, abs=60)
        assert behind[place] - first[place] == pytest.approx(-3 * 3600, abs=60)
    assert 0 <= behind[2] - first[2] < 60
