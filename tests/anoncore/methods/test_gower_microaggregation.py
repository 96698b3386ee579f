"""Gower microaggregation: groups of identical records, their values, missing ones and units."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, EditSet, Microdata, Schema, Variable
from anoncore.edits.kinds import BoundEdit
from anoncore.methods import GowerMicroaggregation


def people(n: int = 200) -> Microdata:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.lognormal(7, 1, n).round(), "area": rng.choice(["n", "e", "s"], n)})
    frame["school"] = rng.choice(["none", "low", "high"], n)
    frame.loc[rng.random(n) < 0.1, "income"] = np.nan
    frame.loc[rng.random(n) < 0.1, "area"] = None
    schema = Schema(
        [
            Variable("income", "continuous", precision=1.0),
            Variable("area", "nominal"),
            Variable("school", "ordinal", levels=("none", "low", "high")),
        ]
    )
    return Microdata(frame, schema)


@pytest.mark.parametrize("params", [{}, {"numbers": "median", "levels": "draw"}])
def test_groups_share_values_that_stem_from_them(params):
    data = people()
    edits = EditSet([BoundEdit(name="poor", variable="income", upper=5000)])
    release = anoncore.anonymize(data, GowerMicroaggregation(k=5, **params), rng=np.random.default_rng(1), edits=edits)
    (check,) = release.check()
    assert check.holds
    assert release.data.frame["income"].max() <= 5000
    assert 0 < release.data.frame["income"].isna().sum() < 60
    assert (release.data.frame["school"] == data.frame["school"]).mean() > 0.6
    if params:
        assert abs(release.data.frame["area"].isna().mean() - data.frame["area"].isna().mean()) < 0.15


def test_medians_of_levels_and_means_of_numbers_are_those_of_the_group():
    frame = pd.DataFrame({"x": [1.0, 2.0, 6.0, np.nan], "s": ["a", "c", "c", "b"], "t": ["q", "q", None, "p"]})
    schema = Schema(
        [
            Variable("x", "continuous", precision=1.0),
            Variable("s", "ordinal", levels=("a", "b", "c")),
            Variable("t", "nominal"),
        ]
    )
    data = Microdata(frame, schema)
    for numbers, expected in (("mean", 3.0), ("median", 2.0)):
        params = GowerMicroaggregation(k=4, numbers=numbers)
        released = anoncore.anonymize(data, params, rng=np.random.default_rng(0)).data.frame
        assert released.drop_duplicates().to_numpy().tolist() == [[expected, "b", "q"]]


def test_groups_hold_k_units_and_too_few_records_are_refused():
    data = people().with_units(np.arange(200) // 4)
    release = anoncore.anonymize(data, GowerMicroaggregation(k=4), rng=np.random.default_rng(0))
    assert release.check()[0].holds
    with pytest.raises(AnonymizationError, match="needs as many records, got 200"):
        anoncore.anonymize(data, GowerMicroaggregation(k=201), rng=np.random.default_rng(0))
