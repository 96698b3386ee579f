"""The mean of records of which it is uncertain how many each box holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes.interval_ranges import Interval
from anoncore.kernels.boxes.intervals import Estimate

Floats = NDArray[np.float64]
UNCERTAIN = (
    "of some boxes it is not known how many records belong to the subgroup: the estimate counts half of those that "
    "may, whoever they are, and the guaranteed range allows any number"
)
_OUTWARD = 8 * float(np.finfo(np.float64).eps)


def mean_of_some(lower: Floats, upper: Floats, least: Floats, most: Floats) -> Estimate:
    """Estimate the mean of a subgroup from boxes that hold some of its records.

    Parameters
    ----------
    lower, upper : (B,) faces of the boxes, in the variable's units; −∞ and ∞ where a box is open
    least, most : (B,) records of the subgroup in each box, or their weight: at least, and at most

    Returns
    -------
    Estimate
        In the variable's units; its value counts the middle of ``least`` and ``most``.

    Raises
    ------
    AnonymizationError
        When no box can hold a record of the subgroup.

    Notes
    -----
    Claim: the guaranteed range is exact but for rounding: the mean is largest with every value at its upper face,
    and as many records as possible in exactly the boxes whose face is above that mean.

    Source: linear fractional programming over a box (Charnes and Cooper 1962), solved by one sort.

    Examples
    --------
    >>> faces = np.array([0.0, 10.0]), np.array([2.0, 14.0])
    >>> found = mean_of_some(*faces, least=np.array([3.0, 0.0]), most=np.array([3.0, 1.0]))
    >>> [round(end, 6) + 0.0 for end in found.guaranteed]
    [0.0, 5.0]
    """
    held = most > 0
    if not held.any():
        raise AnonymizationError("no box holds a record of the subgroup with a positive weight")
    lower, upper, least, most = (part[held] for part in (lower, upper, least, most))
    guaranteed = -_largest_mean(-lower, least, most), _largest_mean(upper, least, most)
    mass = (least + most) / (least + most).sum()
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isinf(lower), upper, np.where(np.isinf(upper), lower, lower / 2 + upper / 2))
    value = min(max(float(mass @ np.where(np.isinf(middle), 0.0, middle)), guaranteed[0]), guaranteed[1])
    delta = float(mass @ (upper / 2 - lower / 2))
    linearised: Interval = (value - delta, value + delta)
    note = UNCERTAIN if (least < most).any() else ""
    return Estimate("mean", value, linearised, guaranteed, int(most.sum()), note)


def _largest_mean(upper: Floats, least: Floats, most: Floats) -> float:
    if np.isinf(upper).any():
        return float("inf")
    order = np.argsort(-upper, kind="stable")
    mass = np.append(0.0, np.cumsum((most - least)[order])) + least.sum()
    total = np.append(0.0, np.cumsum(((most - least) * upper)[order])) + least @ upper
    used = mass > 0
    best = float((total[used] / mass[used]).max())
    return best + _OUTWARD * float(np.abs(upper).max()) if (least < most).any() else best
