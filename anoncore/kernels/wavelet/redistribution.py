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
    Pad,
    decompose,
    pad_signal,
    sparse_reconstruction,
    winsorise,
)
from anoncore.kernels.wavelet.signal_program import (
    Bound,
    Program,
    build_program,
    conflict,
    feasible,
    meet,
    solve,
)

Route = Literal["joint", "paper"]
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
    """

    caps: Mapping[int, float] = field(default_factory=dict)
    raises: Mapping[int, float] = field(default_factory=dict)
    protected: Sequence[int] = ()
    free: Sequence[int] | None = None

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
    *,
    wavelet: str = "db2",
    level: int = 2,
    route: Route = "joint",
    population: Integers | Floats | None = None,
    ratio: bool = False,
    details: Details = "plain",
    share: float | None = None,
    weights: Floats | None = None,
    pad: Pad = "refuse",
    names: Sequence[str] | None = None,
    coefficients: Floats | None = None,
    shift: float | None = None,
) -> Redistribution:
    """Find counts that meet the goals, keep the total and keep the wavelet details up to a factor.

    Parameters
    ----------
    signal : (m,) int
        Records per position, not negative.
    goals : Goals
    wavelet : str
        Name of a discrete wavelet of PyWavelets.
    level : int
        Levels of detail to keep.
    route : {"joint", "paper"}
        "joint": the largest share of details, then the fewest moved records. "paper": details first, then a
        shift and a scale, without regard to what these do to the goals (see ``unmet``).
    population : (m,) int, optional
        Records of any kind per position, at least ``signal``; counts never exceed it.
    ratio : bool
        Whether the details are those of signal / population.
    details : {"plain", "winsorised", "capped"}
        Whose details are kept: those of the signal; of the signal with values beyond its fences pulled to the
        fence and capped or raised positions at their goal; or of the signal with only the latter.
    share : float, optional
        Fixed share of details, 0 to 1, instead of the largest (joint route).
    weights : (m,) float, optional
        What a moved record counts at each position, at least 0; 1 when None (joint route).
    pad : {"refuse", "zero", "repeat"}
        As for `pad_signal`. The result, padded by the same rule, has the kept details; every added position
        leaves one coefficient less to choose.
    names : m labels, optional
        What errors call the positions; their numbers when None.
    coefficients : (n / 2^level,) float, optional
        New approximation coefficients (paper's route); from a linear program when None.
    shift : float, optional
        What is added to every position (paper's route); the least that suffices when None.

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

    Source: Chertov & Tavrov (2010), section 2.3, and section 3 for ``route="paper"``. Departs from it in the
    joint route: bounds hold on the counts themselves and not on their approximation before shift and scale.

    Examples
    --------
    >>> counts = np.array([3, 4, 5, 40])
    >>> found = redistribute(counts, Goals(caps={3: 10}), wavelet="haar", level=1)
    >>> found.target.tolist(), round(found.beta, 3), found.moved
    ([21, 21, 0, 10], 0.286, 35)
    """
    counts = np.asarray(signal, dtype=float)
    heads = None if population is None else np.asarray(population, dtype=float)
    base = heads if ratio else None
    bounds = _bounds(counts, goals, names or [str(i) for i in range(len(counts))])
    source = detail_source(counts, bounds, details, base)
    total = round(float(counts.sum()))
    if route == "paper":
        a, unrounded, beta = _paper_route(counts, source, base, bounds, wavelet, level, pad, coefficients, shift)
        target = round_to_total(unrounded, total)
    else:
        program = build_program(source, total, wavelet, level, heads, ratio=ratio, pad=pad)
        if share is not None:
            program = replace(program, share=(share, share))
        met = meet(program, bounds)
        a, unrounded, beta = _joint_route(counts, program, met, bounds, weights)
        target = round_to_total(unrounded, total, met.low * met.unit, met.high * met.unit)
    unmet = [bound.name for bound in bounds if not bound.low <= target[bound.at] <= bound.high]
    if heads is not None and (target > heads).any():
        unmet.append("counts within the population")
    agreement = _agreement(counts, target, base, wavelet, level, pad)
    moved = round(float(np.abs(target - counts).sum()) / 2)
    return Redistribution(target, unrounded, a, beta, agreement, moved, tuple(unmet))


def detail_source(
    signal: Floats, bounds: Sequence[Bound], details: Details = "plain", population: Floats | None = None
) -> Floats:
    """Signal whose details are to be kept.

    Parameters
    ----------
    signal : (m,) float, records
    bounds : Bound, in records
    details : as for `redistribute`
    population : (m,) float, for a ratio signal

    Returns
    -------
    (m,) float
        In records or, for a ratio signal, in records per head (0 where there are none).

    Examples
    --------
    >>> detail_source(np.array([1.0, 2.0, 3.0, 4.0, 50.0]), [Bound("cap", 4, high=5.0)], "capped").tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    heads = np.ones(len(signal)) if population is None else population
    result = np.divide(signal, heads, out=np.zeros(len(signal)), where=heads > 0)
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


def _bounds(signal: Floats, goals: Goals, names: Sequence[str]) -> list[Bound]:
    """Return the goals as bounds on integers."""
    caps = [Bound(f"cap of {names[i]}", i, high=float(np.floor(cap))) for i, cap in goals.caps.items()]
    raises = [Bound(f"raise of {names[i]}", i, low=float(np.ceil(least))) for i, least in goals.raises.items()]
    held = [
        Bound(f"protection of {names[i]}", i, high=float(signal[i])) for i in goals.protected_positions(len(signal))
    ]
    return [*caps, *raises, *held]


def _joint_route(
    signal: Floats, program: Program, met: Program, bounds: Sequence[Bound], weights: Floats | None
) -> tuple[Floats, Floats, float]:
    """Return coefficients, unrounded counts and share of details: two programs in lexicographic order."""
    m, width = len(signal), program.equalities.shape[1]
    cost = np.zeros(width)
    cost[width - m - 1] = -1.0
    first = None if (met.low > met.high).any() else solve(met, cost)
    if first is None:
        raise conflict(program, bounds)
    most = first[0][width - m - 1]
    least = max(program.share[0], most - _SLACK)
    return _fewest_moved(signal, replace(met, share=(least, max(least, most))), weights)


def _fewest_moved(signal: Floats, program: Program, weights: Floats | None = None) -> tuple[Floats, Floats, float]:
    """Return coefficients, counts and share of details of the counts that move fewest records."""
    m, width = len(signal), program.equalities.shape[1]
    paid = np.ones(m) if weights is None else weights
    # s = q + u − v with u, v ≥ 0 and the least Σ (u + v).
    more = hstack([csr_array((m, width - m)), eye_array(m), -eye_array(m), eye_array(m)], format="csr")
    found = solve(program, np.concatenate([np.zeros(width), paid, paid]), more, signal / program.unit)
    if found is None:
        raise NotConvergedError("redistribution: the second program lost the solution of the first")
    x = found[0]
    return x[: width - m - 1] * program.unit_a, x[width - m : width] * program.unit, float(x[width - m - 1])


def _paper_route(
    signal: Floats,
    source: Floats,
    population: Floats | None,
    bounds: Sequence[Bound],
    wavelet: str,
    level: int,
    pad: Pad,
    given: Floats | None,
    shift: float | None,
) -> tuple[Floats, Floats, float]:
    """Return coefficients, counts and scale: details added, shifted to be non-negative, scaled to the sum."""
    m, heads = len(signal), np.ones(len(signal)) if population is None else population
    if given is None:
        # Bounds on M a + D amount to the paper's on M a; neither the total nor the sign is asked for yet.
        program = build_program(source, signal.sum(), wavelet, level, population, ratio=population is not None, pad=pad)
        bare = program.without_total()
        if not feasible(bare, bounds):
            raise conflict(bare, bounds)
        given = _fewest_moved(signal, meet(bare, bounds))[0]
    padded = pad_signal(source, level, pad)
    raw = (sparse_reconstruction(len(padded), wavelet, level) @ given + decompose(padded, wavelet, level).detail)[:m]
    added = max(0.0, -raw[heads > 0].min()) if shift is None else shift
    raised = (raw + added) * heads
    scale = float(signal.sum() / raised.sum()) if raised.sum() > 0 else 0.0
    # Equal coefficients make a constant approximation.
    return (np.asarray(given) + added * 2 ** (level / 2)) * scale, raised * scale, scale


def _agreement(
    signal: Floats, target: Integers, population: Floats | None, wavelet: str, level: int, pad: Pad
) -> float:
    """Return the cosine between the details of two signals; 1 when neither has any."""
    before, after = (
        decompose(pad_signal(detail_source(counts, [], "plain", population), level, pad), wavelet, level).detail
        for counts in (signal, target.astype(float))
    )
    size = float(np.linalg.norm(before) * np.linalg.norm(after))
    return float(before @ after) / size if size > 0 else float(not before.any() and not after.any())
