"""Where released ranges end: outer faces that do not give the extreme values away, and public grids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes.partition import snap_outward
from anoncore.microdata import Schema

_HAIR = 1e-9


def outer_faces(
    schema: Schema,
    names: Sequence[str],
    x: np.ndarray,
    k: int,
    *,
    limits: Mapping[str, tuple[float, float]],
    edits: EditSet,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return the outer faces of each variable, and the names of those whose faces follow the data.

    Parameters
    ----------
    schema : Schema; its precisions are used
    names : n variables
    x : (N, n), their values, NaN where missing
    k : records that a box holds at least
    limits : limits known to the public, by variable; one without them takes the bounds among the edits
    edits : EditSet

    Returns
    -------
    lower, upper : (n,), in the variables' units, finite
    followed : names of variables for which a limit was not known; see `beyond`

    Raises
    ------
    AnonymizationError
        When values lie beyond a limit.
    """
    low, high = edits.within(names).bounds(names)
    outside, followed = [], []
    for at, name in enumerate(names):
        known = x[~np.isnan(x[:, at]), at]
        if name in limits:
            low[at], high[at] = limits[name]
        if len(known) and (known.min() < low[at] or known.max() > high[at]):
            outside.append(name)
        elif not np.isfinite([low[at], high[at]]).all():
            followed += [name] if len(known) else []
            extremes = beyond(known, k, schema[name].precision)
            low[at] = low[at] if np.isfinite(low[at]) else extremes[0]
            high[at] = high[at] if np.isfinite(high[at]) else extremes[1]
    if outside:
        raise AnonymizationError(
            f"limits: values of {', '.join(outside)} lie beyond the limits that the step or the edits state; "
            "widen them or set those records aside (on_violation: set-aside)"
        )
    # 0 without a sign
    return low + 0.0, high + 0.0, tuple(followed)


def beyond(known: np.ndarray, k: int, precision: float | None) -> tuple[float, float]:
    """Return faces beyond the extreme values, which reveal those no better than a box of k reveals a value.

    Parameters
    ----------
    known : (N,), values, none missing
    k : outermost values to look at
    precision : unit of the values; None for none

    Returns
    -------
    lower, upper : the next multiple, strictly beyond, of a round number at least as large as the k outermost
        values are spread, and as the precision. 0 is not crossed, which says no more than that no value is
        negative, or positive.

    Examples
    --------
    >>> beyond(np.array([21.0, 24.0, 35.0, 60.0, 95.0]), 2, 1.0)
    (20.0, 100.0)
    """
    if not len(known):
        return 0.0, 0.0
    k = min(k, len(known))
    ordered = np.partition(known, sorted({0, k - 1, len(known) - k, len(known) - 1}))
    least, most = float(ordered[0]), float(ordered[-1])
    unit = precision or (most - least) / 100.0
    low = -_next(-least, max(float(ordered[k - 1]) - least, unit))
    high = _next(most, max(most - float(ordered[-k]), unit))
    return (0.0 if low < 0.0 <= least else low), (0.0 if high > 0.0 >= most else high)


def on_grid(
    lower: np.ndarray,
    upper: np.ndarray,
    units: Sequence[float | None],
    precisions: Sequence[float | None],
    faces: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Snap bounds outward to each variable's grid, but not beyond the outer faces.

    Parameters
    ----------
    lower, upper : (B, n), NaN where a value is missing
    units : n units of the grids; None for a hundredth of the distance of the outer faces, as a round number
        that is at least the precision
    precisions : n units in which the variables were recorded
    faces : lower and upper outer faces, (n,) each

    Examples
    --------
    >>> faces = np.array([0.0]), np.array([9.0])
    >>> low, high = on_grid(np.array([[0.3]]), np.array([[7.2]]), [5.0], [None], faces)
    >>> low.tolist(), high.tolist()
    ([[0.0]], [[9.0]])
    """
    unit = np.array(
        [
            stated or round_number(max((high - low) / 100.0, precision or 0.0))
            for stated, precision, low, high in zip(units, precisions, *faces, strict=True)
        ]
    )
    lower, upper = snap_outward(lower, upper, unit)
    return np.maximum(lower, faces[0]), np.minimum(upper, faces[1])


def round_number(width: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is not below ``width``; 1 for none.

    Examples
    --------
    >>> round_number(0.3), round_number(20.0), round_number(0.0)
    (0.5, 20.0, 1.0)
    """
    if not width > 0:
        return 1.0
    power = int(np.floor(np.log10(width)))
    units = (float(f"{digit}e{power}") for digit in (1, 2, 5, 10))
    return next(unit for unit in units if unit >= width * (1.0 - _HAIR))


def _next(value: float, width: float) -> float:
    """Return the next multiple above ``value`` of a round number that is at least ``width``."""
    unit = round_number(width)
    above = float(f"{(np.floor(value / unit) + 1.0) * unit:.15g}")
    return above if above > value else float(np.nextafter(value + unit, np.inf))
