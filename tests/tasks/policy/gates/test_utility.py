"""Limits on what may be lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from tasks.policy.gates.utility import GATE
from tasks.policy.section import PolicySection
from tests.tasks.policy.sample import STATISTICS, assessment, changed, results, utility


@pytest.mark.parametrize("name", STATISTICS)
def test_a_median_above_its_limit_fails(name: str) -> None:
    label = f"utility: {name.replace('_', ' ')}"
    for median, verdict in ((0.05, "pass"), (0.051, "fail"), (float("nan"), "fail")):
        given = replace(
            assessment(), utility=utility(**dict.fromkeys(STATISTICS, (0.02, 0.03)) | {name: (median, 0.03)})
        )
        found = results(GATE, given, utility={name: 0.05})
        assert {key: one.verdict for key, one in found.items()} == {label: verdict}
        assert found[label].baseline == "0.03 in the reference"


def test_a_limit_that_is_not_stated_is_no_gate() -> None:
    assert not results(GATE, assessment())


def test_without_a_reference_or_figures_it_says_so() -> None:
    limits = {"mean": 0.05}
    alone = changed(assessment(), utility__figures__figures__0__reference_median=None)
    assert results(GATE, alone, utility=limits)["utility: mean"].baseline == "no reference sample"
    nothing = results(GATE, changed(assessment(), utility__figures=None), utility=limits)["utility: mean"]
    assert (nothing.verdict, nothing.figure) == ("fail", "nothing to compare")


@pytest.mark.parametrize("wrong", [{"mean": -1}, {"kurtosis": 1}], ids=str)
def test_impossible_limits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        PolicySection(utility=wrong)
