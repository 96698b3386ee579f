"""Disjoint boxes of at least k records, cut so that a chosen statistic stays accurate.

What a record's box should look like stands in `box_shapes`, what weight it deserves in `box_weights`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes.cells import Cells, Front, Rules, cut_all, packed, refuse_small, sorted_columns
from anoncore.kernels.boxes.shapes import half_widths as half_widths
from anoncore.kernels.boxes.weights import optimal_weights as optimal_weights

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Partition:
    """Disjoint boxes, numbered by stratum and then by lower bounds, column by column.

    Parameters
    ----------
    label : (N,) int, the box of every record
    lower, upper : (B, n), cell bounds in the variables' units; outer faces are the limits handed in
    sizes : (B,) int, records per box
    stratum : (B,) int, the stratum whose records the box holds, as handed in
    distinct : (B, n) int, the most values of each column that are ε apart; None where no ε was given
    """

    label: Integers
    lower: Floats
    upper: Floats
    sizes: Integers
    stratum: Integers
    distinct: Integers | None

    def half_widths(self, lower_limit: Floats | float, upper_limit: Floats | float) -> Floats:
        """Return (B, n): half the width of every box, infinite faces moved in to the limits, (n,) each."""
        low = np.where(np.isinf(self.lower), lower_limit, self.lower)
        high = np.where(np.isinf(self.upper), upper_limit, self.upper)
        return 0.5 * high - 0.5 * low


@dataclass(frozen=True, eq=False, repr=False)
class Diversity:
    """Distinct values that every box must hold.

    Parameters
    ----------
    least : distinct values per box and column, one number or (n,)
    epsilon : values of a column are distinct when they differ and their computed difference is at least
        this, in the column's units, one number or (n,)
    """

    least: int | Integers = 1
    epsilon: Floats | float = 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Limits:
    """Outer faces, one number or (n,) each, in the variables' units; they must enclose the records."""

    lower: Floats | float = -np.inf
    upper: Floats | float = np.inf


_NO_LIMITS = Limits()


