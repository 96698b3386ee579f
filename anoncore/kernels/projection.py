"""Nearest points of a polytope, for many points at once, and nearest points of a grid inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anoncore.errors import InfeasibleError, NotConvergedError

BLOCK = 16_384
RANK = 1e-10  # singular values of row-normalised constraints below this share of the largest are 0
INSIDE = 1e-12  # a slack above minus this, in sd and relative to the terms, counts as kept
CONSISTENT = 1e-11  # residual of a constraint that nothing can move any more, relative to its terms
NOISE = 1e-13  # rounding error of a point that has been moved, relative to where it was
PARALLEL = 1e-15  # squared sine of the angle below which two constraints count as one
ROUNDS = 3
CANDIDATES = 5  # multiples of a unit that are tried, nearest first
LEVELS = 12

Grid = float | np.ndarray | None


@dataclass(frozen=True, eq=False, repr=False)
class Polytope:
    """The points v (t,) with A v = b, lower ≤ v ≤ upper and G v ≤ h, in the variables' own units.

    Parameters
    ----------
    A : (r, t), b : (r,)
        Equalities; rows may repeat or depend on each other.
    lower, upper : (t,), ±∞ where there is no bound
    G : (s, t), h : (s,)
    """

    A: np.ndarray
    b: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    G: np.ndarray | None = None
    h: np.ndarray | None = None

    def among(self, columns: np.ndarray) -> Polytope:
        """Return the constraints on some of the variables, the others being absent."""
        lower, upper = (None if bound is None else bound[columns] for bound in (self.lower, self.upper))
        G = None if self.G is None else self.G[:, columns]
        return Polytope(self.A[:, columns], self.b, lower, upper, G, self.h)

    def inequalities(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all inequalities and bounds as rows (m, t) and limits (m,), rows @ v ≤ limits."""
        rows, limits = [np.zeros((0, t))], [np.zeros(0)]
        if self.G is not None and self.h is not None:
            rows, limits = [np.asarray(self.G, dtype=float).reshape(-1, t)], [np.asarray(self.h, dtype=float)]
        for sign, bound in ((1.0, self.upper), (-1.0, self.lower)):
            if bound is not None:
                finite = np.isfinite(bound)
                rows.append(sign * np.eye(t)[finite])
                limits.append(sign * np.asarray(bound, dtype=float)[finite])
        return np.vstack(rows), np.concatenate(limits)


def project(
    points: np.ndarray,
    A: np.ndarray,
    b: np.ndarray,
    scale: np.ndarray | None = None,
    lower: np.ndarray | None = None,
    upper: np.ndarray | None = None,
) -> np.ndarray:
    """Return the nearest points that satisfy A v = b and lower ≤ v ≤ upper: `project_into` without inequalities.

    Examples
    --------
    >>> parts_and_total = np.array([[1.0, 2.0, 6.0]])
    >>> project(parts_and_total, np.array([[1.0, 1.0, -1.0]]), np.zeros(1))
    array([[2., 3., 5.]])
    """
    return project_into(points, Polytope(A, b, lower, upper), scale)


def project_into(points: np.ndarray, polytope: Polytope, scale: np.ndarray | None = None) -> np.ndarray:
    """Return the nearest points of a polytope.

    Parameters
    ----------
    points : (N, t), in the variables' own units, no NaN
    polytope : Polytope
    scale : (t,), the variables' standard deviations, 1 when None
        Distance is Σ ((v − x) / scale)². A variable with scale 0 is not moved.

    Returns
    -------
    (N, t) float64; equalities hold to 1e-9 of their terms' size, bounds exactly.

    Raises
    ------
    InfeasibleError
        When no point satisfies all constraints.

    Claim: none; the distance to any feasible reference never grows.
    Source: v = v̄ − W⁻¹Aᵀ(AW⁻¹Aᵀ)⁺(Av̄ − b), W = diag(1/scale²); inequalities by the dual
    active-set method of Goldfarb and Idnani 1983, all points in step, then solved on the final
    active set.

    Examples
    --------
    >>> parts_and_total = np.array([[1.0, 2.0, 6.0]])
    >>> project_into(parts_and_total, Polytope(np.array([[1.0, 1.0, -1.0]]), np.zeros(1)))
    array([[2., 3., 5.]])
    """
    projected, feasible = attempt(points, polytope, scale)
    if not feasible.all():
        raise InfeasibleError(
            f"{int((~feasible).sum())} of {len(feasible)} points have no counterpart that satisfies all "
            f"{len(polytope.b)} equalities, the bounds and {0 if polytope.G is None else len(polytope.G)} "
            "inequalities; remove or loosen a constraint"
        )
    return projected


