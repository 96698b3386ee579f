"""Additive noise, data shuffling and non-spectral RHS on microdata."""

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, Encoder, Microdata, Schema, Variable
from anoncore.claims import KAnonymity, NoFormalGuarantee
from anoncore.edits.kinds import LinearEdit
from anoncore.edits.model import EditSet
from anoncore.methods import RHS, AdditiveNoise, DataShuffling, RankSwapping, SequentialTrees, SpectralSwap


def run(data, params, seed=0):
    return anoncore.anonymize(data, params, rng=np.random.default_rng(seed))


def assert_same_marginal(released, original, name):
    ours, theirs = (data.frame[name] for data in (released, original))
    assert ours.isna().sum() == theirs.isna().sum()
    if original.schema[name].is_categorical:
        assert released.level_counts(name) == original.level_counts(name)
    else:
        np.testing.assert_array_equal(np.sort(ours.dropna()), np.sort(theirs.dropna()))


@pytest.mark.parametrize("params", [AdditiveNoise(), AdditiveNoise(correction="exact"), DataShuffling()], ids=str)
def test_a_gap_that_goes_with_a_level_still_does(nhefs_halves, params):
    released = run(nhefs_halves[0], params, seed=5).data.frame
    assert released["wt82"].isna().any()
    assert (released["wt82"].isna() == (released["censored"] == 1)).all()


@pytest.mark.parametrize("holders", [1, 5])
@pytest.mark.parametrize(
    "params",
    [
        AdditiveNoise(),
        DataShuffling(),
        RankSwapping(),
        SpectralSwap(),
        SpectralSwap(marginals="drawn"),
        SpectralSwap(marginals="drawn", numeric="normal"),
        SequentialTrees(leaf=5),
    ],
    ids=str,
)
def test_a_number_that_at_most_k_people_have_is_not_released(params, holders):
    rng = np.random.default_rng(0)
    rare = np.where(np.arange(200) < holders, 4711.0 + np.arange(200), np.nan)
    frame = pd.DataFrame({"rare": rare, "a": rng.normal(size=200), "b": rng.normal(size=200)})
    data = Microdata(frame, Schema([Variable(name, "continuous") for name in frame]))
    assert run(data, params).data.frame["rare"].isna().all()


# -- additive noise


@pytest.mark.parametrize("axes", ["original", "spectral"])
def test_exact_noise_keeps_means_and_covariances_of_the_encoded_matrix(nhefs_halves, axes):
    original, _ = nhefs_halves
    matrix = Encoder.fit(original).encode(original)
    release = run(original, AdditiveNoise(correction="exact", axes=axes))
    np.testing.assert_allclose(release.scores.mean(0), matrix.mean(0), atol=1e-10)
    np.testing.assert_allclose(np.cov(release.scores.T), np.cov(matrix.T), atol=1e-10)


def test_noise_keeps_level_counts_gaps_and_the_order_of_records(nhefs_halves):
    original, _ = nhefs_halves
    release = run(original, AdditiveNoise())
    assert release.keeps_records
    assert release.data.frame.index.equals(original.frame.index)
    for variable in original.schema:
        assert release.data.frame[variable.name].isna().sum() == original.frame[variable.name].isna().sum()
        if variable.is_categorical:
            assert_same_marginal(release.data, original, variable.name)
    assert release.data.frame["age"].corr(original.frame["age"]) == pytest.approx(1.1**-0.5, abs=0.02)


def test_uncorrected_noise_says_that_it_inflates_variances(mixed):
    release = run(mixed, AdditiveNoise(b=0.5, correction="none"))
    assert "by the factor 1.5" in release.notes[0]
    assert release.data.frame["change"].var() > 1.2 * mixed.frame["change"].var()
    assert "means and covariances are exact" in run(mixed, AdditiveNoise(correction="exact")).notes[0]


def test_noise_claims_nothing_and_says_that_records_are_found_again(mixed):
    release = run(mixed, AdditiveNoise())
    assert [type(claim) for claim in release.claims] == [NoFormalGuarantee]
    assert "stems from one person" in release.notes[1]


