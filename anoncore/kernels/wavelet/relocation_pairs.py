"""Choose which units leave along given flows and whom each of them changes places with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp
from scipy.sparse import coo_array, csr_array, eye_array, hstack, vstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from anoncore.errors import NotConvergedError
from anoncore.kernels.neighbors import nearest
from anoncore.kernels.transport import assign_levels

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

_EXACT = 3_000  # up to so many possible pairs one integer programme decides on everything
_LIST = 8  # counterparts listed per unit at first
_ENTRIES = 500_000  # listed pairs up to which all queries are matched together
_CHUNK = 250  # queries matched at a time beyond that
_DENSE = 4_000_000  # entries of a full matrix
_ROUNDS = 6  # of taking into account which counterparts are in use
_CLOSE = 1.05  # ratio of cost and bound that is good enough
_JITTER = 1e-6  # in root mean squares of the features; separates units that are alike
_TREE = 8  # columns up to which `nearest` uses a tree
_STAYS = -1


@dataclass(frozen=True, eq=False, repr=False)
class Side:
    """Units that may move, sorted by slot, that is area * sizes + size.

    Parameters
    ----------
    area, size, vital : (M,) int
        Area, rank of the size among the sizes that occur, and number of vital members.
    x : (M, d) float
        Squared distances of rows are costs.
    start : (m * sizes + 1,) int
        Where each slot begins.
    """

    area: Integers
    size: Integers
    vital: Integers
    x: Floats
    start: Integers

    def slot(self, at: int) -> Integers:
        """Return the numbers of the units of a slot."""
        return np.arange(self.start[at], self.start[at + 1])

    def counts(self) -> Integers:
        """Return (m * sizes,) units per slot."""
        return np.diff(self.start)


@dataclass(frozen=True, eq=False, repr=False)
class _Plan:
    """How many units with how many vital members take each flow; ``size`` None: of whatever size."""

    flow: Integers
    vital: Integers
    size: Integers | None
    amount: Integers


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Units with vital members, possible counterparts without, and the flows between their areas.

    Parameters
    ----------
    origin, destination, amount : (F,) int
        The flows, sorted by origin: vital records to go.
    leaving, staying : Side
    sizes : int
        Sizes that occur.
    """

    origin: Integers
    destination: Integers
    amount: Integers
    leaving: Side
    staying: Side
    sizes: int

    def solve(self, rng: np.random.Generator) -> tuple[Integers, float | None]:
        """Return (P, 2) numbers of the units paired, and a lower bound of the cost; None if it is least."""
        if not len(self.leaving.x) or not len(self.staying.x):
            return np.zeros((0, 2), dtype=np.intp), None
        out, into = (side.counts().reshape(-1, self.sizes) for side in (self.leaving, self.staying))
        if (out[self.origin] * into[self.destination]).sum() <= _EXACT:
            return self._exactly(), None
        nearest_costs = self._nearest_costs(np.arange(len(self.staying.x)))
        flow, bound, plan = np.full(len(self.leaving.x), _STAYS), 0.0, None
        for plan in self._plans(nearest_costs):
            flow = self._assign(plan, nearest_costs)
            goes = np.flatnonzero(flow != _STAYS)
            spent = nearest_costs[goes, self._rank(flow[goes])]
            if plan.size is None:
                bound = float(spent.sum()) if np.isfinite(spent).all() else 0.0
            if np.isfinite(spent).all() and self._fits(flow):
                break
        pairs = self._match(flow, rng)
        return (pairs if plan is None else self._improve(plan, flow, pairs, bound, rng)), bound

    def _improve(
        self, plan: _Plan, flow: Integers, pairs: Integers, bound: float, rng: np.random.Generator
    ) -> Integers:
        """Give units to flows anew, by the counterparts that the others leave, while that pays."""
        cost = self._pair_costs(pairs)
        for _ in range(_ROUNDS):
            if cost.sum() <= _CLOSE * bound:
                break
            free = np.delete(np.arange(len(self.staying.x)), pairs[:, 1])
            costs = self._nearest_costs(free)
            own = pairs[:, 0], self._rank(flow[pairs[:, 0]])
            costs[own] = np.minimum(costs[own], cost)
            flow = self._assign(plan, costs)
            if not self._fits(flow):
                break
            found = self._match(flow, rng)
            before, now = float(cost.sum()), self._pair_costs(found)
            if now.sum() < before:
                pairs, cost = found, now
            if now.sum() > 0.95 * before:
                break
        return pairs

    def _pair_costs(self, pairs: Integers) -> Floats:
        return np.asarray(((self.leaving.x[pairs[:, 0]] - self.staying.x[pairs[:, 1]]) ** 2).sum(axis=1))

    def _rank(self, flow: Integers) -> Integers:
        """Return the place of flows among those out of the same area, which is their column of costs."""
        return flow - np.searchsorted(self.origin, self.origin[flow])

    def _exactly(self) -> Integers:
        """Decide on all possible pairs at once."""
        edges = [np.zeros((0, 3), dtype=np.intp)]
        for flow, (a, b) in enumerate(zip(self.origin, self.destination, strict=True)):
            for size in range(self.sizes):
                i, j = self.leaving.slot(a * self.sizes + size), self.staying.slot(b * self.sizes + size)
                i = i[self.leaving.vital[i] <= self.amount[flow]]
                pairs = np.stack(np.meshgrid(i, j, indexing="ij"), axis=-1).reshape(-1, 2)
                edges.append(np.column_stack([pairs, np.full(len(pairs), flow)]))
        left, right, flows = np.concatenate(edges).T
        cost = ((self.leaving.x[left] - self.staying.x[right]) ** 2).sum(axis=1)
        once = np.ones(len(self.leaving.x), dtype=np.intp), np.ones(len(self.staying.x), dtype=np.intp)
        taken = programme((left, right, flows), self.leaving.vital[left], cost, (*once, self.amount))
        return np.column_stack([left, right])[taken > 0]

    def _nearest_costs(self, free: Integers) -> Floats:
        """Return (M, D): cost with the nearest free counterpart for each unit and flow out of its area."""
        rank = self._rank(np.arange(len(self.origin)))
        cost = np.full((len(self.leaving.x), int(rank.max()) + 1), np.inf)
        for b in np.unique(self.destination):
            flows = np.flatnonzero(self.destination == b)
            for size in range(self.sizes):
                groups = [self.leaving.slot(a * self.sizes + size) for a in self.origin[flows]]
                slot = b * self.sizes + size
                begin, end = np.searchsorted(free, self.staying.start[slot : slot + 2])
                rows, points = np.concatenate(groups), free[begin:end]
                if len(rows) and len(points):
                    columns = np.repeat(rank[flows], [len(group) for group in groups])
                    distance, _ = nearest(*_varying(self.leaving.x[rows], self.staying.x[points]), 1)
                    cost[rows, columns] = distance[:, 0] ** 2
        return cost

    def _plans(self, nearest_costs: Floats) -> Iterator[_Plan]:
        """Propose compositions: one vital member each; what suffices, of any size; what surely fits."""
        needed = np.bincount(self.origin, self.amount)
        single = np.bincount(self.leaving.area[self.leaving.vital == 1], minlength=len(needed))
        if (single[: len(needed)] >= needed).all():
            yield _Plan(np.arange(len(self.origin)), np.ones_like(self.origin), None, self.amount)
        plan = self._composition(nearest_costs)
        kinds, inverse = np.unique(np.column_stack([plan.flow, plan.vital]), axis=0, return_inverse=True)
        total = np.bincount(inverse.ravel(), plan.amount, len(kinds)).astype(np.intp)
        yield _Plan(kinds[:, 0], kinds[:, 1], None, total)
        yield plan

    def _composition(self, nearest_costs: Floats) -> _Plan:
        """Find how many units of which size and number of vital members take each flow."""
        side, top = self.leaving, int(self.leaving.vital.max(initial=0)) + 1
        key = (side.area * self.sizes + side.size) * top + side.vital
        kinds, inverse, supply = np.unique(key, return_inverse=True, return_counts=True)
        slot, vital = np.divmod(kinds, top)
        area, size = np.divmod(slot, self.sizes)
        first = np.searchsorted(area, self.origin)
        number = np.searchsorted(area, self.origin, side="right") - first
        flow = np.repeat(np.arange(len(self.origin)), number)
        kind = np.arange(len(flow)) - np.repeat(number.cumsum() - number - first, number)
        right = self.destination[flow] * self.sizes + size[kind]
        capacity = self.staying.counts()
        keep = (vital[kind] <= self.amount[flow]) & (capacity[right] > 0)
        flow, kind, right = flow[keep], kind[keep], right[keep]
        finite = np.where(np.isfinite(nearest_costs), nearest_costs, 0.0)
        sums = np.stack([np.bincount(inverse, column, len(kinds)) for column in finite.T])
        cost = sums[self._rank(flow), kind] / supply[kind]
        amount = programme((kind, right, flow), vital[kind], cost, (supply, capacity, self.amount))
        used = amount > 0
        return _Plan(flow[used], vital[kind[used]], size[kind[used]], amount[used])

    def _assign(self, plan: _Plan, nearest_costs: Floats) -> Integers:
        """Return (M,) the flow that each unit takes, as planned and at the least sum, −1 if none."""
        side, top = self.leaving, int(self.leaving.vital.max(initial=0)) + 1
        key, planned = side.area * top + side.vital, self.origin[plan.flow] * top + plan.vital
        if plan.size is not None:
            key, planned = key * self.sizes + side.size, planned * self.sizes + plan.size
        chosen, order = np.full(len(key), _STAYS), np.argsort(key, kind="stable")
        for kind in np.unique(planned):
            begin, end = np.searchsorted(key[order], [kind, kind + 1])
            rows, flow, amount = order[begin:end], plan.flow[planned == kind], plan.amount[planned == kind]
            scores = np.zeros((len(rows), len(flow) + 1))
            scores[:, :-1] = -nearest_costs[np.ix_(rows, self._rank(flow))]
            # A counterpart that does not exist costs more than all that do.
            missing = np.isinf(scores)
            scores[missing] = (len(rows) + 1) * (scores[~missing].min() or -1.0)
            levels = assign_levels(scores, np.append(amount, len(rows) - amount.sum()))
            chosen[rows] = np.append(flow, _STAYS)[levels]
        return chosen

    def _slots(self, flow: Integers) -> Integers:
        """Return the slot of the counterpart of each unit that goes, −1 for the others."""
        return np.where(flow == _STAYS, -1, self.destination[flow] * self.sizes + self.leaving.size)

    def _fits(self, flow: Integers) -> bool:
        capacity = self.staying.counts()
        slots = self._slots(flow)
        return bool((np.bincount(slots[slots >= 0], minlength=len(capacity)) <= capacity).all())

    def _match(self, flow: Integers, rng: np.random.Generator) -> Integers:
        """Return (P, 2) pairs, for units that go to the same area and have the same size together."""
        slots = self._slots(flow)
        order = np.argsort(slots, kind="stable")
        pairs = [np.zeros((0, 2), dtype=np.intp)]
        for slot in np.unique(slots[slots >= 0]):
            begin, end = np.searchsorted(slots[order], [slot, slot + 1])
            rows, points = order[begin:end], self.staying.slot(int(slot))
            partner = match(*_varying(self.leaving.x[rows], self.staying.x[points]), rng=rng)
            pairs.append(np.column_stack([rows, points[partner]]))
        return np.concatenate(pairs)


