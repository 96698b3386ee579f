"""What the source never shows: combinations of levels, records that should be missing, broken dependencies."""

from __future__ import annotations

import math

from tasks.common.formatting import count, number
from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.limits import UtilityLimit
from tasks.policy.published import published_utility


def evaluate(assessment: Assessment, policy: UtilityLimit) -> tuple[GateResult, ...]:
    """Count released records with combinations that the source never holds, and those that break a dependency."""
    structure, records = assessment.utility.structure, assessment.records.released
    accepted = int(policy.utility.impossible * records)
    worst, broken = structure.combinations[:1], structure.broken[:1]
    allowed = math.floor(structure.most_impossible)
    most = max((one.records for one in worst), default=0)
    # One record can show every combination.
    few = structure.impossible <= accepted * structure.absent + structure.most_impossible
    proven = not most <= accepted + structure.per_pattern
    pair = f"; most of {' and '.join(worst[0].variables)}, {count(most)} of one combination" if worst else ""
    combinations = GateResult(
        name="impossible combinations",
        verdict="fail" if proven else policy.utility.loss_verdict(few),
        figure=f"{count(structure.impossible)} records{pair}",
        limit=f"{count(accepted)}, and by chance at most about {count(allowed)} in all, "
        f"{count(structure.per_pattern)} of one",
        baseline=f"about {number(structure.by_chance, 0)}, another sample",
        records=records,
        meaning="levels, missing values and tenths of numbers that never meet in the source, though independence "
        "would make at least 10 records of them",
        topic="Sense",
        variables=worst[0].variables if worst else (),
    )
    count_ = broken[0].records if broken else 0
    return (
        combinations,
        GateResult(
            name="dependencies",
            verdict="pass" if count_ <= accepted + structure.per_pattern else "fail",
            figure=f"{count(count_)} records",
            limit=f"{count(accepted)}, and at most {count(structure.per_pattern)} by chance",
            baseline="0, the source",
            records=records,
            meaning="records that break what holds in every record of the source: one variable follows from another; "
            "an edit of kind lookup keeps it; the custodian's page names the two",
            topic="Sense",
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the counts; not what chance accounts for, which counts combinations of single source records."""
    structure = assessment.utility.structure
    worst = max((one.records for one in structure.broken), default=0)
    return {
        "utility/structure/impossible": structure.impossible,
        "utility/structure/dependencies": structure.dependencies,
        "utility/structure/broken": worst,
    }


GATE = Gate(
    name="structure",
    description="Combinations of two levels that no record of the source holds and at least ten would, were the "
    "variables independent, which takes in who is not asked (missing) and tenths of numbers; and variables that follow "
    "from another in every record. Fail when the release holds one of them more often than the policy accepts (never) "
    "and chance accounts for; where only all combinations together exceed what chance accounts for, a person decides.",
    evaluate=evaluate,
    limits=UtilityLimit,
    publishes={"utility": published_utility},
    metrics=metrics,
)
