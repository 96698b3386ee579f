"""New counts per area that meet goals and keep as much of a signal's wavelet details as can be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack

from anoncore.errors import AnonymizationError, InfeasibleError, NotConvergedError
from anoncore.kernels.wavelet.decomposition import (
    Floats,
    Integers,
    winsorise,
)
from anoncore.kernels.wavelet.signal_model import SignalModel
from anoncore.kernels.wavelet.signal_program import (
    Bound,
    Program,
    build_program,
    conflict,
    feasible,
    meet,
    solve,
)
from anoncore.kernels.wavelet.spread import with_spread

Details = Literal["plain", "winsorised", "capped"]

_SLACK = 1e-8  # what the second program may give up of the first one's optimum
_WHOLE = 1e-6  # counts this close to an integer are that integer


@dataclass(frozen=True, kw_only=True)
class Goals:
    """What the new counts must be.

    Parameters
    ----------
    caps : {position: records}
        At most so many.
    raises : {position: records}
        At least so many.
    protected : positions
        At most their original count.
    free : positions, optional
        May take any count. None: every position not named otherwise may. When given, positions that are named
        nowhere count as protected.
    names : m labels, optional
        What errors call the positions; their numbers when None.
    """

    caps: Mapping[int, float] = field(default_factory=dict)
    raises: Mapping[int, float] = field(default_factory=dict)
    protected: Sequence[int] = ()
    free: Sequence[int] | None = None
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        bound = {*self.caps, *self.raises, *self.protected}
        both = sorted(bound & set(self.free or ()))
        if both:
            raise AnonymizationError(
                f"positions {both} are named free and also capped, raised or protected; name each once"
            )

    def protected_positions(self, length: int) -> list[int]:
        """Return all protected positions, those that ``free`` leaves over included."""
        if self.free is None:
            return sorted(set(self.protected))
        named = {*self.caps, *self.raises, *self.free}
        return sorted({*self.protected, *(set(range(length)) - named)})

    def bounds(self, signal: Floats) -> list[Bound]:
        """Return the goals as bounds on integers, with the signal (m,) of counts as it is."""
        names = self.names or [str(i) for i in range(len(signal))]
        caps = [Bound(f"cap of {names[i]}", i, high=float(np.floor(cap))) for i, cap in self.caps.items()]
        raises = [Bound(f"raise of {names[i]}", i, low=float(np.ceil(least))) for i, least in self.raises.items()]
        protected = self.protected_positions(len(signal))
        return [*caps, *raises, *(Bound(f"protection of {names[i]}", i, high=float(signal[i])) for i in protected)]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class JointRoute:
    """The largest share of details that the goals allow, then the fewest moved records.

    Parameters
    ----------
    share : float, optional
        Fixed share of details, 0 to 1, instead of the largest.
    weights : (m,) float, optional
        What a moved record counts at each position, at least 0; 1 when None.
    spread : float, optional
        Standard deviation of the counts, in those of the signal; their mean stays anyway. Takes precedence
        over the share of details, unless that is fixed, and over the moved records.
    """

    share: float | None = None
    weights: Floats | None = None
    spread: float | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PaperRoute:
    """Details first, then a shift and a scale, without regard to what these do to the goals.

    Parameters
    ----------
    coefficients : (n / 2^level,) float, optional
        New approximation coefficients; from a linear program when None.
    shift : float, optional
        What is added to every position; the least that suffices when None.
    """

    coefficients: Floats | None = None
    shift: float | None = None


_PLAIN, _JOINT = SignalModel(), JointRoute()


@dataclass(frozen=True, eq=False, repr=False)
class Redistribution:
    """New counts per position, and what they keep.

    Parameters
    ----------
    target : (m,) int
        Records per position, with the original total.
    unrounded : (m,) float
        The same before rounding.
    coefficients : (n / 2^level,) float
        Its approximation coefficients, in records or, for a ratio signal, in records per head.
    beta : float
        Share of the details' size that is kept.
    agreement : float
        Cosine between the details of ``target`` and those of the original signal.
    moved : int
        Records that change their position.
    unmet : tuple of str
        Goals that ``target`` misses; always empty for the joint route.
    """

    target: Integers
    unrounded: Floats
    coefficients: Floats
    beta: float
    agreement: float
    moved: int
    unmet: tuple[str, ...] = ()


def redistribute(
    signal: Integers | Floats,
    goals: Goals,
    model: SignalModel = _PLAIN,
    *,
    route: JointRoute | PaperRoute = _JOINT,
    details: Details = "plain",
) -> Redistribution:
    """Find counts that meet the goals, keep the total and keep the wavelet details up to a factor.

    Parameters
    ----------
    signal : (m,) int
        Records per position, not negative.
    goals : Goals
    model : SignalModel
        The details to keep; the result, padded by the same rule, has them.
    route : JointRoute or PaperRoute
        The latter may miss goals (see ``unmet``).
    details : {"plain", "winsorised", "capped"}
        Whose details are kept: those of the signal; of the signal with values beyond its fences pulled to the
        fence and capped or raised positions at their goal; or of the signal with only the latter.

    Returns
    -------
    Redistribution

    Raises
    ------
    InfeasibleError
        When the goals cannot be met together; names a set of them that conflicts and of which none is idle.
    AnonymizationError
        When the number of positions does not suit the level.
    NotConvergedError
        When the solver stops early.

    Notes
    -----
    Claim: target is integral, not negative, has the total of the signal and meets every cap, raise and
    protection. Before rounding its details are β times those asked for, with the largest β there is; among
    such signals none moves fewer (weighted) records.

    Source: Chertov & Tavrov (2010), section 2.3, and section 3 for `PaperRoute`. Departs from it in the
    joint route: bounds hold on the counts themselves and not on their approximation before shift and scale.

    Examples
    --------
    >>> counts = np.array([3, 4, 5, 40])
    >>> found = redistribute(counts, Goals(caps={3: 10}), SignalModel("haar", 1))
    >>> found.target.tolist(), round(found.beta, 3), found.moved
    ([21, 21, 0, 10], 0.286, 35)
    """
    counts = np.asarray(signal, dtype=float)
    bounds = goals.bounds(counts)
    source = detail_source(counts, bounds, model, details)
    total = round(float(counts.sum()))
    if isinstance(route, PaperRoute):
        a, unrounded, beta = _paper_route(counts, source, bounds, model, route)
        target = round_to_total(unrounded, total)
    else:
        program = build_program(source, total, model)
        if route.share is not None:
            program = replace(program, share=(route.share, route.share))
        met = meet(program, bounds)
        x = _joint_route(counts, program, met, bounds, route.weights)
        if route.spread is not None:
            x = with_spread(met, x, route.spread * float(counts.std()))
        a, unrounded, beta = _in_units(program, x)
        target = round_to_total(unrounded, total, met.low * met.unit, met.high * met.unit)
    unmet = [bound.name for bound in bounds if not bound.low <= target[bound.at] <= bound.high]
    if model.population is not None and (target > model.population).any():
        unmet.append("counts within the population")
    agreement = _agreement(model.signal(counts), model.signal(target.astype(float)), model)
    moved = round(float(np.abs(target - counts).sum()) / 2)
    return Redistribution(target, unrounded, a, beta, agreement, moved, tuple(unmet))


def detail_source(signal: Floats, bounds: Sequence[Bound], model: SignalModel, details: Details) -> Floats:
    """Signal whose details are to be kept.

    Parameters
    ----------
    signal : (m,) float, records
    bounds : Bound, in records
    model : SignalModel
    details : as for `redistribute`

    Returns
    -------
    (m,) float
        In records or, for a ratio signal, in records per head (0 where there are none).

    Examples
    --------
    >>> bounds = [Bound("cap", 4, high=5.0)]
    >>> detail_source(np.array([1.0, 2.0, 3.0, 4.0, 50.0]), bounds, SignalModel(), "capped").tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    heads = np.ones(len(signal)) if model.heads is None else model.heads
    result = model.signal(signal)
    if details == "winsorised":
        result = winsorise(result)
    if details != "plain":
        for bound in bounds:
            kept = np.clip(result[bound.at] * heads[bound.at], bound.low, bound.high)
            result[bound.at] = kept / heads[bound.at] if heads[bound.at] > 0 else 0.0
    return result


