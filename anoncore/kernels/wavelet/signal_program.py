"""Linear programs over the counts that share a signal's wavelet details up to a factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, diags_array, eye_array, hstack, vstack

from anoncore.errors import InfeasibleError, NotConvergedError
from anoncore.kernels.wavelet.decomposition import Floats
from anoncore.kernels.wavelet.signal_model import SignalModel

_EXACT = 1e-10  # feasibility of the linear programs, in mean counts
_linprog: Any = linprog  # its annotations leave out sparse matrices
_IDLE = 1e-9  # multipliers below this take no part in a contradiction
_TOTAL = "the counts add up to the size of the group, and none is above its area's population"


@dataclass(frozen=True)
class Bound:
    """One named bound, below or above, on the records at one position."""

    name: str
    at: int
    low: float = -np.inf
    high: float = np.inf


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """Counts s = p ∘ (M a + β D) as equalities over (a, β, s), in units of the mean count.

    Parameters
    ----------
    equalities : (r, k + 1 + m) sparse
    right : (r,) float
    low, high : (m,) float
        Bounds on s.
    share : (float, float)
        Bounds on β.
    unit, unit_a : float
        One unit of s in records, one unit of a in the signal's units.
    """

    equalities: csr_array[np.float64]
    right: Floats
    low: Floats
    high: Floats
    share: tuple[float, float]
    unit: float
    unit_a: float

    def without_total(self) -> Program:
        """Return the program for all details, whatever the total and the signs of the counts."""
        m = len(self.low)
        keep = np.arange(len(self.right)) != m
        anything = np.full(m, np.inf)
        return replace(
            self,
            equalities=self.equalities[keep],
            right=self.right[keep],
            low=-anything,
            high=anything,
            share=(1.0, 1.0),
        )


def build_program(source: Floats, total: float, model: SignalModel) -> Program:
    """Set up the counts that have a share β of the details of a signal, any approximation and a given total.

    Parameters
    ----------
    source : (m,) float
        Signal whose details are used, in records or, for a ratio signal, in records per head.
    total : float
        Records.
    model : SignalModel

    Returns
    -------
    Program
        With β between 0 and 1 and counts between 0 and the population.

    Raises
    ------
    AnonymizationError
        When the number of positions does not suit the level.
    """
    m, unit = len(source), max(total, 1.0) / len(source)
    heads = np.ones(m) if model.heads is None else model.heads
    unit_a = unit / max(heads.mean(), np.finfo(float).tiny)
    padded = model.padded(source) / unit_a
    detail = csr_array(model.decompose(padded).detail[:, None])
    shape = hstack([model.reconstruction(len(padded)), detail], format="csr")
    counted = diags_array(heads * (unit_a / unit)) @ shape[:m]
    # The added positions follow the padding rule, so that the padded result has the details as well.
    rule = shape[m:] if model.pad == "zero" else shape[m:] - csr_array(np.ones((len(padded) - m, 1))) @ shape[[m - 1]]
    k = shape.shape[1]
    equalities = vstack(
        [
            hstack([counted, -eye_array(m)]),
            hstack([csr_array((1, k)), csr_array(np.ones((1, m)))]),
            hstack([rule, csr_array((len(padded) - m, m))]),
        ],
        format="csr",
    )
    right = np.zeros(equalities.shape[0])
    right[m] = total / unit
    high = np.full(m, np.inf) if model.population is None else np.asarray(model.population, dtype=float) / unit
    return Program(equalities, right, np.zeros(m), high, (0.0, 1.0), unit, unit_a)


def solve(
    program: Program,
    cost: Floats,
    more: csr_array[np.float64] | None = None,
    right: Floats | None = None,
    equal: bool = True,
) -> tuple[Floats, Floats] | None:
    """Minimise a linear cost over a program and further variables that are at least 0.

    Parameters
    ----------
    program : Program
    cost : (k + 1 + m + e,) float
        Of a, β, s and the e further variables.
    more : (q, k + 1 + m + e) sparse, right : (q,) float, optional
        Further rows, equalities or rows that are at most ``right``.
    equal : bool
        Which of the two.

    Returns
    -------
    (k + 1 + m + e,) float and the multipliers (q,) of the further inequalities, or None when infeasible.

    Raises
    ------
    NotConvergedError
        When the solver stops for another reason.
    """
    m, width = len(program.low), program.equalities.shape[1]
    rows = hstack([program.equalities, csr_array((len(program.right), len(cost) - width))], format="csr")
    bounds = np.empty((len(cost), 2))
    bounds[:] = 0.0, np.inf
    bounds[: width - m] = -np.inf, np.inf
    bounds[width - m - 1] = program.share
    bounds[width - m : width] = np.column_stack([program.low, program.high])
    inequalities: dict[str, Any] = {}
    target = program.right
    if more is not None and right is not None:
        if equal:
            rows, target = vstack([rows, more], format="csr"), np.concatenate([target, right])
        else:
            inequalities = {"A_ub": more, "b_ub": right}
    exact = {"primal_feasibility_tolerance": _EXACT, "dual_feasibility_tolerance": _EXACT}
    solution = _linprog(cost, A_eq=rows, b_eq=target, bounds=bounds, method="highs", options=exact, **inequalities)
    if solution.status == 2:
        return None
    if solution.status != 0:
        raise NotConvergedError(f"redistribution: the linear program ended with status {solution.status}", solution.x)
    return solution.x, solution.ineqlin.marginals


def meet(program: Program, bounds: Sequence[Bound]) -> Program:
    """Return a program with bounds, in records, added; some of its lower bounds may exceed the upper ones.

    Examples
    --------
    >>> program = build_program(np.array([1.0, 3.0]), 4, SignalModel("haar", 1))
    >>> (meet(program, [Bound("cap", 0, high=2.0)]).high * program.unit).tolist()
    [2.0, inf]
    """
    low, high = program.low.copy(), program.high.copy()
    for bound in bounds:
        low[bound.at] = max(low[bound.at], bound.low / program.unit)
        high[bound.at] = min(high[bound.at], bound.high / program.unit)
    return replace(program, low=low, high=high)


def feasible(program: Program, bounds: Sequence[Bound]) -> bool:
    """Whether counts of a program can keep some bounds, in records.

    Examples
    --------
    >>> program = build_program(np.array([1.0, 3.0]), 4, SignalModel("haar", 1))
    >>> feasible(program, [Bound("cap", 0, high=1.0), Bound("cap", 1, high=2.0)])
    False
    """
    met = meet(program, bounds)
    return not (met.low > met.high).any() and solve(met, np.zeros(met.equalities.shape[1])) is not None


def conflict(program: Program, bounds: Sequence[Bound]) -> InfeasibleError:
    """Name bounds that contradict each other, none of them idle.

    Parameters
    ----------
    program : Program
    bounds : Bound, in records
        Not `feasible` together.

    Returns
    -------
    InfeasibleError
        Its message names an irreducible set: without any one of them the others can be met.

    Raises
    ------
    NotConvergedError
        When the solver stops early.

    Notes
    -----
    Source: the least total violation (elastic program) has multipliers that prove the contradiction; bounds
    whose multiplier is 0 take no part in it. The rest goes through a deletion filter (Chinneck & Dravnieks
    1991).

    Examples
    --------
    >>> program = build_program(np.array([1.0, 3.0]), 4, SignalModel("haar", 1))
    >>> bounds = [Bound("cap of a", 0, high=1.0), Bound("cap of b", 1, high=2.0), Bound("raise of b", 1, 1.0)]
    >>> str(conflict(program, bounds)).split(";")[0]
    'these goals contradict each other: cap of a, cap of b'
    """
    kept = _proof(program, bounds)
    if kept is None:
        return InfeasibleError(
            "even without any goal, no counts within the populations and with these padded positions have "
            f"a share of the details between {program.share[0]:g} and {program.share[1]:g}; choose plain "
            "details, another padding or fewer levels"
        )
    if feasible(program, kept):
        kept = list(bounds)
    for bound in list(kept):
        others = [other for other in kept if other is not bound]
        if not feasible(program, others):
            kept = others
    named = ", ".join(bound.name for bound in kept)
    fixed = f" with a share of details of {program.share[0]:g}" if program.share[0] == program.share[1] else ""
    mend = f"or keep {'a smaller share or ' if fixed else ''}fewer levels"
    if len(kept) == 1:
        return InfeasibleError(f"this goal cannot be met{fixed}: {named}; {_TOTAL}; loosen or drop it, {mend}")
    return InfeasibleError(
        f"these goals contradict each other{fixed}: {named}; {_TOTAL}; loosen or drop one of them, {mend}"
    )


def _proof(program: Program, bounds: Sequence[Bound]) -> list[Bound] | None:
    """Return bounds that take part in a proof of infeasibility, or None when there is no need for any."""
    m, width, n = len(program.low), program.equalities.shape[1], len(bounds)
    sign = np.array([1.0 if np.isfinite(b.high) else -1.0 for b in bounds])
    at = np.array([width - m + b.at for b in bounds], dtype=np.intp)
    limits = np.array([b.high if np.isfinite(b.high) else -b.low for b in bounds]) / program.unit
    rows = csr_array((sign, (np.arange(n), at)), shape=(n, width))
    more = hstack([rows, -eye_array(n)], format="csr")
    solution = solve(program, np.concatenate([np.zeros(width), np.ones(n)]), more, limits, equal=False)
    if solution is None:
        return None
    return [bound for bound, multiplier in zip(bounds, solution[1], strict=True) if abs(multiplier) > _IDLE]