def programme(
    edges: tuple[Integers, Integers, Integers],
    worth: Integers,
    cost: Floats,
    limits: tuple[Integers, Integers, Integers],
) -> Integers:
    """Choose how often to use each edge: least shortage, then least excess worth, then least cost.

    Parameters
    ----------
    edges : three (E,) int
        Left end, right end and flow of each edge.
    worth : (E,) int, cost : (E,) float
        What one use adds to its flow, and costs; worth above 1 is avoided.
    limits : (p,), (q,), (F,) int
        How often each end may be used, and what each flow needs.

    Returns
    -------
    (E,) int

    Raises
    ------
    NotConvergedError
        When the solver stops without an optimum.
    """
    e, needed = len(worth), limits[2]
    ends = [_sums(ids, np.ones(e), len(limit)) for ids, limit in zip(edges[:2], limits[:2], strict=True)]
    within = hstack([vstack(ends), csr_array((len(limits[0]) + len(limits[1]), len(needed)))], format="csr")
    meets = hstack([_sums(edges[2], worth.astype(float), len(needed)), eye_array(len(needed))], format="csr")
    rules = [LinearConstraint(within, -np.inf, np.concatenate(limits[:2]))]
    rules.append(LinearConstraint(meets, needed, needed))
    upper = np.concatenate([np.minimum(limits[0][edges[0]], limits[1][edges[1]]), needed])
    shortage = np.append(worth - 1.0, np.full(len(needed), 1.0 + needed.sum()))
    best = _minimise(shortage, rules, upper)
    rules.append(LinearConstraint(csr_array(shortage[None, :]), -np.inf, float(shortage @ best)))
    # The solver's tolerances are absolute.
    cost = cost * (1000.0 / (cost.max(initial=0.0) or 1.0))
    return _minimise(np.append(cost, np.zeros(len(needed))), rules, upper)[:e]


