"""How many people of the population are unique on the key, estimated from the group sizes of a sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, least_squares, minimize_scalar
from scipy.special import digamma, gammaln

from anoncore.errors import AnonymizationError
from anoncore.risk._checks import Floats

UniquenessModel = Literal["pitman", "zayatz", "snb"]
# Up to this sampling fraction Dankar's rule takes Pitman's model.
SMALL_FRACTION = 0.1
# Of the observed groups of one and of two, by which the fitted ones may miss them.
SOLVED = 1e-6
# How near to 0 and 1 the parameter α of Pitman's model is looked for.
EDGE = 1e-6


@dataclass(frozen=True)
class PopulationUniqueness:
    """Estimated shares of the population that are unique on the key, 0 … 1; None where a model has no solution.

    Parameters
    ----------
    sample : share of the sample that is unique in it
    pitman, zayatz, snb : by the three models
    chosen : the one of Dankar's decision rule
    """

    sample: float
    pitman: float | None
    zayatz: float
    snb: float | None
    chosen: UniquenessModel

    @property
    def dankar(self) -> float:
        """The estimate of the chosen model."""
        return float(getattr(self, self.chosen))


def population_uniqueness(sizes: ArrayLike, population: float) -> PopulationUniqueness:
    """Estimate the share of the population that is unique on the key.

    Parameters
    ----------
    sizes : (G,) records of the sample in each group of equal keys, 1 or more
    population : people of the population, at least as many as records

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
    size = np.asarray(sizes)
    if size.ndim != 1 or not len(size) or not (size >= 1).all() or not (size == np.rint(size)).all():
        raise AnonymizationError("sizes must hold the records of each group, at least 1")
    n, total = int(size.sum()), float(population)
    if not (math.isfinite(total) and total >= n):
        raise AnonymizationError(f"population must be at least the {n} records of the sample")
    value, count = np.unique(size.astype(np.int64), return_counts=True)
    uniques = float(count[value == 1].sum())
    if not uniques:
        return PopulationUniqueness(0.0, 0.0, 0.0, 0.0, "zayatz")
    zayatz = _zayatz(value, count, total) / total
    pitman, snb = (
        None if number is None else min(1.0, number / total)
        for number in (_pitman(value, count, total), _snb(value, count, n / total))
    )
    chosen: UniquenessModel = "zayatz"
    if n / total <= SMALL_FRACTION and pitman is not None:
        chosen = "pitman"
    elif n / total > SMALL_FRACTION and snb is not None and snb < zayatz:
        chosen = "snb"
    return PopulationUniqueness(uniques / n, pitman, zayatz, snb, chosen)


def _zayatz(value: NDArray[np.int64], count: NDArray[np.intp], total: float) -> float:
    """Return the unique people of the population by Zayatz's model."""
    n, ones = float(value @ count), float(count[value == 1].sum())
    # The chance that a group of j in the population shows one record, by the hypergeometric distribution.
    shows = np.exp(np.log(value) + _log_choose(total - value, n - 1.0) - _log_choose(total, n))
    share = ones * (n / total) / float(count @ shows)
    return ones * share / (n / total)


def _log_choose(n: ArrayLike, k: float) -> Floats:
    number = np.asarray(n, dtype=np.float64)
    few = number < k
    safe = np.where(few, k, number)
    return np.where(few, -np.inf, gammaln(safe + 1.0) - gammaln(k + 1.0) - gammaln(safe - k + 1.0))


def pitman_parameters(value: NDArray[np.int64], count: NDArray[np.intp]) -> tuple[float, float] | None:
    """Return θ and α of the Pitman–Ewens distribution by maximum likelihood; None where the sample has uniques alone.

    Parameters
    ----------
    value, count : different group sizes, and how many groups have each

    Notes
    -----
    log L = Σ_{i=1}^{u−1} log(θ + iα) − Σ_{i=1}^{n−1} log(θ + i) + Σ_j count_j Σ_{i=1}^{j−1} log(i − α), 0 < α < 1,
    θ > −α; for each α the best θ is a root. Where the maximum is at α = 0, Ewens' distribution, α is next to 0.
    """
    groups, n = int(count.sum()), float(value @ count)
    more = value > 1
    if not more.any() or groups < 2:
        return None

    def slope(theta: float, alpha: float) -> float:
        # Σ 1/(θ + iα) = (ψ(u + θ/α) − ψ(1 + θ/α))/α
        ratio = theta / alpha
        return float(
            (digamma(groups + ratio) - digamma(1.0 + ratio)) / alpha - digamma(n + theta) + digamma(1.0 + theta)
        )

    def best(alpha: float) -> float:
        low, high = -alpha + 1e-9, 1.0
        while slope(high, alpha) > 0 and high < 1e15:
            high *= 4.0
        return float(brentq(slope, low, high, args=(alpha,))) if slope(low, alpha) > 0 > slope(high, alpha) else low

    def loss(alpha: float) -> float:
        theta = best(alpha)
        ratio = theta / alpha
        return -float(
            (groups - 1) * math.log(alpha)
            + gammaln(groups + ratio)
            - gammaln(1.0 + ratio)
            - gammaln(n + theta)
            + gammaln(1.0 + theta)
            + count[more] @ (gammaln(value[more] - alpha) - gammaln(1.0 - alpha))
        )

    alpha = float(minimize_scalar(loss, bounds=(EDGE, 1.0 - EDGE), method="bounded", options={"xatol": 1e-10}).x)
    return (best(alpha), alpha) if alpha < 1.0 - 2.0 * EDGE else None


def _pitman(value: NDArray[np.int64], count: NDArray[np.intp], total: float) -> float | None:
    """Return the unique people of the population by Pitman's model."""
    found = pitman_parameters(value, count)
    if found is None:
        return None
    theta, alpha = found
    return float(np.exp(gammaln(theta + 1.0) - gammaln(theta + alpha) + alpha * math.log(total)))


def _snb(value: NDArray[np.int64], count: NDArray[np.intp], fraction: float) -> float | None:
    """Return the unique people of the population by the shifted negative binomial model."""
    ones, twos = (float(count[value == j].sum()) for j in (1, 2))
    if not twos or fraction >= 1.0:
        return None
    groups = groups_of_population(value, count, fraction)

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
            return float(groups * b**a)
    return None


def groups_of_population(value: NDArray[np.int64], count: NDArray[np.intp], fraction: float) -> float:
    """Return the number of different keys of the population by Shlosser's modified estimator, Haas and Stokes 1998.

    Parameters
    ----------
    value, count : different group sizes of the sample, and how many groups have each
    fraction : of the population that the sample holds
    """
    f, size, ones = fraction, value.astype(np.float64), float(count[value == 1].sum())
    if f >= 1.0 or not ones:
        return float(count.sum())
    absent = (1.0 - f) ** size
    ratio = float(count @ absent) / float(count @ (size * f * (1.0 - f) ** (size - 1.0)))
    squared = float(count @ (size * f**2 * (1.0 - f**2) ** (size - 1.0)))
    return float(count.sum()) + ones * ratio**2 * squared / float(count @ (absent * ((1.0 + f) ** size - 1.0)))
