"""What chance gives: bounds on the probability that a rule holds among values permuted at random.

A rule is active only when that probability, times the number of rules of its kind that were tried, is at most
`FAMILY`: so at most one draft in a hundred of tables of independent columns holds an accidental rule of the kind.
Where records come in statistical units, a unit counts as one record.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

SHARP = 0.25  # of the rate that chance gives: below it, a range thins out and has no edge
WIDTHS = (0.05, 0.1, 0.2, 0.3)  # shares of the numbers in the range next to a wall
NEAR = 0.15  # of the range next to a wall in its nearest quarter: 0.25 where evenly spread, 0.06 where growing from 0
UNSEEN = 4.0  # numbers expected where there are none, at the unfavourable end of chance
ONE_IN = 1000.0  # samples breaks a range that thins out
FAMILY = 0.01  # probability, for each kind of rule, that a table of independent columns gives one


def needed(tried: float) -> float:
    """Return the evidence, −log probability, that each of ``tried`` rules needs."""
    return math.log(max(1.0, tried) / FAMILY)


def never_meeting(total: ArrayLike, one: ArrayLike, other: ArrayLike) -> np.ndarray:
    """Return −log of the probability that ``one`` and ``other`` of ``total`` records, drawn at random, never meet."""
    total, one, other = (np.asarray(count, dtype="float64") for count in (total, one, other))
    left = np.maximum(total - one, 0.0)
    possible = other <= left
    rest = np.where(possible, left - other, 0.0)
    drawn = np.where(possible, other, 0.0)
    log_p = gammaln(left + 1) - gammaln(rest + 1) - gammaln(total + 1) + gammaln(total - drawn + 1)
    return np.asarray(np.where(possible, -log_p, np.inf))


def arrangements(counts: np.ndarray) -> float:
    """Return the log of the number of ways to order records with ``counts`` (q,) equal values."""
    return float(gammaln(counts.sum() + 1) - gammaln(counts + 1).sum())


def choices(n: ArrayLike, k: ArrayLike) -> np.ndarray:
    """Return the log of n over k."""
    n, k = np.asarray(n, dtype="float64"), np.asarray(k, dtype="float64")
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def beyond(sample: np.ndarray, rank: int) -> float:
    """Return a number below the least of ``sample`` by the distance from that to the ``rank``-th least, or farther.

    Another sample of as many records from a tail that thins out exponentially has one chance in `ONE_IN` to fall
    below it, since the least lies log(rank) lengths of the tail below the ``rank``-th least; from a tail that thins out
    faster less, and from one that ends at a wall none: the number is at the wall then.
    """
    least = np.partition(sample, rank - 1)[:rank]
    low = float(least.min())
    return low - (float(least.max()) - low) * max(1.0, math.log(ONE_IN) / math.log(rank))


def edge_rate(sample: np.ndarray, everyone: np.ndarray, rank: int) -> float:
    """Return how often ``sample`` has its ``rank`` least values, of how often chance would give them; at most 1.

    Both are without missing values. Where a sample thins out, what lies beyond would be rare anyway; below `SHARP` the
    rate is given as 0.
    """
    low, high = float(sample.min()), float(np.partition(sample, rank - 1)[rank - 1])
    here = float(((sample >= low) & (sample <= high)).mean())
    there = float(((everyone >= low) & (everyone <= high)).mean())
    rate = here / max(there, 1e-12)
    return min(1.0, rate) if rate >= SHARP else 0.0


def at_a_wall(distances: np.ndarray, weight: float) -> float:
    """Return the evidence, −log probability, that numbers from 0 on end at 0 and do not merely thin out towards it.

    The numbers that a tail would have next beyond 0 are extrapolated from three equally wide ranges on this side, with
    the slope, and with the slope and curvature, of the logarithm of their counts; the smaller of the two counts, each
    taken at the unfavourable end of chance. A normal tail has the second, an exponential one the first. Of widths that
    are quantiles the best counts, against all, where the range next to 0 does not thin out itself. A number has the
    evidence of ``weight`` statistical units.
    """
    best = 0.0
    for width in np.quantile(distances, WIDTHS) if len(distances) else ():
        if width == 0:
            continue
        places = np.minimum(distances / np.nextafter(width, np.inf), 3).astype(np.intp)
        counts = np.bincount(places, minlength=4)[:3] * weight
        less, more = counts - 2 * np.sqrt(counts), np.maximum(counts + 2 * np.sqrt(counts), UNSEEN)
        near = (distances <= width / 4).sum() * weight
        if less[0] > 0 and near >= NEAR * counts[0]:
            steep = less[0] ** 2 / more[1]
            best = max(best, min(steep, less[0] ** 3 * max(less[2], 0.0) / more[1] ** 3))
    return best - math.log(len(WIDTHS))
