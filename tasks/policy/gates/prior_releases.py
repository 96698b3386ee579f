"""What all releases of the same data disclose together."""

from __future__ import annotations

from dataclasses import replace

from tasks.common.formatting import count, number
from tasks.policy.assessment import Assessment, PriorReleases
from tasks.policy.attack import Aim, Attack, by_auc, untested
from tasks.policy.criteria import IN_THE_DATA
from tasks.policy.gate import BoundedFigure, Gate, GateResult, Metrics, fields_of
from tasks.policy.limits import MembershipLimit
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounded_attacks import attacks_in_steps
from tasks.policy.rounding import interval

NAME = "earlier releases"
AIM = Aim.MEMBERSHIP
MEANING = "whether all releases of these data together distinguish members from non-members: fresh noise averages out"

DOES = {
    "averaged": "The nearest rows are averaged.",
    "gathered": "Every release adds evidence.",
    "histories": "All rows of a pseudonym are averaged.",
}


def evaluate(assessment: Assessment, policy: MembershipLimit) -> tuple[GateResult, ...]:
    """Compare the attack by all releases with the limit; inconclusive where one cannot be compared."""
    prior = assessment.prior_releases
    if prior is None:
        return ()
    if not prior.releases:
        limit, baseline = "measured from the second release on", "0, a first release"
        return (GateResult(NAME, "pass", "0", limit, baseline, 0, MEANING),)
    return (_of_several(prior, policy),)


def _of_several(prior: PriorReleases, policy: MembershipLimit) -> GateResult:
    figure = f"{prior.releases}, of which {prior.compared} can be compared"
    result = GateResult(NAME, "inconclusive", figure, policy.area_limit, "0.50, guessing", 0, MEANING)
    if prior.attack is None:
        return result
    attacks = prior.attack.together
    worst = max(attacks.values(), key=lambda attack: attack.lower)
    bounds = policy.area_bounds(*(BoundedFigure.of(one.auc, one, name) for name, one in attacks.items()))
    # What was not compared leaves the question open, unless what was compared fails.
    partly = bounds.verdict != "fail" and prior.compared < prior.releases
    return replace(
        result,
        verdict="inconclusive" if partly else bounds.verdict,
        figure=f"AUC {worst.auc:.3f} {interval(worst.lower, worst.upper, 3)} with {prior.compared} of {prior.releases}",
        records=worst.n_members + worst.n_nonmembers,
        bounds=None if partly else bounds,
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the number of releases, and the attacks with their bounds."""
    prior = assessment.prior_releases
    if prior is None:
        return {}
    flat: dict[str, float | None] = {"risk/prior_releases": prior.releases}
    for name, attack in prior.attack.together.items() if prior.attack else ():
        flat |= fields_of(attack, ("auc", "lower", "upper"), f"risk/prior_releases_{name}/")
    return flat


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attacks by all releases together."""
    prior, name = assessment.prior_releases, "Membership by all releases together"
    attacker = "An attacker who knows a person’s full record combines all releases of these data."
    if prior is None:
        return ()
    if not prior.releases:
        return (Attack(AIM, name, f"{attacker} There is no earlier one.", "0 earlier releases", gate=NAME),)
    if prior.attack is None:
        reason = (
            f"none of the {count(prior.releases)} earlier release(s) can be compared with this one, or there are no "
            "non-members"
        )
        return (untested(AIM, name, attacker, reason, NAME, IN_THE_DATA),)
    attacker += f" {count(prior.compared)} of {count(prior.releases)} earlier release(s) can be compared."
    newest = number(prior.attack.newest.auc)
    rows = (
        by_auc(AIM, f"{name}, {how}", f"{attacker} {DOES[how]}", attack, NAME, IN_THE_DATA)
        for how, attack in prior.attack.together.items()
    )
    return tuple(replace(row, baseline=f"{row.baseline}; {newest} by this release alone") for row in rows)


GATE = Gate(
    name=NAME,
    description="Membership inference by all releases of the same data together, averaged and gathered, and by the "
    "mean of all rows of a pseudonym where rows carry one. Fail when an area under the ROC curve is shown to be above "
    "`membership_auc`, pass when within `membership_pass`; inconclusive where a release cannot be compared.",
    evaluate=evaluate,
    limits=MembershipLimit,
    individual=True,
    publishes={"prior_releases": attacks_in_steps},
    metrics=metrics,
    attacks=attacks,
)