def _sums(rows: Integers, values: Floats, number: int) -> csr_array:
    return coo_array((values, (rows, np.arange(len(rows)))), shape=(number, len(rows))).tocsr()


def _minimise(objective: Floats, rules: list[LinearConstraint], upper: Integers) -> Integers:
    solution = milp(
        objective,
        integrality=np.ones(len(upper), dtype=np.intp),
        bounds=Bounds(0, upper),
        constraints=rules,
        options={"mip_rel_gap": 0.0},
    )
    if solution.status != 0:
        raise NotConvergedError(f"integer programme of {len(upper)} amounts: {solution.message}")
    return np.rint(solution.x).astype(np.intp)


def match(queries: Floats, points: Floats, *, rng: np.random.Generator) -> Integers:
    """Give every query a point of its own, at the least sum of squared distances.

    Parameters
    ----------
    queries : (M, d), points : (n, d) float
        M ≤ n.
    rng : numpy.random.Generator
        Chooses among points that are alike.

    Returns
    -------
    (M,) int

    Notes
    -----
    Claim: the sum is the least possible, but for rounding and 10^-12 mean squares of the columns per query,
    as long as half a million listed pairs suffice. Beyond that what is matched by then is kept, and the rest
    is matched with what remains, some hundreds at a time.

    Each query lists its nearest points and one stand-in for all others, at the distance of the last one
    listed: a relaxation, so that an optimum without stand-ins is an optimum of the whole. Queries that use
    theirs list four times as many.
    """
    size = float(np.sqrt(np.mean(points**2))) or 1.0
    queries, points = (np.column_stack([x, rng.uniform(0.0, _JITTER * size, len(x))]) for x in (queries, points))
    partner, free = np.full(len(queries), -1), np.arange(len(points))
    rows, entries = np.arange(len(queries)), _ENTRIES
    while len(rows):
        found = _match_listed(queries[rows], points[free], entries)
        partner[rows[found >= 0]] = free[found[found >= 0]]
        free = np.delete(free, found[found >= 0])
        rows, entries = np.flatnonzero(partner < 0)[:_CHUNK], _DENSE
    return partner


