import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from anoncore.kernels.wavelet import decompose, reconstruction_matrix
from anoncore.kernels.wavelet.inversion import audit, invert, invert_signal, observer_bounds
from anoncore.kernels.wavelet.redistribution import Goals, redistribute
from anoncore.kernels.wavelet.signal_model import SignalModel
from anoncore.kernels.wavelet.tradeoff import sweep

Q = np.array([30, 0, 80, 12, 9, 41, 0, 217])


# -- inversion


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 300), min_size=8, max_size=8).map(np.array))
def test_gain_against_the_textbook_form(published):
    published[3] += 400
    M, D = reconstruction_matrix(8, "db2", 2), decompose(published.astype(float), "db2", 2).detail
    R = np.column_stack([M, D])
    expected = linprog(
        [0, 0, -1], -R, np.zeros(8), R.sum(axis=0)[None], [published.sum()], [(None, None)] * 2 + [(0, None)]
    )
    found = invert(published)
    assert found.gain == pytest.approx(-expected.fun, rel=1e-6)
    assert found.gain >= 1 - 1e-9
    assert found.recovered.sum() == pytest.approx(published.sum())
    np.testing.assert_allclose(
        decompose(found.recovered, "db2", 2).detail, found.gain * D, atol=1e-5 * np.abs(D).max() * found.gain
    )


def test_bounds_of_an_observer_hold_the_original_the_published_and_the_inverted_counts():
    found = redistribute(Q, Goals(caps={7: 90}))
    low, high = observer_bounds(found.unrounded, SignalModel("db2", 2), range(8))
    for counts in (Q, found.unrounded, invert(found.unrounded).recovered):
        assert (low <= counts + 1e-3).all()
        assert (counts <= high + 1e-3).all()
    narrow = observer_bounds(found.unrounded, SignalModel("db2", 2), range(8), share=found.beta)
    assert (narrow[1] - narrow[0] <= high - low + 1e-6).all()


def test_ranges_hold_the_original_when_the_share_is_known():
    found = redistribute(Q, Goals(caps={7: 90}))
    known = invert(found.unrounded, share=found.beta, positions=range(8))
    assert (known.low <= Q + 1e-3).all()
    assert (known.high >= Q - 1e-3).all()
    assert (known.low <= known.recovered + 1e-6).all()
    assert (known.recovered <= known.high + 1e-6).all()
    assert known.gain == pytest.approx(1 / found.beta, rel=1e-6)


def test_ratio_signals():
    heads = np.array([100, 40, 900, 60, 50, 300, 45, 400])
    model = SignalModel(population=heads, ratio=True)
    found = redistribute(Q, Goals(caps={7: 120}), model)
    known = invert_signal(found.unrounded, model, share=found.beta, positions=[7])
    assert known.low[0] - 1e-3 <= Q[7] <= known.high[0] + 1e-3
    assert (known.recovered <= heads + 1e-6).all()


def test_nothing_to_recover_without_details():
    flat = invert(np.full(8, 5), positions=[2])
    assert flat.recovered.tolist() == [5] * 8
    assert flat.gain == 1
    assert audit(Q, np.full(8, Q.mean()), Goals(caps={7: 90})).passed


# -- audit


def test_plain_details_give_the_extreme_away():
    goals = Goals(caps={7: 90})
    found = audit(Q, redistribute(Q, goals).target, goals)
    assert not found.passed
    assert found.kinds == ("capped",)
    assert found.ranks_first.tolist() == [True]
    assert found.original.tolist() == [217]
    assert found.published[0] <= 90


def test_publishing_the_original_fails():
    assert not audit(Q, Q, Goals(caps={7: 90})).passed
    assert audit(Q, Q, Goals(caps={7: 90})).shared_outliers.tolist() == [7]


def test_a_published_signal_that_has_nothing_to_do_with_the_original_passes():
    other = np.roll(Q, 4)
    found = audit(Q, other, Goals(caps={7: 90}))
    assert found.passed
    assert found.error[0] > 0.1
    assert not len(found.shared_outliers)


def test_what_is_looked_at():
    goals = Goals(caps={7: 90, 2: 500}, raises={1: 10, 5: 5}, protected=(0,))
    found = audit(Q, Q, goals, tolerance=0.3)
    assert found.positions.tolist() == [0, 1, 7]
    assert found.kinds == ("protected", "raised", "capped")
    # A protected position that is published as it was gives nothing away.
    assert found.within[0]
    assert not found.exposed[0]
    assert found.exposed[2]
    assert audit(Q, Q, Goals()).positions.tolist() == [7]


def test_a_raised_minimum():
    """The largest gain makes counts of 0, so an empty area is found again; one of 20 is not."""
    for least, exposed in ((0, True), (20, False)):
        q = np.array([60, 55, 70, least, 64, 58, 61, 66])
        goals = Goals(raises={3: 40})
        found = audit(q, redistribute(q, goals).target, goals)
        assert found.kinds == ("raised",)
        assert found.exposed.tolist() == [exposed]
        assert found.recovered[0] == pytest.approx(0, abs=1e-3)


def test_tolerance_decides():
    goals = Goals(caps={2: 40})
    target = redistribute(Q, goals).target
    error = audit(Q, target, goals).error[0]
    assert audit(Q, target, goals, tolerance=error + 1e-6).within[0]
    assert not audit(Q, target, goals, tolerance=error - 1e-6).within[0]


def test_first_means_first_in_every_signal_that_fits():
    """Positions 0 and 1 share a detail-free pair: either may be the larger, so neither is known to lead."""
    published = np.array([20, 20, 6, 4])
    original = np.array([35, 5, 6, 4])
    found = audit(original, published, Goals(caps={0: 20}), SignalModel("haar", 1))
    assert not found.ranks_first[0]


# -- trade-off


def test_sweep_covers_every_combination_in_order():
    models = [SignalModel(wavelet, level) for wavelet in ("haar", "db2") for level in (1, 2, 4)]
    trials = sweep(Q, Goals(caps={7: 90}), models, shares=[0.0, None])
    assert [t.model for t in trials] == [model for model in models for _ in range(2)]
    for trial in trials:
        assert (trial.redistribution is None) == (trial.model.level == 4) == bool(trial.problem)
    done = [t for t in trials if t.redistribution]
    for none, most in zip(done[::2], done[1::2], strict=True):
        assert none.redistribution.beta == pytest.approx(0, abs=1e-9)
        assert most.redistribution.beta > 0.1
        again = redistribute(Q, Goals(caps={7: 90}), most.model)
        assert again.target.tolist() == most.redistribution.target.tolist()
        checked = audit(Q, again.target, Goals(caps={7: 90}), most.model)
        assert checked.recovered.tolist() == most.audit.recovered.tolist()


def test_sweep_says_why_a_share_is_impossible():
    (trial,) = sweep(Q, Goals(caps={7: 90}, names=list("abcdefgh")), [SignalModel()], shares=[1.0])
    assert trial.audit is None
    assert "share of details of 1: cap of h" in trial.problem
