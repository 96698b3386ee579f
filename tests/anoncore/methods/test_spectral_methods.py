"""Spectral swapping and spectral RHS on microdata."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

import anoncore
from anoncore import Encoder, Microdata, Schema, Variable
from anoncore.errors import AnonymizationError
from anoncore.methods import MDAV, RHS, DataShuffling, SpectralRHS, SpectralSwap
from anoncore.risk.presence import value_presence

WEIGHT_CLASSES = SpectralSwap(local=2, local_by="weights")


def test_swapping_keeps_level_counts_and_gaps_on_real_data(nhefs_halves):
    original, _ = nhefs_halves
    released = anoncore.anonymize(original, SpectralSwap(), rng=np.random.default_rng(0)).data
    for variable in original.schema:
        if variable.is_categorical:
            pd.testing.assert_series_equal(
                released.frame[variable.name].value_counts(dropna=False).sort_index(),
                original.frame[variable.name].value_counts(dropna=False).sort_index(),
            )


def test_scores_keep_means_and_with_exact_covariance_covariances(nhefs_halves):
    original, _ = nhefs_halves
    matrix = Encoder.fit(original).encode(original)
    release = anoncore.anonymize(original, SpectralSwap(exact_covariance=True), rng=np.random.default_rng(0))
    np.testing.assert_allclose(release.scores.mean(0), matrix.mean(0), atol=1e-12)
    np.testing.assert_allclose(np.cov(release.scores.T), np.cov(matrix.T), atol=1e-10)


def test_perfect_dependence_survives_calibration(nhefs_halves):
    """A gap that goes with a level is an exact linear relation of the scores, and so is kept."""
    original, _ = nhefs_halves
    released = anoncore.anonymize(original, SpectralSwap(), rng=np.random.default_rng(5)).data.frame
    assert (released["wt82"].isna() == (released["censored"] == 1)).all()


def test_drawn_marginals_follow_the_original_and_hold_no_number_of_few(mixed):
    release = anoncore.anonymize(mixed, SpectralSwap(marginals="drawn"), rng=np.random.default_rng(0))
    before, after = mixed.frame["change"].dropna(), release.data.frame["change"].dropna()
    assert len(before) == len(after)
    assert ks_2samp(before, after).statistic < 0.1
    assert after.mean() == pytest.approx(before.mean(), abs=before.std() / 20)
    assert before.min() < after.min() < after.max() < before.max()
    assert any("no number of fewer than 5 people" in note for note in release.notes)


def test_numbers_of_the_source_are_published_only_where_it_is_declared():
    """By presence: a non-member's own numbers stand in the release as often as a member's."""
    members, nonmembers = mixed_people(1), mixed_people(2)
    for params in (
        SpectralSwap(),
        SpectralSwap(marginals="drawn"),
        SpectralSwap(numeric="normal"),
        DataShuffling(),
        SpectralSwap(marginals="exact"),
        DataShuffling(values="exact"),
    ):
        release = anoncore.anonymize(members, params, rng=np.random.default_rng(3))
        found = value_presence(members, release.data, nonmembers, rng=np.random.default_rng(4))
        if params.publishes_source_values:
            assert found.excess.lower > 0.5
            assert params.publishes_source_values in release.notes
        else:
            assert found.excess.lower < 0.05
            assert all(one.attack.area.lower < 0.52 for one in found.attacks)


@pytest.mark.parametrize(
    ("params", "declares"),
    [
        (SpectralSwap(), False),
        (SpectralSwap(marginals="exact"), True),
        (SpectralSwap(jitter=4), False),
        (SpectralSwap(exact_covariance=True), False),
        (SpectralSwap(jitter=4, exact_covariance=True), True),
        (SpectralSwap(jitter=None, local=3), True),
        (SpectralRHS(), False),
        (SpectralRHS(representative="medoid"), True),
        (RHS(), False),
        (RHS(representative="medoid"), True),
        (RHS(small="keep"), True),
        (DataShuffling(), False),
        (DataShuffling(values="exact"), True),
        (DataShuffling(confidential=("income",)), True),
        (MDAV(), False),
    ],
    ids=str,
)
def test_methods_declare_that_they_publish_numbers_of_single_people(params, declares):
    assert bool(params.publishes_source_values) == declares


def mixed_people(seed):
    """A table of unique amounts, heaped ones with a spike at zero, and coarse ones."""
    rng = np.random.default_rng(seed)
    amount = rng.lognormal(9, 1, 1500).round(2)
    frame = pd.DataFrame(
        {
            "amount": amount,
            "tax": np.where(rng.random(1500) < 0.6, 0.0, (amount / 7).round(0)),
            "height": (170 + 10 * rng.normal(size=1500)).round(1),
        }
    )
    return Microdata(frame, Schema([Variable(name, "continuous") for name in frame]))


def test_one_column_is_refused_without_jitter():
    people = mixed_people(1).select(["amount"])
    with pytest.raises(AnonymizationError, match="a table of one column is its own axis"):
        anoncore.anonymize(people, SpectralSwap(jitter=None), rng=np.random.default_rng(0))
    released = anoncore.anonymize(people, SpectralSwap(), rng=np.random.default_rng(0)).data
    assert value_presence(people, released, mixed_people(2), rng=np.random.default_rng(4)).excess.lower < 0.05


def test_exact_marginals_hold_original_values_but_for_the_ends(mixed):
    params = SpectralSwap(marginals="exact", tail_coding=4)
    released = anoncore.anonymize(mixed, params, rng=np.random.default_rng(0)).data.frame
    ours, theirs = np.sort(released["change"]), np.sort(mixed.frame["change"])
    np.testing.assert_array_equal(ours[4:-4], theirs[4:-4])
    assert ours[-1] == pytest.approx(theirs[-4:].mean(), abs=0.005)
    assert theirs[-1] not in ours


def test_local_swapping_keeps_a_non_linear_shape():
    """On two parabolas a global swap fills the hollow; swapping within clusters does not."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, 3000)
    y = x**2 + rng.normal(0, 0.1, 3000)
    data = Microdata(
        pd.DataFrame({"x": x, "y": y - 20}),
        Schema([Variable("x", "continuous"), Variable("y", "continuous")]),
    )

    def misfit(params):
        out = anoncore.anonymize(data, params, rng=np.random.default_rng(1)).data.frame
        return np.abs(out["y"] + 20 - out["x"] ** 2).mean()

    assert misfit(SpectralSwap(local=12, min_cluster=100)) < misfit(SpectralSwap()) / 4


