"""Values that the source cannot have: beyond its range."""

from __future__ import annotations

from tasks.common.formatting import count
from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.limits import UtilityLimit

NAME = "values beyond limits"


def evaluate(assessment: Assessment, policy: UtilityLimit) -> tuple[GateResult, ...]:
    """Count the released values beyond the source's range, of the variable that has most."""
    having = [one for one in assessment.utility.variables if one.released_shift.beyond is not None]
    if not having:
        return ()
    records = assessment.records.released
    worst = max(having, key=lambda one: one.released_shift.beyond or 0.0)
    values = round((worst.released_shift.beyond or 0.0) * records)
    chance = assessment.utility.structure.per_pattern
    limit = int(policy.utility.beyond * records)
    return (
        GateResult(
            name=NAME,
            verdict="pass" if values <= limit + chance else "fail",
            figure=f"{worst.name}: {count(values)} values" if values else "0 values",
            limit=f"{count(limit)}, and at most {count(chance)} by chance",
            baseline=f"at most {count(chance)}, another sample",
            records=records,
            meaning="numbers below the source’s smallest or above its largest, rounded outward where fewer than 5 "
            "units hold it",
            topic="Sense",
            variables=(worst.name,) if values else (),
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the largest share of values beyond the range, over variables."""
    shares = [one.released_shift.beyond for one in assessment.utility.variables]
    return {"utility/beyond": max((share for share in shares if share is not None), default=None)}


GATE = Gate(
    name=NAME,
    description="Released numbers beyond the range that the source's own numbers span, an end rounded outward where "
    "fewer than 5 units hold it. Fail when one variable has more of them than the policy accepts (none) and chance "
    "accounts for.",
    evaluate=evaluate,
    limits=UtilityLimit,
    metrics=metrics,
)
