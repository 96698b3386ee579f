"""Whether the release holds numbers and levels as few units of the source hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult
from tasks.policy.rounding import as_measured


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Ask a person where a step declares that it may publish such numbers, and where such levels are released."""
    return tuple(_results(assessment))


def _results(assessment: Assessment) -> Iterator[GateResult]:
    records = assessment.records.original
    if assessment.source_values:
        steps = len(assessment.source_values)
        yield GateResult(
            name="source values",
            verdict="inconclusive",
            figure=f"{steps} reason{'s'[: steps > 1]}, by the plan",
            limit="0",
            baseline="0",
            records=records,
            meaning=assessment.source_values[0],
        )
    if assessment.source_levels:
        variables = len(assessment.source_levels)
        yield GateResult(
            name="rare levels",
            verdict="inconclusive",
            figure=f"{variables} variable{'s'[: variables > 1]}",
            limit="0",
            baseline="0, after a step rare-levels",
            records=records,
            meaning="variables with a released level, or missing values alone or together, of one or two people of the "
            "source: an attacker who knows the only person with it sees from the release whether that person took part",
            variables=assessment.source_levels,
        )


GATE = Gate(
    name="source values",
    description="A step that by its parameters may publish values as single records hold them, such as exact "
    "marginals, or a plan of which no step masks numbers; and levels, or "
    "missing values, also several together in rows that stem from single records, that one or two units of the source "
    "hold and the release has. Inconclusive: a person must decide. "
    "What they give away is measured by value presence, which few people are not enough to show; a step rare-levels "
    "avoids such levels.",
    evaluate=evaluate,
    individual=True,
    publishes={"source_values": as_measured, "source_levels": as_measured},
)
