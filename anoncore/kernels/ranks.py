"""Ranks, and what can be done with them: normal scores, exact marginals, exact level counts.

Ties are broken by record order (a stable sort), or at random when a generator is given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from anoncore.kernels.ties import order_with_ties

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


def ranks(x: Floats, *, rng: np.random.Generator | None = None) -> Integers:
    """Rank of every value within its column, all ranks distinct.

    Parameters
    ----------
    x : (N,) or (N, n) float
        Values in any units, none missing.
    rng : numpy.random.Generator, optional
        Breaks ties at random; without it the earlier record ranks lower.

    Returns
    -------
    (N,) or (N, n) int
        Ranks 0..N-1; every column holds each rank once.

    Notes
    -----
    Claim: sorting by rank sorts the values; with ``rng`` every order of tied records is equally likely.

    Source: elementary.

    Examples
    --------
    >>> ranks(np.array([7.0, 3.0, 7.0, 5.0])).tolist()
    [2, 0, 3, 1]
    """
    result = np.empty(x.shape, dtype=np.intp)
    for column, values in zip(_columns(result), _columns(x), strict=True):
        column[_order(values, rng)] = np.arange(len(values))
    return result


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


def match_ranks(masked: Floats, original: Floats, *, rng: np.random.Generator | None = None) -> Floats:
    """Replace every masked value by the original value of equal rank in its column.

    Parameters
    ----------
    masked : (N,) or (N, n) float
        Masked values; only their order matters.
    original : (N,) or (N, n) float
        Original values, in any order.
    rng : numpy.random.Generator, optional
        Breaks ties among masked values at random; without it the earlier record gets the smaller value.

    Returns
    -------
    (N,) or (N, n) float
        Values in the units of ``original``.

    Notes
    -----
    Claim: each column is a permutation of the original column, so univariate distributions are exact; every
    original value is therefore published, extremes too. Ranks of ``masked`` are kept.

    Source: the last step of data shuffling (Muralidhar & Sarathy 2006).

    Examples
    --------
    >>> match_ranks(np.array([0.3, -1.2, 0.9]), np.array([40.0, 10.0, 20.0])).tolist()
    [20.0, 10.0, 40.0]
    """
    result = np.empty(masked.shape)
    for column, values, source in zip(_columns(result), _columns(masked), _columns(original), strict=True):
        column[_order(values, rng)] = np.sort(source)
    return result


def cut_by_counts(scores: Floats, counts: NDArray[np.integer], *, rng: np.random.Generator | None = None) -> Integers:
    """Cut a score into ordered levels so that every level gets its prescribed count.

    Parameters
    ----------
    scores : (N,) float
        Masked scores; only their order matters.
    counts : (q,) int
        Records per level, lowest level first, summing to N; zeros allowed.
    rng : numpy.random.Generator, optional
        Breaks ties at random; without it the earlier record gets the lower level.

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
    levels[_order(scores, rng)] = np.repeat(np.arange(len(counts)), counts)
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


def _columns(x: NDArray[np.generic]) -> NDArray[np.generic]:
    return x.T if x.ndim == 2 else x[None, :]


def _order(values: Floats, rng: np.random.Generator | None) -> Integers:
    """Sort, ties by record order or after shuffling, which orders them at random."""
    if rng is None:
        return order_with_ties(values)
    shuffled = rng.permutation(len(values))
    return shuffled[order_with_ties(values[shuffled])]
