"""An assessment of a release that lacks a level of the original, measured once."""

from __future__ import annotations

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
from tasks.policy.section import PolicySection
from tests.tasks.policy.sample import SECRET

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


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Assessment:
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
