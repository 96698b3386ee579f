"""The clock of processes that can be made to step, where the package libfaketime is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path


class Clock:
    """A file that says by how much the clock of processes with these ``variables`` differs from the machine's."""

    def __init__(self, file: Path) -> None:
        self.file, library = file, _library()
        # Empty where the clock cannot be made to step.
        self.variables: dict[str, str] = {}
        if library is not None:
            file.write_text("+0")
            self.variables = {
                "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1", "NO_FAKE_STAT": "1",
            }  # fmt: skip

    def step(self, hours: float) -> None:
        """Let the clock differ by so many hours."""
        if self.variables:
            self.file.write_text(f"{hours * 3600:+.0f}")


def _library() -> Path | None:
    spec = importlib.util.find_spec("libfaketime")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.rglob("libfaketime.so.1"))), None)
