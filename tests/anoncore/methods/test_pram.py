"""PRAM: expected frequencies and strata are kept, and levels move as often as stated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, EditSet, Microdata, Schema, Variable
from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import ConditionalEdit
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
    assert "with probability 0.6" in release.notes[0]
    assert set(after[area == "n"]) == {"a", "b"}
    assert (release.data.frame["area"] == data.frame["area"]).all()
    for stratum, value, share in (("n", "a", 0.7), ("n", "b", 0.3), ("s", "c", 0.9)):
        here = area == stratum
        # Five standard deviations of 10 000 draws.
        assert abs((after[here] == value).mean() - share) < 0.025
        assert abs((after[here & (before == value)] == value).mean() - (0.6 + 0.4 * share)) < 0.04
    assert abs(after[area == "s"].isna().mean() - 0.1) < 0.02


def couples(n: int = 3000) -> Microdata:
    """People of whom children are single, and spouses and heads of any age above 15 are not children."""
    rng = np.random.default_rng(2)
    age = rng.integers(0, 80, n).astype(float)
    relation = np.where(age < 15, "child", rng.choice(["head", "spouse", "other"], n))
    civil = np.where(
        relation == "spouse", "married", np.where(age < 15, "single", rng.choice(["single", "widowed"], n))
    )
    schema = Schema(
        [
            Variable("age", "continuous"),
            *(Variable(name, "nominal", role="quasi-identifier") for name in ("relation", "civil")),
        ]
    )
    return Microdata(pd.DataFrame({"age": age, "relation": relation, "civil": civil}), schema)


def pairs(frame: pd.DataFrame) -> set[tuple[str, str]]:
    return set(zip(frame["relation"], frame["civil"], strict=True))


def test_no_pair_is_made_that_the_source_does_not_have_nor_an_edit_broken():
    data = couples()
    young = ConditionalEdit(
        name="young",
        when=(Condition(variable="age", upper=14),),
        then=Condition(variable="relation", values=("child",)),
    )
    free = anoncore.anonymize(data, PRAM(keep=0.2), rng=np.random.default_rng(1)).data.frame
    assert pairs(free) - pairs(data.frame)
    assert not young.holds(free).all()
    for within in ({"relation": ("civil",)}, {"civil": ("relation",)}):
        params = PRAM(keep=0.2, within=within)
        release = anoncore.anonymize(data, params, rng=np.random.default_rng(1), edits=EditSet([young]))
        assert pairs(release.data.frame) <= pairs(data.frame)
        assert young.holds(release.data.frame).all()
        for name in ("relation", "civil"):
            before, after = data.frame[name].value_counts(), release.data.frame[name].value_counts()
            assert (before - after).abs().max() < 150
        assert (release.data.frame["civil"] != data.frame["civil"]).mean() > 0.1
        assert 0.3 < release.figures["fixed_values"] < 0.7


@pytest.mark.parametrize(
    ("params", "problem"),
    [({"variables": ("x",)}, "x is not released with levels"), ({}, "there is no quasi-identifier with levels")],
)
def test_what_has_no_levels_is_refused(params, problem):
    data = Microdata(pd.DataFrame({"x": [1.5, 2.5]}), Schema([Variable("x", "continuous")]))
    with pytest.raises(AnonymizationError, match=problem):
        anoncore.anonymize(data, PRAM(**params), rng=np.random.default_rng(0))
