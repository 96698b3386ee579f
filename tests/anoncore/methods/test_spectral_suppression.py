"""Scores that few share are suppressed with what is correlated: nothing imputes them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anoncore
from anoncore import Encoder, Microdata, Schema, Variable
from anoncore.errors import AnonymizationError
from anoncore.kernels.isolated_scores import isolated
from anoncore.kernels.score_basis import score_basis
from anoncore.methods import SpectralSuppression, SpectralSwap


def measures(records=600, seed=0):
    """Three measurements with heavy tails that mostly go together."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(4, size=(records, 1)) * 3 + rng.normal(size=(records, 3))
    names = list("abc")
    return Microdata(pd.DataFrame(x, columns=names), Schema(Variable(name, "continuous") for name in names))


@given(
    values=st.lists(st.floats(-9, 9), min_size=1, max_size=40),
    units=st.integers(1, 6),
    k=st.integers(2, 5),
    reach=st.floats(0, 3),
)
@settings(max_examples=200, deadline=None)
def test_isolated_scores_by_brute_force(values, units, k, reach):
    column = np.array(values)
    owners = np.arange(len(column)) % units
    for of in (None, owners):
        near = [np.flatnonzero((column >= c - reach) & (column <= c + reach)) for c in column]
        expected = [len(np.unique(near_ if of is None else of[near_])) < k for near_ in near]
        assert isolated(column, reach, k, of).tolist() == expected


def test_only_records_with_isolated_scores_change_and_all_their_scores_are_shared_then():
    data = measures()
    release = anoncore.anonymize(data, SpectralSuppression(), rng=np.random.default_rng(1))
    same = (release.data.frame == data.frame).all(axis=1).to_numpy()
    assert 0 < (~same).sum() == release.figures["changed_records"] < 60
    basis = score_basis(Encoder.fit(data).encode(data))
    few = np.column_stack([isolated(s, 0.25 * s.std(), 5) for s in basis.scores.T])
    np.testing.assert_array_equal(few.any(axis=1), ~same)
    assert few.sum() == release.figures["suppressed_scores"]


def test_suppressed_scores_are_not_imputed_linearly_where_suppressed_cells_are():
    x = measures(4000).frame.to_numpy()
    encoded = (x - x.mean(axis=0)) / x.std(axis=0)

    def imputed(table):
        """Return the share of variance that a regression on the others gives back of what few share."""
        few = np.column_stack([isolated(c, 0.25 * c.std(), 5) for c in table.T])
        left, found = np.where(few, 0.0, table), []
        for at, gone in enumerate(few.T):
            others = np.column_stack([np.ones(len(table)), np.delete(left, at, axis=1)])
            guess = others @ np.linalg.lstsq(others[~gone], table[~gone, at], rcond=None)[0]
            found.append([np.square(guess - table[:, at])[gone].sum(), np.square(table[gone, at]).sum()])
        error, all_ = np.sum(found, axis=0)
        return 1 - error / all_

    assert imputed(encoded) > 0.1
    assert imputed(score_basis(encoded).scores) < 0.02


def test_a_far_record_is_not_recreated_by_a_swap():
    data = measures()
    frame = data.frame.copy()
    frame.iloc[0] = [300.0, 200.0, 100.0]
    data = Microdata(frame, data.schema)
    prepared = anoncore.anonymize(data, SpectralSuppression(), rng=np.random.default_rng(1)).data
    for given_, most in ((data, np.inf), (prepared, 60.0)):
        released = anoncore.anonymize(given_, SpectralSwap(jitter=None), rng=np.random.default_rng(2)).data.frame
        assert (released["a"].abs().max() > 200) == (most == np.inf)


def test_rare_levels_of_a_record_are_drawn_again_and_units_are_counted():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=200), "level": np.where(np.arange(200) < 8, "rare", "common")})
    data = Microdata(frame, Schema([Variable("x", "continuous"), Variable("level", "binary")]))
    one_unit = data.with_units(np.maximum(np.arange(200) - 7, 0))
    apart, together = (
        anoncore.anonymize(t, SpectralSuppression(), rng=np.random.default_rng(1)).data.frame["level"]
        for t in (data, one_unit)
    )
    assert (apart == "rare").sum() >= 6
    assert (together == "rare").sum() == 0


def test_parameters_and_tables_without_shared_scores_are_refused():
    for wrong in ({"k": 1}, {"within": 0.0}, {"within": np.inf}):
        with pytest.raises(AnonymizationError, match="must be"):
            SpectralSuppression(**wrong)
    with pytest.raises(AnonymizationError, match="enlarge within"):
        anoncore.anonymize(measures(30), SpectralSuppression(k=20, within=1e-6), rng=np.random.default_rng(0))
