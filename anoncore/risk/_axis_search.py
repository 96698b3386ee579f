"""Search for hidden axes on which the scores of people coincide with released ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

from anoncore.kernels.threads import in_threads
from anoncore.risk._checks import Floats

_PEOPLE, _ROWS = 1000, 4000  # people of either side, and released rows, by whom directions are compared
_CELL = 8  # released rows in two neighbouring cells
_TREND = 6  # cells either side whose mean count is subtracted
_REACH, _NEAR = 7.0, 3.0  # standard errors of an axis, within which it is looked for by counts, and by distances
_GRID_COLUMNS = 3  # up to which a grid covers all directions
_DIRECTIONS = 6400  # of one grid
_PLANES = 600  # directions tried in all planes of one axis together, where a full grid would be too large
_BATCH = 128
_BEST = 6  # directions of a grid that are refined
_LOOKUP = 1 << 16  # places by which scores are assigned to cells
_DISTINCT = 0.9  # axes whose released scores correlate more are one
_SAME, _LEAST = 1e-9, 1e-300  # closest distance that counts, of an axis's standard deviation; and at least
_WIDE = 10  # released scores either side, to whose spacing the distance to the nearest is compared
_REFINEMENTS, _STEPS = 5, 7  # steps of a climb in each plane, and by how often they become a third


def searched_axes(members: Floats, others: Floats, points: Floats, starts: list[Floats]) -> list[Floats]:
    """Return axes on which the scores of people, members or not, coincide most with released ones.

    Parameters
    ----------
    members, others : (N, n) and (L, n) people, encoded; at least two columns
    points : (M, n) released
    starts : of (n, n) axes near which the hidden ones are looked for

    Returns
    -------
    list of two (n, p ≤ n) arrays
        Axes on which counts of people and of released rows agree in narrow cells; and those to which a climb leads
        where distances to the nearest released score are smallest, from the former with at most three columns, else
        from the starts.

    Notes
    -----
    A hidden axis is v + Σ ε_j v_j, in scores of unit variance, with all |ε_j| within 7/√M. With at most three columns
    a full grid of such directions is tried, in steps of some released ranks, else grids in the planes of two other
    axes, one after another. Scores that were moved by a few ranks leave the distance to the nearest without meaning,
    and counts in cells of four rows as they are. Counts have the mean of the thirteen cells around subtracted. A
    direction that is not exact moves scores by ranks in proportion to M, hence the step. Who is a member is not known
    to the search. At most 2000 people, 4000 rows and 6400 directions of each axis and start.

    Source: docs/explanation/risk.md, section "Narrow tables".

    Examples
    --------
    >>> people, others = np.random.default_rng(1).normal(size=(2, 400, 2))
    >>> hidden = np.array([[1.0, 0.02], [0.0, 1.0]])
    >>> scores = np.random.default_rng(2).permuted(people @ hidden, axis=0)
    >>> found = searched_axes(people, others, scores @ np.linalg.inv(hidden), [np.eye(2)])[1]
    >>> bool(min(abs(found[0] - 0.02 * found[1])) < 0.001)
    True
    """
    size = min(_PEOPLE, len(members), len(others))
    people = np.vstack([_thinned(members, size), _thinned(others, size)])
    rows = _thinned(points, _ROWS)
    tasks = [(axes, at) for start in starts for axes in [_scaled(rows, start)] for at in range(axes.shape[1])]
    near = list(in_threads(lambda task: _by_counts(people, rows, *task), tasks))
    wide = points.shape[1] > _GRID_COLUMNS
    steps = [(axes, at, axes[:, at] if wide else axis) for (axes, at), (_, axis) in zip(tasks, near, strict=True)]
    close = list(in_threads(lambda step: _by_distances(people, rows, *step), steps))
    return [_distinct(rows, found) for found in (near, close)]


def _scaled(rows: Floats, axes: Floats) -> Floats:
    """Return axes along which released scores have unit variance, without those on which they do not vary."""
    spread = ((rows - rows.mean(axis=0)) @ axes).std(axis=0)
    # Of rows that are all alike rounding errors are the largest spread.
    live = spread > _SAME * max(float(spread.max(initial=_LEAST)), float(np.abs(rows).max(initial=0.0)))
    return np.asarray(axes[:, live] / spread[live])


def _by_counts(people: Floats, rows: Floats, axes: Floats, at: int) -> tuple[float, Floats]:
    """Return the best agreement of counts near one axis, and the direction."""
    best, grids = axes[:, at], list(_grids(np.delete(axes, at, axis=1), len(rows)))
    widest = max((step for _, step, _ in grids), default=0.0)
    cells = _Cells(rows @ best, max(_CELL, widest * len(rows)))
    worth = float(cells.agreement(people, rows, best[:, None])[0])
    for plane, step, most in grids:
        tried = best[:, None] + plane @ _lattice(np.linspace(-step * most, step * most, 2 * most + 1), plane.shape[1])
        shares = cells.agreement(people, rows, tried)
        for first in np.argsort(-shares)[: _BEST if axes.shape[1] <= _GRID_COLUMNS else 1]:
            share, direction = _refined(cells, people, rows, plane, tried[:, first], step)
            if share > worth:
                worth, best = share, direction
    return worth, best


def _grids(others: Floats, records: int) -> Iterator[tuple[Floats, float, int]]:
    """Yield the axes that span a grid, its step, and the steps either way."""
    columns = others.shape[1]
    if not columns:
        return
    planes = [tuple(range(columns))] if columns < _GRID_COLUMNS else list(combinations(range(columns), 2))
    budget = _DIRECTIONS if columns < _GRID_COLUMNS else _PLANES / len(planes)
    reach = _REACH / np.sqrt(records)
    most = min(int(np.ceil(reach * records / _CELL)), int((budget ** (1 / min(columns, 2)) - 1) / 2))
    for plane in planes:
        yield others[:, list(plane)], reach / max(most, 1), most


def _refined(
    cells: _Cells, people: Floats, rows: Floats, plane: Floats, direction: Floats, step: float
) -> tuple[float, Floats]:
    """Return the best agreement within one step of a direction, and where it is."""
    worth = -np.inf
    for half in (step / 2, step / 4):
        tried = direction[:, None] + plane @ _lattice(half * np.array([-1.0, -0.5, 0.0, 0.5, 1.0]), plane.shape[1])
        shares = cells.agreement(people, rows, tried)
        worth, direction = float(shares.max()), tried[:, int(shares.argmax())]
    return worth, direction


def _lattice(steps: Floats, dimensions: int) -> Floats:
    """Return (dimensions, points) all combinations of steps."""
    return np.array(list(product(steps, repeat=dimensions))).reshape(-1, dimensions).T


class _Cells:
    """Cells of a score, of about equally many released rows each, and counts in them."""

    def __init__(self, scores: Floats, rows: float) -> None:
        """Lay cells that hold half as many of the scores each."""
        self.number = max(int(2 * len(scores) / rows), 2 * _TREND)
        shares = np.linspace(0, 1, max(self.number // (2 * _TREND), 4) + 1)
        edges = np.quantile(scores, shares)
        margin = 0.05 * (edges[-1] - edges[0]) + np.finfo(float).tiny
        edges[[0, -1]] += -margin, margin
        self.low, self.per_unit = edges[0], (_LOOKUP - 1) / (edges[-1] - edges[0])
        places = np.interp(np.linspace(edges[0], edges[-1], _LOOKUP), edges, shares)
        self.cell = np.clip((places * self.number).astype(np.intp), 0, self.number - 1)

    def agreement(self, people: Floats, rows: Floats, directions: Floats) -> Floats:
        """Return, for each direction, the correlation of the counts of people and of released rows."""
        found = []
        for first in range(0, directions.shape[1], _BATCH):
            batch = directions[:, first : first + _BATCH]
            one, other = (self._deviations(side @ batch) for side in (people, rows))
            size = np.sqrt(np.square(one).sum(axis=1) * np.square(other).sum(axis=1))
            found.append((one * other).sum(axis=1) / np.maximum(size, _LEAST))
        return np.concatenate(found)

    def _deviations(self, scores: Floats) -> Floats:
        """Return (directions, cells) the counts of scores in two neighbouring cells, less those of cells around."""
        places = np.clip((scores - self.low) * self.per_unit, 0, _LOOKUP - 1).astype(np.intp)
        codes = self.cell[places] + np.arange(scores.shape[1]) * self.number
        counts = np.bincount(codes.ravel(), minlength=scores.shape[1] * self.number).reshape(-1, self.number)
        sums = np.pad(np.cumsum(counts, axis=1, dtype=np.float64), ((0, 0), (1, 0)))
        return _moving(sums, 0, 2) - _moving(sums, -_TREND, _TREND + 1)


def _moving(sums: Floats, first: int, last: int) -> Floats:
    """Return the means over the places from ``first`` to before ``last`` of each, of cumulated counts."""
    cells = np.arange(sums.shape[1] - 1)
    low, high = (np.clip(cells + shift, 0, len(cells)) for shift in (first, last))
    return np.asarray((sums[:, high] - sums[:, low]) / (high - low))


def _by_distances(people: Floats, rows: Floats, axes: Floats, at: int, start: Floats) -> tuple[float, Floats]:
    """Climb from a direction to where people are nearest to released rows, by turns towards each other axis."""
    turned = start[:, None]
    best = _nearness(people @ turned, rows @ turned)[0]
    reach = 2.0 * _CELL / len(rows) if len(axes) <= _GRID_COLUMNS else _NEAR / np.sqrt(len(rows))
    for _ in range(_REFINEMENTS):
        for other in np.delete(axes, at, axis=1).T:
            tried = turned + other[:, None] * np.linspace(-reach, reach, _STEPS)
            shares = _nearness(people @ tried, rows @ tried)
            if shares.max() > best:
                best, turned = shares.max(), tried[:, [int(np.argmax(shares))]]
        reach /= 3.0
    return float(best), turned[:, 0]


def _nearness(people: Floats, rows: Floats) -> Floats:
    """Return, for each column, how much closer than by chance the scores of people are to released ones."""
    return np.array([_nearer(np.sort(one), np.sort(other)) for one, other in zip(people.T, rows.T, strict=True)])


def _nearer(asked: Floats, there: Floats) -> float:
    at, last = np.searchsorted(there, asked), len(there) - 1
    same = max(_SAME * float(there.std()), _LEAST)
    gap = np.minimum(np.abs(asked - there[np.maximum(at - 1, 0)]), np.abs(asked - there[np.minimum(at, last)]))
    low, high = np.clip(at - _WIDE, 0, last), np.clip(at + _WIDE - 1, 0, last)
    wide = (there[high] - there[low]) / np.maximum(high - low, 1)
    return float(np.maximum(np.log(wide + same) - np.log(gap + same), 0.0).mean())


def _distinct(rows: Floats, found: list[tuple[float, Floats]]) -> Floats:
    """Return the best directions that are not nearly one, at most as many as there are columns."""
    chosen: list[Floats] = []
    scores: list[Floats] = []
    for _, axis in sorted(found, key=lambda one: -one[0]):
        score = _standard(rows @ axis)
        if len(chosen) < rows.shape[1] and all(abs(float((score * other).mean())) < _DISTINCT for other in scores):
            chosen.append(axis)
            scores.append(score)
    return np.array(chosen).reshape(-1, rows.shape[1]).T


def _thinned(rows: Floats, most: int) -> Floats:
    """Return at most so many rows, evenly spaced: their order says nothing."""
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(np.intp)]


def _standard(scores: Floats) -> Floats:
    return (scores - scores.mean()) / max(float(scores.std()), np.finfo(float).tiny)
