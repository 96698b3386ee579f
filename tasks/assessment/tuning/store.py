"""What searches have found out before: kept in the home, for the owner alone; figures and names, no value."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tasks.assessment.tuning.search import Stage
from tasks.assessment.tuning.trial import Trial
from tasks.assessment.tuning.variation import Variation
from tasks.common import values
from tasks.common.digests import digest_of
from tasks.common.home import Home, make_private, write_private
from tasks.common.keys import keyed_digest


@dataclass(frozen=True)
class _Kept:
    """The file: which plan and data it is about, trials by stage and variation, and what the search advised."""

    key: str
    trials: dict[str, Trial] = field(default_factory=dict)
    advice: tuple[str, ...] = ()


class TrialStore:
    """The trials of one plan on one table, by stage and variation.

    A plan or a table that changed begins anew; trials count only with the same measures ``acknowledged``. Keys are
    keyed digests, so that no one can test guesses by them.
    """

    def __init__(self, home: Home, plan: str, key: str, acknowledged: tuple[str, ...] = ()) -> None:
        self._home, self._path, self._acknowledged = home, home.tuning(plan), sorted(acknowledged)
        self._kept = _read(self._path, keyed_digest(home, key))

    def get(self, variation: Variation, stage: Stage) -> Trial | None:
        """Return a trial of before; None where there is none."""
        return self._kept.trials.get(self._name(variation, stage))

    def add(self, variation: Variation, stage: Stage, trial: Trial) -> None:
        """Keep a trial."""
        self._kept.trials[self._name(variation, stage)] = trial
        self._write()

    @property
    def advice(self) -> tuple[str, ...]:
        """What the last search advised."""
        return self._kept.advice

    def advise(self, lines: tuple[str, ...]) -> None:
        """Keep what a search advises, for a run that is rejected later."""
        self._kept = replace(self._kept, advice=lines)
        self._write()

    def _write(self) -> None:
        make_private(self._path.parent)
        write_private(self._path, json.dumps(values.to_json(self._kept)).encode())

    @property
    def judged(self) -> int:
        """How many choices were judged on the units that no search has seen."""
        return sum(name.startswith("judge ") for name in self._kept.trials)

    def refused(self, variation: Variation) -> bool:
        """Return whether it was judged before and did not pass."""
        judged = self.get(variation, "judge")
        return judged is not None and judged.decision == "reject"

    def _name(self, variation: Variation, stage: Stage) -> str:
        steps = [asdict(step) for step in variation.steps]
        form = digest_of([steps, variation.without, variation.rounded, self._acknowledged])
        return f"{stage} {keyed_digest(self._home, form)}"


def _read(path: Path, key: str) -> _Kept:
    try:
        kept = values.from_json(_Kept, json.loads(path.read_bytes()))
    except (FileNotFoundError, ValueError):
        # A file that cannot be read is written anew.
        return _Kept(key)
    return kept if kept.key == key else _Kept(key)
