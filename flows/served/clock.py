"""Whether this machine's clock was set while the stack ran."""

from __future__ import annotations

import time

# A change of the clock by fewer seconds, such as a time service makes, delays nothing by more.
LEAST = 60.0


class Clock:
    """Compares the clock of dates with the one that only counts seconds since the machine was started."""

    def __init__(self) -> None:
        self.ahead = _ahead()

    def moved(self) -> float:
        """Return by how many seconds the clock was set forward since the last call, below zero back; 0 if hardly.

        A machine that slept has a clock that was set forward, too.
        """
        before, self.ahead = self.ahead, _ahead()
        moved = self.ahead - before
        return moved if abs(moved) >= LEAST else 0.0


def _ahead() -> float:
    return time.time() - time.monotonic()
