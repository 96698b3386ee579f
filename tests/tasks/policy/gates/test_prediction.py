"""The non-inferiority tests of distance, ambiguity and uncertainty."""

from __future__ import annotations

import pytest

from tasks.policy.gates.prediction import GATE
from tests.tasks.policy.sample import assessment, changed, measure, results


@pytest.mark.parametrize(
    ("verdict", "change", "figure"),
    [
        ("pass", {}, "excess ≤ 0.030 (95% confidence)"),
        ("inconclusive", {"upper": 0.08}, "excess ≤ 0.080 (95% confidence)"),
        ("fail", {"lower": 0.12, "upper": 1.001}, "excess ≥ 0.120 (95% confidence)"),
        ("inconclusive", {"upper": 1.001}, "excess ≤ 1.000 (95% confidence)"),
        ("by design", {}, "excess ≤ 0.030 (95% confidence)"),
    ],
)
def test_the_bound_that_decides_is_shown(verdict: str, change: dict[str, float], figure: str) -> None:
    given = changed(assessment(), risk__comparison__distance=measure("distance", verdict, **change))
    found = results(GATE, given)
    assert list(found) == ["prediction distance", "prediction ambiguity", "prediction uncertainty"]
    one = found["prediction distance"]
    assert (one.verdict, one.figure, one.limit, one.records) == (
        verdict,
        figure,
        "fail: shown > 0.05; pass: shown ≤ 0.1",
        814,
    )


def test_metrics_are_the_excess_with_its_bounds() -> None:
    found = GATE.metrics(assessment())
    assert len(found) == 12
    assert (found["risk/distance/upper"], found["risk/uncertainty/ks_p"]) == (0.03, 1.0)
