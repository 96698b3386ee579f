"""Whether the density of the release around a person tells who is in the data."""

from __future__ import annotations

from tasks.policy.assessment import Assessment
from tasks.policy.attack import Attack
from tasks.policy.attack_family import family_attacks, family_metrics, family_result
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.limits import MembershipLimit, MembershipPolicy
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import as_measured

NAME = "density"


def evaluate(assessment: Assessment, policy: MembershipPolicy) -> tuple[GateResult, ...]:
    """Decide by the form that tells most."""
    meaning = "whether the release is denser around members than the population is"
    return (family_result(NAME, assessment.risk.density, policy, meaning),)


def metrics(assessment: Assessment) -> Metrics:
    """Return the worst area with its bounds."""
    return family_metrics(assessment.risk.density, "risk/density/")


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by densities."""
    attacker = (
        "An attacker who knows a person’s record and the population compares how near released rows are with how near "
        "other people are, or trains a classifier to tell released rows from people."
    )
    return family_attacks("Membership by density", attacker, assessment.risk.density, NAME)


GATE = Gate(
    name=NAME,
    description="Members are distinguished from non-members by the ratio of the distance to their nearest and fifth "
    "nearest released row and to other people, also once the columns of the release have the distributions of the "
    "reference where they are apart, and by boosted trees trained to tell released rows from the reference. Fail when "
    "an area under the ROC curve is shown to be above `membership_auc`, or when members are over-represented among the "
    "highest scores at a sixth of the level `tail_p`; pass when all areas are shown to be within `membership_pass`.",
    evaluate=evaluate,
    limits=MembershipLimit,
    individual=True,
    untested_as="membership",
    publishes={"risk.density": as_measured},
    metrics=metrics,
    attacks=attacks,
)
