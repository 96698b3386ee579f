"""How many people of the population are unique on the key, estimated from the group sizes of a sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares
from scipy.special import gammaln

from anoncore.risk._checks import Floats
from anoncore.risk.population.sizes import GroupSizes, PitmanEwens

UniquenessModel = Literal["pitman", "zayatz", "snb"]
# Up to this sampling fraction Dankar's rule takes Pitman's model.
SMALL_FRACTION = 0.1
# Of the observed groups of one and of two, by which the fitted ones may miss them.
SOLVED = 1e-6


@dataclass(frozen=True)
class PopulationUniqueness:
    """Estimated shares of the population that are unique on the key, 0 … 1; None where a model has no solution.

    Parameters
    ----------
    sample : share of the sample that is unique in it
    pitman, zayatz, snb : by the three models
    chosen, dankar : the model of Dankar's decision rule, and its estimate
    """

    sample: float
    pitman: float | None
    zayatz: float
    snb: float | None
    chosen: UniquenessModel
    dankar: float


def population_uniqueness(sizes: ArrayLike, population: float, *, solve_snb: bool = True) -> PopulationUniqueness:
    """Estimate the share of the population that is unique on the key.

    Parameters
    ----------
    sizes : (G,) records of the sample in each group of equal keys, 1 or more
    population : people of the population, at least as many as records
    solve_snb : whether the shifted negative binomial is fitted; without it Dankar's rule falls back on Zayatz, as in
        tools whose iteration finds no solution

    Returns
    -------
    PopulationUniqueness

    Raises
    ------
    AnonymizationError
        When sizes are no group sizes, or the population is smaller than the sample.

    Notes
    -----
    Claim: none beyond each model's assumption of a simple random sample. Zayatz: P(1 in the population | 1 in the
    sample) from the sample's own group sizes. Pitman: maximum likelihood of the Pitman–Ewens distribution, uniques
    Γ(θ + 1)/Γ(θ + α)·N^α. SNB: groups of the population by Shlosser's estimator, their sizes as a shifted negative
    binomial that gives the observed groups of one and of two. Dankar's rule: Pitman up to a sampling fraction of
    0.1, else the smaller of Zayatz and SNB; Zayatz where the other has no solution.

    Source: Zayatz (1991), US Census Bureau; Hoshino (2001), *Journal of Official Statistics* 17, 499–520; Chen and
    Keller-McNulty (1998), *Journal of Official Statistics* 14, 79–95; Haas and Stokes (1998), *JASA* 93, 1475–1487;
    Dankar, El Emam, Neisa and Roffey (2012), *BMC Medical Informatics and Decision Making* 12, 66.

    Examples
    --------
    >>> found = population_uniqueness([1] * 60 + [2] * 10 + [5] * 4, 10_000)
    >>> found.chosen, round(found.dankar, 3)
    ('pitman', 0.12)
    """
    total = float(population)
    found = GroupSizes.of(sizes, total)
    n = found.records
    if not found.number(1):
        return PopulationUniqueness(0.0, 0.0, 0.0, 0.0, "zayatz", 0.0)
    model, zayatz = PitmanEwens.fitted(found), min(1.0, _zayatz(found, total) / total)
    pitman = None if model is None else min(1.0, model.uniques(total) / total)
    snb = _snb(found, n / total) if solve_snb else None
    chosen: UniquenessModel = "zayatz"
    dankar = zayatz
    if n / total <= SMALL_FRACTION and pitman is not None:
        chosen, dankar = "pitman", pitman
    elif n / total > SMALL_FRACTION and snb is not None and snb < zayatz:
        chosen, dankar = "snb", snb
    return PopulationUniqueness(found.number(1) / n, pitman, zayatz, snb, chosen, dankar)


def _zayatz(sizes: GroupSizes, total: float) -> float:
    """Return the unique people of the population by Zayatz's model."""
    n, ones = float(sizes.records), sizes.number(1)
    # The chance that a group of j in the population shows one record, by the hypergeometric distribution.
    shows = np.exp(np.log(sizes.value) + _log_choose(total - sizes.value, n - 1.0) - _log_choose(total, n))
    share = ones * (n / total) / float(sizes.count @ shows)
    return ones * share / (n / total)


def _log_choose(n: ArrayLike, k: float) -> Floats:
    number = np.asarray(n, dtype=np.float64)
    few = number < k
    safe = np.where(few, k, number)
    return np.where(few, -np.inf, gammaln(safe + 1.0) - gammaln(k + 1.0) - gammaln(safe - k + 1.0))


def _snb(sizes: GroupSizes, fraction: float) -> float | None:
    """Return the unique share of the population by the shifted negative binomial model."""
    ones, twos, groups = sizes.number(1), sizes.number(2), sizes.groups_of_population(fraction)
    if not twos or fraction >= 1.0:
        return None

    def excess(at: Floats) -> Floats:
        a, b = math.exp(at[0]), 1.0 / (1.0 + math.exp(-at[1]))
        rest = (1.0 - fraction) * (1.0 - b)
        shared = groups * fraction * math.exp(a * math.log(b / (1.0 - rest)))
        one = shared * (a * rest / (1.0 - rest) + 1.0)
        two = shared * a * fraction * (1.0 - b) * (2.0 - (1.0 - a) * rest) / (2.0 * (1.0 - rest) ** 2)
        return np.array([one / ones - 1.0, two / twos - 1.0])

    for start in ((0.0, 0.0), (-3.0, -5.0), (-1.0, -9.0), (2.0, 2.0)):
        found = least_squares(excess, start, bounds=([-20.0, -20.0], [8.0, 20.0]))
        if np.abs(excess(found.x)).max() < SOLVED:
            a, b = math.exp(found.x[0]), 1.0 / (1.0 + math.exp(-found.x[1]))
            return min(1.0, float(groups * b**a) * fraction / sizes.records)
    return None
