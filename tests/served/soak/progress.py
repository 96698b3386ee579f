"""For how long plans stand still: a run is due, and neither ends, nor asks people, nor works."""

from __future__ import annotations

import time
from typing import Any

import psutil

from flows.served.state import active_runs
from tasks.common.home import Home

# Processor seconds after which a run has moved on: a process that only waits uses fewer in five minutes, and a run of
# the soak a few times as many, however long a loaded machine takes for them.
WORK = 3.0


class Standstill:
    """Notes for each plan the longest time in which it stood still.

    A run that waits for its turn while as many as may be under way work does not stand still.
    """

    def __init__(self, home: Home, at_once: int) -> None:
        self.home, self.at_once = home, at_once
        # By plan, in seconds.
        self.longest: dict[str, float] = {}
        # How many runs have ended, or come to the question that they ask people.
        self.through = 0
        # Runs that are due, with their plans; since when each plan has stood still; what each process had worked then.
        self._due: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._worked: dict[int, float] = {}
        self._seen: set[tuple[str, str]] = set()
        self._changed = time.monotonic()

    @property
    def quiet(self) -> float:
        """For how long no run at all has worked or changed its state, in seconds."""
        return time.monotonic() - self._changed

    def look(self, open_runs: list[dict[str, Any]] | None) -> None:
        """Look once at the runs that are due; None where Prefect does not answer."""
        moved_on, working = self._moved_on()
        now = time.monotonic()
        if open_runs is not None:
            seen = {(str(r["id"]), str(r["state_type"])) for r in open_runs}
            self._changed = now if moved_on or seen != self._seen else self._changed
            self._seen = seen
            due = {str(r["id"]): str(r["parameters"].get("plan")) for r in open_runs if r["state_type"] != "PAUSED"}
            through = [plan for run, plan in self._due.items() if run not in due]
            self.through += len(through)
            moved_on |= {*through}
            if working >= self.at_once:
                begun = {due[str(r["id"])] for r in open_runs if r["state_type"] not in ("PAUSED", "SCHEDULED")}
                moved_on |= {*due.values()} - begun
            self._due = due
        self._since = {plan: now if plan in moved_on else self._since.get(plan, now) for plan in self._due.values()}
        for plan, since in self._since.items():
            self.longest[plan] = max(self.longest.get(plan, 0.0), now - since)

    def _moved_on(self) -> tuple[set[str], int]:
        """Return the plans whose runs have worked since they were last said to, and how many runs there are."""
        active = {one.pid: one.plan for one in active_runs(self.home).all()}
        worked = {pid: seconds for pid in active if (seconds := _worked(pid)) is not None}
        before = {pid: self._worked.get(pid, 0.0) for pid in worked}
        far = {pid for pid, seconds in worked.items() if seconds - before[pid] > WORK}
        self._worked = {pid: worked[pid] if pid in far else before[pid] for pid in worked}
        return {active[pid] for pid in far}, len(worked)


def _worked(pid: int) -> float | None:
    """Return the processor seconds of a process; None where there is none."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)
