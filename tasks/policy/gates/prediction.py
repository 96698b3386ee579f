"""Prediction distance, ambiguity and uncertainty, released against reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anoncore.risk import Comparison
from anoncore.risk.bounds import PASSES_WITHIN, MeasureComparison
from tasks.policy.assessment import Assessment
from tasks.policy.close_records import OTHERS, compared_with
from tasks.policy.gate import Gate, GateResult, Metrics, fields_of
from tasks.policy.limits import limit_phrase
from tasks.policy.rounding import coarse, p_value, rounded_down, rounded_up

MEANINGS = {
    "distance": "how close the nearest released record comes to a person, compared with a sample without that person",
    "ambiguity": "how clearly the nearest released record stands out from the next ones",
    "uncertainty": "how much the nearest released records disagree with each other",
}


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Take the verdicts of the non-inferiority tests."""
    results = []
    for measure in assessment.risk.comparison.measures:
        # What decides: a failure is proved from below, everything else from above; a share is 1 at most.
        proved = measure.verdict == "fail"
        bound = f"≥ {rounded_down(measure.lower, 3)}" if proved else f"≤ {rounded_up(min(measure.upper, 1.0), 3)}"
        crossed = ", decided before it was rounded" if _crossed(measure) else ""
        results.append(
            GateResult(
                name=f"prediction {measure.name}",
                verdict=measure.verdict,
                figure=f"excess {bound} ({1 - measure.alpha:.0%} confidence){crossed}",
                limit=limit_phrase(PASSES_WITHIN * measure.margin, measure.margin),
                baseline=f"0, {compared_with(assessment.risk.within_original)}",
                records=measure.n,
                meaning=MEANINGS[measure.name],
            )
        )
    return tuple(results)


def _crossed(measure: MeasureComparison) -> bool:
    """Return whether a bound was rounded across the limit that it kept, or exceeded."""
    within, beyond = measure.upper <= measure.passes_within, measure.lower > measure.margin
    return (measure.verdict == "pass" and not within) or (measure.verdict == "fail" and not beyond)


def published_comparison(comparison: Comparison | None, step: float) -> Comparison | None:
    """Publish whole steps: who knows all others' records computes finer figures for each possible value."""
    if comparison is None:
        return None
    measures = {
        one.name: replace(coarse(one, step), ks_p=p_value(one.ks_p), alpha=one.alpha) for one in comparison.measures
    }
    return replace(comparison, **measures)  # type: ignore[arg-type]


def metrics(assessment: Assessment) -> Metrics:
    """Return the excess of each measure with its bounds."""
    keys = ("sup_excess", "upper", "lower", "ks_p")
    return {k: v for m in assessment.risk.comparison.measures for k, v in fields_of(m, keys, f"risk/{m.name}/").items()}


GATE = Gate(
    name="prediction",
    description="For distance, ambiguity and uncertainty the excess is the share of records at or below a value in the "
    f"release, less the same share in {OTHERS}. Pass when, at every value, the excess is shown to be within twice "
    "the margin; fail when it is shown to exceed the margin; otherwise inconclusive. Measures that the plan lists in "
    "`by_design` are reported and not counted.",
    evaluate=evaluate,
    individual=True,
    half_is_weighed=True,
    publishes=dict.fromkeys(("risk.comparison", "continuous_form"), published_comparison),
    metrics=metrics,
)
