"""Carry out the trials of a search within its time, each once, also over several searches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tasks.assessment.tuning.search import Stage
from tasks.assessment.tuning.store import TrialStore
from tasks.assessment.tuning.trial import Trial
from tasks.assessment.tuning.variation import Variation

# By how much longer than a trial the judgement may take, with twice as many records.
JUDGE_TAKES = 2.5
# Trials of the search that must still have time after one of a stage, besides the judgement.
FOLLOWING: dict[Stage, float] = {"screen": 2.0, "search": 2.0, "confirm": 1.0}
# Called with each trial, whether it was known from an earlier search, and its stage.
OnTrial = Callable[[Trial, bool, Stage], None]


@dataclass
class Attempts:
    """The trials of one search.

    Parameters
    ----------
    store : the trials of earlier searches, and of this one
    deadline : of the whole search, the judgement included, in seconds of `time.monotonic`
    carry_out : masks and measures a variation at a stage
    on_trial : called with each trial
    """

    store: TrialStore
    deadline: float
    carry_out: Callable[[Variation, Stage], Trial]
    on_trial: OnTrial
    _longest: float = 0.0
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
            self._longest = max(self._longest, known.seconds) if stage == "search" else self._longest
            self.on_trial(known, True, stage)
            return known
        begun = time.perf_counter()
        trial = self.carry_out(variation, stage)
        trial = replace(trial, seconds=round(time.perf_counter() - begun, 2))
        self._longest = max(self._longest, trial.seconds)
        self.store.add(variation, stage, trial)
        self.on_trial(trial, False, stage)
        return trial

    def _allows(self, stage: Stage) -> bool:
        """Return whether there is time for one more trial and what must follow it."""
        following = FOLLOWING.get(stage, 0.0) + JUDGE_TAKES
        return not self._stopped and time.monotonic() + following * self._longest <= self.deadline
