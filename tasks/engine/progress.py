"""How far a step has come: tasks done, and time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# Seconds from which on progress is reported.
LONG = 10.0


@dataclass(frozen=True)
class Progress:
    """How far one step has come.

    Parameters
    ----------
    step : what the step is called
    done, tasks : tasks done, and all tasks of the step
    seconds : since the step began
    """

    step: str
    done: int
    tasks: int
    seconds: float

    @property
    def seconds_left(self) -> float:
        """Seconds until the step is done, if the rest goes on as fast."""
        return self.seconds * (self.tasks - self.done) / self.done if self.done else float("inf")


def rate(records: float, seconds: float) -> str:
    """Return records per second as they are shown after a time: nothing where that is short, or records are not known.

    Examples
    --------
    >>> rate(1_000_000, 12.3), rate(1_000_000, 1.5)
    (', 81,000 records/s', '')
    """
    if not records or seconds < LONG:
        return ""
    return f", {float(f'{records / seconds:.2g}'):,.0f} records/s"


OnProgress = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Report nothing."""


@dataclass
class Meter:
    """Counts the tasks of one step and reports after each, once as many are done as are carried out at once.

    Parameters
    ----------
    report : is given the progress
    step, tasks : as of `Progress`
    at_once : tasks that are carried out at the same time, which end together at first
    """

    report: OnProgress
    step: str
    tasks: int
    at_once: int = 1

    def __post_init__(self) -> None:
        self._begun, self._done = time.monotonic(), 0

    def advance(self) -> None:
        """Report that one more task is done."""
        self._done += 1
        if self._done >= self.at_once:
            self.report(Progress(self.step, self._done, self.tasks, time.monotonic() - self._begun))
