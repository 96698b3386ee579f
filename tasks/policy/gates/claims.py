"""The claims of the method, checked on the release."""

from __future__ import annotations

from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.rounding import as_measured


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Fail where a claim does not hold."""
    return tuple(
        GateResult(
            name=claim.claim,
            verdict="pass" if claim.holds else "fail",
            figure=claim.observed,
            limit="holds",
            baseline="the release alone" if claim.recomputed else "by the method",
            records=claim.records,
            meaning="what the method claims",
            topic="Claims",
        )
        for claim in assessment.claims
        if claim.formal
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the figures of each claim, and what the masking steps measured themselves."""
    flat: dict[str, float | None] = {f"method/{name}": value for name, value in assessment.method_figures.items()}
    for claim in assessment.claims:
        if claim.formal:
            figures = {**claim.figures, "holds": float(claim.holds)}
            flat |= {f"claim/{claim.kind}/{key}": value for key, value in figures.items()}
    return flat


GATE = Gate(
    name="claims",
    description="Every claim of the masking method, such as k-anonymity, is checked on the release. Fail when one does "
    "not hold.",
    evaluate=evaluate,
    publishes={"claims": as_measured, "method_figures": as_measured},
    metrics=metrics,
)
