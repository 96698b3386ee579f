"""What may leave the house of an assessment: coarse, and nothing of what is not released."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from tasks.assessment.assess import AssessmentSection, assess
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import Assessment
from tasks.policy.disclosure_control import PublishedAssessment, published, without_source_levels
from tasks.policy.verdict import PolicySection

SECRET = "only-before"
SECTION = AssessmentSection(
    regressions=(
        {"outcome": "income", "predictors": ["age", "region"]},  # type: ignore[arg-type]
        {"outcome": "ill", "predictors": ["age"], "kind": "logistic"},  # type: ignore[arg-type]
    )
)


def table(rng: np.random.Generator, n: int, levels: list[str]) -> Microdata:
    age = rng.normal(50, 9, n).round(3)
    frame = pd.DataFrame(
        {
            "age": age,
            "income": np.exp(7 + age / 40 + rng.normal(0, 0.7, n)).round(2),
            "region": rng.choice(levels, n),
            "ill": rng.choice(["no", "yes"], n),
            "w": rng.uniform(1, 5, n).round(3),
        }
    )
    schema = Schema(
        [
            Variable("age", "continuous", role="quasi-identifier"),
            Variable("income", "continuous", role="sensitive"),
            Variable("region", "nominal", role="quasi-identifier", levels=("n", "s", SECRET)),
            Variable("ill", "binary", role="sensitive"),
            Variable("w", "continuous", role="weight"),
        ]
    )
    return Microdata(frame, schema)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Assessment:
    """The figures of a release whose rows keep their records, without a level that the original has."""
    rng = np.random.default_rng(5)
    original, reference = table(rng, 300, ["n", "s", SECRET]), table(rng, 300, ["n", "s", SECRET])
    frame = original.frame.assign(
        age=original.frame["age"] + rng.normal(0, 3, 300),
        region=original.frame["region"].where(original.frame["region"] != SECRET, "n"),
    )
    run = Run.start(Home.locate(tmp_path_factory.mktemp("public")), SeedSection(public=1, data_are_public=True))
    store = run.workspace.store
    sides = Sides(store("original", original), store("reference", reference))
    masked = Masked(released=store("released", Microdata(frame, original.schema)), keeps_records=True)
    return assess(run, sides, masked, SECTION, PolicySection()).assessment


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from numbers(inner)


def public(figures: Assessment) -> dict[str, Any]:
    return published(figures).to_json()


def test_every_figure_is_public_or_knowingly_inside(figures: Assessment) -> None:
    shown = published(figures)
    assert {f.name for f in fields(figures)} - {f.name for f in fields(PublishedAssessment)} == {"external"}
    inside = {name for name, value in vars(figures.risk).items() if value is not None and not vars(shown.risk)[name]}
    assert inside == {"close_pairs"}
    assert figures.risk.linkage is not None
    assert figures.risk.inference is not None
    assert figures.risk.inference.variables
    assert len(figures.utility.regressions) == 2


def test_a_level_that_is_not_released_is_not_named(figures: Assessment) -> None:
    assert SECRET in json.dumps(figures.to_json())
    assert SECRET not in json.dumps(public(figures))


def test_no_statistic_of_the_source_or_of_the_reference_is_told(figures: Assessment) -> None:
    told = list(numbers(public(figures)))
    sides = [
        value
        for one in figures.utility.variables.variables
        for side in (one.original, one.reference)
        for value in (side.mean, side.variance)
        if value is not None
    ]
    assert len(sides) == 12
    for value in sides:
        assert float(f"{value:.3g}") not in told
    estimates = [
        row.original.estimate
        for one in figures.utility.regressions
        for row in one.released.coefficients
        if row.original
    ]
    assert len(estimates) >= 5
    for value in estimates:
        assert float(f"{value:.3g}") not in told


def test_figures_are_coarse(figures: Assessment) -> None:
    shown = published(figures).utility
    for one in shown.variables:
        for value in vars(one.shift).values():
            # Of 300 people, in twentieths.
            assert value is None or value * 20 == pytest.approx(round(value * 20))
    for regression in shown.regressions:
        for row in regression.coefficients:
            assert row.overlap * 20 == pytest.approx(round(row.overlap * 20))
            assert row.difference is None or row.difference * 10 == pytest.approx(round(row.difference * 10))
    assert all(value == float(f"{value:.3g}") for value in numbers(public(figures)))


@pytest.mark.parametrize(("people", "step"), [(50, 0.1), (300, 0.05), (814, 0.02), (1000, 0.01), (10**6, 0.01)])
def test_the_fewer_people_the_coarser(figures: Assessment, people: int, step: float) -> None:
    shown = published(replace(figures, records=replace(figures.records, original=people))).utility
    for row in shown.columns:
        for value in (row.mean, row.variance, row.correlation):
            assert value / step == pytest.approx(round(value / step), abs=1e-6)
    shift = abs(shown.figure("correlation").released_largest / step)
    assert shift == pytest.approx(round(shift), abs=1e-6)


def test_settings_of_a_measure_are_not_rounded_like_figures(figures: Assessment) -> None:
    shown = published(replace(figures, records=replace(figures.records, original=814))).risk
    assert (shown.inference.margin, shown.inference.confidence) == (0.05, 0.95)
    assert shown.linkage.guess == pytest.approx(1 / 300, abs=1e-5)


def test_a_coefficient_that_only_the_source_has_is_counted_and_not_named(figures: Assessment) -> None:
    first = published(figures).utility.regressions[0]
    assert first.lost == 1
    assert first.fitted
    assert {row.term for row in first.coefficients} == {"(constant)", "age", "region=s"}


def test_levels_that_are_not_released_leave_the_full_figures_too(figures: Assessment) -> None:
    shown = without_source_levels(figures, {"region": {"n", "s"}, "ill": {"no", "yes"}})
    assert SECRET not in json.dumps(shown.to_json())
    region = next(one for one in shown.utility.variables.variables if one.name == "region")
    assert region.levels == ("n", "s")
    assert len(region.original.shares) == len(region.reference.shares) == 2
