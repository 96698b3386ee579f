"""Comparisons that rounding errors do not decide.

Matrix products, exponentials and logarithms differ between processors in their last digits. Values that are
equal but for such differences (duplicate records, symmetric tables, combinations of levels) count as tied
here, and ties go to the first record or column, on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

# Relative to the largest value: far above rounding errors, far below differences that data show.
TIED = 1e-11


def snapped(x: Floats, bits: int = 33) -> Floats:
    """Round every column to multiples of a power of 2.

    Parameters
    ----------
    x : (N, n) float
        Finite, any units.
    bits : int
        The multiples are 2^-bits of the next power of 2 above 1.37 times the column's largest absolute value:
        about 1e-10 of it when not given.

    Returns
    -------
    (N, n) float

    Notes
    -----
    Claim: values that are equal but for rounding errors become equal, unless they lie on either side of a
    middle between two multiples. What is computed from the result by additions, products and comparisons in a
    fixed order is then the same on every machine.

    Source: elementary.

    Examples
    --------
    >>> bool(np.diff(snapped(np.array([[0.1 + 0.2], [0.3]])), axis=0) == 0)
    True
    """
    # Largest values are often 1 or another power of 2, where a rounding error would double the unit.
    unit = np.ldexp(1.0, np.frexp(1.37 * np.abs(x).max(axis=0, initial=0.0))[1] - bits)
    return np.asarray(np.rint(x / unit) * unit)


def order_with_ties(values: Floats, groups: NDArray[np.integer] | None = None) -> Integers:
    """Sort values, tied ones by record order.

    Parameters
    ----------
    values : (N,) float
        Finite, any units. Neighbours in the sorted order that differ by at most 1e-11 of the largest absolute
        value are tied.
    groups : (N,) int, optional
        Sort by group first, and by value within each.

    Returns
    -------
    (N,) int
        Indices that sort ``values``.

    Notes
    -----
    Claim: the same order for all values within rounding of these, unless two of them differ by almost exactly
    the tolerance.

    Source: elementary.

    Examples
    --------
    >>> order_with_ties(np.array([0.1 + 0.2, 7.0, 0.3, 0.1])).tolist()
    [3, 0, 2, 1]
    """
    order = np.argsort(values, kind="stable") if groups is None else np.lexsort((values, groups))
    steps = np.diff(values[order])
    apart = steps > TIED * np.abs(values).max(initial=0.0)
    if groups is not None:
        apart |= np.diff(groups[order]) != 0
    if not (~apart & (steps != 0)).any():
        return order
    return order[np.lexsort((order, np.concatenate([[0], np.cumsum(apart)])))]


def first_largest(values: Floats) -> NDArray[np.intp]:
    """Index of the largest value of each row, the first of those that are tied.

    Parameters
    ----------
    values : (..., n) float
        Finite, n at least 1. Values within 1e-11 of the row's largest absolute value of its largest are tied.

    Returns
    -------
    (...) int

    Notes
    -----
    Claim and source: as for `order_with_ties`.

    Examples
    --------
    >>> first_largest(np.array([[0.3, 0.1 + 0.2, -1.0], [0.0, 1.0, 2.0]])).tolist()
    [0, 2]
    """
    highest = values.max(axis=-1, keepdims=True)
    tolerance = TIED * np.maximum(np.abs(highest), np.abs(values.min(axis=-1, keepdims=True)))
    return np.argmax(values >= highest - tolerance, axis=-1)