def partition(
    x: Floats,
    a: Floats,
    k: int,
    *,
    diversity: Diversity | None = None,
    strata: Integers | None = None,
    limits: Limits = _NO_LIMITS,
) -> Partition:
    """Cut the space into disjoint boxes that keep Σ_x Σ_i a_i(x)·Δ_i(x) low.

    Every cell is cut in two, again and again. A column is cut at the valid position nearest to one that
    leaves both sides the most boxes: with ⌊q/2⌋/q of the cell's m records on either side, q = ⌊m/k⌋, which
    is the median when q is even. Valid: no tied values are parted, both sides keep k records and, with
    ``diversity``, enough distinct values of every column. Of all these cuts the one is made that lowers the cost
    most; of equals the lowest column's, then the leftmost. A cell without a valid cut is a box. Where an
    outer face is infinite, the extreme value of the stratum's records stands in for it in the cost.

    Parameters
    ----------
    x : (N, n), any units, finite
    a : (N, n), sensitivities, not negative, in units of the statistic per unit of x
    k : records per box at least, k >= 1
    diversity : Diversity; None asks for none, and counts none
    strata : (N,) int, records of different strata share no box; None for a single stratum
    limits : Limits

    Returns
    -------
    Partition
        The boxes of a stratum are disjoint and cover everything between the limits. An inner face is a
        round number strictly between two neighbouring values, so no record lies on it.

    Raises
    ------
    InfeasibleError
        A stratum has fewer than k records or too few distinct values.
    AnonymizationError
        A record lies outside the limits.

    Notes
    -----
    Claim: every box holds at least k records of one stratum and l values (``diversity.least``) ε apart in every
    column. The set
    of boxes and its numbering do not depend on the order of the records.

    Source: the cost is that of Xiang et al. 2013, section II; recursive cuts as in Mondrian (LeFevre,
    DeWitt & Ramakrishnan 2006) with gain in place of range. Departs from Xiang et al., whose boxes, one
    centred on each record, overlap and point at it; and counts distinct values, where 2Δ >= lε is neither
    necessary nor sufficient. Departs from cuts at the median, which leave boxes of up to 2k − 1 records.

    Time O(n·N·log N), with ``diversity`` O(n²·N·log² N) at worst; memory O(n·N).

    Examples
    --------
    >>> x = np.array([[1.0], [2.0], [6.0], [7.0], [8.0]])
    >>> boxes = partition(x, np.ones_like(x), 2)
    >>> boxes.label.tolist(), boxes.upper.ravel().tolist()
    ([0, 0, 1, 1, 1], [4.0, inf])
    """
    n = x.shape[1]
    groups = np.zeros(len(x), dtype=np.intp) if strata is None else strata
    names, groups = np.unique(groups, return_inverse=True)
    _refuse_outside(x, limits)
    # A canonical order, so that sums over records round alike whatever the order they came in.
    canonical = np.lexsort((*a.T, *x.T[::-1], groups))
    columns = sorted_columns(x[canonical], a[canonical], groups[canonical])
    size = np.bincount(groups, minlength=len(names))
    first = np.cumsum(size) - size
    asked = diversity or Diversity()
    rules = Rules(
        k,
        np.broadcast_to(np.asarray(asked.least, dtype=np.intp), n),
        np.broadcast_to(np.asarray(asked.epsilon, dtype=float), n),
        np.column_stack([column.value[first] for column in columns]),
        np.column_stack([column.value[first + size - 1] for column in columns]),
    )
    lower, upper = (np.array(np.broadcast_to(b, (len(names), n)), float) for b in (limits.lower, limits.upper))
    cells = Cells(size, lower, upper, np.arange(len(names)))
    front = Front(columns, cells, rules, np.empty(len(x), dtype=bool))
    refuse_small(front)
    leaf, boxes = cut_all(front)
    order = np.lexsort((*boxes.lower.T[::-1], boxes.root))
    label = np.empty(len(x), dtype=np.intp)
    label[canonical] = np.argsort(order)[leaf]
    boxes = boxes[order]
    counted = None if diversity is None else distinct_counts(x, label, rules.epsilon)
    return Partition(
        label=label,
        lower=boxes.lower,
        upper=boxes.upper,
        sizes=boxes.size,
        stratum=names[boxes.root],
        distinct=counted,
    )


def distinct_counts(x: Floats, label: Integers, epsilon: Floats | float) -> Integers:
    """Count the most values in every box and column that lie pairwise ε apart.

    Parameters
    ----------
    x : (N, n), any units, finite
    label : (N,) int, box numbers 0..B-1, each used
    epsilon : (n,) or one number, in the columns' units; equal values never count twice

    Returns
    -------
    (B, n) int

    Notes
    -----
    Claim: exact. On a line, taking the lowest value and then always the next one that is far enough gives
    a largest set.

    Source: interval scheduling, elementary.

    Examples
    --------
    >>> distinct_counts(np.array([[0.0], [2.0], [1.0], [1.0]]), np.zeros(4, dtype=int), 1.5).tolist()
    [[2]]
    """
    epsilon = np.broadcast_to(np.asarray(epsilon, dtype=float), x.shape[1])
    size = np.bincount(label)
    result = np.empty((len(size), x.shape[1]), dtype=np.intp)
    for j, values in enumerate(x.T):
        sorted_ = values[np.lexsort((values, label))]
        result[:, j] = packed(sorted_, size, epsilon[j])
    return result


def snap_outward(lower: Floats, upper: Floats, unit: Floats | float) -> tuple[Floats, Floats]:
    """Move bounds outward to a public grid.

    Parameters
    ----------
    lower, upper : (B, n), any units
    unit : one number or (n,), > 0: grid points are its multiples

    Returns
    -------
    (B, n) lower and (B, n) upper bounds, on the grid; infinite faces stay.

    Notes
    -----
    Claim: every snapped box encloses its box and grows by less than one unit per face. Boxes that shared
    a face off the grid afterwards overlap there by one unit.

    Source: elementary.

    Examples
    --------
    >>> low, high = snap_outward(np.array([[-3.0]]), np.array([[7.2]]), 5.0)
    >>> low.tolist(), high.tolist()
    ([[-5.0]], [[10.0]])
    """
    return _snap_down(lower, unit), -_snap_down(-upper, unit)


