"""Whether two releases have figures so near that they are of the same people, in part or nearly all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import binom, chi2

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats

# A variable is near where other people's is so seldom nearer; so seldom are so many of a table near by chance.
LOWEST, BY_CHANCE = 0.1, 0.0101
# The variables of one name, all pairs of variables, and the sum over those of one name.
WAYS = 3
# Counts are whole: equal ones are as near as half a record.
HALF = 0.25
# Of numbers of one name in one unit, the spread of neither is so many times the other's.
OTHER_UNIT = 2.0
# Levels within so many standard errors may change places in another sample; beyond it a pair of variables is no pair.
APART, NO_PAIR = 3.0, 0.999
# Variables with more levels are compared level by level alone; associations are computed from so many records.
MOST_LEVELS, RECORDS = 50, 5000
# Of the records of both, so many hold levels of one label where labels mean the same.
SHARED = 0.9
# Records of both that hold a level which is compared.
LEAST = 5


@dataclass(frozen=True, eq=False, repr=False)
class _Figures:
    """What two variables are compared by: the counts of levels, missing values as one, or mean and squared error.

    ``spread`` is the standard deviation of a number.
    """

    counts: pd.Series | None
    mean: float = 0.0
    error: float = 0.0
    spread: float = 0.0

    @property
    def levels(self) -> int:
        """How many levels it has; 0 of a number."""
        return 0 if self.counts is None else len(self.counts)


def nearly_same(one: Microdata, other: Microdata, *, tests: int = 1) -> bool:
    """Return whether two releases have so near figures that they are of the same people, in part or nearly all.

    Parameters
    ----------
    one, other : Microdata, whose level counts and means are compared
    tests : how many pairs are compared, so that chance finds one of them in 2 % at most if variables are independent

    Notes
    -----
    Claim: none of releases by methods that draw their figures. Of independent samples of one population the statistic
    of each variable has a χ² distribution: Pearson's of level counts, missing values as a level, equal counts being as
    near as half a record; the squared difference of means in standard errors. Variables are paired in two ways. By
    name, whatever their kind: level by level, or by size where the labels of levels differ. And each with every
    variable of as many levels, by size, or with every number, since variables may have been renamed. The nearest of g
    pairs that may be one counts as g tests, and so does each order of levels whose sizes may have changed places. The
    two are nearer than other people would be where more variables than chance explains are in the lowest tenth, or one
    is nearer than chance explains.

    Third, the sum of the statistics over the variables of one name is compared with its distribution, χ² with the
    degrees of freedom that associations between variables leave. It is small, too, where one release is of a part of
    the other's people: the variance of a difference is then pq(1/n₁ − 1/n₂) in place of pq(1/n₁ + 1/n₂), a third for
    one half of the people. Each of the three has a third of the probability. Numbers on another scale are not found.

    Source: own; elementary. That data are too good to be samples: Fisher 1936, *Annals of Science* 1, 115–137.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({f"v{j}": rng.choice(list("abc"), 1000) for j in range(10)})
    >>> people = Microdata(frame, Schema(Variable(name, "nominal") for name in frame))
    >>> parts = people.take(np.arange(500)), people.take(np.arange(498)), people.take(np.arange(500, 1000))
    >>> nearly_same(*parts[:2]), nearly_same(parts[0], parts[2])
    (True, False)
    """
    figures = [dict(_figures(table)) for table in (one, other)]
    named = [name for name in figures[0] if _comparable(*(own.get(name) for own in figures))]
    by_name = [_nearness(figures[0][name], figures[1][name]) for name in named]
    by_pairs = [*_over_pairs(*([*own.values()] for own in figures))]
    chance = min(_by_chance(by_name), _by_chance(by_pairs), _sum_by_chance(other, named, figures))
    return chance <= BY_CHANCE / (WAYS * tests)


def classified_otherwise(one: Microdata, other: Microdata) -> bool:
    """Return whether two releases have too few variables in common to be compared.

    These are fewer than half of the variables of the release that has fewer: most have another name, other levels, or
    are numbers in another unit: their means lie farther apart than either spreads, or one spreads twice as far.
    Merged and crossed levels are examples: counts of the coarser ones are sums, which `nearly_same` does not look for,
    and of so many sums of counts some are near by chance.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> tables = [pd.DataFrame({"job": jobs * 50}) for jobs in (["baker", "cook", "nurse"], ["food", "food", "care"])]
    >>> one, other = (Microdata(table, Schema([Variable("job", "nominal")])) for table in tables)
    >>> classified_otherwise(one, other), classified_otherwise(one, one)
    (True, False)
    """
    figures = [dict(_figures(table)) for table in (one, other)]
    pairs = [(figures[0][name], figures[1][name]) for name in figures[0] if name in figures[1]]
    return 2 * sum(_alike(*pair) for pair in pairs) < min(map(len, figures))


def _alike(one: _Figures, other: _Figures) -> bool:
    """Return whether two variables have levels in common, or are numbers in one unit."""
    if one.counts is not None and other.counts is not None:
        return _aligned(one.counts, other.counts) is not None
    low, high = sorted((one.spread, other.spread))
    return one.counts is other.counts and abs(one.mean - other.mean) <= high <= OTHER_UNIT * low


def _figures(table: Microdata) -> Iterator[tuple[str, _Figures]]:
    """Yield the figures of each variable that varies."""
    for name in table.schema.masked:
        column = table.frame[name]
        if table.schema[name].is_categorical:
            counts = column.value_counts(dropna=False)
            counts = counts[counts > 0]
            counts.index = counts.index.astype("object").map(str)
            if len(counts) > 1:
                yield name, _Figures(counts)
        else:
            values = column.dropna().to_numpy(dtype=float)
            if len(values) and values.var():
                spread = float(values.std())
                yield name, _Figures(None, float(values.mean()), spread**2 / len(values), spread)


def _comparable(one: _Figures | None, other: _Figures | None) -> bool:
    return one is not None and other is not None and bool(one.levels) == bool(other.levels)


def _by_chance(near: list[float]) -> float:
    """Return how probable it is that so many variables of other people are near, or one so near."""
    if not near:
        return 1.0
    many = float(binom.sf(sum(nearness < LOWEST for nearness in near) - 1, len(near), LOWEST))
    return min(many, len(near) * min(near))


def _nearness(one: _Figures, other: _Figures) -> float:
    """Return how probable it is that a variable of other people is nearer."""
    if one.counts is None or other.counts is None:
        return float(_of_means([one], [other])[0, 0])
    if (counts := _aligned(one.counts, other.counts)) is not None:
        often = counts.sum(axis=0) >= LEAST
        # A level that one person brings would hide how near all others are.
        counts = counts[:, often] if often.sum() > 1 else counts
        return float(chi2.cdf(_pearson(counts[:1], counts[1:], HALF), counts.shape[1] - 1)[0, 0])
    width = max(one.levels, other.levels)
    if width > MOST_LEVELS:
        return 1.0
    return float(_of_sizes(_sizes([one], width), _sizes([other], width))[0, 0])


def _aligned(one: pd.Series, other: pd.Series) -> Floats | None:
    """Return (2, L) the counts of all levels; None where too many records of one hold levels that the other lacks."""
    levels = one.index.union(other.index, sort=False)
    counts = np.stack([side.reindex(levels, fill_value=0).to_numpy(dtype=float) for side in (one, other)])
    shared = counts[:, (counts > 0).all(axis=0)].sum(axis=1)
    return counts if (shared >= SHARED * counts.sum(axis=1)).all() else None


def _over_pairs(one: list[_Figures], other: list[_Figures]) -> Iterator[float]:
    """Yield for each variable of one how probable it is that the nearest of its pairs is nearer by chance."""
    for levels in sorted({own.levels for own in one} & {own.levels for own in other}):
        if levels > MOST_LEVELS:
            break
        sides = [[own for own in side if own.levels == levels] for side in (one, other)]
        near = _of_sizes(*(_sizes(side, levels) for side in sides)) if levels else _of_means(*sides)
        pairs = np.maximum((near < NO_PAIR).sum(axis=1), 1)
        yield from np.minimum(pairs * near.min(axis=1), 1.0)


def _of_means(one: list[_Figures], other: list[_Figures]) -> Floats:
    """Return (m, n) the nearness of each pair of numbers."""
    means, errors = (
        [np.array([getattr(own, what) for own in side]) for side in (one, other)] for what in ("mean", "error")
    )
    away = (means[0][:, np.newaxis] - means[1]) ** 2 / (errors[0][:, np.newaxis] + errors[1])
    return np.asarray(chi2.cdf(away, 1))


def _sizes(side: list[_Figures], width: int) -> Floats:
    """Return (m, width) the counts of each variable's levels, the largest first."""
    counts = (own.counts.to_numpy(dtype=float) for own in side if own.counts is not None)
    return np.array([np.pad(own, (0, width - len(own))) for own in counts])


