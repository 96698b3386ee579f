"""Counts of a linear program with a given standard deviation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import nnls

from anoncore.errors import InfeasibleError
from anoncore.kernels.wavelet.decomposition import Floats
from anoncore.kernels.wavelet.signal_program import Program, solve

_STEPS = 100  # of one climb or descent
_STALLED = 1e-9  # relative gain of a step below which it has ended


def with_spread(program: Program, x: Floats, spread: float) -> Floats:
    """Move from a solution of a program to one whose counts have a given standard deviation.

    Parameters
    ----------
    program : Program, of m counts
    x : (k + 1 + m,) float
        A solution: coefficients, share of details, counts, as `solve` returns them.
    spread : float
        Standard deviation of the counts, in records.

    Returns
    -------
    (k + 1 + m,) float

    Raises
    ------
    InfeasibleError
        When none is found; the message states the nearest one, as a share of what was asked for.

    Notes
    -----
    Claim: every constraint of the program holds, and the standard deviation is the one asked for. Solutions are convex
    and the variance is a convex square: on the way to a solution with more (less) of it there is one with as much. Less
    is found by conditional gradients over all vertices visited, which reach the least. More is found by going to the
    vertex in the direction of the gradient, which never lowers a convex function, from the solution and from the
    largest count at each position: where that fails, more may still be possible (maximising a convex function is hard
    in general).

    Source: Frank and Wolfe 1956, with the best weights of all vertices (von Hohenbalken 1977); for more, successive
    linear programs (Mangasarian 1996).

    Examples
    --------
    >>> from anoncore.kernels.wavelet.signal_model import SignalModel
    >>> from anoncore.kernels.wavelet.signal_program import build_program
    >>> program = build_program(np.array([1.0, 3.0, 2.0, 6.0]), 12, SignalModel("haar", 1))
    >>> x = solve(program, np.zeros(program.equalities.shape[1]))[0]
    >>> round(float((with_spread(program, x, 2.0)[-4:] * program.unit).std()), 9)
    2.0
    """
    m, wanted = len(program.low), spread / program.unit
    if x[-m:].std() > wanted:
        low, reached = _lowered(program, x, wanted)
        if reached <= wanted:
            return _between(low, x, wanted, m)
    else:
        reached = 0.0
        for start in _starts(program, x):
            high = _raised(program, start, wanted)
            if high[-m:].std() >= wanted:
                return _between(x, high, wanted, m)
            reached = max(reached, float(high[-m:].std()))
    raise InfeasibleError(
        f"no counts within the goals were found with the spread asked for, but {reached / wanted:.2f} of it; "
        "loosen the goals, or ask for another spread"
    )


def _starts(program: Program, x: Floats) -> Iterator[Floats]:
    """Yield a solution, and those with the largest count at each position."""
    yield x
    for at in range(len(x) - len(program.low), len(x)):
        yield _best(program, np.arange(len(x)) == at)


def _best(program: Program, gain: Floats | np.ndarray) -> Floats:
    """Return a solution with the largest gain."""
    solution = solve(program, -np.asarray(gain, dtype=float))
    if solution is None:
        raise InfeasibleError("spread: the goals contradict each other")
    return solution[0]


def _outward(x: Floats, m: int) -> Floats:
    """Return the gradient of half the variance of the counts, times m."""
    gain = np.zeros(len(x))
    gain[-m:] = x[-m:] - x[-m:].mean()
    return gain


def _raised(program: Program, x: Floats, wanted: float) -> Floats:
    """Return a solution with the standard deviation wanted or more, or with the most that a climb finds."""
    m = len(program.low)
    for _ in range(_STEPS):
        following = _best(program, _outward(x, m))
        if following[-m:].std() <= x[-m:].std() * (1 + _STALLED):
            break
        x = following
        if x[-m:].std() >= wanted:
            break
    return x


def _lowered(program: Program, x: Floats, wanted: float) -> tuple[Floats, float]:
    """Return a solution with the standard deviation wanted or less, or about the least there is, and what it is."""
    m, visited = len(program.low), [x]
    for _ in range(_STEPS):
        vertex = _best(program, -_outward(x, m))
        if x[-m:].std() <= wanted or _outward(x, m) @ (x - vertex) <= _STALLED * m * wanted**2:
            break
        visited.append(vertex)
        points = np.array(visited).T
        # Weights of the points visited, adding up to 1, with the least variance.
        centred = points[-m:] - points[-m:].mean(axis=0)
        heavy = 1e3 * np.abs(centred).max()
        rows = np.vstack([centred, np.full(points.shape[1], heavy)])
        share = nnls(rows, np.append(np.zeros(m), heavy))[0]
        x = points @ (share / share.sum())
    return x, float(x[-m:].std())


def _between(low: Floats, high: Floats, wanted: float, m: int) -> Floats:
    """Return the point between two whose counts have the standard deviation wanted; theirs are below and above it."""
    way = high - low
    square, slope = way[-m:].var(), np.mean(_outward(low, m)[-m:] * way[-m:])
    rest = wanted**2 - low[-m:].var()
    if square == 0:
        return low
    return np.asarray(low + min((np.sqrt(slope**2 + square * rest) - slope) / square, 1.0) * way)
