"""Whether the released row that shares most of a person's rare values tells who is in the data."""

from __future__ import annotations

from tasks.policy.assessment import Assessment
from tasks.policy.attack import Attack
from tasks.policy.attack_family import family_attacks, family_metrics, family_result
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.limits import MembershipLimit, MembershipPolicy
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import as_measured

NAME = "agreement"


def evaluate(assessment: Assessment, policy: MembershipPolicy) -> tuple[GateResult, ...]:
    """Decide by the form that tells most."""
    meaning = "whether the released row that shares most of a person’s rare values distinguishes members"
    return (family_result(NAME, assessment.risk.agreement, policy, meaning),)


def metrics(assessment: Assessment) -> Metrics:
    """Return the worst area with its bounds."""
    return family_metrics(assessment.risk.agreement, "risk/agreement/")


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by agreement."""
    attacker = (
        "An attacker who knows all, some or the identifying values of a person takes the released row that shares the "
        "most, weighed by rarity; numbers may differ by up to 100 units of their precision."
    )
    return family_attacks("Membership by agreement", attacker, assessment.risk.agreement, NAME)


GATE = Gate(
    name=NAME,
    description="Members are distinguished from non-members by the released row with the largest agreement: the sum of "
    "−log of the share of people who hold each shared value. Tried with all variables, the quasi-identifiers, the "
    "levels, random subsets of 3, 5, 10 and half of the variables, and numbers within 1, 10 and 100 units of their "
    "precision. Fail when an area under the ROC curve is shown to be above `membership_auc`, or when members are "
    "over-represented among the highest scores at a sixth of the level `tail_p`; pass when all areas are shown to be "
    "within `membership_pass`.",
    evaluate=evaluate,
    limits=MembershipLimit,
    individual=True,
    untested_as="membership",
    publishes={"risk.agreement": as_measured},
    metrics=metrics,
    attacks=attacks,
)
