"""Nested confidence intervals of a population's mean or quantile, of a sample whose values are known by boxes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from anoncore.kernels.boxes import intervals
from anoncore.kernels.boxes.derived import QUANTILES
from anoncore.kernels.boxes.interval_ranges import Interval

Floats = NDArray[np.float64]


def confidence_interval(
    statistic: str, lower: Floats, upper: Floats, counts: NDArray[np.integer], level: float
) -> Interval:
    """Return an interval that holds the population's statistic in a share ``level`` of samples, at least.

    Parameters
    ----------
    statistic : {"mean", "lower_quartile", "median", "upper_quartile"}
    lower, upper : (B,) faces of the boxes, in the variable's units
    counts : (B,) int, records per box, two or more in all
    level : above 0 and below 1

    Returns
    -------
    (low, high)
        In the variable's units. Intervals of a higher level enclose those of a lower one.

    Notes
    -----
    Claim: encloses, for the values that were put into boxes, the interval of a simple random sample: of a quantile
    that of order statistics, whatever the distribution; of a mean Student's, which assumes that means of samples are
    about normal. A quantile's is the narrowest that does; a mean's combines the largest standard deviation with the
    outermost means.

    Source: confidence boxes (Balch 2012; Ferson et al. 2013, *Computing with confidence*) of interval data; order
    statistics after Thompson 1936.

    Examples
    --------
    >>> faces = np.arange(100.0), np.arange(100.0) + 1
    >>> confidence_interval("median", *faces, counts=np.ones(100, dtype=int), level=0.95)
    (39.0, 61.0)
    """
    n, tail = int(counts.sum()), (1.0 - level) / 2
    if statistic in QUANTILES:
        share = QUANTILES[statistic]
        below = int(stats.binom.ppf(tail, n, share))
        above = int(stats.binom.isf(tail, n, share)) + 1
        return _ordered(lower, counts, below), _ordered(upper, counts, above)
    faces = lower[:, None], upper[:, None]
    low, high = intervals.estimate("mean", *faces, counts).guaranteed
    spread = intervals.estimate("sd", *faces, counts, unbiased=True).guaranteed[1]
    reach = float(stats.t.isf(tail, n - 1)) * spread / math.sqrt(n)
    return low - reach, high + reach


def _ordered(faces: Floats, counts: NDArray[np.integer], rank: int) -> float:
    """Return the face of the record at a rank from 1 on; −∞ before the first, ∞ after the last."""
    if rank < 1:
        return -math.inf
    order = np.argsort(faces, kind="stable")
    ends = np.cumsum(counts[order])
    return math.inf if rank > ends[-1] else float(faces[order][np.searchsorted(ends, rank)])
