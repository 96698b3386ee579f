"""Projection into polytopes cut by rules that a point keeps by one of several alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anoncore.kernels.projection import Polytope, attempt, project_into

_TOLERANCE = 1e-9
_OPEN, _NONE = -1, -2  # a rule that is kept as it is; one that nothing keeps


@dataclass(frozen=True, eq=False, repr=False)
class Alternative:
    """The half-spaces rows @ v ≤ limits.

    Parameters
    ----------
    rows : (q, t), limits : (q,), in the variables' own units
    """

    rows: np.ndarray
    limits: np.ndarray

    def holds(self, points: np.ndarray) -> np.ndarray:
        """Return (N,) bool: the points (N, t) lie inside, up to 1e-9 of the terms' size."""
        sizes = np.abs(points) @ np.abs(self.rows).T + np.abs(self.limits)
        return np.asarray((points @ self.rows.T <= self.limits + _TOLERANCE * sizes).all(axis=1))


Rule = Sequence[Alternative]  # kept by a point inside any of them


def project_by_rules(
    points: np.ndarray, polytope: Polytope, rules: Sequence[Rule], scale: np.ndarray | None = None
) -> np.ndarray:
    """Return near points of a polytope that keep every rule.

    Parameters
    ----------
    points : (N, t), in the variables' own units, no NaN
    polytope : Polytope
    rules : of Rule
    scale : (t,), the variables' standard deviations, 1 when None; as for `project_into`

    Returns
    -------
    (N, t) float64; a point that breaks a rule which no alternative mends together with those before stays so.

    Raises
    ------
    InfeasibleError
        When no point of the polytope satisfies its constraints.

    Notes
    -----
    Claim: of one broken rule the nearest point that keeps it. Of several a point that keeps all, not always the
    nearest; or none, where the alternatives chosen first exclude what others would have allowed. The points that keep a
    rule are a union of polytopes: a broken rule is mended by the alternative that is nearest, which then binds while
    the next broken one is mended, so that each is mended once.

    Source: none; the union of polytopes is that of disjunctive programming (Balas 1979).

    Examples
    --------
    >>> free = Polytope(np.zeros((0, 2)), np.zeros(0))
    >>> young, poor = (Alternative(np.eye(2)[[j]], np.array([limit])) for j, limit in ((0, 15.0), (1, 0.0)))
    >>> project_by_rules(np.array([[16.0, 9.0], [40.0, 2.0]]), free, [[young, poor]]).tolist()
    [[15.0, 9.0], [40.0, 0.0]]
    """
    result = project_into(points, polytope, scale)
    kept = np.full((len(points), len(rules)), _OPEN)
    for _ in rules:
        groups = list(_broken(result, rules, kept))
        if not groups:
            break
        for rows, rule in groups:
            bound = [rules[other][at] for other, at in enumerate(kept[rows[0]]) if at >= 0]
            choices = [_cut(polytope, [*bound, one]) for one in rules[rule]]
            result[rows], kept[rows, rule] = _nearest(points[rows], result[rows], choices, scale)
    return result


def _broken(points: np.ndarray, rules: Sequence[Rule], kept: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the points whose first broken rule is the same, and to which the same alternatives bind."""
    holds = np.column_stack([np.logical_or.reduce([one.holds(points) for one in rule]) for rule in rules])
    broken = ~holds & (kept == _OPEN)
    rows = np.flatnonzero(broken.any(axis=1))
    first = broken[rows].argmax(axis=1)
    keys, group = np.unique(np.column_stack([first, kept[rows]]), axis=0, return_inverse=True)
    for number, key in enumerate(keys):
        yield rows[group.ravel() == number], int(key[0])


def _nearest(
    points: np.ndarray, result: np.ndarray, choices: Sequence[Polytope], scale: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, t) the nearest points in any of some polytopes, the result where there is none, and (N,) in which."""
    best, least, which = result.copy(), np.full(len(points), np.inf), np.full(len(points), _NONE)
    unit = np.ones(points.shape[1]) if scale is None else scale
    moving = unit > 0
    for number, choice in enumerate(choices):
        moved, feasible = attempt(points, choice, scale)
        distance = (((moved - points)[:, moving] / unit[moving]) ** 2).sum(axis=1)
        nearer = feasible & (distance < least)
        best[nearer], least[nearer], which[nearer] = moved[nearer], distance[nearer], number
    return best, which


def _cut(polytope: Polytope, alternatives: Sequence[Alternative]) -> Polytope:
    """Return the polytope inside some alternatives; limits of single variables are bounds, which hold exactly."""
    t = polytope.A.shape[1]
    lower = np.full(t, -np.inf) if polytope.lower is None else polytope.lower.copy()
    upper = np.full(t, np.inf) if polytope.upper is None else polytope.upper.copy()
    G, h = (np.concatenate([getattr(one, name) for one in alternatives]) for name in ("rows", "limits"))
    single = (G != 0).sum(axis=1) == 1
    for row, limit in zip(G[single], h[single], strict=True):
        at = int(np.flatnonzero(row)[0])
        bound = limit / row[at]
        if row[at] > 0:
            upper[at] = min(upper[at], bound)
        else:
            lower[at] = max(lower[at], bound)
    G, h = G[~single], h[~single]
    if polytope.G is not None and polytope.h is not None:
        G, h = np.vstack([polytope.G, G]), np.concatenate([polytope.h, h])
    return replace(polytope, lower=lower, upper=upper, G=G, h=h)