@pytest.mark.parametrize("b", [0.0, -1.0, float("nan"), float("inf")])
def test_noise_must_have_a_size(b):
    with pytest.raises(AnonymizationError, match="b must be above 0"):
        AdditiveNoise(b=b)


# -- data shuffling


@pytest.mark.parametrize("confidential", [(), ("wt82", "income", "marital", "alcoholhowmuch", "hbp")])
def test_every_variable_keeps_its_values_levels_and_gaps(nhefs_halves, confidential):
    original, _ = nhefs_halves
    released = run(original, DataShuffling(confidential=confidential, values="exact", tail_coding=None)).data
    assert released.schema.names == original.schema.names
    for name in original.schema.names:
        assert_same_marginal(released, original, name)
    # So does every column of the encoded matrix.
    encoder = Encoder.fit(original)
    before, after = encoder.encode(original), encoder.encode(released)
    np.testing.assert_allclose(np.sort(after, axis=0), np.sort(before, axis=0), atol=1e-12)


def test_rank_correlations_of_numbers_stay_close(nhefs_halves):
    original, _ = nhefs_halves
    released = run(original, DataShuffling(values="exact", tail_coding=None)).data
    names = ["age", "ht", "wt71", "smokeintensity", "smkintensity82_71", "smokeyrs"]
    before, after = (data.frame[names].corr("spearman").to_numpy() for data in (original, released))
    assert np.abs(before).max(initial=0, where=~np.eye(len(names), dtype=bool)) > 0.5
    assert np.abs(after - before).max() < 0.1


def test_with_all_variables_shuffled_no_record_is_kept(nhefs_halves):
    original, _ = nhefs_halves
    release = run(original, DataShuffling())
    assert not release.keeps_records
    assert not release.data.frame.index.equals(original.frame.index)
    for name in ("age", "wt71", "smokeyrs"):
        same_row = np.corrcoef(release.data.frame[name], original.frame[name])[0, 1]
        assert abs(same_row) < 0.12
    assert "no released record stems from one person" in release.notes


def test_what_is_not_confidential_is_released_as_it_is_and_said_so(mixed):
    release = run(mixed, DataShuffling(confidential=("income", "region")))
    others = [name for name in mixed.schema.names if name not in ("income", "region")]
    pd.testing.assert_frame_equal(release.data.frame[others], mixed.frame[others])
    for name in ("income", "region"):
        assert not release.data.frame[name].equals(mixed.frame[name])
    assert release.keeps_records
    assert f"NOT shuffled and released unchanged, record by record: {', '.join(others)}" in release.notes
    (claim,) = release.claims
    assert "which were not shuffled identify no one" in claim.evidence


def test_known_variables_guide_the_shuffling():
    rng = np.random.default_rng(0)
    age = rng.normal(50, 10, 4000).round()
    frame = pd.DataFrame({"age": age, "pressure": age + rng.normal(0, 10, 4000)})
    data = Microdata(frame, Schema([Variable("age", "continuous"), Variable("pressure", "continuous")]))
    released = run(data, DataShuffling(confidential=("pressure",)), seed=1).data.frame
    assert released.corr("spearman").iloc[0, 1] == pytest.approx(frame.corr("spearman").iloc[0, 1], abs=0.04)
    assert released["pressure"].corr(frame["pressure"]) == pytest.approx(0.5, abs=0.05)


def test_known_variables_of_real_data_keep_their_correlations_with_shuffled_ones(nhefs_halves):
    """Known variables with levels and gaps, dependent and nearly so."""
    original, _ = nhefs_halves
    released = run(original, DataShuffling(confidential=("wt71", "sbp", "smokeyrs"))).data.frame
    for one, other in (("wt71", "ht"), ("sbp", "age"), ("smokeyrs", "age"), ("wt71", "sbp")):
        before = original.frame[one].corr(original.frame[other], method="spearman")
        assert released[one].corr(released[other], method="spearman") == pytest.approx(before, abs=0.12)


