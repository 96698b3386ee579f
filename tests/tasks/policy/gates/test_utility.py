"""Limits on what may be lost: the worst variable, spike, pair, regression and the propensity score."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility import (
    PropensityComparison,
    Regression,
    Summary,
    TotalKept,
    propensity_utility,
    regression_utility,
)
from tasks.policy.disclosure_control import published
from tasks.policy.gates.utility import GATE
from tasks.policy.published import published_total
from tasks.policy.rounding import step_of
from tasks.policy.section import PolicySection
from tests.tasks.policy.sample import assessment, changed, results, variable

VARIABLES = "utility__variables__variables"


@pytest.mark.parametrize(
    ("name", "path", "within", "beyond", "limits"),
    [
        # Twice what two samples differ by is accepted where that is more than the limit.
        ("worst variable", f"{VARIABLES}__0__released_shift__distance", 0.12, 0.121, {}),
        ("worst variable", f"{VARIABLES}__0__released_shift__distance", 0.2, 0.21, {"marginal": 0.2}),
        ("spikes", f"{VARIABLES}__0__released_shift__spike", 0.03, 0.031, {}),
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


def with_total(released: float, error: float, name: str = "income") -> Any:
    return replace(variable(name, 0.02), total=TotalKept(released, None, error))


@pytest.mark.parametrize(
    ("released", "error", "limits", "verdict"),
    [
        (0.96, 0.01, {}, "pass"),
        (0.94, 0.01, {}, "to decide"),
        (1.06, 0.01, {}, "to decide"),
        # Twice the standard error is accepted where that is more than the limit.
        (0.85, 0.08, {}, "pass"),
        (0.80, 0.08, {}, "to decide"),
        (0.80, 0.01, {"total": 0.2}, "pass"),
        (0.80, 0.01, {"exceeded": "reject"}, "fail"),
    ],
)
def test_a_total_that_is_lost_is_for_a_person(released: float, error: float, limits: Any, verdict: str) -> None:
    """Means of heavy tails move by few standard deviations, though a half of all sales is lost."""
    given = changed(assessment(), utility__variables__variables=(with_total(released, error), variable("age", 0.01)))
    found = results(GATE, given, utility=limits)["worst total"]
    assert (found.verdict, found.variables) == (verdict, ("income",))


def test_of_many_totals_the_worst_may_move_further() -> None:
    for of, verdict in ((1, "to decide"), (20, "pass")):
        totals = (with_total(0.79, 0.09), *(with_total(1.0, 0.09, f"other{i}") for i in range(1, of)))
        given = changed(assessment(), utility__variables__variables=totals)
        assert results(GATE, given)["worst total"].verdict == verdict


def test_totals_are_ranked_by_their_own_limits_and_tracked_coarsely() -> None:
    totals = with_total(0.8, 0.12, "sales"), with_total(0.934, 0.011)
    given = changed(assessment(), utility__variables__variables=totals)
    worst = results(GATE, given)["worst total"]
    assert worst.variables == ("income",)
    # What chance explains is not hidden either, and a figure beyond its limit does not look equal to it.
    assert worst.figure.startswith("income: 93 % of its total; sales: 80 %")
    assert worst.limit == "100 % ± 5 %"
    close = changed(assessment(), utility__pairs__worst__0__change=0.1004)
    assert results(GATE, close)["worst pair"].figure.endswith("moved by 0.1004")
    tracked = GATE.metrics(given)
    assert (tracked["utility/total/least"], tracked["utility/total/most"]) == pytest.approx((0.8, 0.94))


def test_what_is_published_of_a_total_hides_the_unit_that_dominates_it() -> None:
    """An outsider who knows all units but the largest, and the released file, is left with a range of its values."""
    rng = np.random.default_rng(0)
    close = []
    for _ in range(60):
        others, own = np.sort(np.exp(1.5 * rng.normal(size=140))), np.linspace(0.02, 3, 150)
        others, largest = others[:-1], others[-1]
        released = (others.sum() + largest) * rng.uniform(0.6, 1.1)

        def shown(value: float, others: Any = others, released: float = released) -> Any:
            amounts = np.append(others, value)
            error = amounts.std(ddof=1) / amounts.mean() / np.sqrt(len(amounts))
            return published_total(TotalKept(released / amounts.sum(), None, error), step_of(len(amounts)))

        truth = shown(largest)
        left = own[[shown(largest * factor) == truth for factor in own]]
        close.append(np.ptp(left) / 2 if len(left) else 0.0)
    assert np.median(close) > 0.5
    assert np.mean(np.array(close) < 0.1) <= 0.05


def test_a_unit_with_many_records_like_others_is_hidden_by_its_part_of_the_total() -> None:
    """The error of a total does not see it: of a tenth of 2000 records an outsider learned the sum within 5 %."""
    shown = published_total(TotalKept(0.94, None, 0.005, 0.1), step_of(2000))
    assert shown is not None
    assert (shown.released, shown.error) == pytest.approx((0.9, 0.01))


def test_the_shift_of_a_mean_is_not_published_beside_a_dominated_total() -> None:
    for error, largest, is_shown in ((0.04, 0.02, True), (0.06, 0.02, False), (0.04, 0.06, False)):
        total = TotalKept(0.9, None, error, largest)
        given = changed(assessment(), utility__variables__variables=(replace(variable("income", 0.02), total=total),))
        moved = replace(given.utility.variables.variables[0].released_shift, mean=0.1)
        given = changed(given, utility__variables__variables__0__released_shift=moved)
        assert (published(given).utility.variables[0].released_shift.mean is not None) == is_shown


def test_the_shift_of_a_mean_is_published_in_steps_of_what_one_unit_moves_it_by() -> None:
    """Who knew the numbers of 999 others learned that of a unit with 2 % of the total, and the spread, within 8 %."""
    for largest, step in ((0.02, 0.05), (0.002, 0.01)):
        given = changed(assessment(), utility__variables__variables=(variable("income", 0.02),))
        given = changed(given, utility__variables__variables__0__total=TotalKept(0.9, None, 0.02, largest))
        given = changed(given, utility__variables__variables__0__original=Summary(0.0, 1.0, 0.4))
        moved = replace(given.utility.variables.variables[0].released_shift, mean=0.18)
        given = changed(given, utility__variables__variables__0__released_shift=moved)
        shown = published(given).utility.variables[0].released_shift.mean
        assert shown == pytest.approx(round(0.18 / step) * step)


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


def test_a_published_limit_of_a_total_is_not_said_to_be_the_exact_one() -> None:
    given = changed(
        assessment(), utility__variables__variables=(with_total(1.36, 0.13), with_total(1.0, 0.01, "other"))
    )
    exact = results(GATE, given)["worst total"]
    shown = results(GATE, published(given))["worst total"]
    assert exact.verdict == "to decide"
    assert "at most" not in exact.limit
    assert shown.limit.startswith("100 % ± at most ")
    assert shown.baseline.startswith("± at most ")