def _of_sizes(one: Floats, other: Floats) -> Floats:
    """Return (m, n) the nearness of each pair of variables by the sizes of their levels, (m, L) and (n, L)."""
    logarithm = chi2.logcdf(_pearson(one, other, HALF), one.shape[1] - 1)
    return np.exp(np.minimum(logarithm + _orders(one)[:, np.newaxis], 0.0))


def _orders(sizes: Floats) -> Floats:
    """Return (m,) the logarithm of how many orders the levels may have in another sample, at most."""
    away = np.abs(sizes[:, :, np.newaxis] - sizes[:, np.newaxis, :])
    alike = away <= APART * np.sqrt(sizes[:, :, np.newaxis] + sizes[:, np.newaxis, :])
    return np.asarray(np.log(np.tril(alike).sum(axis=2)).sum(axis=1))


def _pearson(one: Floats, other: Floats, half: float) -> Floats:
    """Return (m, n) Pearson's statistic of each pair of rows of counts, (m, L) and (n, L)."""
    first, second = one[:, np.newaxis, :], other[np.newaxis, :, :]
    both, totals = first + second, [side.sum(axis=2, keepdims=True) for side in (first, second)]
    statistic = np.zeros(both.shape[:2])
    for side, total in zip((first, second), totals, strict=True):
        expected = both * total / (totals[0] + totals[1])
        away = (np.abs(side - expected) + half) ** 2
        statistic += np.divide(away, expected, out=np.zeros_like(both), where=expected > 0).sum(axis=2)
    return statistic


