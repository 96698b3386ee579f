"""Move a group of records between areas: counts change as wanted, every area's population stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import eye_array, kron, vstack

from anoncore.errors import AnonymizationError, InfeasibleError, NotConvergedError
from anoncore.kernels.wavelet.relocation_pairs import Problem, Side

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Flags = NDArray[np.bool_]

_linprog: Any = linprog  # its annotations leave out sparse matrices
_CANDIDATES = 20_000  # units considered per area and number of vital records


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Moves:
    """What a move took, in sums over its records.

    Parameters
    ----------
    moved_units : int
        Records or households whose area changed.
    flow_records : (m, m) int
        Records that went from a to b with the vital ones; as many came back.
    flow_members : (m, m) int
        Vital records that went from a to b.
    flow_costs : (m, m) float
        Sum of the costs of the pairs of each flow.
    unmatched : (m, m) int
        Vital records of each flow that no unit or no counterpart was found for; all 0 when all went well.
    cost : float
        Sum of the costs of all pairs.
    lower_bound : float
        No other choice among the same units, with as many households of each number of vital members,
        costs less than this; equal to ``cost`` when that is known to be the least.
    """

    moved_units: int
    flow_records: Integers
    flow_members: Integers
    flow_costs: Floats
    unmatched: Integers
    cost: float
    lower_bound: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Relocation(Moves):
    """Where every record is after the move, and what the move took. All but the sums is confidential.

    Parameters
    ----------
    area : (N,) int
        New area of every record.
    pairs : (P, 2) int
        Units that changed places: the one that left, with vital records, and its counterpart. Household
        codes, or record numbers where there are no households.
    """

    area: Integers
    pairs: Integers

    @property
    def moves(self) -> Moves:
        """The sums alone."""
        return Moves(**{one.name: getattr(self, one.name) for one in fields(Moves)})


@dataclass(frozen=True, eq=False, repr=False)
class _Units:
    """Records or households; ``of`` is the unit of each record, None when each is its own."""

    of: Integers | None
    code: Integers
    area: Integers
    size: Integers
    vital: Integers


def net_flows(counts: NDArray[np.integer], targets: NDArray[np.integer], distances: Floats | None = None) -> Integers:
    """Find who sends how many records to whom so that counts become targets at the least total way.

    Parameters
    ----------
    counts, targets : (m,) int
        Records of the group per area, now and wanted; the same sum, none negative.
    distances : (m, m) float, optional
        What a record costs that goes from a to b; steps in the stated order of the areas when None.

    Returns
    -------
    (m, m) int
        Flows, at least 0, with Σ_b f_ab − Σ_b f_ba = counts_a − targets_a. Records leave areas that have too
        many and go straight to areas that have too few.

    Raises
    ------
    InfeasibleError
        When the sums differ.

    Notes
    -----
    Claim: the least sum of distances over moved records.

    Source: Hitchcock's transportation problem, whose basic solutions are integral. On a line, matching surplus and
    lack from left to right is optimal for |a − b| (the north-west corner rule, the cost having the Monge property).

    Examples
    --------
    >>> net_flows(np.array([5, 0, 1]), np.array([2, 3, 1])).tolist()
    [[0, 3, 0], [0, 0, 0], [0, 0, 0]]
    """
    surplus = np.asarray(counts, dtype=np.int64) - np.asarray(targets, dtype=np.int64)
    if surplus.sum() != 0:
        raise InfeasibleError("counts and targets have different sums; scale or round the targets to the sum")
    sources, sinks = np.flatnonzero(surplus > 0), np.flatnonzero(surplus < 0)
    flows = np.zeros((len(surplus), len(surplus)), dtype=np.intp)
    if len(sources) and distances is not None:
        used = np.ix_(sources, sinks)
        flows[used] = _transported(surplus[sources], -surplus[sinks], distances[used])
    elif len(sources):
        out, into = surplus[sources].cumsum(), (-surplus[sinks]).cumsum()
        ends = np.union1d(out, into)
        at = sources[np.searchsorted(out, ends)], sinks[np.searchsorted(into, ends)]
        flows[at] = np.diff(ends, prepend=0)
    return flows


def _transported(out: Integers, into: Integers, costs: Floats) -> Integers:
    """Return (s, r) how much each source sends to each sink, at least cost."""
    s, r = costs.shape
    rows = vstack([kron(eye_array(s), np.ones((1, r))), kron(np.ones((1, s)), eye_array(r))], format="csr")
    solution = _linprog(costs.ravel(), A_eq=rows, b_eq=np.concatenate([out, into]), method="highs-ds")
    if solution.status != 0:
        raise NotConvergedError(f"flows: the linear program ended with status {solution.status}", solution.x)
    return np.rint(solution.x).astype(np.intp).reshape(s, r)


def relocate(
    area: Integers,
    vital: Flags,
    features: Floats,
    flows: Integers,
    *,
    rng: np.random.Generator,
    household: Integers | None = None,
) -> Relocation:
    """Swap units with vital records with the most similar units that have none, along given flows.

    A unit is a record or a whole household. For every flow f_ab, units of a with f_ab vital records in all
    change places with as many units of b of the same size without a vital record. Only areas change.

    Parameters
    ----------
    area : (N,) int
        Area of each record, 0..m-1.
    vital : (N,) bool
        Whether the record belongs to the group that is moved.
    features : (N, t) float
        What counterparts are matched on, finite, standardised or weighted by the caller.
    flows : (m, m) int
        Vital records to go from a to b; an area has outflow or inflow, not both (see `net_flows`).
    rng : numpy.random.Generator
        Chooses among equally good units, and the candidates.
    household : (N,) int, optional
        Household of each record, each in one area; a record on its own has a code of its own.

    Returns
    -------
    Relocation

    Raises
    ------
    AnonymizationError
        When a household has members in two areas.

    Notes
    -----
    Claim: counts of vital records per area change by exactly the flows less ``unmatched``; every area keeps
    its number of records and of households of every size; households stay whole; nothing else changes.

    The cost of a pair of records is the squared distance of their features. The cost of a pair of
    households is size · Σ_j (difference of the members' means)² + (difference of their standard deviations)²,
    a lower bound of the sum over members of squared distances, whoever is compared with whom (Gelbrich 1990,
    attribute by attribute). First as few records as possible stay unmatched, then as few households as
    possible have more than one vital member (precisely: least number of such members beyond the first),
    then the cost is least. Of more than 20 000 units per area and number of vital records so many (twice those
    needed if that is more) are drawn at random; all are considered when records stay unmatched otherwise.

    Up to 3000 possible pairs this is one integer programme. Beyond, units are first given to flows by the
    distance to their nearest counterpart (`assign_levels`), whose sum is ``lower_bound``; then the units that
    go to one area are matched with distinct counterparts of their size, the best way there is. Where the cost
    is more than 1.05 times the bound, the first step is repeated with the counterparts that others leave,
    while that pays. The result is near the least cost where counterparts are many (``lower_bound`` tells),
    and may be several times the least where they are scarce.

    Source: Chertov & Tavrov (2010), the last step; they swap single records and state no rule.

    Examples
    --------
    >>> area, vital = np.array([0, 0, 1, 1]), np.array([True, True, False, False])
    >>> features = np.array([[1.0], [5.0], [2.0], [9.0]])
    >>> relocate(area, vital, features, np.array([[0, 1], [0, 0]]), rng=np.random.default_rng(0)).area
    array([1, 0, 0, 1])
    """
    flows = np.asarray(flows, dtype=np.intp)
    units = _units(area, vital, household)
    for limit in (_CANDIDATES, len(units.area)):
        movers, others, all_of_them = _candidates(units, flows, limit, rng)
        problem = _problem(units, movers, others, features, flows)
        pairs, bound = problem.solve(rng)
        costs = ((problem.leaving.x[pairs[:, 0]] - problem.staying.x[pairs[:, 1]]) ** 2).sum(axis=1)
        moved = _result(units, np.column_stack([movers[pairs[:, 0]], others[pairs[:, 1]]]), costs, flows, bound)
        if all_of_them or not moved.unmatched.any():
            break
    return moved


def combined(rounds: Sequence[Moves]) -> Moves:
    """Return several moves, one after the other, as one; no bound on their cost together is known but 0."""
    return replace(
        rounds[-1],
        moved_units=sum(one.moved_units for one in rounds),
        flow_records=np.sum([one.flow_records for one in rounds], axis=0),
        flow_members=np.sum([one.flow_members for one in rounds], axis=0),
        flow_costs=np.sum([one.flow_costs for one in rounds], axis=0),
        cost=sum(one.cost for one in rounds),
        lower_bound=0.0,
    )


def moved_means(features: Floats, before: Integers, after: Integers, areas: int) -> Floats:
    """Return the change of every area's feature means through a move.

    Parameters
    ----------
    features : (N, t) float
    before, after : (N,) int
        Area of each record, 0..areas-1.
    areas : int

    Returns
    -------
    (areas, t) float
        In the features' own units; 0 for an area without records.

    Examples
    --------
    >>> moved_means(np.array([[1.0], [2.0]]), np.array([0, 1]), np.array([1, 0]), 2).tolist()
    [[1.0], [-1.0]]
    """
    changed = np.flatnonzero(before != after)
    shift = np.empty((areas, features.shape[1]))
    for j in range(features.shape[1]):
        moved = features[changed, j]
        shift[:, j] = np.bincount(after[changed], moved, areas) - np.bincount(before[changed], moved, areas)
    return np.asarray(shift / np.maximum(np.bincount(after, minlength=areas), 1)[:, None])


def mean_shift_bound(relocation: Moves, populations: NDArray[np.integer]) -> Floats:
    """Bound how far a move can have shifted the feature means of each area, from its published sums.

    Parameters
    ----------
    relocation : Moves
    populations : (m,) int
        Records per area.

    Returns
    -------
    (m,) float
        Upper bound of the length of each row of `moved_means`, in the features' units.

    Notes
    -----
    Claim: with R_a the records that went into or out of area a with the vital ones, C_a the cost of its pairs
    and n_a its population, the shift is at most √(R_a C_a) / n_a. For a pair of size s with mean difference
    d adds s·d to the area's sum and costs at least s‖d‖²; Σ s‖d‖ ≤ √(Σ s · Σ s‖d‖²) by Cauchy and Schwarz.

    Examples
    --------
    >>> area, flows = np.array([0, 0, 1, 1]), np.array([[0, 1], [0, 0]])
    >>> moved = relocate(area, np.array([True, False, False, False]), np.array([[1.0], [5.0], [2.0], [9.0]]),
    ...                  flows, rng=np.random.default_rng(0))
    >>> mean_shift_bound(moved, np.array([2, 2]))
    array([0.5, 0.5])
    """
    records, costs = (f.sum(axis=0) + f.sum(axis=1) for f in (relocation.flow_records, relocation.flow_costs))
    return np.asarray(np.sqrt(records * costs) / np.maximum(populations, 1))


def _units(area: Integers, vital: Flags, household: Integers | None) -> _Units:
    area = np.asarray(area, dtype=np.intp)
    if household is None:
        ones = np.ones(len(area), dtype=np.intp)
        return _Units(None, np.arange(len(area)), area, ones, np.asarray(vital).astype(np.intp))
    code, first, of, size = np.unique(household, return_index=True, return_inverse=True, return_counts=True)
    home = area[first]
    if not np.array_equal(home[of], area):
        raise AnonymizationError("a household has members in two areas; give each part a code of its own")
    members = np.bincount(of[np.asarray(vital, dtype=bool)], minlength=len(code))
    return _Units(of, code.astype(np.intp), home, size, members)


def _features(units: _Units, chosen: Integers, features: Floats) -> Floats:
    """Return (len(chosen), t or 2t): rows whose squared distance is the cost of a pair."""
    if units.of is None:
        return np.ascontiguousarray(features[chosen], dtype=np.float64)
    place = np.full(len(units.area), -1, dtype=np.intp)
    place[chosen] = np.arange(len(chosen))
    member = np.flatnonzero(place[units.of] >= 0)
    unit, size = place[units.of[member]], units.size[chosen]
    t = features.shape[1]
    x = np.zeros((len(chosen), 2 * t))
    for j in range(t):
        value = np.asarray(features[member, j], dtype=np.float64)
        x[:, j] = np.bincount(unit, value, len(chosen)) / size
        x[:, t + j] = np.sqrt(np.bincount(unit, (value - x[unit, j]) ** 2, len(chosen)) / size)
    # A household of one has no spread; most often that is all there is to save columns on.
    x = x if (size > 1).any() else x[:, :t]
    return np.ascontiguousarray(x * np.sqrt(size)[:, None])


def _candidates(
    units: _Units, flows: Integers, limit: int, rng: np.random.Generator
) -> tuple[Integers, Integers, bool]:
    """Return units that may leave and units that may replace them, and whether these are all there are."""
    most = flows.max(axis=1, initial=0)[units.area]
    movers = rng.permutation(np.flatnonzero((units.vital > 0) & (units.vital <= most)))
    key = units.area[movers] * (int(units.vital.max(initial=0)) + 1) + units.vital[movers]
    order = np.argsort(key, kind="stable")
    place = np.arange(len(key)) - np.searchsorted(key[order], key[order])
    kept = movers[order[place < np.maximum(limit, 2 * flows.sum(axis=1))[units.area[movers[order]]]]]
    sizes = np.zeros(int(units.size.max(initial=0)) + 1, dtype=bool)
    sizes[units.size[kept]] = True
    into = flows.sum(axis=0)[units.area] > 0
    others = rng.permutation(np.flatnonzero((units.vital == 0) & into & sizes[units.size]))
    sort = [side[np.lexsort((units.size[side], units.area[side]))] for side in (kept, others)]
    return sort[0], sort[1], len(kept) == len(movers)


def _problem(units: _Units, movers: Integers, others: Integers, features: Floats, flows: Integers) -> Problem:
    sizes = np.unique(units.size[movers])
    slots = np.arange(len(flows) * len(sizes) + 1)
    x = _features(units, np.concatenate([movers, others]), features)
    sides = []
    for chosen, rows in ((movers, x[: len(movers)]), (others, x[len(movers) :])):
        area, size = units.area[chosen], np.searchsorted(sizes, units.size[chosen])
        start = np.searchsorted(area * len(sizes) + size, slots)
        sides.append(Side(area, size, units.vital[chosen], rows, start))
    origin, destination = np.nonzero(flows)
    return Problem(origin, destination, flows[origin, destination], sides[0], sides[1], len(sizes))


def _result(units: _Units, pairs: Integers, costs: Floats, flows: Integers, bound: float | None) -> Relocation:
    left, right = pairs.T
    home, away = units.area[left], units.area[right]
    area = units.area.copy()
    area[left], area[right] = away, home
    m = len(flows)
    along = home * m + away
    vital, records, cost = (
        np.bincount(along, np.asarray(weights, dtype=float), m * m).reshape(m, m)
        for weights in (units.vital[left], units.size[left], costs)
    )
    total = float(costs.sum())
    return Relocation(
        moved_units=2 * len(pairs),
        area=area if units.of is None else area[units.of],
        pairs=units.code[pairs],
        flow_records=records.astype(np.intp),
        flow_members=vital.astype(np.intp),
        flow_costs=np.asarray(cost, dtype=float),
        unmatched=flows - vital.astype(np.intp),
        cost=total,
        lower_bound=total if bound is None else min(bound, total),
    )
