"""Sorted values averaged over the ranks around each, so that no value of a single record can be read from them."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, ndtr, ndtri

from anoncore.kernels.groups import distinct_counts

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

# Ranks averaged either way: for one column, and at most, whatever the number of columns.
_RANKS, _MOST_RANKS = 20, 60
_RECORDS_PER_RANK = 8
# Ranks averaged at the ends, where values are few and far between.
END = 5
# Outermost units passed over at most, where how many is drawn, and of how many units one: no fewer than END.
_DEEPEST, _OF_ALL = 20, 40
# The same where the law of the values below replaces what is passed over, from as many times their number.
_DEEPEST_MODELLED, _MODELLED_FROM = 40, 3
# Share of the sum of all values below which a tail is not worth a model.
_WORTH = 0.005
# By how many times the spread of the next units a gap must exceed it for one unit to dominate.
_DOMINATES = 10.0
# By how many times that spread a tail may then pass the second unit, and how often it is drawn before it is cut.
_PASSES, _DRAWS = 2.0, 4
_ROUNDING = 1e-12  # of the range


def recommended_reach(n_records: int, n_columns: int) -> int:
    """Return over how many ranks values are averaged, either way, for no attack to find whose they were.

    Parameters
    ----------
    n_records, n_columns : int
        Records, and columns or axes that are smoothed.

    Returns
    -------
    int
        20 ranks times the square root of the number of columns, at most 60, and at most an eighth of the records.

    Notes
    -----
    Claim: measured, not proven. Evidence that is left adds up over columns as their square root does, and hardly
    depends on the number of records.

    Source: docs/explanation/decisions/0019-narrow-tables.md.

    Examples
    --------
    >>> [recommended_reach(n, columns) for n, columns in ((2000, 2), (2000, 28), (100, 2))]
    [29, 60, 12]
    """
    ranks = min(math.ceil(_RANKS * math.sqrt(n_columns)), _MOST_RANKS)
    return max(1, min(ranks, n_records // _RECORDS_PER_RANK))


def without_extremes(
    ordered: Floats,
    *,
    units: Integers | None = None,
    rng: np.random.Generator | None = None,
    limits: tuple[float, float] | None = None,
) -> Floats:
    """Replace, at either end, the values beyond the mean of those of the sixth to tenth outermost unit.

    Parameters
    ----------
    ordered : (N,) float
        Values in ascending order.
    units : (N,) int, optional
        Statistical unit of each value; by default each is of a unit of its own.
    rng : numpy.random.Generator, optional
        Draws, for each end, how many units are passed over: from 5 to 20, or to a fortieth of them. By default 5.

    limits : (lower, upper), optional
        A heavy tail of numbers of one sign is continued, at most to its limit, as the values below it lead to expect;
        by default none is.

    Returns
    -------
    (N,) float
        Ascending; the values that are replaced are spread evenly between that mean and the sixth unit's. Of fewer than
        twenty units, a quarter are passed over in place of five, and as many averaged. Those of a heavy tail are spread
        evenly beyond that mean (now of 5 to 40 units, or a fortieth), so that they have the mean there of a lognormal
        and an exponential law, weighted by their likelihoods, which are fitted to twice as many values below: nothing
        that is replaced enters, but how many there are. Where one unit dominates, a tail that passes the second unit's
        by twice the spread of the next is drawn again, and cut where four in a row do.

    Notes
    -----
    An average to which one value contributes nearly everything reveals it, however many others take part; and the
    largest average moves with the largest value and so reveals whether its holder took part. Even the sixth value moves
    by one rank with that holder; less than chance moves it where it is not known which rank is released.

    Source: winsorising (Hastings, Mosteller, Tukey and Winsor 1947), around a mean lest many values be one person's;
    for the loss and the attack see docs/explanation/decisions/0020-values-drawn-near-their-ranks.md.

    Examples
    --------
    >>> without_extremes(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 900.0])).tolist()
    [2.125, 2.25, 2.375, 3.0, 4.0, 5.0, 5.625, 5.75, 5.875]
    """
    if not len(ordered):
        return ordered.copy()
    lower, upper = (None, None) if limits is None else (-limits[0], limits[1])
    result = _drawn_in(ordered, units, rng, upper)
    return -_drawn_in(-result[::-1], None if units is None else units[::-1], rng, lower)[::-1]


def _drawn_in(ordered: Floats, units: Integers | None, rng: np.random.Generator | None, limit: float | None) -> Floats:
    """Return ascending values with the upper end replaced."""
    outermost = ordered[::-1]
    if units is not None:
        outermost = outermost[np.sort(np.unique(units[::-1], return_index=True)[1])]
    result = ordered.copy()
    if limit is not None and len(outermost) >= 4 * END:
        farthest = _farthest(outermost)
        for _ in range(_DRAWS):
            _, mean = _passed_over(outermost, rng, _DEEPEST_MODELLED)
            last = min(_last_expected(ordered, mean), limit)
            if last <= farthest:
                break
        if mean < last <= farthest:
            count = int((ordered > mean).sum())
            result[-count:] = np.linspace(mean, last, count)
            return result
    inner, mean = _passed_over(outermost, rng, _DEEPEST)
    beyond = ordered > mean
    result[beyond] = np.linspace(mean, inner, int(beyond.sum()) + 2)[1:-1]
    return result


def _passed_over(outermost: Floats, rng: np.random.Generator | None, most: int) -> tuple[float, float]:
    """Draw how many outermost units are passed over; return the value of the next, and the mean of as many."""
    deepest = max(END, min(most, len(outermost) // _OF_ALL))
    passed = min(END if rng is None else int(rng.integers(END, deepest + 1)), len(outermost) // 4)
    return float(outermost[passed]), float(outermost[passed : 2 * passed].mean()) if passed else float(outermost[0])


def _last_expected(ordered: Floats, start: float) -> float:
    """Return where evenly spaced values from ``start`` must end to have the mean that those below lead to expect.

    ``start`` itself where there are too few or all equal, any value is negative, or the tail is not worth it.
    """
    count, total = int((ordered > start).sum()), len(ordered)
    fitted = ordered[max(total // 2, total - _MODELLED_FROM * count) : total - count]
    if count < END or len(fitted) < END or ordered[0] < 0 or fitted[0] <= 0 or fitted[0] == fitted[-1]:
        return start
    added = count * (_mean_beyond(fitted, start, count, total) - start)
    return start + 2 * added / count if added > _WORTH * np.abs(ordered[:-count]).sum() else start


def _mean_beyond(fitted: Floats, start: float, count: int, total: int) -> float:
    """Return the mean beyond ``start`` of a lognormal and an exponential law, each weighted by its likelihood.

    Both are fitted to the values below ``start``: the one to their logarithms by least squares on normal scores, the
    other by maximum likelihood. Likelihoods are conditional on values beyond the first, ``count`` of them censored at
    ``start``. No value decides between the laws by itself, as the better one of two would.
    """
    values, share = len(fitted) - 1, count / total
    scores = ndtri((np.arange(total - count - len(fitted), total - count) + 0.5) / total)
    logs, scores_centred = np.log(fitted), scores - scores.mean()
    slope = float(scores_centred @ logs / (scores_centred @ scores_centred))
    center = logs.mean() - slope * scores.mean()
    lognormal = math.exp(min(center + slope**2 / 2, 700.0)) * ndtr(slope + ndtri(share)) / share
    scale = float((fitted[1:] - fitted[0]).sum() + count * (start - fitted[0])) / values
    at, edge = (logs - center) / slope, (math.log(start) - center) / slope
    fits = -(at[1:] ** 2 / 2 + logs[1:]).sum() - values * math.log(slope * math.sqrt(2 * math.pi))
    fits += count * log_ndtr(-edge) - (values + count) * log_ndtr(-at[0])
    weight = expit(fits + values * (1 + math.log(scale)))
    return float(weight * lognormal + (1 - weight) * (start + scale))


def _farthest(outermost: Floats) -> float:
    """Return how far a tail may reach: where one unit dominates, not to where only that unit seems to explain it.

    It is no end of the tail, which would then be the second unit's number, but decides whether there is one.
    """
    gap, spread = outermost[0] - outermost[1], outermost[1] - outermost[END]
    dominated = gap > 0 and gap >= _DOMINATES * spread
    return float(outermost[1] + _PASSES * spread) if dominated else math.inf


def smoothed_order(ordered: Floats, reach: int, *, units: Integers | None = None) -> Floats:
    """Average sorted values over the ranks around each.

    Parameters
    ----------
    ordered : (N,) float
        Values in ascending order.
    reach : int
        Ranks averaged on either side, at least 1. Towards the ends, where values grow
        ever faster, a quarter of the ranks up to the end, but 5 (or ``reach``); beyond the ends values continue
        as their mirror image.
    units : (N,) int, optional
        Statistical unit of each value: one of n values of a unit weighs, and is as wide as, 1/n of a rank.
        ``reach`` is narrower in proportion, but averages are over as many units as otherwise over single values.

    Returns
    -------
    (N,) float
        Ascending; the mean of at least 6 values (or ``reach`` + 1), each with a weight of 2/11 (or
        2 / (2 ``reach`` + 1)) at most; with ``units`` this holds of units. Where there are fewer, all take part.

    Notes
    -----
    Claim: no value of a single record, or unit, can be computed from the result without knowing its neighbours.

    Source: moving average of order statistics; elementary.

    Examples
    --------
    >>> smoothed_order(np.array([0.0, 3.0, 6.0, 30.0]), 1).tolist()
    [1.0, 3.0, 13.0, 22.0]
    """
    if not len(ordered):
        return ordered.copy()
    widths = _widths(len(ordered), units)
    around = _reaches(widths, reach)
    most, center = around.max(), ordered.mean()
    if most <= 0:
        return np.full(len(ordered), center)
    # So many values are mirrored that the windows of the first and the last value are covered.
    before, after = (
        int(np.searchsorted(np.cumsum(side), most + (1 - side[0]) / 2)) + 1 for side in (widths, widths[::-1])
    )
    weights = np.pad(widths, (before, after), mode="symmetric")
    values = np.pad(ordered, (before, after), mode="symmetric") - center
    edges, sums = (np.concatenate([[0.0], np.cumsum(parts)]) for parts in (weights, values * weights))
    middles = (edges[:-1] + edges[1:])[before : before + len(ordered)] / 2
    half = around + 0.5
    # Where each value is a rank wide, averages begin and end between two values.
    read = sums.__getitem__ if units is None else partial(np.interp, xp=edges, fp=sums)
    kind = np.intp if units is None else np.float64
    total = read((middles + half).astype(kind)) - read((middles - half).astype(kind))
    result = total / (2 * half) + center
    # Rounding of long sums must break neither the order nor the range, nor make 3e-16 of the average of zeros.
    result = np.where(np.abs(result - ordered) <= _ROUNDING * np.ptp(ordered), ordered, result)
    return np.clip(np.maximum.accumulate(result), ordered[0], ordered[-1])


def read_near(ordered: Floats, reach: int, *, rng: np.random.Generator, units: Integers | None = None) -> Floats:
    """Read sorted values at a random place near each rank, interpolating.

    Parameters
    ----------
    ordered : (N,) float
        Values in ascending order.
    reach : int
        Ranks on either side, fewer towards the ends as in `smoothed_order`. Places beyond the ends are reflected,
        not clamped, or the extremes would be read more often than others.
    rng : numpy.random.Generator
        Source of the places. Its seed is a secret.
    units : (N,) int, optional
        Statistical unit of each value: ranks are as wide as in `smoothed_order`.

    Returns
    -------
    (N,) float
        In the order of the ranks, hence nearly ascending.

    Notes
    -----
    Claim: each lies between the values ``reach`` ranks below and above.

    Source: elementary.

    Examples
    --------
    >>> bool(np.ptp(read_near(np.full(3, 7.0), 2, rng=np.random.default_rng(0))) == 0)
    True
    """
    widths = _widths(len(ordered), units)
    around, middles = _reaches(widths, reach), _middles(widths)
    middles -= middles[0]
    last = middles[-1]
    places = middles + rng.uniform(-around, around)
    places = last - np.abs(last - np.abs(places))
    if units is not None or not last:
        return np.interp(places, middles, ordered)
    below = np.minimum(places.astype(np.intp), len(ordered) - 2)
    return (np.diff(ordered)[below] * (places - below)) + ordered[below]


def smoothed_values(
    ordered: Floats,
    reach: int,
    *,
    k: int,
    rng: np.random.Generator | None = None,
    units: Integers | None = None,
    limits: tuple[float, float] | None = None,
) -> Floats:
    """Replace sorted values that fewer than k records, or statistical units, hold by averages of such values.

    Parameters
    ----------
    ordered : (N,) float
        Values in ascending order.
    reach : int
        Ranks averaged on either side, see `smoothed_order`; among the values that are replaced.
    k : int
        A value that at least so many records hold, and at least ``reach``, is a spike (zero, a rounded amount) and is
        kept. Where fewer hold it, which values occur how often would reveal members by itself.
    rng : numpy.random.Generator, optional
        Draws how many outermost units are passed over, see `without_extremes`, and reads the averages at random places,
        see `read_near`; by default five are, and averages are read at the ranks themselves.
    units : (N,) int, optional
        Statistical unit of each value: those of a spike and of an average are counted in place of records.
    limits : (lower, upper), optional
        Between which heavy tails are continued, see `without_extremes`; by default they are cut.

    Returns
    -------
    (N,) float
        In the order of the ranks; every spike is held by the same records as before, and perhaps a few more. NaN where
        too few hold any value.

    Notes
    -----
    Claim: no value that fewer than ``k`` or ``reach`` records, or units, hold can be computed from the result without
    knowing its neighbours. Replaced values stay between the spikes around them. Where at most k records, or units, hold
    values to replace, they take the nearest spike; without any spike they are NaN, as no average of so few hides them.

    Source: docs/explanation/decisions/0020-values-drawn-near-their-ranks.md.

    Examples
    --------
    >>> smoothed_values(np.array([0.0, 0, 0, 1, 2, 3, 4, 50]), 1, k=3).round(2).tolist()
    [0.0, 0.0, 0.0, 2.0, 2.33, 3.0, 3.67, 4.0]
    """
    new = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    first = np.flatnonzero(new)
    held = np.diff(first, append=len(ordered))
    holders = held if units is None else distinct_counts(np.cumsum(new) - 1, units)
    least = max(k, reach)
    spike = np.repeat(holders >= least, held)
    result, single = ordered.copy(), ordered[~spike]
    if not single.size:
        return result
    spikes = ordered[first[holders >= least]]
    units = None if units is None else units[~spike]
    if (len(single) if units is None else len(np.unique(units))) <= k:
        result[~spike] = _nearest(spikes, single) if spikes.size else np.nan
        return result
    averages = smoothed_order(without_extremes(single, units=units, rng=rng, limits=limits), reach, units=units)
    if rng is not None:
        averages = read_near(averages, reach, rng=rng, units=units)
    bounds = np.concatenate([[-np.inf], spikes, [np.inf]])
    at = np.searchsorted(spikes, single)
    result[~spike] = np.clip(averages, bounds[at], bounds[at + 1])
    return result


def _widths(size: int, units: Integers | None) -> Floats:
    """Return how much of a rank each value takes: all values of a unit take one together."""
    if units is None:
        return np.ones(size)
    _, codes, held = np.unique(units, return_inverse=True, return_counts=True)
    return 1.0 / held[codes]


def _middles(widths: Floats) -> Floats:
    return np.cumsum(widths) - widths / 2


def _reaches(widths: Floats, reach: int) -> Floats:
    """Return over how many ranks is averaged around each value."""
    size, middles, least = np.rint(widths.sum()), _middles(widths), min(END, reach)
    ends = np.minimum(middles, size - middles) - 0.5
    most = max(least, reach * size / len(widths))
    return np.minimum(np.clip(np.floor(ends / 4), least, most), max(size - 1, 0.0))


def _nearest(ordered: Floats, asked: Floats) -> Floats:
    above = np.clip(np.searchsorted(ordered, asked), 0, len(ordered) - 1)
    below = np.maximum(above - 1, 0)
    return np.where(asked - ordered[below] <= ordered[above] - asked, ordered[below], ordered[above])