def round_to_total(values: Floats, total: int, low: Floats | float = 0.0, high: Floats | float = np.inf) -> Integers:
    """Round to integers within bounds that add up to a total.

    Parameters
    ----------
    values : (m,) float
        Adding up to nearly ``total``.
    total : int
    low, high : (m,) float
        Integral bounds, or infinite, with Σ low ≤ total ≤ Σ high.

    Returns
    -------
    (m,) int
        Floors, and one more where the remainders are largest.

    Notes
    -----
    Claim: exact total, within the bounds, and no other such integers have a smaller Σ (integer − value)².

    Source: largest remainder (Hamilton); for separable convex costs giving out units one at a time where the
    next one costs least is optimal (Ibaraki & Katoh, Resource Allocation Problems, 1988).

    Examples
    --------
    >>> round_to_total(np.array([1.6, 2.7, 0.7]), 5, high=np.array([9.0, 2.0, 9.0])).tolist()
    [2, 2, 1]
    """
    least, most = np.rint(np.full(values.shape, low)), np.rint(np.full(values.shape, high))
    near = np.rint(values)
    values = np.where(np.abs(values - near) <= _WHOLE, near, values)
    if not least.sum() <= total <= most.sum() or (least > most).any():
        raise InfeasibleError("the bounds leave no integers with the total asked for; loosen a bound")

    def priced(price: float) -> Floats:
        """Return all units that cost at most so much."""
        return np.clip(np.floor(values + price), least, most)

    reach = 1.0 + np.abs(values).max() + total + np.abs(least).max()
    below, above = (0.0, reach) if priced(0.0).sum() <= total else (-reach, 0.0)
    while above - below > 1e-9 * (1.0 + abs(below)) or above - below > 0.5:
        middle = (below + above) / 2
        below, above = (middle, above) if priced(middle).sum() <= total else (below, middle)
    result = priced(below)
    room = np.flatnonzero(result < priced(above))
    cheapest = np.argsort(result[room] - values[room], kind="stable")
    result[room[cheapest[: int(total - result.sum())]]] += 1.0
    return result.astype(np.intp)


