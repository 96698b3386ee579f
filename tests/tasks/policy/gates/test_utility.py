"""Limits on what may be lost: the worst variable, spike, pair, regression and the propensity score."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility import PropensityComparison, Regression, propensity_utility, regression_utility
from tasks.policy.gates.utility import GATE
from tasks.policy.section import PolicySection
from tests.tasks.policy.sample import assessment, changed, results, variable

VARIABLES = "utility__variables__variables"


@pytest.mark.parametrize(
    ("name", "path", "within", "beyond", "limits"),
    [
        # Twice what two samples differ by is accepted where that is more than the limit.
        ("worst variable", f"{VARIABLES}__0__released_shift__distance", 0.12, 0.121, {}),
        ("worst variable", f"{VARIABLES}__0__released_shift__distance", 0.2, 0.21, {"marginal": 0.2}),
        ("spikes", f"{VARIABLES}__0__released_shift__spike", 0.07, 0.071, {}),
        ("worst pair", "utility__pairs__worst__0__change", 0.1, 0.101, {}),
        ("worst pair", "utility__pairs__worst__0__change", 0.3, 0.31, {"pair": 0.3}),
    ],
)
def test_a_figure_beyond_its_limit_is_for_a_person(
    name: str, path: str, within: float, beyond: float, limits: dict[str, Any]
) -> None:
    for figure, verdict in ((within, "pass"), (beyond, "to decide"), (float("nan"), "to decide")):
        found = results(GATE, changed(assessment(), **{path: figure}), utility=limits)
        assert found[name].verdict == verdict
    rejected = results(GATE, changed(assessment(), **{path: beyond}), utility={**limits, "exceeded": "reject"})
    assert rejected[name].verdict == "fail"


def test_the_worst_variable_is_the_one_furthest_beyond_its_own_limit() -> None:
    """A distance that chance explains, as of a variable that few records hold, does not hide another."""
    few = replace(variable("rare", 0.3), two_samples=0.2)
    given = changed(assessment(), utility__variables__variables=(few, variable("income", 0.13)))
    assert results(GATE, given)["worst variable"].variables == ("income",)


def test_the_propensity_score_is_read_beside_its_null() -> None:
    same, apart = (propensity_utility([[0.0], [1.0], [2.0]] * 30, [[x], [x + 1], [x + 2]] * 30) for x in (0, 1))
    for score, reference, verdict in ((same, None, "pass"), (apart, None, "to decide"), (apart, apart, "pass")):
        given = changed(assessment(), utility__tree=PropensityComparison(score, reference))
        assert results(GATE, given)["propensity score"].verdict == verdict


def test_a_regression_that_only_the_source_can_fit_is_for_a_person() -> None:
    x = np.arange(40.0)
    schema = Schema([Variable("y", "continuous"), Variable("x", "continuous")])
    source, same, empty = (Microdata(pd.DataFrame({"y": y, "x": x}), schema) for y in (x % 7, x % 7, x * np.nan))
    model = Regression(outcome="y", predictors=("x",))
    for released, verdict in ((same, "pass"), (empty, "to decide")):
        fits = (regression_utility(model, source, source), regression_utility(model, source, released))
        found = results(GATE, changed(assessment(), utility__regressions=fits), utility={"overlap": 0.0})
        assert found["regressions"].verdict == verdict
        assert ("could not be fitted" in found["regressions"].figure) == (verdict != "pass")
        assert (found["regressions"].threshold is None) == (verdict != "pass")


def test_regressions_with_few_coefficients_are_read_together() -> None:
    x, e = np.arange(200.0), np.random.default_rng(0).normal(size=(6, 200))
    schema = Schema([Variable("y", "continuous"), Variable("x", "continuous")])
    source, flat = (Microdata(pd.DataFrame({"y": y, "x": x}), schema) for y in (x + e[0], e[1]))
    model = Regression(outcome="y", predictors=("x",))
    for released, verdict in ((flat, "to decide"), (source, "pass")):
        given = (regression_utility(model, source, released),) * 6
        found = results(GATE, changed(assessment(), utility__regressions=given))["regressions"]
        assert found.verdict == verdict, found


@pytest.mark.parametrize("wrong", [{"marginal": -1}, {"kurtosis": 1}, {"exceeded": "publish"}], ids=str)
def test_impossible_limits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        PolicySection(utility=wrong)
