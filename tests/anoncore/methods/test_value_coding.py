"""Top and bottom coding, and rounding that is unbiased and keeps totals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, EditSet, Microdata, Schema, Variable
from anoncore.edits.kinds import BoundEdit, LinearEdit
from anoncore.methods import AdditiveNoise, ValueCoding
from anoncore.methods.value_coding import rounded
from anoncore.recoding import recoded

SCHEMA = Schema([Variable("pay", "continuous"), Variable("rent", "continuous")])


def table() -> Microdata:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.lognormal(8, 1, (500, 2)).round(), columns=["pay", "rent"])
    frame.loc[3, "pay"] = np.nan
    return Microdata(frame, SCHEMA)


@pytest.mark.parametrize("how", ["nearest", "random", "controlled"])
def test_numbers_go_to_a_multiple_next_to_them_and_totals_hold(how):
    values = table().frame["rent"].to_numpy()
    draws = np.array([rounded(values, 50, how, np.random.default_rng(seed)) for seed in range(400)])
    assert (draws % 50 == 0).all()
    assert np.abs(draws - values).max() <= (25 if how == "nearest" else 50)
    if how != "nearest":
        # Five standard deviations of 400 draws of at most 25.
        assert np.abs(draws.mean(axis=0) - values).max() < 6.25
    if how == "controlled":
        assert np.abs(draws.sum(axis=1) - values.sum()).max() < 50


@pytest.mark.parametrize("rounding", ["nearest", "random"])
def test_what_anyone_can_code_is_declared_as_a_recoding(rounding):
    data = Microdata(pd.DataFrame({"x": [-4.0, 1.0, 7.4, np.nan, 30.0]}), Schema([Variable("x", "continuous")]))
    params = ValueCoding(top={"x": 20.0}, bottom={"x": 0.0}, base={"x": 5.0}, rounding=rounding)
    release = anoncore.anonymize(data, params, rng=np.random.default_rng(0))
    known = recoded(data, release.recodings)
    if rounding == "nearest":
        pd.testing.assert_frame_equal(known.frame, release.data.frame)
        assert known.schema == release.data.schema
    else:
        assert known.frame["x"].tolist()[:3] == [0.0, 1.0, 7.4]


def test_limits_and_bases_hold_again_after_noise():
    params = ValueCoding(top={"pay": 8000}, bottom={"pay": 500, "rent": 1000}, base={"pay": 100}, rounding="random")
    release = anoncore.anonymize(table(), params, rng=np.random.default_rng(0))
    (claim,) = release.claims
    assert claim.check(release.data).holds
    assert release.data.frame["pay"].isna().sum() == 1
    assert release.data.schema["pay"].precision == 100
    noisy = anoncore.anonymize(release.data, AdditiveNoise(), rng=np.random.default_rng(1)).data
    assert not claim.check(noisy).holds
    restored, notes = params.restore(noisy, release.claims, edits=EditSet(), rng=np.random.default_rng(2))
    assert claim.check(restored).holds
    assert notes


def test_edits_about_coded_numbers_are_refused_unless_they_compute_another():
    bound = BoundEdit(name="low", variable="pay", lower=0)
    total = LinearEdit(name="sum", terms={"pay": 1, "rent": 1, "all": -1}, dependent="all")
    schema = Schema([*SCHEMA, Variable("all", "continuous")])
    assert ValueCoding(base={"pay": 5}).problems(schema, EditSet([bound, total])) == [
        "edit low speaks of pay: coded values may violate it; leave one of them out"
    ]


def test_other_variables_are_refused():
    with pytest.raises(AnonymizationError, match="wage is no released number"):
        anoncore.anonymize(table(), ValueCoding(top={"wage": 5}), rng=np.random.default_rng(0))
