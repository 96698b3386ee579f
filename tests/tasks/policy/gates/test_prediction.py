"""The non-inferiority tests of distance, ambiguity and uncertainty."""

from __future__ import annotations

import pytest

from tasks.policy.disclosure_control import published
from tasks.policy.gates.prediction import GATE
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
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


@pytest.mark.parametrize(
    ("verdict", "change", "figure"),
    [
        ("pass", {"upper": 0.0995}, "excess ≤ 0.100 (95% confidence)"),
        ("pass", {"upper": 0.081}, "excess ≤ 0.100 (95% confidence)"),
        ("fail", {"lower": 0.051, "upper": 0.2}, "excess ≥ 0.040 (95% confidence), decided before it was rounded"),
    ],
)
def test_what_is_published_is_coarse_and_the_exact_bound_decides(
    verdict: str, change: dict[str, float], figure: str
) -> None:
    """Who knows all others' records computes three digits for each level that the last person may have."""
    given = changed(assessment(), risk__comparison__distance=measure("distance", verdict, **change))
    found = next(one for one in decide(given, PolicySection(), [GATE]).gates if one.name == "prediction distance")
    # Of 814 people, in fiftieths.
    assert (found.verdict, found.figure) == (verdict, figure)
    shown = vars(published(given).risk.comparison.distance)
    steps = [shown[name] * 50 for name in ("sup_excess", "upper", "lower", "released_median", "reference_median")]
    assert steps == pytest.approx([round(one) for one in steps])
    assert (shown["alpha"], shown["margin"]) == (0.05, 0.05)
