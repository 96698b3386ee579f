"""Carry out the trials of a search within its time, each once, also over several searches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tasks.assessment.tuning.search import Stage
from tasks.assessment.tuning.store import TrialStore
from tasks.assessment.tuning.trial import Trial
from tasks.assessment.tuning.variation import Variation

# What must still have time after a trial of a stage: trials of the search, a second look, two judgements.
FOLLOWING: dict[Stage, tuple[Stage, ...]] = {
    "screen": ("search", "search", "search", "confirm", "judge", "judge"),
    "search": ("confirm", "judge", "judge"),
    "confirm": ("judge", "judge"),
    "judge": (),
}
# Of the first trial's time, what is not for loading and compiling libraries: a twelfth where it was measured.
START_UP = 0.3
# Called with each trial, whether it was known from an earlier search, and its stage.
OnTrial = Callable[[Trial, bool, Stage], None]


@dataclass
class Attempts:
    """The trials of one search.

    Parameters
    ----------
    store : the trials of earlier searches, and of this one
    deadline : of the whole search, the judgement included, in seconds of `time.monotonic`
    records : in the tables of each stage, by which the time of a trial is foreseen
    carry_out : masks and measures a variation at a stage
    on_trial : called with each trial
    """

    store: TrialStore
    deadline: float
    records: Mapping[Stage, int]
    carry_out: Callable[[Variation, Stage], Trial]
    on_trial: OnTrial
    _slowest: float = 0.0  # seconds for a record
    _started: bool = False
    _stopped: bool = False

    def within_time(self, variation: Variation, stage: Stage) -> Trial | None:
        """Try a variation; None where there is no time for it and for what must follow, or on Ctrl-C."""
        if self.store.get(variation, stage) is None and not self._allows(stage):
            return None
        try:
            return self.trial(variation, stage)
        except KeyboardInterrupt:
            self._stopped = True
            return None

    def trial(self, variation: Variation, stage: Stage) -> Trial:
        """Return what came of a variation, now or in an earlier search, whatever the time."""
        known = self.store.get(variation, stage)
        if known is not None:
            self._seen(known, stage)
            self.on_trial(known, True, stage)
            return known
        begun = time.perf_counter()
        trial = self.carry_out(variation, stage)
        trial = replace(trial, seconds=round(time.perf_counter() - begun, 2))
        self._seen(trial, stage, first=not self._started)
        self._started = True
        self.store.add(variation, stage, trial)
        self.on_trial(trial, False, stage)
        return trial

    def _seen(self, trial: Trial, stage: Stage, *, first: bool = False) -> None:
        """Learn how long trials take; a first look, mostly of fixed cost, says so only until there is a longer one.

        The first trial takes the time in which libraries are loaded and compiled, too.
        """
        if stage != "screen":
            seconds = trial.seconds / self.records[stage]
            self._slowest = max(self._slowest, seconds * START_UP if first else seconds)

    def _allows(self, stage: Stage) -> bool:
        """Return whether there is time for one more trial and what must follow it."""
        seconds = self._slowest * sum(self.records[one] for one in (stage, *FOLLOWING[stage]))
        return not self._stopped and time.monotonic() + seconds <= self.deadline
