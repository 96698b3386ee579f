"""What the source never shows: combinations of levels, records that should be missing, broken dependencies."""

from __future__ import annotations

import math

from tasks.common.formatting import count, number
from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.limits import UtilityLimit
from tasks.policy.published import published_utility
from tasks.policy.rounding import at_least_ten

# Shares of the records, of one pattern and of all, that chance does not excuse beyond ten records: of few units it
# accounts for nearly everything, and a person judges what so few cannot show.
OF_ONE, OF_ALL, FEW = 0.02, 0.05, 10


def evaluate(assessment: Assessment, policy: UtilityLimit) -> tuple[GateResult, ...]:
    """Count released records with combinations that the source never holds, and those that break a dependency."""
    structure, records = assessment.utility.structure, assessment.records.released
    accepted = int(policy.utility.impossible * records)
    worst, broken = structure.combinations[:1], structure.broken[:1]
    allowed = math.floor(structure.most_impossible)
    most = max((one.records for one in worst), default=0)
    of_one, of_all = (max(share * records, FEW) for share in (OF_ONE, OF_ALL))
    by_chance = min(structure.most_impossible, of_all)
    # One record can show every combination.
    few = structure.impossible <= accepted * structure.absent + by_chance and most <= accepted + of_one
    proven = not most <= accepted + structure.per_pattern
    verdict = "fail" if proven else policy.utility.loss_verdict(few)
    # A person who alone holds a combination decides whether a few records count; a failed release is not published.
    named = worst if most > FEW or verdict == "fail" else ()
    pair = f"; most of {' and '.join(named[0].variables)}, {_at_most(most)} of one combination" if named else ""
    combinations = GateResult(
        name="impossible combinations",
        verdict=verdict,
        figure=f"{_at_most(structure.impossible)} records{pair}",
        limit=f"{count(accepted)}, and by chance at most about {count(allowed)} in all, "
        f"{count(structure.per_pattern)} of one{_excused(structure.per_pattern, records)}",
        baseline=f"about {number(structure.by_chance, 0)}, another sample",
        records=records,
        meaning="levels, missing values and tenths of numbers that never meet in the source, though independence "
        "would make at least 10 records of them",
        topic="Sense",
        variables=named[0].variables if named else (),
    )
    count_ = broken[0].records if broken else 0
    kept = policy.utility.loss_verdict(count_ <= accepted + of_one)
    return (
        combinations,
        GateResult(
            name="dependencies",
            verdict=kept if count_ <= accepted + structure.per_pattern else "fail",
            figure=f"{_at_most(count_)} records",
            limit=f"{count(accepted)}, and at most {count(structure.per_pattern)} by chance"
            f"{_excused(structure.per_pattern, records)}",
            baseline="0, the source",
            records=records,
            meaning="records that break what holds in every record of the source: one variable follows from another; "
            "an edit of kind lookup keeps it; the custodian's page names the two",
            topic="Sense",
        ),
    )


def _at_most(records: int) -> str:
    return f"at most {count(at_least_ten(records))}"


def _excused(by_chance: float, records: int) -> str:
    """Return what chance does not excuse, where it accounts for more of one pattern."""
    if by_chance <= max(OF_ONE * records, FEW):
        return ""
    return f"; beyond {100 * OF_ONE:g} % of the records in one, or {100 * OF_ALL:g} % in all, a person decides"


def metrics(assessment: Assessment) -> Metrics:
    """Return counts of released records to the next ten; the others rest on what single source records hold."""
    structure = assessment.utility.structure
    worst = max((one.records for one in structure.broken), default=0)
    return {
        "utility/structure/impossible": at_least_ten(structure.impossible),
        "utility/structure/broken": at_least_ten(worst),
    }


GATE = Gate(
    name="structure",
    description="Combinations of two levels that no record of the source holds and at least ten would, were the "
    "variables independent, which takes in who is not asked (missing) and tenths of numbers; and variables that follow "
    "from another in every record. Fail when the release holds one of them more often than the policy accepts (never) "
    "and chance accounts for. A person decides where only all combinations together exceed what chance accounts for, "
    "and where the release holds one in more than 2 % of its records, or any in more than 5 %, and chance accounts for "
    "that, as it does where units are few.",
    evaluate=evaluate,
    limits=UtilityLimit,
    publishes={"utility": published_utility},
    metrics=metrics,
)