def weighted_people(weights, role="weight"):
    """400 people whose income rises with their weight."""
    income = weights * np.exp(np.random.default_rng(3).normal(0, 0.5, len(weights)))
    variables = [Variable("income", "continuous"), Variable("w", "continuous", role=role)]
    return Microdata(pd.DataFrame({"income": income, "w": weights}), Schema(variables))


def test_classes_of_weights_keep_records_and_weighted_means_near_their_class():
    data = weighted_people(np.random.default_rng(1).permutation(np.repeat([1.0, 50.0], 200)))

    def moved(params, seed):
        out = anoncore.anonymize(data, params, rng=np.random.default_rng(seed)).data.frame
        return abs(np.average(out["income"], weights=out["w"]) / true - 1)

    true = np.average(data.frame["income"], weights=data.frame["w"])
    shifts = [[moved(params, s) for s in range(5)] for params in (SpectralSwap(), WEIGHT_CLASSES)]
    assert np.mean(shifts[1]) < np.mean(shifts[0]) / 3
    release = anoncore.anonymize(data, WEIGHT_CLASSES, rng=np.random.default_rng(0))
    assert any(note.endswith("permuted: 2") for note in release.notes)
    by_class, matrix, low = release.scores, Encoder.fit(data).encode(data), (data.frame["w"] == 1).to_numpy()
    for members in (low, ~low):
        np.testing.assert_allclose(by_class[members].mean(axis=0), matrix[members].mean(axis=0), atol=1e-12)


@pytest.mark.parametrize(("local_by", "most"), [("weights", 10), ("records", 9)])
def test_a_class_or_cluster_has_20_units_for_each_column_at_least(local_by, most):
    data = weighted_people(np.random.default_rng(1).uniform(1, 9, 400))
    params = SpectralSwap(local=50, local_by=local_by, min_cluster=2)
    (note,) = [
        note
        for note in anoncore.anonymize(data, params, rng=np.random.default_rng(0)).notes
        if "within which scores were permuted" in note
    ]
    assert 2 <= int(note.rsplit(" ", 1)[1]) <= most
    assert local_by == "records" or note.endswith(": 10")


