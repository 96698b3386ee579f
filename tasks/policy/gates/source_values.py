"""Whether the method publishes numbers that single records hold."""

from __future__ import annotations

from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult
from tasks.policy.rounding import as_measured


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Ask a person where a step declares that it may publish such numbers."""
    if not assessment.source_values:
        return ()
    steps = len(assessment.source_values)
    return (
        GateResult(
            name="source values",
            verdict="inconclusive",
            figure=f"{steps} step{'s'[: steps > 1]}, by the plan",
            limit="0",
            baseline="0, the defaults of every method",
            records=assessment.records.original,
            meaning=assessment.source_values[0],
        ),
    )


GATE = Gate(
    name="source values",
    description="A step that by its parameters may publish numbers as single records hold them, such as exact "
    "marginals. Inconclusive: a person must decide. What such numbers give away is measured by value presence.",
    evaluate=evaluate,
    individual=True,
    publishes={"source_values": as_measured},
)
