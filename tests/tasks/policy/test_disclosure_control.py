"""What may leave the house of an assessment: coarse, and nothing of what is not released."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anoncore.risk import Difference
from tasks.policy.assessment import Assessment
from tasks.policy.disclosure_control import published, without_source_levels
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import STEPS, coarse
from tests.tasks.policy.sample import SECRET


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from numbers(inner)


def public(measured: Assessment) -> dict[str, Any]:
    return published(measured).to_json()


def test_every_figure_is_public_or_knowingly_inside(measured: Assessment) -> None:
    shown = published(measured)
    assert {f.name for f in fields(measured)} - {f.name for f in fields(PublishedAssessment)} == {
        "external",
        "hidden_units",
        "overlap",
        "risk_published",
    }
    inside = {
        name
        for name, value in vars(measured.risk).items()
        if value is not None and value is not False and not vars(shown.risk)[name]
    }
    assert inside == {"averages", "close_pairs", "dominance", "met_by_others"}
    assert measured.risk.linkage is not None
    assert measured.risk.inference is not None
    assert measured.risk.inference.variables
    assert len(measured.utility.regressions) == 2


def test_a_level_that_is_not_released_is_not_named(measured: Assessment) -> None:
    assert SECRET in json.dumps(measured.to_json())
    assert SECRET not in json.dumps(public(measured))


def test_counts_of_people_hardly_follow_one_record(measured: Assessment) -> None:
    def shown(more: int) -> dict[str, Any]:
        risk = replace(
            measured.risk,
            identical=replace(
                measured.risk.identical, n_released=more, only_released=more, n_reference=3, p=0.7 + more / 10
            ),
            extreme=replace(measured.risk.extreme, n_extreme=more),
        )
        return public(replace(measured, risk=risk))["risk"]

    assert shown(0) == shown(1) == shown(2)
    assert shown(0)["identical"]["n_released"] == 10


def test_one_more_level_of_the_source_is_not_counted(measured: Assessment) -> None:
    both = measured.utility.propensity
    assert both is not None
    score = replace(both.released, parameters=both.released.parameters + 1, expected=both.released.expected * 1.02)
    utility = replace(measured.utility, left_out=1, propensity=replace(both, released=score))
    columns = 10 * (measured.risk.columns // 10)
    few, more = (
        replace(measured, risk=replace(measured.risk, columns=columns + 5), utility=measured.utility),
        replace(measured, risk=replace(measured.risk, columns=columns + 6), utility=utility),
    )
    assert public(few) == public(more)


def test_no_statistic_of_the_source_or_of_the_reference_is_told(measured: Assessment) -> None:
    told = list(numbers(public(measured)))
    sides = [
        value
        for one in measured.utility.variables.variables
        for side in (one.original, one.reference)
        for value in (side.mean, side.variance)
        if value is not None
    ]
    assert len(sides) == 12
    for value in sides:
        assert float(f"{value:.3g}") not in told
    estimates = [
        row.original.estimate
        for one in measured.utility.regressions
        for row in one.released.coefficients
        if row.original
    ]
    assert len(estimates) >= 5
    for value in estimates:
        assert float(f"{value:.3g}") not in told


def test_figures_are_coarse(measured: Assessment) -> None:
    shown = published(measured).utility
    for one in shown.variables:
        for value in vars(one.released_shift).values():
            # Of 300 people, in twentieths.
            assert value is None or value * 20 == pytest.approx(round(value * 20))
    for regression in shown.regressions:
        for row in regression.coefficients:
            assert row.overlap * 20 == pytest.approx(round(row.overlap * 20))
            assert row.difference is None or row.difference * 10 == pytest.approx(round(row.difference * 10))
    assert all(value == float(f"{value:.3g}") for value in numbers(public(measured)))


@pytest.mark.parametrize(("people", "step"), [(50, 0.1), (300, 0.05), (814, 0.02), (1000, 0.01), (10**6, 0.01)])
def test_the_fewer_people_the_coarser(measured: Assessment, people: int, step: float) -> None:
    shown = published(replace(measured, records=replace(measured.records, original=people))).utility
    # From how far a variance moved, the number of a person who dominates it would be computed.
    assert shown.figure("variance") is None
    assert {one.released_shift.variance for one in shown.variables} == {None}
    for row in shown.columns:
        for value in (row.mean, row.correlation):
            assert value / step == pytest.approx(round(value / step), abs=1e-6)
    shift = abs(shown.figure("correlation").released_largest / step)
    assert shift == pytest.approx(round(shift), abs=1e-6)


def test_settings_of_a_measure_are_not_rounded_like_figures(measured: Assessment) -> None:
    shown = published(replace(measured, records=replace(measured.records, original=814))).risk
    assert (shown.inference.margin, shown.inference.confidence) == (0.05, 0.99)
    assert shown.linkage.guess == pytest.approx(1 / 300, abs=1e-5)


def test_a_coefficient_that_only_the_source_has_is_counted_and_not_named(measured: Assessment) -> None:
    first = published(measured).utility.regressions[0]
    assert first.lost == 1
    assert first.fitted
    assert {row.term for row in first.coefficients} == {"(constant)", "age", "region=s"}


def test_levels_that_are_not_released_leave_the_full_figures_too(measured: Assessment) -> None:
    shown = without_source_levels(measured, {"region": {"n", "s"}, "ill": {"no", "yes"}})
    assert SECRET not in json.dumps(shown.to_json())
    region = next(one for one in shown.utility.variables.variables if one.name == "region")
    assert region.levels == ("n", "s")
    assert len(region.original.shares) == len(region.reference.shares) == 2


@given(st.floats(-1, 1), st.floats(0, 1), st.sampled_from(STEPS))
def test_a_published_interval_holds_the_measured_one(lower: float, width: float, step: float) -> None:
    figure = Difference(lower + width / 2, lower, lower + width)
    shown = coarse(figure, step)
    assert lower - step < shown.lower <= lower + 1e-9
    assert figure.upper - 1e-9 <= shown.upper < figure.upper + step
    for end in (shown.lower, shown.upper):
        assert end / step == pytest.approx(round(end / step), abs=1e-6)
