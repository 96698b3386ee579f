"""Whether a release shows what its source shows, as the gates on sense and utility answer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.policy.gate import GateResult

QUESTION = "Does the release support the same conclusions as the source?"
NAMED = 3  # variables or pairs that moved by more than two samples differ
HEADLINES = ("worst variable", "worst total", "worst pair", "propensity score")


@dataclass(frozen=True)
class Usefulness:
    """The answer, and what does not hold.

    Parameters
    ----------
    answer : "yes" where every figure is within its limit, and none moved by more than two samples differ where few
        records make the limit wide; "no" where the release holds what the source never does, or more than half of the
        figures are beyond their limits; else "partly"; "not known" where nothing was measured
    beyond : the results beyond their limits
    headlines : the worst variable, total and pair and the propensity score, each beside two samples
    """

    answer: Literal["yes", "partly", "no", "not known"]
    beyond: tuple[GateResult, ...]
    headlines: tuple[GateResult, ...]


def usefulness(gates: Sequence[GateResult]) -> Usefulness:
    """Answer from the results of the gates on sense and utility."""
    asked = [one for one in gates if one.topic in ("Sense", "Utility")]
    beyond = tuple(one for one in asked if one.verdict != "pass")
    headlines = tuple(one for name in HEADLINES for one in asked if one.name == name)
    if not asked:
        return Usefulness("not known", beyond, headlines)
    senseless = any(one.topic == "Sense" and one.verdict == "fail" for one in beyond)
    if senseless or 2 * len(beyond) > len(asked):
        return Usefulness("no", beyond, headlines)
    less = beyond or any(one.moved for one in asked)
    return Usefulness("partly" if less else "yes", beyond, headlines)


def headline(one: GateResult) -> str:
    """Return a headline as a line: figure, limit, and what two samples give and which moved by more."""
    line = f"{one.name}: {one.figure} (limit {one.limit}; {one.baseline})"
    if not one.moved:
        return line
    others = f" and {len(one.moved) - NAMED} more" if len(one.moved) > NAMED else ""
    return f"{line}; moved by more than two samples differ: {', '.join(one.moved[:NAMED])}{others}"
