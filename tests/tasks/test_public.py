"""What may leave the house of an assessment: coarse, and nothing of what is not released."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from tasks.assessment.assess import AssessmentSection, assess
from tasks.assessment.disclosure_control import public_figures
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked
from tasks.policy.verdict import PolicySection

SECRET = "only-before"
INSIDE = {"among_people", "utility_worst", "utility_absent"}
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
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
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
    return assess(run, sides, masked, SECTION, PolicySection()).figures


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from numbers(inner)


def test_every_figure_is_public_or_knowingly_inside(figures: dict[str, Any]) -> None:
    assert set(figures) - set(public_figures(figures)) == INSIDE
    assert figures["linkage"] is not None
    assert figures["inference"]["variables"]
    assert len(figures["utility_regressions"]) == 2


def test_a_level_that_is_not_released_is_not_named(figures: dict[str, Any]) -> None:
    assert SECRET in json.dumps(figures)
    assert SECRET not in json.dumps(public_figures(figures))


def test_no_statistic_of_the_source_or_of_the_reference_is_told(figures: dict[str, Any]) -> None:
    told = list(numbers(public_figures(figures)))
    sides = [
        value
        for row in figures["utility_variables"]
        for side in ("original", "reference")
        for name, value in row[side].items()
        if name in ("mean", "variance") and value is not None
    ]
    assert len(sides) == 12
    for value in sides:
        assert float(f"{value:.3g}") not in told
    estimates = [
        row["original"]["estimate"]
        for one in figures["utility_regressions"]
        for row in one["released"]["coefficients"]
        if row["original"]
    ]
    assert len(estimates) >= 5
    for value in estimates:
        assert float(f"{value:.3g}") not in told


def test_figures_are_coarse(figures: dict[str, Any]) -> None:
    public = public_figures(figures)
    for row in public["utility_variables"]:
        for name in set(row) - {"name", "kind"}:
            # Of 300 people, in twentieths.
            assert row[name] is None or row[name] * 20 == pytest.approx(round(row[name] * 20))
    for one in public["utility_regressions"]:
        for row in one["coefficients"]:
            assert row["overlap"] * 20 == pytest.approx(round(row["overlap"] * 20))
            assert row["difference"] is None or row["difference"] * 10 == pytest.approx(round(row["difference"] * 10))
    assert all(value == float(f"{value:.3g}") for value in numbers(public))


@pytest.mark.parametrize(("people", "step"), [(50, 0.1), (300, 0.05), (814, 0.02), (1000, 0.01), (10**6, 0.01)])
def test_the_fewer_people_the_coarser(figures: dict[str, Any], people: int, step: float) -> None:
    told = public_figures(figures | {"records": figures["records"] | {"original": people}})
    for row in told["utility_columns"]:
        for name in ("mean", "variance", "correlation"):
            assert row[name] / step == pytest.approx(round(row[name] / step), abs=1e-6)
    shift = abs(told["utility"]["correlation"]["released"]["largest"] / step)
    assert shift == pytest.approx(round(shift), abs=1e-6)


def test_a_coefficient_that_only_the_source_has_is_counted_and_not_named(figures: dict[str, Any]) -> None:
    first = public_figures(figures)["utility_regressions"][0]
    assert first["lost"] == 1
    assert first["fitted"]
    assert {row["term"] for row in first["coefficients"]} == {"(constant)", "age", "region=s"}


def test_the_full_figures_are_left_as_they_are(figures: dict[str, Any]) -> None:
    before = json.dumps(figures)
    public_figures(figures)
    assert json.dumps(figures) == before


def test_guessing_keeps_its_digits(figures: dict[str, Any]) -> None:
    assert public_figures(figures)["linkage"]["guess"] == pytest.approx(1 / 300, abs=1e-5)
