"""Why no setting passes: the gate that stops most of them, its nearest figure, what was tried, how many units help."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.assessment.tuning.trial import Trial, Tried, unproven_gates
from tasks.policy.gate import GateResult
from tasks.policy.halves import times_needed

MOST_NAMED = 3


@dataclass(frozen=True)
class Obstacle:
    """The gate that stops most settings of a search.

    Parameters
    ----------
    nearest : its result where it came nearest to passing
    setting : with which it did
    stops, of : settings that do not pass it, of those that were possible
    variables : that drive it, the most frequent first
    """

    nearest: GateResult
    setting: str
    stops: int
    of: int
    variables: tuple[str, ...]

    @property
    def stops_all(self) -> bool:
        """Whether no setting passes it."""
        return self.stops == self.of

    @property
    def sentence(self) -> str:
        """The gate, how many settings it stops, the nearest figure beside its limit, and what drives it."""
        driven = f"; driven by {', '.join(self.variables)}" if self.variables else ""
        none = f"none of the {self.of} settings tried passes"
        tried = "the one setting tried does not pass" if self.of == 1 else none
        stopped = f"{tried} {self.nearest.name}"
        if not self.stops_all:
            stopped = f"{self.nearest.name} stops {self.stops} of the {self.of} settings tried"
        return f"{stopped} (nearest: {self.nearest.figure}, limit {self.nearest.limit}, with {self.setting}{driven})"


def obstacle(tried: Sequence[Tried], *, enough: bool) -> Obstacle | None:
    """Return the gate that stops most settings; None where none does.

    Gates that fail count before those that a person would decide on. Where the tables have too few records to settle
    every gate (not ``enough``), those that are open for most settings are left aside: no setting is the reason.
    """
    trials = [one.trial for one in tried if one.trial.decision != "not possible"]
    unproven = frozenset() if enough else unproven_gates(trials)
    fails = Counter(gate.name for one in trials for gate in one.failed)
    stops = Counter(gate.name for one in trials for gate in one.unsettled if _counts(gate, unproven))
    if not stops:
        return None
    name = max(stops, key=lambda gate: (fails[gate] > 0, stops[gate], fails[gate]))
    held = [
        (gate, one.name) for one in trials for gate in one.unsettled if gate.name == name and _counts(gate, unproven)
    ]
    nearest, setting = min(held, key=lambda one: _excess(one[0]))
    variables = Counter(variable for gate, _ in held for variable in gate.variables)
    return Obstacle(nearest, setting, stops[name], len(trials), tuple(v for v, _ in variables.most_common(MOST_NAMED)))


def units_needed(trial: Trial, units: int) -> int:
    """Return above how many units open gates on risk may show that a harmless release is harmless.

    Parameters
    ----------
    trial : with ``units`` statistical units on each of its two sides

    Notes
    -----
    Reaches of intervals fall with the root of the number of units. A harmless figure that is above guessing by chance
    needs more, so that this many suffice for half of the harmless releases. A run cuts a table in two sides as large
    as these were, so that it needs twice as many; where it pools halves it needs fewer.
    """
    times = max((times_needed(gate.bounds) for gate in trial.open if gate.bounds is not None), default=1.0)
    return int(float(f"{2 * times * units:.2g}"))


def kinds(tried: Sequence[Tried]) -> str:
    """Return what a search tried, in words: how many settings of how many methods, and which kinds differ."""
    variations = [one.variation for one in tried]
    own = len({one.masking for one in variations})
    parts = {
        "with variables left out": sum(bool(one.without) for one in variations),
        "with numbers in coarser units": sum(bool(one.rounded) for one in variations),
        "with rare levels or extreme records treated": sum(any(s.prepares for s in one.steps) for one in variations),
    }
    told = "".join(f", {number} {what}" for what, number in parts.items() if 0 < number < len(variations))
    return f"{len(variations)} setting(s) of {own} method(s){told}"


def _counts(gate: GateResult, unproven: frozenset[str]) -> bool:
    return gate.verdict != "inconclusive" or gate.name not in unproven


def _excess(gate: GateResult) -> tuple[bool, float]:
    """Return how far a result is from passing: failed or not, and how far beyond its limit, as a share of it."""
    decisive = gate.decisive
    if decisive is None or not math.isfinite(decisive.figure):
        return gate.verdict == "fail", math.inf
    sign = -1.0 if decisive.at_least else 1.0
    return gate.verdict == "fail", sign * (decisive.figure - decisive.limit) / max(abs(decisive.limit), 1e-12)
