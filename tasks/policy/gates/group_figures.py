"""Numbers that were computed from all records of a group, and are released as they were computed."""

from __future__ import annotations

from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.rounding import at_least_ten

NAME = "group figures"


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Ask a person about variables whose figures of groups the release repeats; nothing where settings are tried."""
    found = assessment.risk.group_figures
    if found is None or not found.looked_at:
        return ()
    repeated = found.repeated
    number = f", at most {at_least_ten(sum(one.repeated for one in repeated))} figures" if repeated else ""
    return (
        GateResult(
            name=NAME,
            verdict="inconclusive" if repeated else "pass",
            figure=f"{len(repeated)} of {found.looked_at} variables{number}",
            limit="0",
            baseline="0, beyond chance",
            records=found.records,
            meaning="numbers that were computed from all records of a group, such as the greatest or the mean wage of "
            "a firm, and are released as they were computed: the greatest is one person’s, and an attacker who knows "
            "the others of the group computes the last one’s",
            variables=tuple(one.source.variable for one in repeated),
            needed="; exclude the variable, or accept it where every group is so large, or its figure so well known, "
            "that it gives no one away",
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the number of variables whose figures are repeated."""
    found = assessment.risk.group_figures
    return {} if found is None else {"risk/group_figures/repeated": float(len(found.repeated))}


GATE = Gate(
    name=NAME,
    description="Numbers that were computed from another number of all records of a group, or of those with one value "
    "of another variable: its mean, median, least, greatest or sum, or a linear function of these, in 90 % of at least "
    "8 groups, as it was when the whole table was read, dropped columns and all. Inconclusive when the release holds "
    "more of these figures than chance explains (p < 0.001, beside the same figures moved by some units): the greatest "
    "wage of a firm is one person’s, and who knows all the others computes the last one’s from the mean. Of tables in "
    "partitions up to 200 groups of each column are looked at, of at most 1250 records each and 10 000 together, and "
    "what is released of the sub-table. Not looked for where settings are compared: a part of a table holds parts of "
    "groups.",
    evaluate=evaluate,
    individual=True,
    metrics=metrics,
)
