"""What the details of published counts give away about the original ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import InfeasibleError
from anoncore.kernels.wavelet.decomposition import (
    Floats,
    Integers,
    outlier_positions,
)
from anoncore.kernels.wavelet.redistribution import Goals
from anoncore.kernels.wavelet.signal_model import SignalModel
from anoncore.kernels.wavelet.signal_program import Program, build_program, solve

Kind = Literal["capped", "protected", "raised"]

_PLAIN = SignalModel()
_FLAT = 1e-9  # details smaller than this share of the mean show nothing
_SLACK = 1e-8  # share of the largest gain that may be given up
_RIVALS = 32  # positions that are compared with one that ranks first
_TIE = 1e-6  # relative difference below which two recovered values rank alike


@dataclass(frozen=True, eq=False, repr=False)
class Inversion:
    """Counts recovered from published ones.

    Parameters
    ----------
    recovered : (m,) float, records
    gain : float
        How often the published details go into the recovered ones.
    positions : (k,) int
    low, high : (k,) float, records
        Least and largest count at these positions that fit the same gain.
    """

    recovered: Floats
    gain: float
    positions: Integers
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """Whether an inversion undoes what a redistribution hid.

    Parameters
    ----------
    positions : (k,) int
        Capped, protected and raised positions.
    kinds : (k,) "capped", "protected" or "raised"
    original, published, recovered, low, high : (k,) float, records
        ``low`` and ``high`` as in `Inversion`.
    error : (k,) float
        |recovered − original| / max(original, 1).
    within : (k,) bool
        Whether the error is at most the tolerance.
    ranks_first : (k,) bool
        Whether the original maximum (for raised positions: minimum) is here, and alone is so in every signal
        that fits the inversion. Compared are ratios, for a ratio signal.
    exposed : (k,) bool
        What fails: capped and raised positions that are within or rank first; protected ones that are within
        although the published count is not.
    gain, tolerance : float
    shared_outliers : (j,) int
        Positions that are outliers of the original and of the published signal.
    """

    positions: Integers
    kinds: tuple[Kind, ...]
    original: Floats
    published: Floats
    recovered: Floats
    low: Floats
    high: Floats
    error: Floats
    within: NDArray[np.bool_]
    ranks_first: NDArray[np.bool_]
    exposed: NDArray[np.bool_]
    gain: float
    tolerance: float
    shared_outliers: Integers

    @property
    def passed(self) -> bool:
        """Whether the inversion exposes nothing; outliers are a second question."""
        return not self.exposed.any()


def invert(
    published: Integers | Floats,
    wavelet: str = "db2",
    level: int = 2,
    *,
    share: float | None = None,
    positions: Sequence[int] = (),
) -> Inversion:
    """Recover counts from their redistribution as `invert_signal` does, of a quantity signal without padding.

    Examples
    --------
    >>> invert(np.array([21, 21, 0, 10]), "haar", 1).recovered.round().tolist()
    [0.0, 0.0, 0.0, 52.0]
    """
    return invert_signal(published, SignalModel(wavelet, level), share=share, positions=positions)


def invert_signal(
    published: Integers | Floats, model: SignalModel, *, share: float | None = None, positions: Sequence[int] = ()
) -> Inversion:
    """Recover counts from their redistribution, as anybody can who knows the wavelet.

    Parameters
    ----------
    published : (m,) int
        Records per position.
    model : SignalModel
    share : float, optional
        Share of the details that was kept, if it is known; otherwise the largest gain is taken.
    positions : of int
        Where the range of recovered counts is wanted.

    Returns
    -------
    Inversion
        ``recovered`` is the mean of the counts that attain the ends of the ranges, so that it is their only
        value wherever there is only one; without positions it is some solution.

    Raises
    ------
    AnonymizationError
        When the number of positions does not suit the level.
    NotConvergedError
        When the solver stops early.

    Notes
    -----
    Claim: if the details were scaled by a common factor and nothing else, the original is among the signals
    M a + g·D̃ of the same total; nobody needs more than the published counts for the largest g without
    negative counts. Counts of 0 or nearly 0 somewhere in the original make it the right one.

    Source: refutes Chertov & Tavrov (2010), section 1, on there being no way back.

    Examples
    --------
    >>> invert_signal(np.array([21, 21, 0, 10]), SignalModel("haar", 1)).recovered.round().tolist()
    [0.0, 0.0, 0.0, 52.0]
    """
    return _invert(np.asarray(published, dtype=float), model, share, positions)[0]


def observer_bounds(
    published: Integers | Floats, model: SignalModel, positions: Sequence[int], *, share: float | None = None
) -> tuple[Floats, Floats]:
    """Return the least and largest counts that an observer cannot rule out.

    Parameters
    ----------
    published : (m,) int
        Records per position.
    model : SignalModel
    positions : k of int
    share : float, optional
        Share of the details that was kept, if it is known; otherwise any share from 0 to 1 may have been.

    Returns
    -------
    low, high : (k,) float, records

    Notes
    -----
    Claim: if the details of the original were scaled by that share and nothing else, the original is between them, and
    every count between them fits: `invert_signal` narrows them only by a guess, that the largest gain is the right one.

    Source: two linear programs per position.

    Examples
    --------
    >>> low, high = observer_bounds(np.array([21, 21, 0, 10]), SignalModel("haar", 1), [3])
    >>> low.round().tolist(), high.round().tolist()
    ([10.0], [52.0])
    """
    counts = np.asarray(published, dtype=float)
    program = build_program(model.signal(counts), counts.sum(), model)
    program = replace(program, share=(1.0, np.inf) if not share else ((1 - _SLACK) / share, 1.0 / share))
    width = program.equalities.shape[1]
    ends = np.empty((2, len(positions)))
    for side, sign in enumerate((1.0, -1.0)):
        for place, i in enumerate(positions):
            cost = np.zeros(width)
            cost[width - len(counts) + i] = sign
            solution = solve(program, cost)
            if solution is None:
                raise InfeasibleError("no signal has the details of the published counts; check wavelet and padding")
            ends[side, place] = abs(solution[0][width - len(counts) + i]) * program.unit
    return ends[0], ends[1]


def audit(
    original: Integers | Floats,
    published: Integers | Floats,
    goals: Goals,
    model: SignalModel = _PLAIN,
    *,
    tolerance: float = 0.1,
    share: float | None = None,
) -> Audit:
    """Invert published counts and compare with the original where something was to be hidden.

    Parameters
    ----------
    original, published : (m,) int
        Records per position.
    goals : Goals
        What was to be hidden are positions with a cap below, or a raise above, their original count; also
        looked at are protected positions. Without any of these the largest original count stands in.
    model, share : as for `invert_signal`
    tolerance : float
        Relative error up to which a count is as good as known.

    Returns
    -------
    Audit

    Raises
    ------
    AnonymizationError
        When the number of positions does not suit the level.
    NotConvergedError
        When the solver stops early.

    Notes
    -----
    Claim: none of safety; a release that fails can be undone by one linear program.

    Source: none; answers Chertov & Tavrov (2010), section 1.

    Examples
    --------
    >>> goals, model = Goals(caps={3: 10}), SignalModel("haar", 1)
    >>> found = audit(np.array([3, 4, 5, 40]), np.array([21, 21, 0, 10]), goals, model)
    >>> found.ranks_first.tolist(), found.passed
    ([True], False)
    """
    before, after = np.asarray(original, dtype=float), np.asarray(published, dtype=float)
    places = _audited(before, goals)
    at = np.array([i for i, _ in places], dtype=np.intp)
    kinds = tuple(kind for _, kind in places)
    restored, fits = _invert(after, model, share, at.tolist())
    size = np.maximum(before[at], 1.0)
    error = np.abs(restored.recovered[at] - before[at]) / size
    within = error <= tolerance
    truth, shown = model.signal(before), model.signal(after)
    first = np.array(
        [kind != "protected" and _leads(truth, i, kind) and fits.leads(i, kind, model.heads) for i, kind in places],
        dtype=bool,
    )
    protected = np.array([kind == "protected" for kind in kinds], dtype=bool)
    open_anyway = protected & (np.abs(after[at] - before[at]) / size <= tolerance)
    return Audit(
        positions=at,
        kinds=kinds,
        original=before[at],
        published=after[at],
        recovered=restored.recovered[at],
        low=restored.low,
        high=restored.high,
        error=error,
        within=within,
        ranks_first=first,
        exposed=(within & ~open_anyway) | first,
        gain=restored.gain,
        tolerance=tolerance,
        shared_outliers=np.intersect1d(outlier_positions(truth), outlier_positions(shown)),
    )


@dataclass(frozen=True, eq=False, repr=False)
class _Fits:
    """All counts that fit an inversion; ``program`` is None when there is only the one in ``found``."""

    program: Program | None
    found: list[Floats]

    def leads(self, at: int, kind: Kind, population: Floats | None) -> bool:
        """Whether a position has the largest (raised: smallest) value, alone, in all of them."""
        m = len(self.found[0])
        per_head = np.ones(m) if population is None else 1.0 / np.maximum(population, 1.0)
        values = np.array([counts * per_head for counts in self.found])
        if not all(_leads(row, at, kind, alone=True) for row in values):
            return False
        if self.program is None or (
            kind != "raised" and population is None and values[:, at].min() > values[0].sum() / 2
        ):
            return True
        # Rivals that are far behind in what was found are taken to stay there, which errs towards failing.
        order = np.argsort(values.mean(axis=0) if kind == "raised" else -values.mean(axis=0), kind="stable")
        width = self.program.equalities.shape[1]
        for rival in [j for j in order if j != at][:_RIVALS]:
            cost = np.zeros(width)
            cost[[width - m + at, width - m + rival]] = per_head[at], -per_head[rival]
            closest = solve(self.program, -cost if kind == "raised" else cost)
            if closest is not None and not _leads(closest[0][width - m :] * per_head, at, kind, alone=True):
                return False
        return True


def _invert(
    counts: Floats, model: SignalModel, share: float | None, positions: Sequence[int]
) -> tuple[Inversion, _Fits]:
    source = model.signal(counts)
    program = build_program(source, counts.sum(), model)
    at = np.asarray(positions, dtype=np.intp)
    detail = model.decompose(source).detail
    if np.abs(detail).max() <= _FLAT * max(np.abs(source).mean(), np.finfo(float).tiny):
        gain = 1.0 if not share else 1.0 / share
        return Inversion(counts, gain, at, counts[at], counts[at]), _Fits(None, [counts])
    program, x = _largest_gain(program, share)
    m, width = len(counts), len(x)
    # Signs are rounding errors of 0.
    first = np.abs(x[width - m :]) * program.unit
    ends = [[_extreme(program, x, width - m + i, sign) for i in at] for sign in (1.0, -1.0)]
    found = [np.abs(end[width - m :]) * program.unit for side in ends for end in side] or [first]
    low = np.array([counted[i] for i, counted in zip(at, found, strict=False)])
    high = np.array([counted[i] for i, counted in zip(at, found[len(at) :], strict=False)])
    gain = float(x[width - m - 1])
    return Inversion(np.mean(found, axis=0), gain, at, low, high), _Fits(program, found)


def _largest_gain(program: Program, share: float | None) -> tuple[Program, Floats]:
    """Return the program with its gain settled, and a solution of it."""
    width = program.equalities.shape[1]
    cost = np.zeros(width)
    cost[width - len(program.low) - 1] = -1.0
    program = replace(program, share=(0.0, np.inf) if not share else (0.0, 1.0 / share))
    solution = solve(program, cost)
    if solution is None:
        raise InfeasibleError("no signal has the details of the published counts; check wavelet and padding")
    gain = float(solution[0][width - len(program.low) - 1])
    return replace(program, share=(gain * (1 - _SLACK), gain)), solution[0]


def _extreme(program: Program, x: Floats, column: int, sign: float) -> Floats:
    """Return the solution with the least (sign 1) or largest (−1) value of one variable."""
    cost = np.zeros(len(x))
    cost[column] = sign
    solution = solve(program, cost)
    return x if solution is None else solution[0]


def _audited(signal: Floats, goals: Goals) -> list[tuple[int, Kind]]:
    """Return the positions that something was to be hidden at, each with the reason."""
    places: dict[int, Kind] = dict.fromkeys(goals.protected_positions(len(signal)), "protected")
    places |= {i: "raised" for i, least in goals.raises.items() if least > signal[i]}
    places |= {i: "capped" for i, most in goals.caps.items() if most < signal[i]}
    if not places:
        places[int(signal.argmax())] = "capped"
    return sorted(places.items())


def _leads(values: Floats, at: int, kind: Kind, *, alone: bool = False) -> bool:
    """Whether a position has the largest value, or the smallest if it was raised, with or without ties."""
    order = -values if kind == "raised" else values
    margin = _TIE * max(float(np.abs(values).max()), np.finfo(float).tiny)
    others = np.delete(order, at)
    return bool((order[at] > others + margin).all() if alone else (order[at] >= others - margin).all())
