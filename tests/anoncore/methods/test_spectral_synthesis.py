"""Records drawn from a model of the principal scores: another sample, of which no figure is the source's."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import Microdata, Schema, Variable
from anoncore.errors import AnonymizationError
from anoncore.kernels.score_basis import score_basis
from anoncore.kernels.spectral_synthesis import synthesize
from anoncore.methods import SpectralSwap, SpectralSynthesis
from anoncore.risk import membership_attack
from anoncore.risk.presence import value_presence
from tests.anoncore.tables import dependent_table


def rng(seed=0):
    return np.random.default_rng(seed)


def test_means_and_covariances_are_those_of_another_sample():
    """Over 100 draws: right on average, and spread as independent samples of the size are."""
    x = rng(1).uniform(-2, 2, size=(400, 3)) @ np.array([[2.0, 0.5, 0.2], [0.3, 1.0, 0.4], [0.0, 0.5, 1.5]])
    for margins in ("smoothed", "normal"):
        means = np.array([synthesize(x, 100, rng=rng(seed), margins=margins).mean(axis=0) for seed in range(100)])
        assert np.abs(means.mean(axis=0) - x.mean(axis=0)).max() < 4 * (x.std(axis=0) / 100).max()
        np.testing.assert_allclose(means.std(axis=0), x.std(axis=0) / 10, rtol=0.25)
        drawn = synthesize(x, 100_000, rng=rng(2), margins=margins)
        np.testing.assert_allclose(np.cov(drawn.T), np.cov(x.T), atol=0.05 * np.cov(x.T).max())


def test_linear_relations_and_null_axes_hold():
    drawn = synthesize(dependent_table(300), 700, rng=rng(), basis_of=partial(score_basis, axes="independent"))
    x = dependent_table(300)
    null = np.linalg.svd(x - x.mean(axis=0))[2][np.linalg.matrix_rank(x - x.mean(axis=0)) :]
    np.testing.assert_allclose((drawn - x.mean(axis=0)) @ null.T, 0, atol=1e-8)


@pytest.mark.parametrize("records", [None, 1, 137, 900])
def test_as_many_records_are_drawn_as_asked_for_and_counts_of_levels_are_drawn(mixed, records):
    release = anoncore.anonymize(mixed, SpectralSynthesis(records=records), rng=rng(1))
    assert len(release.data) == (records or len(mixed))
    if records == 900:
        source, drawn = (t.frame["smokes"].value_counts(normalize=True) for t in (mixed, release.data))
        assert 0 < abs(source - drawn).max() < 0.1


def test_a_newcomer_is_not_read_from_the_difference_of_two_releases(nhefs_halves):
    """Swapping keeps level counts, so that their difference is the newcomer's level; drawn counts differ by chance."""
    people = nhefs_halves[0].select([v.name for v in nhefs_halves[0].schema if v.kind == "binary"])
    last = people.take(np.arange(len(people) - 1))
    read = []
    for params in (SpectralSwap(), SpectralSynthesis()):
        with_, without = (
            anoncore.anonymize(t, params, rng=rng(seed)).data.frame for seed, t in enumerate((people, last))
        )
        guesses = [
            (with_[name].value_counts() - without[name].value_counts()).idxmax() == people.frame[name].iloc[-1]
            for name in people.schema.names
            if pd.notna(people.frame[name].iloc[-1])
        ]
        read.append(np.mean(guesses))
    assert read[0] == 1
    assert read[1] < 0.75


def test_numbers_of_one_person_are_released_no_more_than_a_strangers():
    members, others = (
        Microdata(
            pd.DataFrame({"amount": rng(seed).lognormal(9, 1, 1500).round(2), "size": rng(seed + 9).normal(size=1500)}),
            Schema([Variable("amount", "continuous"), Variable("size", "continuous")]),
        )
        for seed in (1, 2)
    )
    released = anoncore.anonymize(members, SpectralSynthesis(), rng=rng(3)).data
    assert value_presence(members, released, others, rng=rng(4)).excess.lower < 0.05


def test_neither_extremes_nor_means_nor_spreads_tell_who_is_far_from_all_others():
    """150 releases of other people, in half of them with a person 50 spreads beyond them."""
    figures = []
    for far in (False, True):
        tables = [rng([seed, far, 7]).normal(size=(300, 3)) for seed in range(75)]
        for x in tables if far else ():
            x[0] = 50.0
        drawn = [synthesize(x, 300, rng=rng([seed, far])) for seed, x in enumerate(tables)]
        figures.append(np.array([[z.max(), z.mean(), z.std()] for z in drawn]))
    assert max(membership_attack(*pair).auc for pair in zip(figures[1].T, figures[0].T, strict=True)) < 0.8


@pytest.mark.parametrize("wrong", [{"records": 0}, {"k": 1}])
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(AnonymizationError, match="must be at least"):
        SpectralSynthesis(**wrong)
