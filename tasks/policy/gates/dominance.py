"""Numbers that a single unit dominates."""

from __future__ import annotations

from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics

NAME = "dominated numbers"


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Name the variables in which the release follows a unit that dominates an end."""
    found = assessment.risk.dominance
    if found is None or not found.looked_at:
        return ()
    verdict = found.verdict
    if found.followed and assessment.external:
        # Masking has no far number but the source's; another tool's file may hold someone else's, as others have.
        verdict = "pass" if found.as_far else "inconclusive"
    return (
        GateResult(
            name=NAME,
            verdict=verdict,
            figure=f"{len(found.followed)} of {found.looked_at // 2} variables",
            limit="0",
            baseline="the reference reaches as far" if found.as_far else "0, the reference",
            records=(assessment.full_release or assessment).records.released,
            meaning="numbers of which one unit’s is at least ten times as far out as the rest, and whose largest "
            "released value follows it",
            variables=found.followed,
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the number of variables."""
    found = assessment.risk.dominance
    return {} if found is None else {"risk/dominance/followed": float(len(found.followed))}


GATE = Gate(
    name=NAME,
    description="Numbers of which the outermost unit’s is at least ten times as far from the second’s as that is from "
    "the sixth’s. Fail when a released value lies beyond the second’s by more than that distance, as nothing but the "
    "one unit explains it, and known constants of the masking turn it into that unit’s number; inconclusive when the "
    "reference reaches as far and the value is not the unit’s own. In a file of another tool it may be someone else’s: "
    "inconclusive, and passed where the reference reaches as far and the value is not the unit’s own.",
    evaluate=evaluate,
    individual=True,
    metrics=metrics,
)
