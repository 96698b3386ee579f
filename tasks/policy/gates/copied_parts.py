"""Whether released records hold a part of one member beside values of others."""

from __future__ import annotations

from dataclasses import replace

from anoncore.risk import CopiedParts
from tasks.common.formatting import count, number
from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_NON_MEMBERS, Aim, Attack, p_phrase, untested
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.limits import ChanceLimit
from tasks.policy.published import TENTH, PublishedAssessment
from tasks.policy.rounding import coarse, p_value

NAME = "copied parts"
MEANING = (
    "how much more often released records that look put together hold the levels, the quasi-identifiers or a random "
    "half of the values of a member than of a non-member, in standard errors"
)


def evaluate(assessment: Assessment | PublishedAssessment, policy: ChanceLimit) -> tuple[GateResult, ...]:
    """Leave files of other tools open where chance does not explain the evidence that parts were copied.

    No masking step puts a member's part beside others' values unless its rows are known, which linkage judges.
    """
    found = assessment.risk.copied_parts
    if found is None or not assessment.is_external:
        return ()
    worst = min(found.parts, key=lambda one: one.p)
    return (
        GateResult(
            NAME,
            "pass" if found.p >= policy.tail_p else "inconclusive",
            f"{worst.name}: {number(worst.excess, 1)}; {p_phrase(p_value(found.p))}",
            f"pass: p ≥ {policy.tail_p:g}",
            "0, by chance",
            found.n_members + found.n_nonmembers,
            MEANING,
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the p-value of all parts together."""
    found = assessment.risk.copied_parts
    return {} if found is None else {"risk/copied_parts/p": found.p}


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the test of each part."""
    found, name = assessment.risk.copied_parts, "Membership by copied parts"
    attacker = (
        "An attacker who knows a person’s record looks for its levels, its quasi-identifiers or a half of its values "
        "in released records whose values do not go together."
    )
    if found is None:
        return () if assessment.risk.membership else (untested(Aim.MEMBERSHIP, name, attacker, NO_NON_MEMBERS, NAME),)
    people = f"{count(found.n_members)} members, {count(found.n_nonmembers)} non-members"
    return tuple(
        Attack(
            Aim.MEMBERSHIP,
            f"{name}, {one.name}",
            attacker,
            f"{number(one.excess, 1)} standard errors above non-members",
            p_phrase(one.p),
            "0, by chance",
            people,
            NAME,
        )
        for one in found.parts
    )


def published_parts(found: CopiedParts | None, step: float) -> CopiedParts | None:
    """Publish the excess in tenths of a standard error, and p-values with one digit."""
    return found and replace(
        found,
        parts=tuple(replace(one, excess=coarse(one.excess, TENTH), p=p_value(one.p)) for one in found.parts),
    )


GATE = Gate(
    name=NAME,
    description="Released records that look put together of two people, as boosted trees see that have learned from "
    "recombined people, are sought for the levels, and for the quasi-identifiers, of members and non-members: the mean "
    "likelihood ratio of a release of which a tenth is copied in that part is compared. Likewise the mean log of the "
    "expected number of released records that hold a random half of a person's values. Tested in files of "
    "other tools alone: inconclusive where p is below `tail_p`, all parts together.",
    evaluate=evaluate,
    limits=ChanceLimit,
    individual=True,
    untested_as="membership",
    publishes={"risk.copied_parts": published_parts},
    metrics=metrics,
    attacks=attacks,
)
