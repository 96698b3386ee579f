"""Averages of groups that are mostly one unit's contribution."""

from __future__ import annotations

from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics

NAME = "dominated averages"


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Name the variables of which an average gives one unit's number away."""
    found = assessment.risk.averages
    if found is None or not found.looked_at:
        return ()
    return (
        GateResult(
            name=NAME,
            verdict=found.verdict,
            figure=f"{len(found.variables)} of {found.looked_at} variables",
            limit="0",
            baseline="0, a release without averages",
            records=assessment.records.released,
            meaning="numbers of which an average, multiplied by the number of its records, gives one unit’s "
            "contribution to within a tenth",
            variables=found.variables,
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the number of variables."""
    found = assessment.risk.averages
    return {} if found is None else {"risk/averages/dominated": float(len(found.variables))}


GATE = Gate(
    name=NAME,
    description="Averages of groups of three records or more, as microaggregation publishes them, each multiplied by "
    "the number of its records. Fail when a total leaves less than a tenth of its largest contribution open to someone "
    "who knows the second largest, and fewer than k units contribute as much (the p % rule for tables of amounts).",
    evaluate=evaluate,
    individual=True,
    metrics=metrics,
)