def _sum_by_chance(other: Microdata, named: list[str], figures: list[dict[str, _Figures]]) -> float:
    """Return how probable it is that the statistics of all variables of one name have a smaller sum.

    With C the correlations of levels and numbers, the sum has the mean tr C and the variance 2 ‖C‖².
    """
    found = ((name, _statistic(*(own[name] for own in figures))) for name in named)
    sums = {name: (value, _traits(other, name)) for name, value in found if value is not None}
    # Of a variable that does not vary among the records looked at nothing is known here.
    summed = {name: (value, traits) for name, (value, traits) in sums.items() if traits.any()}
    if not summed:
        return 1.0
    traits = np.hstack([own for _, own in summed.values()])
    correlations = traits.T @ traits / len(traits)
    mean, half_variance = float(np.trace(correlations)), float((correlations**2).sum())
    total = sum(value for value, _ in summed.values())
    return float(chi2.cdf(total * mean / half_variance, mean**2 / half_variance))


def _statistic(one: _Figures, other: _Figures) -> float | None:
    """Return the statistic of two variables; None where levels are too many or have other labels."""
    if one.counts is None or other.counts is None:
        return (one.mean - other.mean) ** 2 / (one.error + other.error)
    counts = _aligned(one.counts, other.counts) if max(one.levels, other.levels) <= MOST_LEVELS else None
    return None if counts is None else float(_pearson(counts[:1], counts[1:], 0.0)[0, 0])


def _traits(data: Microdata, name: str) -> Floats:
    """Return (N, L) a variable's levels, or (N, 1) its numbers, centred; of levels the squares add up to L − 1."""
    column, every = data.frame[name], -(-len(data) // RECORDS)
    if not data.schema[name].is_categorical:
        values = column.to_numpy(dtype=float)
        mean, spread = np.nanmean(values), np.nanstd(values)
        return np.asarray(np.nan_to_num(values[::every] - mean)[:, np.newaxis] / (spread or 1.0))
    held, codes = np.unique(column.cat.codes, return_inverse=True)
    shares = np.bincount(codes, minlength=len(held)) / len(codes)
    return np.asarray((np.eye(len(held))[codes[::every]] - shares) / np.sqrt(shares))
