"""Whether an attacker can distinguish the people in the data from others."""

from __future__ import annotations

from anoncore.risk import MembershipAttack
from tasks.common.formatting import count
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Aim, Attack, by_auc
from tasks.policy.criteria import IN_THE_DATA
from tasks.policy.gate import BoundedFigure, Gate, GateResult, Metrics, fields_of
from tasks.policy.limits import MembershipLimit, nonmembers_needed
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounded_attacks import attacks_in_steps
from tasks.policy.rounding import interval

AIM = Aim.MEMBERSHIP
NEAREST, SCORES, RESCALED, BOXES = (
    "membership",
    "membership by scores",
    "membership once rescaled",
    "membership by boxes",
)
MEANINGS = {
    NEAREST: "whether an attacker can distinguish members from non-members",
    SCORES: "whether principal scores that recur in the release distinguish members from non-members",
    RESCALED: "the same once the columns of the release have the distributions of the reference",
    BOXES: "whether the density of a person’s box distinguishes members from non-members",
}
AUC = ("auc", "lower", "upper")


def carried_out(assessment: Assessment | PublishedAssessment) -> dict[str, MembershipAttack | None]:
    """Return the attacks by their names; None for one that needs non-members and had none."""
    risk = assessment.risk
    tried = {NEAREST: risk.membership, SCORES: risk.score_coincidence.attack if risk.score_coincidence else None}
    if risk.membership_rescaled is not None:
        tried[RESCALED] = risk.membership_rescaled
    if risk.boxes is not None:
        tried[BOXES] = risk.boxes.membership
    return tried


def evaluate(assessment: Assessment, policy: MembershipLimit) -> tuple[GateResult, ...]:
    """Compare the area under the ROC curve of each attack with the limit."""
    return tuple(_result(name, attack, policy) for name, attack in carried_out(assessment).items())


def _result(name: str, attack: MembershipAttack | None, policy: MembershipLimit) -> GateResult:
    limit, baseline, meaning = policy.area_limit, "0.50, guessing", MEANINGS[name]
    if attack is None:
        return GateResult(name, "not tested", "needs non-members", limit, baseline, 0, meaning)
    bounds = policy.area_bounds(BoundedFigure.of(attack.auc, attack))
    return GateResult(
        name=name,
        verdict=bounds.verdict,
        figure=f"AUC {attack.auc:.3f} {interval(attack.lower, attack.upper, 3)}",
        limit=limit,
        baseline=baseline,
        records=attack.n_members + attack.n_nonmembers,
        meaning=meaning,
        bounds=bounds,
        needed=nonmembers_needed(attack, policy) if bounds.verdict == "inconclusive" else "",
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the areas with their bounds, and what boxes disclose about members."""
    names = {NEAREST: "membership/", SCORES: "membership_by_scores/", RESCALED: "membership_rescaled/"}
    names[BOXES] = "boxes/membership_"
    flat: dict[str, float | None] = {}
    for name, attack in carried_out(assessment).items():
        flat |= fields_of(attack, AUC, f"risk/{names[name]}")
    boxes = assessment.risk.boxes
    return flat if boxes is None else flat | {f"risk/boxes/{key}": value for key, value in vars(boxes.original).items()}


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attacks on membership that one release allows."""
    scores = assessment.risk.score_coincidence
    axes = ""
    if scores is not None:
        owner = "published loadings" if scores.loadings_known else "release"
        axes = f" on {count(scores.n_axes)} axes of the {owner}"
    knows = "An attacker who knows a person’s full record"
    rows = {
        NEAREST: (
            "Membership by nearest record",
            f"{knows} takes for members those with a close released row.",
        ),
        SCORES: (
            "Membership by principal scores",
            f"{knows} looks whether the record’s principal scores{axes} recur in the release.",
        ),
        RESCALED: (
            "Membership once rescaled",
            "The same attacker sees that columns of the release stand apart from other people, gives them their "
            "distributions, and looks again.",
        ),
        BOXES: ("Membership by boxes", f"{knows} looks how densely people stand in the record’s box."),
    }
    return tuple(
        by_auc(AIM, *rows[name], attack, name, IN_THE_DATA) for name, attack in carried_out(assessment).items()
    )


GATE = Gate(
    name="membership",
    description="Members are distinguished from non-members by the distance to the nearest released record, by "
    "principal scores that recur, once more after the columns were given the distributions of the reference where they "
    "are apart, and by the density of their box where ranges are released. Fail when an area under the ROC curve is "
    "shown to be above `membership_auc`, pass when all are shown to be within `membership_pass`; all attacks on "
    "membership hold together at 99 % confidence. Not tested without non-members; a person is asked then, unless "
    "`untested: [membership]` accepts it.",
    evaluate=evaluate,
    limits=MembershipLimit,
    individual=True,
    untested_as="membership",
    publishes=dict.fromkeys(
        ("risk.membership", "risk.membership_rescaled", "risk.score_coincidence", "risk.boxes"), attacks_in_steps
    ),
    metrics=metrics,
    attacks=attacks,
)
