"""Which figures of a table stand in its release as they are, or nearly so, whatever the method says that it keeps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import gammaln
from scipy.stats import binom, chi2

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats

# By chance so many tables have figures that count as kept, and so many of the variables where others' vary.
BY_CHANCE = 0.01


def kept_figures(original: Microdata, released: Microdata, left_out: float) -> frozenset[str]:
    """Return the variables whose level counts, or means, are nearer than leaving out some records would make them.

    Parameters
    ----------
    original, released : Microdata; variables of one name are compared, those with other levels are not
    left_out : so many records left out at random would hide single ones; of units with m records each, as many times m²

    Returns
    -------
    frozenset of names; empty where chance explains how near the figures are

    Notes
    -----
    Claim: figures that are kept exactly are found, where their coincidence by chance is rare. Where L of N records
    are left out at random, N·Σ(n' − n)²/(n·L) of a variable's level counts n and n', missing values as a level, and
    N²(m' − m)²/(s²·L) of a number's means have a χ² distribution. A method that draws records anew errs by more, so
    that its figures are seldom as near. Counts are whole numbers, and coincide more often than χ² says: the root of
    the statistic of d degrees grows by the radius of a ball as large as the cell of one count, whose volume is that
    of the lattice over the deviation, 1/√(L^d·Πp) with shares p, or of the sum of a number's precision. A variable is
    near where its statistic is in the lowest hundredth. Those near are returned where they are more than chance
    explains, one alone where the probability times the number of figures is at most a hundredth, and all of a kind
    where the sum over the kind is in its lowest hundredth. One variable of two levels may coincide by chance, and is
    not returned.

    Source: own; elementary.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({name: rng.choice(["a", "b", "c"], 1000) for name in "xyz"})
    >>> people = Microdata(frame, Schema(Variable(name, "nominal") for name in "xyz"))
    >>> shuffled = people.take(rng.permutation(1000))
    >>> drawn = people.take(rng.integers(1000, size=1000))
    >>> sorted(kept_figures(people, shuffled, 200)), sorted(kept_figures(people, drawn, 200))
    (['x', 'y', 'z'], [])
    """
    found = list(_statistics(original, released, left_out))
    chance = {name: float(chi2.cdf(statistic, degrees)) for name, _, statistic, degrees in found}
    near = {name for name, one in chance.items() if one <= BY_CHANCE}
    kept = {name for name, one in chance.items() if one * len(found) <= BY_CHANCE}
    if binom.sf(len(near) - 1, max(len(found), 1), BY_CHANCE) <= BY_CHANCE:
        kept |= near
    for kind in (True, False):
        names = [name for name, categorical, *_ in found if categorical is kind]
        sums = np.array([[statistic, degrees] for _, categorical, statistic, degrees in found if categorical is kind])
        if len(names) and chi2.cdf(*sums.sum(axis=0)) <= BY_CHANCE:
            kept |= set(names)
    return frozenset(kept)


def _statistics(original: Microdata, released: Microdata, left_out: float) -> Iterator[tuple[str, bool, float, int]]:
    """Yield of each figure its variable, whether that has levels, the statistic, and its degrees of freedom.

    A number has two: its mean, and how often it is missing.
    """
    for variable in released.schema:
        if not variable.is_masked or variable.name not in original.schema:
            continue
        one, other = (side.frame[variable.name] for side in (original, released))
        if variable.is_categorical != original.schema[variable.name].is_categorical:
            continue
        if variable.is_categorical:
            held = [_named(side).value_counts(dropna=False) for side in (one, other)]
            levels = held[0].index.union(held[1].index, sort=False)
            counts: Floats = np.stack([side.reindex(levels, fill_value=0).to_numpy(dtype=np.float64) for side in held])
            # A level that the release adds must not take the variable out of the comparison.
            counts = counts[:, counts[0] > 0]
            if counts.shape[1] > 1 and counts[1].any():
                yield variable.name, True, _of_counts(counts, left_out), counts.shape[1] - 1
            continue
        missing = np.array([[int(side.isna().sum())] for side in (one, other)], dtype=np.float64)
        lacking = np.hstack([missing, np.array([[len(one)], [len(other)]]) - missing])
        if (lacking[0] > 0).all():
            yield variable.name, True, _of_counts(lacking, left_out), 1
        # A number that is missing throughout has no mean: it must not undo the sum over all others.
        spread = float(one.std(ddof=0))
        if spread > 0.0 and other.notna().any():
            apart = abs(float(other.mean() - one.mean())) * float(one.notna().sum())
            # Half a step of the sum to either side.
            step = (original.schema[variable.name].precision or 0.0) / 2
            yield variable.name, False, (apart + step) ** 2 / (spread**2 * left_out), 1


def _named(column: pd.Series) -> pd.Series:
    return column.astype("object").map(str, na_action="ignore")


def _of_counts(counts: Floats, left_out: float) -> float:
    """Return the statistic of (2, L) counts of the original, all above 0, and of the release, as one of as many."""
    totals = counts.sum(axis=1)
    away = counts[1] * (totals[0] / totals[1]) - counts[0]
    degrees = counts.shape[1] - 1
    # In logarithms: of many levels the volumes are beyond what a float holds.
    cell = -0.5 * (degrees * np.log(left_out) + np.log(counts[0] / totals[0]).sum())
    ball = degrees / 2 * np.log(np.pi) - gammaln(degrees / 2 + 1)
    return float((np.sqrt((away**2 / counts[0]).sum() * totals[0] / left_out) + np.exp((cell - ball) / degrees)) ** 2)
