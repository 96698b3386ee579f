from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from anoncore.kernels.alternatives import Alternative, project_by_rules
from anoncore.kernels.projection import Polytope


def half(*row, limit=0.0):
    return Alternative(np.array([row], dtype=float), np.array([limit], dtype=float))


SUM = Polytope(np.array([[1.0, 1.0, -1.0]]), np.zeros(1), lower=np.array([0.0, 0.0, -np.inf]))
RULES = (
    (half(1, 0, 0, limit=1.0), half(0, 1, 0)),  # v1 ≤ 1 or v2 ≤ 0
    (half(0, 0, 1, limit=3.0), half(-1, 0, 0, limit=-4.0)),  # v3 ≤ 3 or v1 ≥ 4
)
SCALE = np.array([1.0, 2.0, 0.5])


def least(point, rules):
    """Return the least squared distance over every combination of alternatives, by a general optimiser."""
    best = np.inf
    for chosen in product(*rules):
        rows = [{"type": "ineq", "fun": lambda v, c=c: (c.limits - c.rows @ v)[0]} for c in chosen]
        rows.append({"type": "eq", "fun": lambda v: v[0] + v[1] - v[2]})
        found = minimize(
            lambda v: (((v - point) / SCALE) ** 2).sum(),
            point,
            constraints=rows,
            bounds=[(0, None), (0, None), (None, None)],
        )
        best = min(best, found.fun) if found.success else best
    return best


@pytest.mark.parametrize("rules", [RULES[:1], RULES[1:], RULES], ids=["first", "second", "both"])
def test_points_keep_every_rule_and_one_broken_rule_is_mended_at_least_cost(rules):
    points = np.random.default_rng(3).normal(3, 3, (25, 3))
    moved = project_by_rules(points, SUM, rules, SCALE)
    np.testing.assert_allclose(moved[:, 0] + moved[:, 1], moved[:, 2], atol=1e-8)
    assert (moved[:, :2] >= 0).all()
    for rule in rules:
        assert np.logical_or.reduce([one.holds(moved) for one in rule]).all()
    cost = (((moved - points) / SCALE) ** 2).sum(axis=1)
    best = np.array([least(point, rules) for point in points])
    if len(rules) == 1:
        np.testing.assert_allclose(cost, best, rtol=1e-4, atol=1e-5)
    else:
        assert (cost >= best * (1 - 1e-4) - 1e-5).all()
        assert np.median(cost / np.maximum(best, 1e-9)) < 1.001


def test_a_rule_that_nothing_keeps_leaves_the_point():
    boxed = Polytope(np.zeros((0, 1)), np.zeros(0), lower=np.zeros(1), upper=np.ones(1))
    point = np.array([[2.0]])
    assert project_by_rules(point, boxed, [[half(1, limit=-1.0), half(-1, limit=-5.0)]]).tolist() == [[1.0]]
