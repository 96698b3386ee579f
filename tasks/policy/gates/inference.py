"""Whether sensitive values are guessed better for members than for non-members."""

from __future__ import annotations

from functools import partial
from typing import Any

from anoncore.risk import AttributeInference, InferenceRisk, three_way
from anoncore.risk.inference import PASSES_WITHIN
from tasks.common.formatting import count, percent, points
from tasks.policy.assessment import Assessment
from tasks.policy.attack import (
    NO_NON_MEMBERS,
    NO_QUASI_IDENTIFIERS,
    NO_SENSITIVE,
    Aim,
    Attack,
    between,
    untested,
)
from tasks.policy.gate import Gate, GateResult, Metrics, fields_of
from tasks.policy.limits import limit_phrase
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import coarse

NAME = "attribute inference"
whole = partial(percent, digits=0)


def worst_of(guessed: InferenceRisk | None) -> AttributeInference | None:
    """Return the variable whose excess is proved largest; None where nothing was tested."""
    return max(guessed.variables, key=lambda one: one.excess.lower, default=None) if guessed else None


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Compare the excess of the worst variable with its margin; one gate for all variables."""
    guessed = assessment.risk.inference
    worst = worst_of(guessed)
    if guessed is None or worst is None:
        return ()
    excess = worst.excess
    return (
        GateResult(
            name=NAME,
            verdict=three_way(excess.lower, excess.upper, PASSES_WITHIN * guessed.margin, fails_above=guessed.margin),
            figure=f"{worst.name}: {excess.value:+.2f} [{excess.lower:+.2f}, {excess.upper:+.2f}]",
            limit=limit_phrase(PASSES_WITHIN * guessed.margin, guessed.margin),
            baseline=f"{worst.strangers.value:.2f} right for non-members",
            records=guessed.n_members + guessed.n_strangers,
            meaning="how much more often a sensitive value is guessed right for members than for non-members; worst of "
            f"{len(guessed.variables)}",
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the excess of the worst variable with its bounds."""
    worst = worst_of(assessment.risk.inference)
    return fields_of(worst and worst.excess, ("value", "lower", "upper"), "risk/inference/excess_")


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack on the worst sensitive variable."""
    aim, name = Aim.INFERENCE, "Attribute inference"
    attacker = (
        "An attacker who knows a person’s quasi-identifiers takes the sensitive value of the nearest released record "
        "for the person’s; what counts is how much more often that is right than for non-members."
    )
    guessed = assessment.risk.inference
    worst = worst_of(guessed)
    if guessed is None or worst is None:
        keyless, alone = assessment.risk.disclosure is None, assessment.records.reference is None
        reason = NO_QUASI_IDENTIFIERS if keyless else NO_NON_MEMBERS if alone else NO_SENSITIVE
        return (untested(aim, name, attacker, reason, NAME),)
    right = f"right for {whole(worst.members.value)} of the members"
    return (
        Attack(
            aim,
            name,
            f"{attacker} Worst of {count(len(guessed.variables))}: {worst.name}, {right}.",
            f"{points(worst.excess.value)} points",
            f"{between(worst.excess, points)} points",
            f"{whole(worst.strangers.value)} right for non-members",
            f"{count(worst.members.n)} members, {count(worst.strangers.n)} non-members",
            NAME,
        ),
    )


GATE = Gate(
    name=NAME,
    description="Sensitive values are guessed from the quasi-identifiers, for members and for non-members, with "
    "Newcombe's interval of the difference. Fail when the excess is shown to be above the margin for the worst "
    "variable, pass when it is shown to be within three times the margin.",
    evaluate=evaluate,
    individual=True,
    publishes={"risk.inference": coarse},
    metrics=metrics,
    attacks=attacks,
)