def _joint_route(
    signal: Floats, program: Program, met: Program, bounds: Sequence[Bound], weights: Floats | None
) -> Floats:
    """Return the solution of two programs in lexicographic order."""
    m, width = len(signal), program.equalities.shape[1]
    cost = np.zeros(width)
    cost[width - m - 1] = -1.0
    first = None if (met.low > met.high).any() else solve(met, cost)
    if first is None:
        raise conflict(program, bounds)
    most = first[0][width - m - 1]
    least = max(program.share[0], most - _SLACK)
    return _fewest_moved(signal, replace(met, share=(least, max(least, most))), weights)


def _fewest_moved(signal: Floats, program: Program, weights: Floats | None = None) -> Floats:
    """Return the solution whose counts move fewest records."""
    m, width = len(signal), program.equalities.shape[1]
    paid = np.ones(m) if weights is None else weights
    # s = q + u − v with u, v ≥ 0 and the least Σ (u + v).
    more = hstack([csr_array((m, width - m)), eye_array(m), -eye_array(m), eye_array(m)], format="csr")
    solution = solve(program, np.concatenate([np.zeros(width), paid, paid]), more, signal / program.unit)
    if solution is None:
        raise NotConvergedError("redistribution: the second program lost the solution of the first")
    return solution[0][:width]


def _in_units(program: Program, x: Floats) -> tuple[Floats, Floats, float]:
    """Return coefficients, counts and share of details of a solution."""
    m = len(program.low)
    return x[: -m - 1] * program.unit_a, x[-m:] * program.unit, float(x[-m - 1])


def _paper_route(
    signal: Floats, source: Floats, bounds: Sequence[Bound], model: SignalModel, route: PaperRoute
) -> tuple[Floats, Floats, float]:
    """Return coefficients, counts and scale: details added, shifted to be non-negative, scaled to the sum."""
    m, heads = len(signal), np.ones(len(signal)) if model.heads is None else model.heads
    given = route.coefficients
    if given is None:
        # Bounds on M a + D amount to the paper's on M a; neither the total nor the sign is asked for yet.
        bare = build_program(source, signal.sum(), model).without_total()
        if not feasible(bare, bounds):
            raise conflict(bare, bounds)
        given = _in_units(bare, _fewest_moved(signal, meet(bare, bounds)))[0]
    detail = model.decompose(source).detail
    raw = (model.reconstruction(len(detail)) @ given + detail)[:m]
    added = max(0.0, -raw[heads > 0].min()) if route.shift is None else route.shift
    raised = (raw + added) * heads
    scale = float(signal.sum() / raised.sum()) if raised.sum() > 0 else 0.0
    constant = model.decompose(np.ones(len(detail))).coefficients
    return (np.asarray(given) + added * constant) * scale, raised * scale, scale


def _agreement(signal: Floats, target: Floats, model: SignalModel) -> float:
    """Return the cosine between the details of two signals; 1 when neither has any."""
    before, after = (model.decompose(one).detail for one in (signal, target))
    size = float(np.linalg.norm(before) * np.linalg.norm(after))
    return float(before @ after) / size if size > 0 else float(not before.any() and not after.any())