def attempt(points: np.ndarray, polytope: Polytope, scale: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Project as `project_into` does, but report points that cannot be projected instead of raising.

    Parameters
    ----------
    points, polytope, scale : as for `project_into`

    Returns
    -------
    (N, t) float64, the point itself where infeasible, and (N,) bool, whether it is feasible.

    Raises
    ------
    NotConvergedError
        When the active set still changes after 20 (t + s) + 100 steps.

    Examples
    --------
    >>> attempt(np.array([[3.0]]), Polytope(np.ones((2, 1)), np.array([0.0, 1.0])))[1]
    array([False])
    """
    x = np.asarray(points, dtype=float)
    s = np.ones(x.shape[1]) if scale is None else np.asarray(scale, dtype=float)
    A = np.asarray(polytope.A, dtype=float).reshape(-1, x.shape[1])
    b = np.asarray(polytope.b, dtype=float)
    inverse, basis = _equality_parts(A * s)
    v = _onto_equalities(x, A, b, s, inverse)
    feasible = (np.abs(v @ A.T - b) <= _slight(x, v, s, A, b)).all(axis=1)
    rows, limits = polytope.inequalities(x.shape[1])
    if len(rows):
        low = np.full(x.shape[1], -np.inf) if polytope.lower is None else polytope.lower
        high = np.full(x.shape[1], np.inf) if polytope.upper is None else polytope.upper
        outside = np.flatnonzero(feasible & ~_inside(v, rows, limits))
        for start in range(0, len(outside), BLOCK):
            at = outside[start : start + BLOCK]
            # A point far away is judged by its own size; what is left undone is done from nearer by.
            for _ in range(ROUNDS):
                near = at[feasible[at] & ~_inside(v[at], rows, limits)]
                if not len(near):
                    break
                moved, feasible[near] = _into_polytope(x[near], v[near], rows, limits, s, basis)
                v[near] = np.clip(_onto_equalities(moved, A, b, s, inverse), low, high)
            excess = v[at] @ rows.T - limits
            feasible[at] &= (excess <= _slight(x[at], v[at], s, rows, limits)).all(axis=1)
        # Rounding errors may leave a point a hair outside a bound.
        v = np.clip(v, low, high)
    v[~feasible] = x[~feasible]
    return v, feasible


def attempt_on_grid(
    points: np.ndarray, polytope: Polytope, scale: np.ndarray, grids: Sequence[Grid], order: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Project, then bring one variable after the other onto its grid, projecting the rest again.

    Parameters
    ----------
    points, polytope, scale : as for `project_into`
    grids : for each variable a unit (multiples of it), sorted levels (L,), or None for any number
    order : the variables in the order in which they are placed; the last absorb the remainders.
        One with a unit that can satisfy the constraints on no multiple nearby keeps more decimals;
        one with levels makes the point infeasible.

    Returns
    -------
    (N, t) float64 and (N,) bool, whether every constraint and every grid of levels is kept.

    Raises
    ------
    NotConvergedError
        As for `attempt`.

    Claim: a heuristic; the result is feasible, not always the nearest grid point.

    Examples
    --------
    >>> half, whole = np.array([[0.4, 0.9]]), Polytope(np.ones((1, 2)), np.ones(1))
    >>> attempt_on_grid(half, whole, np.ones(2), [1.0, 1.0], [0, 1])[0]
    array([[0., 1.]])
    """
    base, free = np.array(points, dtype=float), np.array(scale, dtype=float)
    v, feasible = attempt(base, polytope, free)
    for j in order:
        grid = grids[j]
        if free[j] == 0:
            continue
        free[j] = 0.0
        if grid is None:
            base[:, j] = v[:, j]
            continue
        waiting = feasible.copy()
        for finer, rank in _tries(grid):
            at = np.flatnonzero(waiting)
            if not len(at):
                break
            placed = _candidate(v[at, j], finer, rank)
            # Where the value is on the grid already, nothing else needs to move.
            near = np.abs(placed - v[at, j]) <= _fuzz(v[at], finer)
            base[at[near], j] = v[at[near], j] = placed[near]
            waiting[at[near]] = False
            at, placed = at[~near], placed[~near]
            trial = base[at]
            trial[:, j] = placed
            moved, good = attempt(trial, polytope, free)
            v[at[good]], base[at[good], j] = moved[good], placed[good]
            waiting[at[good]] = False
        if isinstance(grid, np.ndarray):
            feasible &= ~waiting
        base[waiting, j] = v[waiting, j]
    v[~feasible] = np.asarray(points, dtype=float)[~feasible]
    return v, feasible


def _equality_parts(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pseudo-inverse (t, r) of A and an orthonormal basis (t, q) of its null space."""
    norms = np.linalg.norm(A, axis=1)
    norms[norms == 0] = 1.0
    if not len(A):
        return np.zeros((A.shape[1], 0)), np.eye(A.shape[1])
    u, d, vt = np.linalg.svd(A / norms[:, None], full_matrices=True)
    rank = int((d > RANK * d.max(initial=0.0)).sum())
    inverse = (vt[:rank].T / d[:rank]) @ u[:, :rank].T / norms
    return inverse, vt[rank:].T


def _onto_equalities(x: np.ndarray, A: np.ndarray, b: np.ndarray, s: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    v = x.copy()
    if len(A):
        # The second round removes the rounding error of the first, which large numbers make visible.
        for _ in range(2):
            v += ((b - v @ A.T) @ inverse.T) * s
    return v


def _slight(x: np.ndarray, v: np.ndarray, s: np.ndarray, rows: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return (N, m): residuals of ``rows`` at v that are rounding errors of the way from x to v."""
    size = np.abs(v) @ np.abs(rows).T + np.abs(limits)
    way = np.sqrt((((x - v) / np.where(s > 0, s, np.inf)) ** 2).sum(axis=1))
    return np.asarray(CONSISTENT * size + NOISE * (np.abs(x) + way[:, None] * s) @ np.abs(rows).T)


def _inside(v: np.ndarray, rows: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return (N,) bool: every inequality is kept, up to rounding."""
    good = np.ones(len(v), dtype=bool)
    for start in range(0, len(v), BLOCK):
        part = v[start : start + BLOCK]
        size = np.abs(part) @ np.abs(rows).T + np.abs(limits)
        good[start : start + BLOCK] = (part @ rows.T - limits <= INSIDE * size).all(axis=1)
    return good


def _into_polytope(
    x: np.ndarray, v: np.ndarray, rows: np.ndarray, limits: np.ndarray, s: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Move points that keep the equalities to the nearest that keep the inequalities as well.

    In the coordinates v + s·(basis y) the equalities hold for any y and the distance is ‖y‖.
    """
    scaled = rows * s
    size = np.abs(v) @ np.abs(rows).T + np.abs(limits)
    slack = limits - v @ rows.T
    reduced = scaled @ basis
    norms = np.linalg.norm(reduced, axis=1)
    movable = norms > RANK * np.maximum(np.linalg.norm(scaled, axis=1), np.finfo(float).tiny)
    feasible = (slack >= -_slight(x, v, s, rows, limits))[:, ~movable].all(axis=1)
    if not movable.any():
        return v, feasible
    rows, limits, norms = rows[movable], limits[movable], norms[movable]
    H = reduced[movable] / norms[:, None]
    y, active, solved = _least_distance(H, slack[:, movable] / norms, INSIDE * size[:, movable] / norms)
    moved = v + (y @ basis.T) * s
    for _ in range(2):
        # The same correction in the variables' own units, where it is their rounding that counts.
        rest = (limits - moved @ rows.T) / norms
        moved += (_on_active(H, np.where(active, rest, 0.0), active) @ basis.T) * s
    return moved, feasible & solved


@dataclass(frozen=True, eq=False, repr=False)
class _Dual:
    """State of the dual method, changed in place: y (N, q), multipliers and which inequalities are active (N, m)."""

    y: np.ndarray
    multipliers: np.ndarray
    active: np.ndarray


def _least_distance(H: np.ndarray, g: np.ndarray, tolerance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise ‖y‖ subject to H y ≤ g, for many g at once.

    Parameters
    ----------
    H : (m, q), rows of length 1
    g, tolerance : (N, m)

    Returns
    -------
    y (N, q), the inequalities that hold with equality (N, m) bool, and (N,) bool, whether all can be kept.
    """
    n, m = g.shape
    state = _Dual(np.zeros((n, H.shape[1])), np.zeros((n, m)), np.zeros((n, m), dtype=bool))
    entering, feasible, open_ = np.full(n, -1), np.ones(n, dtype=bool), np.arange(n)
    for _ in range(20 * m + 100):
        y = state.y[open_]
        allowed = tolerance[open_] + INSIDE * (1.0 + np.linalg.norm(y, axis=1))[:, None]
        slack = g[open_] - y @ H.T + allowed
        reached = (entering[open_] >= 0) & (slack[np.arange(len(open_)), entering[open_]] >= 0)
        state.active[open_[reached], entering[open_[reached]]] = True
        entering[open_[reached]] = -1
        entering[open_] = np.where(entering[open_] < 0, slack.argmin(axis=1), entering[open_])
        chosen = entering[open_]
        at = np.arange(len(open_)), chosen
        lacking, allowed = allowed[at] - slack[at], allowed[at]
        unsettled = lacking > allowed
        open_, chosen, lacking, allowed = (a[unsettled] for a in (open_, chosen, lacking, allowed))
        if not len(open_):
            return _on_active(H, g, state.active), state.active, feasible
        step, leaving, complete = _step(H, state, open_, chosen, lacking)
        stuck = np.isinf(step)
        # A dependent constraint missed by a little may be rounding and not a contradiction: another
        # round from nearer by will tell.
        feasible[open_[stuck]] = lacking[stuck] <= 1e6 * allowed[stuck]
        state.active[open_[complete], chosen[complete]] = True
        entering[open_[complete]] = -1
        back = ~complete & ~stuck
        state.active[open_[back], leaving[back]] = False
        state.multipliers[open_[back], leaving[back]] = 0.0
        open_ = open_[~stuck]
    raise NotConvergedError(f"projection: the active set of {len(open_)} points still changes; rescale the variables")


def _step(
    H: np.ndarray, state: _Dual, rows: np.ndarray, chosen: np.ndarray, lacking: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take one step of the dual method in place; return its length, what leaves and if it was full."""
    held = state.active[rows]
    weights = _solve_active(H, held, (H @ H.T)[chosen], H[chosen])
    direction = H[chosen] - weights @ H
    gain = (direction**2).sum(axis=1)
    gain[gain <= PARALLEL] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        full = np.where(gain > 0, lacking / gain, np.inf)
        ratios = np.where(held & (weights > RANK), state.multipliers[rows] / weights, np.inf)
    leaving = ratios.argmin(axis=1)
    partial = ratios[np.arange(len(rows)), leaving]
    step = np.minimum(full, partial)
    length = np.where(np.isinf(step), 0.0, step)
    state.multipliers[rows] -= length[:, None] * weights
    state.multipliers[rows, chosen] += length
    state.y[rows] -= np.where(gain > 0, length, 0.0)[:, None] * direction
    return step, leaving, np.isfinite(full) & (full <= partial)


def _on_active(H: np.ndarray, g: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Return (N, q): the shortest y that meets the active inequalities with equality."""
    return np.asarray(_solve_active(H, active, g) @ H)


def _solve_active(H: np.ndarray, active: np.ndarray, right: np.ndarray, target: np.ndarray | None = None) -> np.ndarray:
    """Solve (H Hᵀ)[a, a] w = right[a] for each point's active set a; w (N, m) is 0 elsewhere.

    Points that share an active set share one small inverse. The residual is formed from Hᵀ w, as
    ``target`` − Hᵀ w when ``right`` is H ``target``: corrected seminormal equations (Björck 1996,
    section 6.6.5), which do not square the condition of H.
    """
    result = np.zeros(right.shape)
    width = int(active.sum(axis=1).max(initial=0))
    if not width:
        return result
    _, first, group = np.unique(np.packbits(active, axis=1), axis=0, return_index=True, return_inverse=True)
    index = np.argsort(~active[first], axis=1, kind="stable")[:, :width]
    used = np.take_along_axis(active[first], index, axis=1)
    systems = (H @ H.T)[index[:, :, None], index[:, None, :]]
    systems = np.where(used[:, :, None] & used[:, None, :], systems, np.eye(width))
    inverses, at = np.linalg.inv(systems)[group.reshape(-1)], index[group.reshape(-1)]
    mask = used[group.reshape(-1)]
    rest = right
    for _ in range(3):
        wanted = np.where(mask, np.take_along_axis(rest, at, axis=1), 0.0)
        more = np.einsum("nij,nj->ni", inverses, wanted)
        np.put_along_axis(result, at, np.take_along_axis(result, at, axis=1) + more, axis=1)
        rest = right - (result @ H) @ H.T if target is None else (target - result @ H) @ H.T
    return result


def _candidate(values: np.ndarray, grid: float | np.ndarray, rank: int) -> np.ndarray:
    """Return the grid point that is nearest but ``rank`` to each value."""
    if isinstance(grid, np.ndarray):
        order = np.argsort(np.abs(grid[None, :] - values[:, None]), axis=1, kind="stable")
        return np.asarray(grid[order[:, rank]])
    nearest = _round(values, grid)
    side = np.where(values >= nearest, 1.0, -1.0) * (1 if rank % 2 else -1)
    return _round(nearest + side * ((rank + 1) // 2) * grid, grid)


def _round(values: np.ndarray, unit: float) -> np.ndarray:
    decimals = -np.log10(unit)
    if abs(decimals - round(decimals)) < 1e-12:
        return np.round(values, round(decimals))
    return np.asarray(np.round(values / unit) * unit)


def _fuzz(v: np.ndarray, grid: Grid) -> np.ndarray:
    """Return (N,): how far a value may lie from a grid point and still count as on it."""
    unit = 0.0 if grid is None or isinstance(grid, np.ndarray) else grid
    return np.asarray(1e-6 * unit + INSIDE * np.abs(v).max(axis=1, initial=0.0))


def _tries(grid: float | np.ndarray) -> list[tuple[float | np.ndarray, int]]:
    """Return what is tried in turn: grids, ever finer ones after a unit, and ranks by nearness."""
    if isinstance(grid, np.ndarray):
        return [(grid, rank) for rank in range(min(len(grid), LEVELS))]
    finer = [10.0**-d for d in range(-9, 10) if 10.0**-d < grid * (1 - RANK)]
    return [(unit, rank) for unit in (grid, *finer) for rank in range(CANDIDATES)]
