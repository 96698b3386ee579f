"""The projection kernel beside scipy's optimiser, its optimality conditions and its anchors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from anoncore.errors import InfeasibleError
from anoncore.kernels.projection import Polytope, attempt, attempt_on_grid, project, project_into


def random_polytope(seed):
    """Points around a polytope, a point in it, the polytope and scales."""
    rng = np.random.default_rng(seed)
    t = int(rng.integers(2, 8))
    inside = rng.normal(size=t) * 3
    A = rng.integers(-2, 3, size=(int(rng.integers(0, min(t, 3))), t)).astype(float)
    if len(A) and rng.random() < 0.3:
        A = np.vstack([A, 2 * A[0]])
    G = rng.normal(size=(int(rng.integers(0, 4)), t))
    scale = np.exp(rng.normal(size=t))
    polytope = Polytope(
        A=A,
        b=A @ inside,
        lower=np.where(rng.random(t) < 0.6, inside - rng.random(t), -np.inf),
        upper=np.where(rng.random(t) < 0.6, inside + rng.random(t), np.inf),
        G=G,
        h=G @ inside + rng.random(len(G)) * 0.5,
    )
    return rng.normal(size=(6, t)) * 4, inside, polytope, scale


def distance(x, v, scale):
    return (((x - v) / scale) ** 2).sum(axis=-1)


@pytest.mark.parametrize("seed", range(25))
def test_agrees_with_an_optimiser(seed):
    points, inside, p, scale = random_polytope(seed)
    projected = project_into(points, p, scale)
    constraints = [{"type": "ineq", "fun": lambda z: p.h - p.G @ z}] if len(p.h) else []
    if len(p.b):
        # SLSQP wants equalities that do not depend on each other.
        _, d, basis = np.linalg.svd(p.A)
        basis = basis[: int((d > 1e-9).sum())]
        constraints.append({"type": "eq", "fun": lambda z: basis @ (z - inside)})
    for x, v in zip(points[:2], projected[:2], strict=True):
        found = minimize(
            lambda z, x=x: distance(x, z, scale),
            inside,
            bounds=list(zip(p.lower, p.upper, strict=True)),
            constraints=constraints,
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-13},
        )
        if found.success:
            assert distance(x, v, scale) <= found.fun + 1e-6 * (1 + found.fun)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_feasible_nearest_and_idempotent(seed):
    points, inside, p, scale = random_polytope(seed)
    v = project_into(points, p, scale)
    size = np.abs(v) @ np.abs(p.A).T + np.abs(p.b)
    assert (np.abs(v @ p.A.T - p.b) <= 1e-9 * size + 1e-12).all()
    assert (v >= p.lower).all()
    assert (v <= p.upper).all()
    assert (v @ p.G.T <= p.h + 1e-9).all()
    # The variational inequality is the optimality condition: no feasible direction goes nearer.
    assert (((points - v) / scale**2 * (inside - v)).sum(axis=1) <= 1e-7).all()
    assert (distance(inside, v, scale) <= distance(inside, points, scale) + 1e-9).all()
    assert np.allclose(project_into(v, p, scale), v, atol=1e-9)


def test_without_constraints_nothing_moves():
    points = np.random.default_rng(0).normal(size=(5, 3))
    assert np.array_equal(project(points, np.zeros((0, 3)), np.zeros(0)), points)


def test_closed_form_in_the_weighted_metric():
    rng = np.random.default_rng(1)
    x, A, b, sd = (
        rng.normal(size=(7, 4)),
        rng.normal(size=(2, 4)),
        rng.normal(size=2),
        np.exp(rng.normal(size=4)),
    )
    inverse = np.diag(sd**2)
    expected = x - (A @ x.T - b[:, None]).T @ np.linalg.pinv(A @ inverse @ A.T) @ A @ inverse
    assert np.allclose(project(x, A, b, sd), expected)
    assert not np.allclose(project(x, A, b), expected)


def test_clipping_a_projection_is_not_projecting():
    A, lower = np.array([[1.0, 1.0, -1.0]]), np.zeros(3)
    v = project(np.array([[-5.0, 2.0, 6.0]]), A, np.zeros(1), lower=lower)
    assert np.allclose(v, [[0.0, 4.0, 4.0]])
    assert v[0, 0] == 0.0


def test_torras_constrained_centroids():
    # Torra 2020, Table 3, noise 0.5: the constrained centroids are the others, projected once.
    free = [[14.77033, 37.46462, 55.53745], [67.66607, 219.68178, 313.78662]]
    bound = [[14.21093, 36.94862, 56.0197], [67.74399, 219.75366, 313.71945]]
    v = project(np.array(free), np.array([[1.16, 1.07, -1.0]]), np.zeros(1))
    assert np.abs(v - bound).max() < 1e-5


def test_large_and_small_numbers():
    points = np.array([[1e9, 2e9, 5e9], [1e-9, 2e-9, 5e-9]])
    v = project(points, np.array([[1.0, 1.0, -1.0]]), np.zeros(1))
    assert (np.abs(v @ [1, 1, -1]) <= 1e-12 * np.abs(v).sum(axis=1)).all()


def test_repeated_rows_are_one_row():
    A = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]])
    assert np.allclose(project(np.array([[0.0, 0.0]]), A, np.array([2.0, 4.0, 2.0])), [[1.0, 1.0]])


@pytest.mark.parametrize(
    "p",
    [
        Polytope(np.ones((2, 2)), np.array([0.0, 1.0])),
        Polytope(np.zeros((0, 2)), np.zeros(0), np.array([1.0, -9]), np.array([0.0, 9])),
        Polytope(np.ones((1, 2)), np.array([5.0]), upper=np.ones(2)),
        Polytope(np.ones((1, 2)), np.zeros(1), G=np.array([[-1.0, -1.0]]), h=np.array([-1.0])),
    ],
)
def test_contradictions_are_named_and_show_no_value(p):
    points = np.array([[123456.789, 0.5], [0.1, 0.2]])
    with pytest.raises(InfeasibleError, match="2 of 2 points") as caught:
        project_into(points, p)
    assert "123456" not in str(caught.value)
    assert not attempt(points, p)[1].any()
    assert np.array_equal(attempt(points, p)[0], points)


def test_scale_zero_keeps_a_variable():
    A = np.array([[1.0, 1.0, -1.0]])
    v = project(np.array([[1.0, 2.0, 9.0]]), A, np.zeros(1), np.array([1.0, 0.0, 2.0]))
    assert v[0, 1] == 2.0
    assert np.allclose(v, [[2.2, 2.0, 4.2]])
    fixed, feasible = attempt(np.array([[1.0, 2.0, 9.0], [1.0, 2.0, 3.0]]), Polytope(A, np.zeros(1)), np.zeros(3))
    assert feasible.tolist() == [False, True]
    assert np.array_equal(fixed[1], [1.0, 2.0, 3.0])


def test_many_points_at_once():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40_000, 6))
    A = np.array([[1.0, 1.0, -1.0, 0, 0, 0]])
    cube = Polytope(A, np.zeros(1), np.full(6, -0.5), np.full(6, 1.5))
    v = project_into(x, cube)
    assert np.abs(v @ A.T).max() < 1e-12
    assert v.min() == -0.5
    few = project_into(x[:50], cube)
    assert np.allclose(few, v[:50], atol=1e-12)


def test_on_units_the_last_variable_absorbs_the_remainder():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 4)) * 50
    A = np.array([[1.0, 1.0, 1.0, -1.0]])
    v, good = attempt_on_grid(x, Polytope(A, np.zeros(1)), np.ones(4), grids=[5.0, 1.0, 0.1, 0.1], order=[0, 1, 2, 3])
    assert good.all()
    assert np.abs(v @ A.T).max() < 1e-9
    for j, unit in enumerate([5.0, 1.0, 0.1, 0.1]):
        assert np.allclose(v[:, j] / unit, np.round(v[:, j] / unit), atol=1e-9)


def test_a_unit_that_cannot_carry_the_equality_gets_more_decimals():
    p = Polytope(np.array([[2.0, -1.0]]), np.array([0.5]))
    v, good = attempt_on_grid(np.array([[3.2, 7.0]]), p, np.ones(2), grids=[1.0, 1.0], order=[0, 1])
    assert good.all()
    assert v.tolist() == [[4.0, 7.5]]


def test_levels_are_kept_or_the_point_is_infeasible():
    levels = np.array([0.0, 1.0, 2.0])
    points, grids, whole = np.array([[0.0, 1.0]]), [levels, levels], Polytope(np.ones((1, 2)), np.array([3.0]))
    v, good = attempt_on_grid(points, whole, np.ones(2), grids, [0, 1])
    assert good.all()
    assert sorted(v[0]) == [1.0, 2.0]
    half = Polytope(np.ones((1, 2)), np.array([2.5]))
    assert not attempt_on_grid(points, half, np.ones(2), grids, [0, 1])[1].any()