def _match_listed(queries: Floats, points: Floats, most: int) -> Integers:
    """Match by growing lists; −1 for queries left over when the lists have become too long."""
    if len(queries) * len(points) <= _DENSE:
        return np.asarray(linear_sum_assignment(cdist(queries, points, "sqeuclidean"))[1], dtype=np.intp)
    near, length = _neighbours(points), min(_LIST, len(points))
    lists = [(np.arange(len(queries)), *near(queries, length))]
    while True:
        partner = _solve(lists, queries, points)
        alone, entries = partner < 0, 0
        kept, short = [], []
        for rows, distance, index in lists:
            again, length = alone[rows], min(4 * distance.shape[1], len(points))
            kept.append((rows[~again], distance[~again], index[~again]))
            short.append((rows[again], length))
            entries += kept[-1][1].size + len(short[-1][0]) * length
        if not alone.any() or entries > most:
            return partner
        lists = kept + [(rows, *near(queries[rows], length)) for rows, length in short if len(rows)]


def _solve(lists: list[tuple[Integers, Floats, Integers]], queries: Floats, points: Floats) -> Integers:
    """Solve the assignment of queries to listed points or stand-ins (−1)."""
    m, last = len(queries), np.full(len(queries), np.inf)
    used = np.unique(np.concatenate([index.ravel() for _, _, index in lists]))
    cost = np.concatenate([distance.ravel() ** 2 for _, distance, _ in lists])
    scale = float(cost.max()) or 1.0
    for rows, distance, _ in lists:
        if distance.shape[1] < len(points):
            # A stand-in never replaces a point of the same cost.
            last[rows] = distance[:, -1] ** 2 + 1e-9 * scale
    column: NDArray[np.integer]
    if 10 * len(cost) > m * len(used) and m * (len(used) + m) <= _DENSE:
        full = np.full((m, len(used) + m), np.inf)
        full[:, : len(used)] = cdist(queries, points[used], "sqeuclidean")
        full[np.arange(m), len(used) + np.arange(m)] = last
        column = linear_sum_assignment(full)[1]
    else:
        row = np.concatenate([np.repeat(rows, index.shape[1]) for rows, _, index in lists])
        listed = np.searchsorted(used, np.concatenate([index.ravel() for _, _, index in lists]))
        open_ = np.flatnonzero(np.isfinite(last))
        # The solver wants positive weights.
        weight = 1.0 + np.append(cost, last[open_]) / scale
        at = np.append(row, open_), np.append(listed, len(used) + open_)
        column = min_weight_full_bipartite_matching(coo_array((weight, at), shape=(m, len(used) + m)).tocsr())[1]
    return np.asarray(np.append(used, np.full(m, -1))[column], dtype=np.intp)


def _neighbours(points: Floats) -> Callable[[Floats, int], tuple[Floats, Integers]]:
    """Return a search for the k nearest points: a tree also for many columns if most points are alike."""
    d = points.shape[1]
    if d > _TREE and len(np.unique(points[:, :-1] @ np.sqrt(np.arange(2.0, d + 1)))) > len(points) / 2:
        return lambda queries, k: nearest(queries, points, k)
    tree = cKDTree(points)

    def search(queries: Floats, k: int) -> tuple[Floats, Integers]:
        distance, index = tree.query(queries, np.arange(1, k + 1))
        return np.asarray(distance), np.asarray(index, dtype=np.intp)

    return search


def _varying(queries: Floats, points: Floats) -> tuple[Floats, Floats]:
    """Drop columns in which nothing differs, but one."""
    low = np.minimum(queries.min(axis=0), points.min(axis=0))
    varies = np.maximum(queries.max(axis=0), points.max(axis=0)) > low
    varies[:1] |= not varies.any()
    return np.ascontiguousarray(queries[:, varies]), np.ascontiguousarray(points[:, varies])
