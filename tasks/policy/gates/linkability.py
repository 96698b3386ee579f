"""Whether the release joins two separate parts of what is known of a person."""

from __future__ import annotations

from pydantic import Field

from tasks.common.formatting import count, number, percent
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_NON_MEMBERS, Aim, Attack, between, untested
from tasks.policy.criteria import Advantage, Criterion, Knowledge, Place
from tasks.policy.gate import BoundedFigure, Bounds, Gate, GateResult, Metrics, fields_of
from tasks.policy.limits import limit_phrase
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounded_attacks import attacks_in_steps
from tasks.policy.rounding import interval

NAME = "linkability"
PLACE = Place(Criterion.LINKABILITY, Knowledge.HALF)
MEANING = "how much more often two halves of a person’s values lead to one released row than those of a non-member"


class LinkabilityLimit(Section):
    """How often the release may join two parts of what is known of a person.

    Parameters
    ----------
    linkability : Fail when two halves of a member's values are shown to lead to one released row more often than
        those of non-members, by more than this share of the attacks that fail on non-members. Pass when shown within
        twice as much.
    """

    linkability: float = Field(default=0.05, gt=0, le=1)


def evaluate(assessment: Assessment, policy: LinkabilityLimit) -> tuple[GateResult, ...]:
    """Compare the success beyond that on non-members with the limit."""
    linkability, most = assessment.risk.linkability, policy.linkability
    if linkability is None:
        return ()
    risk = linkability.residual
    bounds = Bounds((BoundedFigure.of(risk.value, risk),), 2 * most, most)
    return (
        GateResult(
            name=NAME,
            verdict=bounds.verdict,
            figure=f"{risk.value:+.2f} {interval(risk.lower, risk.upper, 2, '+')}",
            limit=limit_phrase(2 * most, most),
            baseline="0, as often as non-members",
            records=linkability.n_members + linkability.n_nonmembers,
            meaning=MEANING,
            bounds=bounds,
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the residual risk with its bounds."""
    linkability = assessment.risk.linkability
    return fields_of(linkability and linkability.residual, ("value", "lower", "upper"), "risk/linkability/")


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack that joins two halves."""
    linkability, aim, name = assessment.risk.linkability, Aim.LINKAGE, "Linkability"
    attacker = "An attacker who holds two files with half of a person’s values each looks whether both lead to one "
    attacker += "released row."
    if linkability is None:
        reason = NO_NON_MEMBERS if assessment.records.reference is None else "there are fewer than two variables"
        return (untested(aim, name, attacker, reason, NAME, PLACE),)
    risk = linkability.residual
    return (
        Attack(
            aim,
            name,
            f"{attacker} That succeeds for {percent(risk.attack.value)} of the members.",
            f"{number(risk.value, 2)}, as a share of the attacks that fail on non-members",
            between(risk, lambda bound: number(bound, 2), 2),
            f"{percent(risk.control.value)} of the non-members",
            f"{count(linkability.n_members)} members, {count(linkability.n_nonmembers)} non-members",
            NAME,
            PLACE,
            Advantage.of_residual(linkability.residual),
        ),
    )


GATE = Gate(
    name=NAME,
    description="The variables are divided at random into two halves for each person; each half leads to the released "
    "rows with the largest agreement. Success is one row for both, beside the same for non-members: r = (attack − "
    "control) / (1 − control), at 99 % confidence. Fail when r is shown to be above `linkability`, pass when shown to "
    "be within twice as much. Without non-members, or with a single variable, there is no such attack.",
    evaluate=evaluate,
    limits=LinkabilityLimit,
    individual=True,
    publishes={"risk.linkability": attacks_in_steps},
    metrics=metrics,
    attacks=attacks,
)
