"""Local suppression in a plan: what is refused, strata, and what holds again after later steps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, Condition, ConditionalEdit, EditSet, Microdata, Schema, Variable
from anoncore.methods import LocalSuppression, RankSwapping


def survey(n=300, seed=0) -> Microdata:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.geometric(0.5, n).clip(max=5) for name in ("roof", "walls", "water")})
    frame["area"] = rng.choice(["n", "s"], n)
    kinds = [Variable(name, "nominal", role="quasi-identifier") for name in ("roof", "walls", "water")]
    return Microdata(frame, Schema([*kinds, Variable("area", "nominal")]))


def test_the_claim_holds_within_strata_and_again_after_swapping():
    params, data = LocalSuppression(k=3, strata=("area",)), survey()
    release = anoncore.anonymize(data, params, rng=np.random.default_rng(0))
    assert release.figures["suppressed_cells"] == release.data.frame.isna().sum().sum() > 0
    assert not release.data.frame["area"].isna().any()
    (claim,) = release.claims
    assert claim.check(release.data).holds
    swapped = anoncore.anonymize(release.data, RankSwapping(values="exact"), rng=np.random.default_rng(1)).data
    assert not claim.check(swapped).holds
    restored, notes = params.restore(swapped, release.claims, edits=EditSet(), rng=np.random.default_rng(2))
    assert claim.check(restored).holds
    assert notes


def test_units_count_once():
    once = survey(100)
    data = Microdata(pd.concat([once.frame] * 3, ignore_index=True), once.schema)
    cells = []
    for units in (None, np.tile(np.arange(100), 3)):
        release = anoncore.anonymize(data.with_units(units), LocalSuppression(k=3), rng=np.random.default_rng(0))
        assert release.check()[0].holds
        cells.append(release.figures["suppressed_cells"])
    assert cells[0] == 0 < cells[1]


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"keys": ("wall",)}, "keys: wall is not released"),
        ({"strata": ("roof",), "keys": ("roof", "walls")}, "strata: roof is a key, too"),
        ({"importance": {"area": 2.0}}, "importance: area is no key"),
    ],
)
def test_wrong_names_are_refused(params, problem):
    with pytest.raises(AnonymizationError, match=problem):
        anoncore.anonymize(survey(), LocalSuppression(**params), rng=np.random.default_rng(0))


def test_without_quasi_identifiers_keys_must_be_named():
    data = survey().select(["area"])
    assert LocalSuppression().problems(data.schema, EditSet()) == ["keys: there is no quasi-identifier; name the keys"]


def test_an_edit_that_needs_a_value_of_a_key_is_refused_beforehand_and_holds_where_missing_satisfies_it():
    data = survey()
    level, other = data.frame["roof"].cat.categories[0], data.frame["walls"].cat.categories[0]
    rare = (data.frame["walls"] == other) & (data.frame["roof"] != level)
    data = data.take(np.flatnonzero(~rare))
    when = (Condition(variable="walls", values=(other,)),)

    def edits(missing: bool | None) -> EditSet:
        then = Condition(variable="roof", values=(level,), missing=missing)
        return EditSet([ConditionalEdit(name="roof by walls", when=when, then=then)])

    step = LocalSuppression(k=40, keys=("roof", "walls"))
    with pytest.raises(AnonymizationError, match="edit roof by walls needs a value of roof"):
        anoncore.anonymize(data, step, edits=edits(None), rng=np.random.default_rng(0))
    released = anoncore.anonymize(data, step, edits=edits(True), rng=np.random.default_rng(0)).data
    assert released.frame["roof"].isna().any()
    assert edits(True).satisfied(released.frame).all()
