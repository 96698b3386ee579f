from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from anoncore.errors import InfeasibleError
from anoncore.kernels.wavelet.redistribution import Goals, JointRoute, redistribute
from anoncore.kernels.wavelet.signal_model import SignalModel
from anoncore.kernels.wavelet.signal_program import Bound, build_program, meet, solve
from anoncore.kernels.wavelet.spread import with_spread

SIGNAL = np.array([12.0, 30.0, 7.0, 90.0, 22.0, 4.0, 15.0, 60.0])


@pytest.fixture(scope="module")
def program():
    whole = build_program(SIGNAL, SIGNAL.sum(), SignalModel("db2", 1))
    return replace(meet(whole, [Bound("cap", 3, high=40.0)]), share=(0.2, 1.0))


def ends(program):
    """Return the least standard deviation, by a general optimiser, and the most among many vertices."""
    m, width = len(program.low), program.equalities.shape[1]
    start = solve(program, np.zeros(width))[0]
    rules = [LinearConstraint(program.equalities.toarray(), program.right, program.right)]
    bounds = [(None, None)] * (width - m - 1) + [program.share, *zip(program.low, program.high, strict=True)]
    least = minimize(lambda x: x[-m:].var(), start, bounds=bounds, constraints=rules, method="SLSQP")
    directions = np.random.default_rng(0).normal(size=(150, width)) * (np.arange(width) >= width - m)
    most = max(solve(program, way)[0][-m:].std() for way in directions)
    return start, np.sqrt(least.fun) * program.unit, most * program.unit


def test_counts_within_the_goals_have_the_spread_asked_for(program):
    start, least, most = ends(program)
    for spread in np.linspace(least * 1.001, most * 0.999, 9):
        x = with_spread(program, start, spread)
        np.testing.assert_allclose(program.equalities @ x, program.right, atol=1e-7)
        counts = x[-8:]
        assert (counts >= program.low - 1e-9).all()
        assert (counts <= program.high + 1e-9).all()
        assert 0.2 - 1e-9 <= x[-9] <= 1 + 1e-9
        assert counts.std() * program.unit == pytest.approx(spread, rel=1e-6)
    for beyond in (least * 0.98, most * 1.3):
        with pytest.raises(InfeasibleError, match="with the spread asked for"):
            with_spread(program, start, beyond)


def test_mean_and_standard_deviation_of_the_counts_are_kept_by_a_peak_elsewhere():
    counts = np.array([40, 35, 50, 400, 30, 45, 38, 42, 36, 41, 33, 44])
    found = redistribute(counts, Goals(caps={3: 60}), SignalModel("haar", 1), route=JointRoute(spread=0.6))
    assert found.target.sum() == counts.sum()
    assert found.target[3] <= 60
    assert found.target.std() == pytest.approx(0.6 * counts.std(), rel=0.01)
