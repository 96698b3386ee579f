"""PRAM: expected frequencies and strata are kept, and levels move as often as stated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, Microdata, Schema, Variable
from anoncore.methods import PRAM

N = 20_000


def test_frequencies_and_transitions_are_as_stated_within_strata():
    rng = np.random.default_rng(0)
    area = rng.choice(["n", "s"], N)
    level = np.where(area == "n", rng.choice(["a", "b"], N, p=[0.7, 0.3]), rng.choice(["c", None], N, p=[0.9, 0.1]))
    schema = Schema([Variable("area", "nominal"), Variable("level", "nominal", role="quasi-identifier")])
    data = Microdata(pd.DataFrame({"area": area, "level": level}), schema)
    release = anoncore.anonymize(data, PRAM(keep=0.6, strata=("area",)), rng=np.random.default_rng(1))
    before, after = data.frame["level"].astype(object), release.data.frame["level"].astype(object)
    assert set(after[area == "n"]) == {"a", "b"}
    assert (release.data.frame["area"] == data.frame["area"]).all()
    for stratum, value, share in (("n", "a", 0.7), ("n", "b", 0.3), ("s", "c", 0.9)):
        here = area == stratum
        # Five standard deviations of 10 000 draws.
        assert abs((after[here] == value).mean() - share) < 0.025
        assert abs((after[here & (before == value)] == value).mean() - (0.6 + 0.4 * share)) < 0.04
    assert abs(after[area == "s"].isna().mean() - 0.1) < 0.02


@pytest.mark.parametrize(
    ("params", "problem"),
    [({"variables": ("x",)}, "x is not released with levels"), ({}, "there is no quasi-identifier with levels")],
)
def test_what_has_no_levels_is_refused(params, problem):
    data = Microdata(pd.DataFrame({"x": [1.5, 2.5]}), Schema([Variable("x", "continuous")]))
    with pytest.raises(AnonymizationError, match=problem):
        anoncore.anonymize(data, PRAM(**params), rng=np.random.default_rng(0))