def test_classes_of_weights_need_weights():
    with pytest.raises(AnonymizationError, match="set local to at least 2"):
        SpectralSwap(local_by="weights")
    weights = np.random.default_rng(1).uniform(1, 9, 400)
    with pytest.raises(AnonymizationError, match="number with the role weight"):
        anoncore.anonymize(weighted_people(weights, "other"), WEIGHT_CLASSES, rng=np.random.default_rng(0))
    weights[:3] = np.nan, 0.0, -1.0
    with pytest.raises(AnonymizationError, match=r"'w': 3 record\(s\) have no weight above 0"):
        anoncore.anonymize(weighted_people(weights), WEIGHT_CLASSES, rng=np.random.default_rng(0))


@pytest.mark.parametrize("k", [3, 5, 10])
@pytest.mark.parametrize("representative", ["mean", "medoid"])
@pytest.mark.parametrize("released", ["calibrated", "mode"])
def test_rhs_is_k_anonymous_on_real_data(nhefs_halves, k, representative, released):
    original, _ = nhefs_halves
    params = SpectralRHS(k=k, representative=representative, released=released)
    release = anoncore.anonymize(original, params, rng=np.random.default_rng(0))
    (check,) = release.check()
    assert check.holds
    sizes = release.data.frame.groupby(list(release.data.frame), dropna=False, observed=True).size()
    assert sizes.min() >= k


def test_medoid_releases_real_records(mixed):
    released = anoncore.anonymize(
        mixed, SpectralRHS(k=5, representative="medoid", released="mode"), rng=np.random.default_rng(0)
    ).data
    known = set(pd.util.hash_pandas_object(mixed.plain().astype("string"), index=False))
    assert set(pd.util.hash_pandas_object(released.plain().astype("string"), index=False)) <= known


DRAWN = [
    DataShuffling(),
    SpectralSwap(numeric="normal"),
    SpectralSwap(marginals="drawn"),
    SpectralSwap(numeric="linear"),
]


@pytest.mark.parametrize("params", DRAWN, ids=["shuffled", "normal", "drawn", "jittered"])
@pytest.mark.parametrize("other", [8.0, 50.0])
def test_a_number_that_one_unit_repeats_is_not_released(params, other):
    """An average over ranks within the records of one unit would be its own number."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": np.append(rng.normal(other, 3.0, 200), np.full(80, 7.777))})
    frame.loc[5, "x"] = np.nan
    data = Microdata(frame, Schema([Variable("x", "continuous")]), np.append(np.arange(200), np.full(80, 200)))
    once = anoncore.anonymize(data, params, rng=np.random.default_rng(1)).data.frame["x"].dropna()
    assert (once.round(3) == 7.777).sum() <= 3
    # Normal scores are decoded without chance: at an end, all records of a unit take nearly the same average of others.
    if getattr(params, "numeric", "") != "normal" or other == 8.0:
        assert once.round(6).value_counts().max() < 10
    each = anoncore.anonymize(data.with_units(None), params, rng=np.random.default_rng(1)).data.frame["x"]
    assert each.round(6).value_counts().max() > 10


@pytest.mark.parametrize("params", DRAWN, ids=["shuffled", "normal", "drawn", "jittered"])
def test_units_of_one_record_each_are_as_none(params):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.exponential(size=150).round(1), "y": rng.normal(size=150)})
    frame.loc[::9, "y"] = np.nan
    data = Microdata(frame, Schema([Variable("x", "continuous"), Variable("y", "continuous")]))
    none, each = (
        anoncore.anonymize(data.with_units(units), params, rng=np.random.default_rng(3)).data.frame
        for units in (None, rng.permutation(150))
    )
    pd.testing.assert_frame_equal(none, each, check_exact=True)


@pytest.mark.parametrize("params", DRAWN[:3], ids=["shuffled", "normal", "drawn"])
def test_numbers_of_one_unit_close_together_are_not_released(params):
    rng = np.random.default_rng(0)
    own = np.sort(rng.uniform(50.03, 50.09, 12).round(3))
    frame = pd.DataFrame({"x": np.append(rng.normal(50, 10, 200), own)})
    variable = Variable("x", "continuous", precision=0.001)
    data = Microdata(frame, Schema([variable]), np.append(np.arange(200), np.full(12, 200)))
    released = anoncore.anonymize(data, params, rng=np.random.default_rng(1)).data.frame["x"]
    assert released.between(own[0], own[-1]).sum() <= 3
