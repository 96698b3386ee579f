"""Microdata to matrix and back."""

from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest

from anoncore import Encoder, Microdata, Schema, Variable
from anoncore.encoding.moments import Moments, linear_encoder


@pytest.mark.parametrize("form", ["calibrated", "mode"])
def test_zero_noise_is_the_identity(mixed, form):
    encoder = Encoder.fit(mixed)
    back = encoder.decode(encoder.encode(mixed), form=form)
    pd.testing.assert_frame_equal(back.frame, mixed.frame.reset_index(drop=True))


def test_normal_scores_come_back_as_averages_over_ranks_and_levels_as_they_are(mixed):
    encoder = Encoder.fit(mixed, numeric="normal")
    back, before = encoder.decode(encoder.encode(mixed)).frame, mixed.frame.reset_index(drop=True)
    numbers = [v.name for v in mixed.schema if v.kind == "continuous"]
    pd.testing.assert_frame_equal(back.drop(columns=numbers), before.drop(columns=numbers))
    for name in numbers:
        assert before[name].nunique() < 2 or back[name].corr(before[name], method="spearman") > 0.99
        assert back[name].max() < before[name].max() or before[name].nunique() < 2


def test_normal_scores_give_back_no_number_of_a_single_record_but_spikes():
    values = np.concatenate([np.zeros(300), np.random.default_rng(0).lognormal(8, 1, 700).round(2)])
    data = Microdata(pd.DataFrame({"income": values}), Schema([Variable("income", "continuous")]))
    encoder = Encoder.fit(data, numeric="normal")
    released = encoder.decode(np.random.default_rng(1).permutation(encoder.encode(data))).frame["income"].to_numpy()
    assert np.isin(released[released != 0], values).mean() < 0.02
    # One score stands for all zeros, and comes back as a zero.
    assert (released == 0).sum() == 300
    assert encoder.decode(np.full((1000, 1), 9.0)).frame["income"].max() < values.max()


def test_columns_are_standardised_and_gaps_are_their_mean(mixed):
    encoder = Encoder.fit(mixed)
    matrix = encoder.encode(mixed)
    names = encoder.column_names()
    assert matrix.shape == (len(mixed), len(names))
    assert np.isfinite(matrix).all()
    for name in ("income", "change", "grade"):
        column = matrix[:, names.index(name)]
        known = mixed.frame[name].notna().to_numpy()
        assert column[known].mean() == pytest.approx(0, abs=1e-12)
        assert column[known].std() == pytest.approx(1)
    smokes = matrix[:, names.index("smokes")]
    gap = mixed.frame["smokes"].isna().to_numpy()
    assert smokes[gap] == pytest.approx(smokes[~gap].mean())
    assert set(np.unique(smokes[~gap])) == {-1.0, 1.0}
    assert (matrix[:, names.index("smokes missing")] == np.where(gap, 1, -1)).all()


def test_nominal_levels_are_columns_and_constants_have_none(mixed):
    names = Encoder.fit(mixed).column_names()
    assert {"region=n", "region=e", "region=s", "region=w"} <= set(names)
    assert not any(name.startswith(("constant", "empty")) for name in names)


def test_calibration_keeps_every_count(mixed):
    encoder = Encoder.fit(mixed)
    noisy = encoder.encode(mixed) + np.random.default_rng(0).normal(0, 2, (len(mixed), encoder.width))
    back = encoder.decode(noisy)
    for variable in mixed.schema:
        assert back.frame[variable.name].isna().sum() == mixed.frame[variable.name].isna().sum()
        if variable.is_categorical:
            pd.testing.assert_series_equal(
                back.frame[variable.name].value_counts().sort_index(),
                mixed.frame[variable.name].value_counts().sort_index(),
            )


def test_positive_variables_stay_positive_and_rounded(mixed):
    encoder = Encoder.fit(mixed)
    noisy = encoder.encode(mixed) - 50
    income = encoder.decode(noisy).frame["income"].dropna()
    assert (income >= 1).all()
    assert (income == income.round()).all()


def test_groups_stay_identical(mixed):
    encoder = Encoder.fit(mixed)
    groups = np.arange(len(mixed)) // 6
    means = pd.DataFrame(encoder.encode(mixed)).groupby(groups).transform("mean").to_numpy()
    frame = encoder.decode(means, groups=groups).frame
    assert frame.groupby(groups).nunique(dropna=False).to_numpy().max() == 1


def test_unknown_levels_are_far_from_every_known_one():
    schema = Schema([Variable("g", "nominal")])
    encoder = Encoder.fit(Microdata(pd.DataFrame({"g": ["a", "b", "c"]}), schema))
    other = Microdata(pd.DataFrame({"g": ["z"]}), schema)
    assert encoder.encode(other).tolist() == [[-1.0, -1.0, -1.0]]


def test_probabilities_are_released_and_read_back(mixed):
    encoder = Encoder.fit(mixed)
    released = encoder.decode(encoder.encode(mixed), form="probabilities")
    chances = released.frame[["region=n", "region=e", "region=s", "region=w"]].sum(axis=1)
    np.testing.assert_allclose(chances, 1, atol=0.003)
    again = encoder.encode(released)
    assert again.shape == (len(mixed), encoder.width)
    assert np.isfinite(again).all()


def test_reference_below_zero_under_a_log_is_defined():
    schema = Schema([Variable("x", "continuous", precision=1)])
    encoder = Encoder.fit(Microdata(pd.DataFrame({"x": [1.0, 10.0, 100.0]}), schema))
    assert np.isfinite(encoder.encode(Microdata(pd.DataFrame({"x": [-5.0, 0.0]}), schema))).all()


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_a_linear_encoder_is_fitted_from_moments_of_parts(mixed, parts):
    encoder = Encoder.fit(mixed, numeric="linear")
    names = [block.variable.name for block in encoder.blocks]
    cut = [mixed.take(rows) for rows in np.array_split(np.arange(len(mixed)), parts)]
    moments = {name: reduce(add, (Moments.of(part, name) for part in cut)) for name in names}
    again = linear_encoder(mixed.schema, moments)
    assert again.column_names() == encoder.column_names()
    np.testing.assert_allclose(again.encode(mixed), encoder.encode(mixed), atol=1e-12)
