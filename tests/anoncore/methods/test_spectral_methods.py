"""Spectral swapping and spectral RHS on microdata."""

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import Encoder, Microdata, Schema, Variable
from anoncore.methods import SpectralRHS, SpectralSwap


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