def to_unit(x: Floats, unit: Floats | float) -> Floats:
    """Return the doubles nearest to the nearest multiples of a unit, which hide what sums of 0.1 leave.

    Parameters
    ----------
    x : (N, n), any units, NaN where missing
    unit : one number or (n,), > 0; NaN leaves a column as it is

    Returns
    -------
    (N, n); as it is where a unit is too small beside a value to be told.

    Notes
    -----
    Source: elementary.

    Examples
    --------
    >>> to_unit(np.array([[3 * 0.1]]), 0.1).tolist()
    [[0.3]]
    """
    steps = x / unit
    return np.where(np.abs(steps) < 2.0**52, 0.0 + _grid(np.rint(steps), unit), x)


def off_grid(
    lower: Floats,
    upper: Floats,
    unit: Floats | float,
    lower_limit: Floats | float,
    upper_limit: Floats | float,
) -> tuple[Floats, Floats]:
    """Move inner faces that are possible values half a unit down, where no value can be.

    Parameters
    ----------
    lower, upper : (B, n), any units, NaN where a box has no range
    unit : one number or (n,), the values' unit, > 0; NaN leaves a column as it is
    lower_limit, upper_limit : one number or (n,), outer faces, which stay

    Returns
    -------
    (B, n) lower and (B, n) upper bounds; a face stays where half a unit cannot be told apart from it.

    Notes
    -----
    Claim: where every value is one of `to_unit` and a face lies strictly between two values, so does the
    moved one, and boxes that share a face still do.

    Source: elementary.

    Examples
    --------
    >>> low, high = off_grid(np.array([[0.0], [4.0]]), np.array([[4.0], [9.0]]), 1.0, 0.0, 9.0)
    >>> low.tolist(), high.tolist()
    ([[0.0], [3.5]], [[3.5], [9.0]])
    """
    moved = []
    for face in (lower, upper):
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.rint(face / unit)
            multiple = np.abs(face / unit - steps) <= 1e-6
            between = _grid(steps - 0.5, unit)
            apart = (_grid(steps - 1.0, unit) < between) & (between < face)
        inner = (face != lower_limit) & (face != upper_limit)
        moved.append(np.where(multiple & apart & inner, between, face))
    return moved[0], moved[1]


def _refuse_outside(x: Floats, limits: Limits) -> None:
    outside = ((x < limits.lower) | (x > limits.upper)).any(axis=0)
    if outside.any():
        raise AnonymizationError(
            f"boxes: columns {np.flatnonzero(outside).tolist()} hold values outside the outer limits; "
            "widen the limits or leave them infinite"
        )


def _snap_down(bound: Floats, unit: Floats | float) -> Floats:
    """Return the last grid point at or below each bound; infinite bounds as they are."""
    finite = np.isfinite(bound)
    steps = np.where(finite, bound, 0.0) / unit
    # A bound that is a grid point but for rounding stays, if the grid's double is not above it.
    near = np.rint(steps)
    on_grid = (np.abs(steps - near) <= 1e-9) & (_grid(near, unit) <= bound)
    down = _grid(np.floor(steps), unit)
    down = np.where(down <= bound, down, _grid(np.floor(steps) - 1.0, unit))
    # Adding 0 makes 0 of −0.
    return 0.0 + np.where(finite, np.where(on_grid, _grid(near, unit), down), bound)


def _grid(steps: Floats, unit: Floats | float) -> Floats:
    """Return grid points; decimal units give the doubles nearest to the decimals."""
    inverse = 1.0 / np.asarray(unit, dtype=float)
    whole = np.rint(inverse)
    decimal = (whole >= 1.0) & (np.abs(inverse - whole) <= 1e-9 * whole)
    return np.where(decimal, steps / np.where(decimal, whole, 1.0), steps * unit)
