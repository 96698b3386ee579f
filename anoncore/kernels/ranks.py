"""What can be done with ranks: normal scores, exact marginals, exact level counts. Ties keep the record order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from anoncore.kernels.ties import order_with_ties

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


def normal_scores(x: Floats) -> Floats:
    """Replace every value by the standard normal quantile of its rank.

    Parameters
    ----------
    x : (N,) or (N, n) float
        Values in any units, none missing.

    Returns
    -------
    (N,) or (N, n) float
        The normal quantile of (rank - 1/2) / N, ranks from 1, in standard deviations. Tied values share their
        average rank and so their score.

    Notes
    -----
    Claim: a monotone function of each column, whatever the column's distribution, symmetric about 0.

    Source: Hazen's plotting positions, as in data shuffling (Muralidhar & Sarathy 2006), with average ranks.

    Examples
    --------
    >>> normal_scores(np.array([10.0, 1e9, 10.0, -4.0])).round(4).tolist()
    [0.0, 1.1503, 0.0, -1.1503]
    """
    return ndtri((rankdata(x, method="average", axis=0) - 0.5) / len(x))


def match_ranks(masked: Floats, original: Floats) -> Floats:
    """Replace every masked value by the original value of equal rank.

    Parameters
    ----------
    masked : (N,) float
        Masked values; only their order matters, of equal ones that of the records.
    original : (N,) float
        Original values, in any order.

    Returns
    -------
    (N,) float
        Values in the units of ``original``.

    Notes
    -----
    Claim: a permutation of the original values, so that their distribution is exact; every original value is
    therefore published, extremes too. Ranks of ``masked`` are kept.

    Source: the last step of data shuffling (Muralidhar & Sarathy 2006).

    Examples
    --------
    >>> match_ranks(np.array([0.3, -1.2, 0.9]), np.array([40.0, 10.0, 20.0])).tolist()
    [20.0, 10.0, 40.0]
    """
    result = np.empty(len(masked))
    result[order_with_ties(masked)] = np.sort(original)
    return result


def cut_by_counts(scores: Floats, counts: NDArray[np.integer]) -> Integers:
    """Cut a score into ordered levels so that every level gets its prescribed count.

    Parameters
    ----------
    scores : (N,) float
        Masked scores; only their order matters, of equal ones that of the records.
    counts : (q,) int
        Records per level, lowest level first, summing to N; zeros allowed.

    Returns
    -------
    (N,) int
        Levels 0..q-1: the ``counts[0]`` lowest scores get level 0, and so on.

    Notes
    -----
    Claim: counts exact; a higher score never gets a lower level.

    Source: the calibrated release of binary and ordinal variables. Departs from Lasko & Vinterbo (2010),
    section IV-A, where a threshold at 0.5 lets rare levels vanish.

    Examples
    --------
    >>> cut_by_counts(np.array([0.4, -0.2, 1.7, 0.1]), np.array([1, 3])).tolist()
    [1, 0, 1, 1]
    """
    levels = np.empty(len(scores), dtype=np.intp)
    levels[order_with_ties(scores)] = np.repeat(np.arange(len(counts)), counts)
    return levels


def interpolate_quantiles(scores: Floats, reference_scores: Floats, reference_values: Floats) -> Floats:
    """Carry scores back to values, along the line through known (score, value) pairs.

    Parameters
    ----------
    scores : (M,) float
        Scores to translate, in the units of ``reference_scores`` (standard deviations, for normal scores).
    reference_scores : (N,) float
        Scores of known records, N >= 1, in any order.
    reference_values : (N,) float
        Values of the same records: a non-decreasing function of their scores.

    Returns
    -------
    (M,) float
        Values in the units of ``reference_values``.

    Notes
    -----
    Claim: non-decreasing in ``scores``; a reference score gets its own value; beyond the ends, the end value.

    Source: the inverse of `normal_scores`, piecewise linear.

    Examples
    --------
    >>> interpolate_quantiles(np.array([-9.0, 0.5]), np.array([1.0, 0.0]), np.array([30.0, 10.0])).tolist()
    [10.0, 20.0]
    """
    knots, first = np.unique(reference_scores, return_index=True)
    return np.interp(scores, knots, reference_values[first])
