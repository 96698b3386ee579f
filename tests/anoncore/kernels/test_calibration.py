"""Calibrated weights: totals, bounds, and the distance that is minimised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from anoncore.errors import InfeasibleError
from anoncore.kernels.calibration import calibrated


def logit_distance(ratio: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """Deville and Särndal 1992, case 6."""
    scale = (upper - lower) / ((1 - lower) * (upper - 1))
    below, above = ratio - lower, upper - ratio
    return (below * np.log(below / (1 - lower)) + above * np.log(above / (upper - 1))) / scale


def test_no_other_weights_that_meet_the_totals_are_nearer() -> None:
    rng = np.random.default_rng(1)
    weights, columns = rng.gamma(5.0, 2.0, 12), np.stack([np.ones(12), rng.integers(0, 2, 12), rng.normal(size=12)], 1)
    wanted = columns.T @ weights * np.array([1.05, 1.2, 0.8])
    found = calibrated(weights, columns, wanted, 0.4, 2.0)
    assert columns.T @ found == pytest.approx(wanted, rel=1e-5)
    best = minimize(
        lambda ratio: weights @ logit_distance(ratio, 0.4, 2.0),
        np.ones(12),
        bounds=[(0.401, 1.999)] * 12,
        constraints={"type": "eq", "fun": lambda ratio: columns.T @ (weights * ratio) - wanted},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found / weights == pytest.approx(best.x, abs=1e-4)


def test_bounds_hold_and_columns_may_follow_from_each_other() -> None:
    rng = np.random.default_rng(2)
    groups = [np.eye(size)[rng.integers(0, size, 5000)] for size in (4, 3)]
    weights, columns = rng.lognormal(0.0, 1.0, 5000), np.concatenate([np.ones((5000, 1)), *groups], axis=1)
    shares = [np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.3, 0.2])]
    wanted = np.concatenate([[6000.0], *(6000.0 * share for share in shares)])
    found = calibrated(weights, columns, wanted, 0.2, 3.0)
    assert columns.T @ found == pytest.approx(wanted, rel=1e-5)
    assert 0.2 <= (found / weights).min() < (found / weights).max() <= 3.0


def test_rounded_totals_that_contradict_each_other_are_nearly_met() -> None:
    rng = np.random.default_rng(3)
    groups = [np.eye(3)[rng.integers(0, 3, 2000)] for _ in range(2)]
    columns = np.concatenate(groups, axis=1)
    wanted = columns.sum(axis=0) + np.array([4.0, 0, 0, 0, -4.0, 0])
    found = calibrated(np.ones(2000), columns, wanted, 0.5, 2.0)
    assert columns.T @ found == pytest.approx(wanted, rel=5e-3)
    assert found.std() < 0.05


@pytest.mark.parametrize("wanted", [[40.0, 10.0], [10.0, 11.0]])
def test_totals_that_no_weights_meet_are_refused(wanted: list[float]) -> None:
    columns = np.stack([np.ones(10), np.arange(10) < 5], axis=1).astype(float)
    with pytest.raises(InfeasibleError, match=r"between 0\.5 and 2 times"):
        calibrated(np.ones(10), columns, np.array(wanted), 0.5, 2.0)
