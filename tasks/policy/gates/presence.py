"""Whether values, and combinations of values, that stand in the release tell who is in the data."""

from __future__ import annotations

from tasks.policy.assessment import Assessment
from tasks.policy.attack import Attack
from tasks.policy.attack_family import family_attacks, family_metrics, family_result
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.limits import MembershipLimit, MembershipPolicy
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import as_measured

NAME = "value presence"


def evaluate(assessment: Assessment, policy: MembershipPolicy) -> tuple[GateResult, ...]:
    """Decide by the form that tells most."""
    meaning = "whether values, and combinations of values, that stand in the release distinguish members"
    return (family_result(NAME, assessment.risk.presence, policy, meaning),)


def metrics(assessment: Assessment) -> Metrics:
    """Return the worst area with its bounds, and how many unique values of the worst variable are released."""
    presence = assessment.risk.presence
    figures = dict(family_metrics(presence, "risk/value_presence/"))
    return figures if presence is None else figures | {"risk/value_presence/unique_excess": presence.excess.value}


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by values that stand in the release."""
    attacker = (
        "An attacker who knows a person’s record looks which of its values, and combinations of two to four values, "
        "stand in the release."
    )
    return family_attacks("Membership by value presence", attacker, assessment.risk.presence, NAME)


GATE = Gate(
    name=NAME,
    description="Members are distinguished from non-members by which of their values, and combinations of two to four "
    "values, stand in the release, weighed by how rare that is among people; also by all categorical values and by the "
    "quasi-identifiers together, and by each variable alone. Fail when an area under the ROC curve is shown to be "
    "above `membership_auc`, or when members are over-represented among the highest scores at a sixth of the level "
    "`tail_p`; pass when all areas are shown to be within `membership_pass`.",
    evaluate=evaluate,
    limits=MembershipLimit,
    individual=True,
    untested_as="membership",
    publishes={"risk.presence": as_measured},
    metrics=metrics,
    attacks=attacks,
)