def test_tails_are_coded_unless_told_otherwise(mixed):
    ours = np.sort(run(mixed, DataShuffling(values="exact", tail_coding=4)).data.frame["change"])
    theirs = np.sort(mixed.frame["change"])
    np.testing.assert_array_equal(ours[4:-4], theirs[4:-4])
    assert ours[-1] == pytest.approx(theirs[-4:].mean(), abs=0.005)
    assert theirs[-1] not in ours
    assert theirs[-1] in run(mixed, DataShuffling(values="exact", tail_coding=None)).data.frame["change"].to_numpy()
    assert "4 largest and smallest" in run(mixed, DataShuffling(values="exact", tail_coding=4)).notes[0]
    assert "are published" in run(mixed, DataShuffling(values="exact", tail_coding=None)).notes[0]


def test_more_coded_values_than_there_are(mixed):
    few = mixed.take(np.arange(6))
    released = run(few, DataShuffling(values="exact", tail_coding=50)).data.frame["change"]
    assert released.tolist() == [released.iloc[0]] * 6
    assert released.iloc[0] == pytest.approx(few.frame["change"].mean(), abs=0.006)


def test_wrong_confidential_variables_are_refused(mixed):
    wrong = DataShuffling(confidential=("income", "nobody", "income"))
    problems = wrong.problems(mixed.schema, EditSet())
    assert [p.split(";")[0] for p in problems] == [
        "confidential: nobody is not released",
        "confidential: income is named more than once",
    ]
    total = LinearEdit(name="total", terms={"income": 1, "change": -1, "constant": -1}, dependent="income")
    (told,) = DataShuffling(confidential=("income",)).problems(mixed.schema, EditSet((total,)))
    assert "income is computed again by an edit" in told
    with pytest.raises(AnonymizationError, match="nobody is not released"):
        run(mixed, wrong)
    with pytest.raises(AnonymizationError, match="none of these variables varies"):
        run(mixed, DataShuffling(confidential=("constant", "empty")))
    assert DataShuffling(confidential=("income",)).problems(mixed.schema, EditSet()) == []


def test_a_table_without_variation_comes_back():
    data = Microdata(pd.DataFrame({"x": [2.0, 2.0]}), Schema([Variable("x", "continuous")]))
    assert run(data, DataShuffling()).data.frame["x"].tolist() == [2.0, 2.0]


# -- non-spectral RHS


@pytest.mark.parametrize("k", [3, 5, 10])
@pytest.mark.parametrize("representative", ["mean", "medoid"])
@pytest.mark.parametrize("released", ["calibrated", "mode"])
def test_joined_cells_are_k_anonymous_on_real_data(nhefs_halves, k, representative, released):
    original, _ = nhefs_halves
    release = run(original, RHS(k=k, representative=representative, released=released))
    assert release.claims == (KAnonymity(k=k),)
    assert all(check.holds for check in release.check())
    sizes = release.data.frame.groupby(list(release.data.frame), dropna=False, observed=True).size()
    assert sizes.min() >= k
    assert release.figures["share_below_k"] == 0
    assert release.data.frame.index.equals(original.frame.index)


def test_kept_cells_promise_nothing_and_protect_nobody_on_real_data(nhefs_halves):
    original, _ = nhefs_halves
    release = run(original, RHS(k=5, small="keep"))
    assert [type(claim) for claim in release.claims] == [NoFormalGuarantee]
    assert not KAnonymity(k=5).check(release.data).holds
    assert release.figures["share_below_k"] > 0.99
    matrix = Encoder.fit(original).encode(original)
    alone = np.isclose(release.scores, matrix, atol=1e-12).all(axis=1)
    assert alone.mean() > 0.95
    assert "% of them stand in groups of fewer than 5" in release.notes[0]


def test_measures_are_void_by_design_only_where_records_are_grouped():
    assert RHS().void_by_design == ("ambiguity", "uncertainty")
    assert RHS(small="keep").void_by_design == ()


def test_too_few_records_are_refused(mixed):
    with pytest.raises(AnonymizationError, match="RHS with k = 10 needs as many records, got 9"):
        run(mixed.take(np.arange(9)), RHS(k=10))
