"""The claims of the method, checked on the release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.rounding import as_measured, at_least_ten, coarse

# Figures of steps that follow from the release alone, and those in shares.
OF_THE_RELEASE = ("boxes", "smallest_box", "largest_box", "groups", "classes", "nodes", "window")
SHARES = ("loss", "share_below_k", "fixed_values")
# What follows from the source's squares, of which one value may be nearly all, so that any digits give it away.
WITHHELD = ("information_loss",)


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
    figures_of_steps = _shown(assessment.method_figures)
    flat: dict[str, float | None] = {f"method/{name}": value for name, value in figures_of_steps.items()}
    for claim in assessment.claims:
        if claim.formal:
            figures = {**claim.figures, "holds": float(claim.holds)}
            flat |= {f"claim/{claim.kind}/{key}": value for key, value in figures.items()}
    return flat


def _shown(figures: Mapping[str, float]) -> Mapping[str, float]:
    """Return the figures of steps without those that are withheld: who reads tracking need not see the source."""
    return {name: value for name, value in figures.items() if name.partition(".")[2] not in WITHHELD}


def step_figures(figures: Mapping[str, float], step: float) -> Mapping[str, float]:
    """Publish the figures of steps: what counts people of the source as the next ten, and shares in whole steps.

    An attacker who knows all other people could compute the last one from an exact count, and a range of the source
    from an exact loss.
    """
    shown = {}
    for name, value in _shown(figures).items():
        of = name.partition(".")[2]
        if of in SHARES:
            value = coarse(value, step)
        elif of not in OF_THE_RELEASE and float(value).is_integer():
            value = at_least_ten(int(value))
        shown[name] = value
    return shown


GATE = Gate(
    name="claims",
    description="Every claim of the masking method, such as k-anonymity, is checked on the release. Fail when one does "
    "not hold.",
    evaluate=evaluate,
    publishes={"claims": as_measured, "method_figures": step_figures},
    metrics=metrics,
)
