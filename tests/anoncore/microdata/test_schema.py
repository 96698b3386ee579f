"""Schemas, declared and inferred."""

import numpy as np
import pandas as pd
import pytest

from anoncore import AnonymizationError, Microdata, Schema, Variable
from anoncore.profile import profile


@pytest.fixture
def survey() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 200
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "sex": rng.choice(["f", "m"], n),
            "grade": rng.choice(["low", "medium", "high"], n),
            "income": rng.normal(2000, 300, n).round(1),
            "rooms": rng.choice(["1", "2", "17", "n/a"], n),
            "started": pd.Timestamp("2020-01-01"),
            "region": rng.choice(["north", "south", "east"], n),
        }
    )


def test_kinds_roles_levels_and_missing_codes_are_inferred(survey):
    schema = Schema.infer(survey)
    assert schema.names == tuple(survey.columns)
    assert {v.name: (v.kind, v.role) for v in schema} == {
        "id": ("nominal", "identifier"),
        "sex": ("binary", "quasi-identifier"),
        "grade": ("ordinal", "other"),
        "income": ("continuous", "sensitive"),
        "rooms": ("ordinal", "other"),
        "started": ("continuous", "excluded"),
        "region": ("nominal", "quasi-identifier"),
    }
    assert schema["grade"].levels == ("low", "medium", "high")
    assert schema["rooms"].missing == ("n/a",)
    assert schema["income"].precision == 0.1


def test_inference_is_the_profile_without_its_sums(survey):
    guesses = profile(survey, rng=np.random.default_rng(0)).guesses
    assert tuple(Schema.infer(survey)) == tuple(guess.variable for guess in guesses)


def test_a_frame_becomes_microdata_with_or_without_a_schema(survey):
    inferred = Microdata.from_frame(survey)
    assert inferred.schema.names == tuple(survey.columns)
    assert inferred.frame["rooms"].isna().sum() == (survey.rooms == "n/a").sum()
    declared = Microdata.from_frame(survey[["income"]], Schema([Variable("income", "continuous", precision=0.1)]))
    pd.testing.assert_series_equal(declared.frame["income"], inferred.frame["income"])


@pytest.mark.parametrize(
    ("columns", "problem"), [([0, "a"], "must be text"), (["a", "a"], "must be unique"), (["a", "a "], "look alike")]
)
def test_names_that_a_schema_cannot_have_are_refused(columns, problem):
    with pytest.raises(AnonymizationError, match=problem):
        Schema.infer(pd.DataFrame([[1.5, 2.5]] * 30, columns=columns))


def test_the_summary_counts_levels_and_missing_values(survey):
    data = Microdata.from_frame(survey)
    title, head, *rows = data.summary().splitlines()
    assert title == "Microdata of 200 records and 7 variables"
    assert head.split() == ["variable", "kind", "role", "levels", "missing"]
    assert rows[4].split()[-2:] == [str(len(data.schema["rooms"].levels)), str((survey.rooms == "n/a").sum())]
    assert data.schema.summary().splitlines()[0] == "Schema of 7 variables"
