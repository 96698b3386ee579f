"""What a benchmark prints, with the load of the machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Return a function that prints lines, whatever pytest captures."""

    def lines_shown(*lines: str) -> None:
        with capsys.disabled():
            sys.stdout.write("\n  ".join(["", *lines, f"load {os.getloadavg()[0]:.1f}"]))

    return lines_shown
