"""Statistics of an in/out game: each target's scores in rounds with it beside its scores in rounds without it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm, rankdata

from anoncore.risk._checks import Floats
from anoncore.risk._values import Flags

_FALSE_POSITIVES = 0.01


@dataclass(frozen=True)
class MeanArea:
    """A mean area under the ROC curve with its bounds."""

    mean: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False, repr=False)
class Placements:
    """Where the scores of each target stand among those of its other rounds.

    Parameters
    ----------
    values : (R, T) share of the rounds without the target below a round with it, or of the rounds with it above a
        round without it; ties one half
    inside : (R, T) whether the target is in, half of the rounds for each
    areas : (T,) area under the ROC curve of each target
    """

    values: Floats
    inside: Flags
    areas: Floats

    @classmethod
    def of(cls, scores: Floats, inside: Flags) -> Placements:
        """Place the (R, T) scores of one kind."""
        placed = np.empty(scores.shape)
        for values, out, column in zip(placed.T, inside.T, scores.T, strict=True):
            rank = rankdata(column)
            n, m = int(out.sum()), int((~out).sum())
            values[out] = (rank[out] - rankdata(column[out])) / m
            values[~out] = 1.0 - (rank[~out] - rankdata(column[~out])) / n
        return cls(placed, inside, np.where(inside, placed, 0.0).sum(axis=0) / inside.sum(axis=0))

    def take(self, targets: NDArray[np.intp]) -> Placements:
        """Return those of some targets."""
        return Placements(self.values[:, targets], self.inside[:, targets], self.areas[targets])

    def mean_area(self, confidence: float, tests: int) -> MeanArea:
        """Return the mean of the areas, the lower bound for so many means together.

        Notes
        -----
        DeLong's components, averaged over the targets before they are squared: a round is the unit, so that
        targets whose scores depend on one another are allowed for. The error is at least that of a score that
        says nothing, √((R + 1)/(12 · R/2 · R/2)/T), since with perfect separation DeLong's is zero.
        """
        rounds, targets = self.values.shape
        n = self.inside.sum(axis=0)
        size = np.where(self.inside, n, rounds - n)
        moved = ((self.values - self.areas) / size).mean(axis=1)
        least = (rounds + 1) / (12.0 * n * (rounds - n)).mean() / targets
        error = math.sqrt(max(float((moved**2).sum()) * rounds / (rounds - 1), least))
        level, mean = (1.0 - confidence) / 2.0, float(self.areas.mean())
        lower, upper = mean - float(norm.isf(level / tests)) * error, mean + float(norm.isf(level)) * error
        return MeanArea(mean, max(0.0, lower), min(1.0, upper))


def true_positives(scores: Floats, inside: Flags) -> Floats:
    """Return (T,) shares of rounds with a target that score above 99 % of the rounds without it."""
    shares = np.empty(scores.shape[1])
    for j, (column, present) in enumerate(zip(scores.T, inside.T, strict=True)):
        threshold = np.quantile(column[~present], 1.0 - _FALSE_POSITIVES, method="higher")
        shares[j] = (column[present] > threshold).mean()
    return shares


def epsilon(scores: Floats, inside: Flags, level: float) -> float:
    """Return a lower bound of ε: ln of the lower bound of true positives over the upper bound of false ones.

    Parameters
    ----------
    scores, inside : (R, T), see :class:`Placements`
    level : probability that the bound is wrong, over all targets and thresholds together

    Notes
    -----
    Thresholds are the 1st, 2nd, 4th, … highest score of the rounds without the target, so that Clopper and Pearson's
    bounds hold although they are read off the data: the share of false positives above the j-th highest of m scores
    is Beta(j, m − j + 1) or less, and true positives are counted in other rounds. 0 where nothing is shown.
    """
    n, m = int(inside[:, 0].sum()), int((~inside[:, 0]).sum())
    ranks = 2 ** np.arange(int(math.log2(m // 2)) + 1)
    each = level / (2.0 * len(ranks) * scores.shape[1])
    most = beta.ppf(1.0 - each, ranks, m - ranks + 1)
    best = 0.0
    for column, present in zip(scores.T, inside.T, strict=True):
        thresholds = np.sort(column[~present])[m - ranks]
        hits = (column[present] > thresholds[:, None]).sum(axis=1)
        least = np.where(hits > 0, beta.ppf(each, np.maximum(hits, 1), n - hits + 1), 0.0)
        best = max(best, float((least / most).max()))
    return math.log(max(best, 1.0))
