"""The clock of processes that can be made to step, where a C compiler is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
SECONDS = 8  # bytes of a number of seconds


class Clock:
    """A file that says by how much the clock of processes with these ``variables`` differs from the machine's."""

    def __init__(self, file: Path) -> None:
        # Empty where the clock cannot be made to step.
        self.file, self.variables = file, dict[str, str]()
        compiler = shutil.which("cc")
        if compiler is not None:
            library = file.with_suffix(".so")
            subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, SOURCE], check=True)
            file.write_bytes(bytes(SECONDS))
            self.variables = {"LD_PRELOAD": str(library), "CLOCK_FILE": str(file)}

    def step(self, hours: float) -> None:
        """Let the clock differ by so many hours."""
        if self.variables:
            # In place: processes have the file in their memory.
            with self.file.open("r+b") as file:
                file.write(round(hours * 3600).to_bytes(SECONDS, "little", signed=True))
