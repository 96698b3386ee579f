"""Interval disclosure: numbers that lie near the one released for their record."""

from __future__ import annotations

from pydantic import Field

from anoncore.risk import IntervalDisclosure
from tasks.common.formatting import count, percent, shares
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Aim, Attack, between
from tasks.policy.gate import BoundedFigure, Bounds, Gate, GateResult, GateVerdict, Metrics
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import coarse

NAME = "interval disclosure"
MEANING = (
    "numbers within 0.05 standard deviations of the one released for their record, of what is possible beyond chance"
)


class IntervalLimit(Section):
    """How often a number may lie near the one released for its record.

    Parameters
    ----------
    interval_disclosure : Fail when, beyond chance, a larger share of a variable's numbers is shown to lie within 0.05
        standard deviations of the number released for their record; pass when it is shown to be within the limit for
        every variable. The share is of what is possible beyond chance: 1 where all numbers are released as they are.
        Without a limit it is reported.
    """

    interval_disclosure: float | None = Field(default=None, gt=0, le=1)


def evaluate(assessment: Assessment | PublishedAssessment, policy: IntervalLimit) -> tuple[GateResult, ...]:
    """Compare the variable with the largest share with the limit."""
    limit, found = policy.interval_disclosure, assessment.risk.intervals
    if limit is None:
        return ()
    if not found:
        drawn = found is None and not assessment.is_external
        verdict: GateVerdict = "pass" if drawn else "not tested"
        reason = "no row keeps its record" if drawn else "no number could be measured"
        return (GateResult(NAME, verdict, reason, percent(limit), "–", 0, MEANING),)
    forms = tuple(BoundedFigure(one.name, one.excess, one.lower, one.upper, 0.0) for one in found)
    bounds = Bounds(forms, limit, limit)
    # What fails is shown by its lower bound, and what does not pass by its upper one.
    worst = max(found, key=lambda one: (one.lower if bounds.verdict == "fail" else one.upper, one.name))
    return (
        GateResult(
            name=NAME,
            verdict=bounds.verdict,
            figure=f"{percent(worst.excess)}, {between(worst, percent, 3)}",
            limit=percent(limit),
            baseline=f"{percent(worst.chance)} by chance",
            records=worst.within.n,
            meaning=f"{MEANING}; worst of {count(len(found))}",
            variables=(worst.name,),
            bounds=bounds,
        ),
    )


def _worst(found: tuple[IntervalDisclosure, ...]) -> IntervalDisclosure:
    return max(found, key=lambda one: (one.excess, one.name))


def metrics(assessment: Assessment) -> Metrics:
    """Return the largest share beyond chance."""
    found = assessment.risk.intervals
    return {"risk/interval_disclosure": _worst(found).excess} if found else {}


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the variable whose numbers lie nearest."""
    found = assessment.risk.intervals
    if not found:
        return ()
    worst = _worst(found)
    return (
        Attack(
            Aim.INFERENCE,
            "Interval disclosure",
            "An attacker who has found a person’s row gives an interval of 0.05 standard deviations on either side of "
            f"its number. Worst of {count(len(found))}: {worst.name}.",
            percent(worst.within.value, 0),
            shares(worst.within),
            f"{percent(worst.chance, 0)} by chance",
            count(worst.within.n),
            NAME,
        ),
    )


GATE = Gate(
    name=NAME,
    description="Where released rows keep their records: the share of a variable’s numbers within 0.05 standard "
    "deviations of the number released for their record, beyond the share among all pairs of records and of what is "
    "possible beyond it; a number that 5 % hold is left out. Reported, and "
    "decided where `interval_disclosure` gives a limit, by intervals at 99 % confidence together. "
    "Not tested where no number is left to be measured.",
    evaluate=evaluate,
    limits=IntervalLimit,
    individual=True,
    publishes={"risk.intervals": coarse},
    metrics=metrics,
    attacks=attacks,
)
