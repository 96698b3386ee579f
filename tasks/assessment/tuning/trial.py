"""One trial of a search: a variation was masked and measured, and every gate was asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from tasks.assessment.tuning.variation import Variation
from tasks.policy.gate import GateResult
from tasks.policy.verdict import Verdict

Decision = Literal["publish", "await", "reject", "not possible"]
# In the order of preference: failed gates, open gates, variables left out, loss.
Rank = tuple[int, int, int, float]
Loss = tuple[float | None, float | None]
NOT_POSSIBLE: Rank = (1_000_000, 0, 0, math.inf)


@dataclass(frozen=True)
class Trial:
    """What came of one variation; figures, names and words, no value and no seed.

    Parameters
    ----------
    name : of the variation
    decision, reason : of the policy, or why it could not be carried out
    gates : every gate with its figures
    loss, baseline : what is lost, smaller is better, and what the reference sample loses
    without : how many variables were left out
    seconds : that it took
    """

    name: str
    decision: Decision
    reason: str
    gates: tuple[GateResult, ...] = ()
    loss: float | None = None
    baseline: float | None = None
    without: int = 0
    seconds: float = 0.0

    @property
    def failed(self) -> tuple[GateResult, ...]:
        """The gates that failed."""
        return tuple(gate for gate in self.gates if gate.verdict == "fail")

    @property
    def open(self) -> tuple[GateResult, ...]:
        """The gates on risk that are open."""
        return tuple(gate for gate in self.gates if gate.verdict == "inconclusive")

    @property
    def lost(self) -> tuple[GateResult, ...]:
        """The gates on utility that a person must decide on."""
        return tuple(gate for gate in self.gates if gate.verdict == "to decide")

    @property
    def untested(self) -> tuple[GateResult, ...]:
        """The gates that the table has no records for."""
        return tuple(gate for gate in self.gates if gate.verdict == "not tested")

    @property
    def unsettled(self) -> tuple[GateResult, ...]:
        """The gates that do not pass, the failed ones first."""
        return (*self.failed, *self.open, *self.lost)

    def rank(self, unproven: Collection[str] = ()) -> Rank:
        """Return what a search makes smallest; gates of the names ``unproven`` may be open."""
        if self.decision == "not possible":
            return NOT_POSSIBLE
        rejected = len(self.failed) or int(self.decision == "reject")
        open_ = sum(gate.name not in unproven for gate in self.open)
        return rejected, open_ + len(self.lost), self.without, math.inf if self.loss is None else self.loss


@dataclass(frozen=True)
class Tried:
    """A variation and what came of it."""

    variation: Variation
    trial: Trial


def trial_of(name: str, verdict: Verdict, loss: Loss, without: int, *, dependencies_tested: bool) -> Trial:
    """Return what came of a variation that was carried out: ``loss`` is its loss and the reference sample's.

    Without records enough for any dependency in the table, the gate on dependencies shows nothing by passing.
    """
    untested = () if dependencies_tested else ("dependencies",)
    return Trial(
        name=name,
        decision=verdict.decision,
        reason=verdict.reason,
        gates=tuple(replace(one, verdict="not tested") if one.name in untested else one for one in verdict.gates),
        loss=_rounded(loss[0]),
        baseline=_rounded(loss[1]),
        without=without,
    )


def unproven_gates(trials: Collection[Trial]) -> frozenset[str]:
    """Return the gates that are open for at least half of the trials that do not fail them.

    In a small table that is so for want of records, whatever the setting.
    """
    settled = Counter(gate.name for one in trials for gate in one.gates if gate.verdict != "fail")
    open_ = Counter(gate.name for one in trials for gate in one.gates if gate.verdict == "inconclusive")
    return frozenset(name for name, times in open_.items() if 2 * times >= settled[name])


def _rounded(figure: float | None) -> float | None:
    """Keep three digits: exact differences would disclose exact statistics of the source."""
    return None if figure is None else float(f"{figure:.3g}")
