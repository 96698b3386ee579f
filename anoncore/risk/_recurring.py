"""Combinations of values that as many records hold as no independent records would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, poisson

from anoncore.risk._checks import Floats

Marks = NDArray[np.uint64]
Chosen = frozenset[int]

# Records of a combination at most; more are of an area, and are left out.
_SIZES = 40
# Means of the Poisson distributions that are mixed, and steps in which their shares are fitted.
_MEANS, _STEPS = np.geomspace(0.02, 90, 60), 300
# Records that hold a combination, on average over combinations: fewer hardly recur, more are of an area.
_RARE, _COMMON = 1.15, 60.0
# Combinations of a table, at least; variables of one, at least.
_COMBINATIONS, _VARIABLES = 30, 2
# A set of variables is found below this probability, of the many sets that are compared, and from this share on.
_P, _SHARE = 1e-9, 0.1
# Random orders in which variables are joined, variables of one, variables of a set, and sets that are improved.
_ORDERS, _JOINED, _TOGETHER, _IMPROVED = 60, 25, 8, 3


class Recurring(NamedTuple):
    """Variables whose combinations are held by as many records as no independent records would.

    Attributes
    ----------
    columns : their places, those of most different values first
    others : records that hold the same combination beside one, on average over those that chance does not explain
    combinations, by_chance : held by numbers of records that are more frequent than chance explains, and as many as it
        explains
    """

    columns: tuple[int, ...]
    others: float
    combinations: int
    by_chance: float


class _Fit(NamedTuple):
    excess: float
    p: float
    share: float
    found: Recurring


def recurring(columns: Sequence[NDArray[np.int32]], fewest: float, most: float) -> Recurring | None:
    """Return the variables whose combinations recur most clearly as those of independent records do not.

    Parameters
    ----------
    columns : (N,) codes of each variable
    fewest, most : bounds of ``others``; combinations with more or fewer are passed over

    Returns
    -------
    Recurring or None
        None where independent records explain how often all combinations recur that were compared.

    Notes
    -----
    Claim: none for single tables. Of independent records each combination is held by a number that is nearly Poisson,
    whatever the distribution of the variables is and however they depend on each other; so the numbers of combinations
    that 1, 2, 3 … records hold are those of a mixture of Poisson distributions. Several records of each of many people
    make another: where each has five to eight, nearly none is held by three. The mixture that fits best is compared
    with what is observed by the likelihood ratio. Numbers of records that vary as those of a mixture do, as where
    visits of each patient are Poisson, are not found, nor people who agree in nothing exactly; quotas are, such as ten
    people of each day.

    Source: the mixture is fitted as by Simar 1976, *Annals of Statistics* 4, 1200–1209, of 40 sizes at most; that it
    shows several records of one person: own.
    """
    rng = np.random.default_rng(0)
    marks = [_marks(column, rng) for column in columns]
    usable = [place for place, mark in enumerate(marks) if 1 < len(np.unique(mark)) <= len(mark) / _RARE]
    if len(usable) < _VARIABLES:
        return None
    fits: dict[Chosen, _Fit] = {}
    _compare(marks, _joined(marks, usable, rng), fits)
    for start in sorted(fits, key=lambda one: -fits[one].excess)[:_IMPROVED]:
        best = start
        while True:
            beside = {best ^ {place} for place in usable}
            _compare(marks, {one for one in beside if _VARIABLES <= len(one) <= _TOGETHER}, fits)
            better = max((one for one in beside if one in fits), key=lambda one: fits[one].excess, default=best)
            if fits[better].excess <= fits[best].excess:
                break
            best = better
    clear = (fit for fit in fits.values() if fit.p < _P and fit.share >= _SHARE and fewest <= fit.found.others <= most)
    best_fit = max(clear, key=lambda fit: fit.excess, default=None)
    if best_fit is None:
        return None
    rarest = sorted(best_fit.found.columns, key=lambda place: -len(np.unique(marks[place])))
    return best_fit.found._replace(columns=tuple(rarest))


def _marks(column: NDArray[np.int32], rng: np.random.Generator) -> Marks:
    """Return a random number for each level, so that the sum over variables stands for a combination."""
    values, place = np.unique(column, return_inverse=True)
    return rng.integers(0, 2**64, len(values), dtype=np.uint64)[place]


def _joined(marks: list[Marks], usable: list[int], rng: np.random.Generator) -> set[Chosen]:
    """Return sets of variables, joined in random orders as long as their combinations recur."""
    sets = set()
    for _ in range(_ORDERS):
        chosen: Chosen = frozenset()
        for place in rng.permutation(usable)[:_JOINED].tolist():
            joined = chosen | {place}
            if len(joined) <= _TOGETHER and _mean_size(_sizes(marks, joined)) >= _RARE:
                chosen = joined
                sets.add(chosen)
    return {one for one in sets if len(one) >= _VARIABLES}


def _sizes(marks: list[Marks], chosen: Chosen) -> NDArray[np.intp]:
    """Return how many records hold each combination of some variables."""
    total = np.sum([marks[place] for place in sorted(chosen)], axis=0, dtype=np.uint64)
    return np.asarray(np.unique(total, return_counts=True)[1])


def _mean_size(sizes: NDArray[np.intp]) -> float:
    return float(sizes.sum() / max(len(sizes), 1))


def _compare(marks: list[Marks], sets: set[Chosen], fits: dict[Chosen, _Fit]) -> None:
    """Add how the sets that are not compared yet fit."""
    compared, observed = [], []
    for chosen in sorted(sets - set(fits), key=sorted):
        sizes = _sizes(marks, chosen)
        counts = np.bincount(sizes[sizes <= _SIZES], minlength=_SIZES + 1)[1:].astype(float)
        if _RARE <= _mean_size(sizes) <= _COMMON and counts.sum() >= _COMBINATIONS:
            compared.append(chosen)
            observed.append(counts)
    if compared:
        expected = _mixed(np.array(observed))
        records = len(marks[0])
        fits |= {one: _fit(one, o, e, records) for one, o, e in zip(compared, observed, expected, strict=True)}


def _mixed(observed: Floats) -> Floats:
    """Return (m, sizes) the numbers of combinations of each size that the mixtures of best fit expect."""
    part = np.asarray(poisson.pmf(np.arange(1, _SIZES + 1)[None], _MEANS[:, None]))
    part /= part.sum(axis=1, keepdims=True)
    number = observed.sum(axis=1, keepdims=True)
    shares = np.full((len(observed), len(part)), 1 / len(part))
    for _ in range(_STEPS):
        shares *= (observed / number / np.maximum(shares @ part, 1e-300)) @ part.T
    return np.asarray(number * (shares @ part))


def _fit(chosen: Chosen, observed: Floats, expected: Floats, records: int) -> _Fit:
    held = observed > 0
    deviance = float(2 * (observed[held] * np.log(observed[held] / expected[held])).sum())
    degrees = int((held | (expected > 1)).sum())
    size = np.arange(1, _SIZES + 1)
    excess = size * np.maximum(observed - expected, 0)
    frequent = observed > expected
    others = float(excess @ size / max(excess.sum(), 1e-12) - 1)
    found = Recurring(tuple(sorted(chosen)), others, int(observed[frequent].sum()), float(expected[frequent].sum()))
    return _Fit(deviance - degrees, float(chi2.sf(deviance, degrees)), float(excess.sum() / records), found)
