"""Group sizes of a sample, and the Pitman–Ewens distribution that they follow in large populations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import digamma, gammaln

from anoncore.errors import AnonymizationError
from anoncore.risk._checks import Floats

# How near to 0 and 1 the parameter α is looked for.
EDGE = 1e-5
# Below this α the distribution is Ewens', whose one parameter is θ.
_EWENS = 0.01
_STEP = 1e-3


@dataclass(frozen=True, eq=False)
class GroupSizes:
    """How many groups of each size a sample has.

    Parameters
    ----------
    value, count : (S,) different sizes, ascending, and the number of groups of each
    """

    value: NDArray[np.int64] = field(repr=False)
    count: NDArray[np.intp] = field(repr=False)

    @classmethod
    def of(cls, sizes: ArrayLike, population: float) -> GroupSizes:
        """Count the sizes of groups, checked; the population holds at least their records."""
        size = np.asarray(sizes)
        if size.ndim != 1 or not len(size) or not (size >= 1).all() or not (size == np.rint(size)).all():
            raise AnonymizationError("sizes must hold the records of each group, at least 1")
        found = cls(*np.unique(size.astype(np.int64), return_counts=True))
        if not (math.isfinite(population) and population >= found.records):
            raise AnonymizationError(f"population must be at least the {found.records} records of the sample")
        return found

    @property
    def records(self) -> int:
        """The number of records n."""
        return int(self.value @ self.count)

    @property
    def groups(self) -> int:
        """The number of groups u."""
        return int(self.count.sum())

    def number(self, size: int) -> int:
        """Return how many groups have a size."""
        return int(self.count[self.value == size].sum())

    def groups_of_population(self, fraction: float) -> float:
        """Return the population's number of groups by Shlosser's modified estimator, of Haas and Stokes 1998.

        Parameters
        ----------
        fraction : of the population that the sample holds
        """
        f, size, ones = fraction, self.value.astype(np.float64), self.number(1)
        if f >= 1.0 or not ones:
            return float(self.groups)
        absent = (1.0 - f) ** size
        ratio = float(self.count @ absent) / float(self.count @ (size * f * (1.0 - f) ** (size - 1.0)))
        squared = float(self.count @ (size * f**2 * (1.0 - f**2) ** (size - 1.0)))
        return self.groups + ones * ratio**2 * squared / float(self.count @ ((1.0 - f**2) ** size - absent))


@dataclass(frozen=True)
class PitmanEwens:
    """The Pitman–Ewens distribution of group sizes.

    Parameters
    ----------
    theta, alpha : 0 < α < 1, θ > −α
    """

    theta: float
    alpha: float

    @classmethod
    def fitted(cls, sizes: GroupSizes) -> PitmanEwens | None:
        """Return the distribution of maximum likelihood; None where the sample has groups of one alone, or one group.

        For each α the best θ is a root. Where the maximum is at α = 0, Ewens' distribution, α is next to 0.
        """
        if sizes.value[-1] == 1 or sizes.groups < 2:
            return None

        def loss(alpha: float) -> float:
            return -cls(_best_theta(sizes, alpha), alpha).log_likelihood(sizes)

        alpha = float(minimize_scalar(loss, bounds=(EDGE, 1.0 - EDGE), method="bounded", options={"xatol": 1e-10}).x)
        return cls(_best_theta(sizes, alpha), alpha) if alpha < 1.0 - 2.0 * EDGE else None

    def log_likelihood(self, sizes: GroupSizes) -> float:
        """Return Σ_{i=1}^{u−1} log(θ + iα) − Σ_{i=1}^{n−1} log(θ + i) + Σ over groups Σ_{i=1}^{size−1} log(i − α)."""
        theta, alpha = self.theta, self.alpha
        within = float(sizes.count @ (gammaln(sizes.value - alpha) - gammaln(1.0 - alpha)))
        before = float(np.log(theta + alpha * np.arange(1.0, sizes.groups)).sum())
        return before - float(gammaln(sizes.records + theta) - gammaln(1.0 + theta)) + within

    def uniques(self, population: float) -> float:
        """Return the expected groups of one among so many people, Γ(θ + 1)/Γ(θ + α)·N^α."""
        theta, alpha = self.theta, self.alpha
        return float(np.exp(gammaln(theta + 1.0) - gammaln(theta + alpha) + alpha * math.log(population)))

    def groups(self, sizes: GroupSizes, population: float) -> float:
        """Return the expected groups among so many people, of whom the sample's are part."""
        theta, alpha, n, u = self.theta, self.alpha, sizes.records, sizes.groups
        grown = gammaln(theta + population + alpha) - gammaln(theta + n + alpha)
        grown += gammaln(theta + n) - gammaln(theta + population)
        return float(u + (u + theta / alpha) * np.expm1(grown))

    def groups_error(self, sizes: GroupSizes, population: float) -> float:
        """Return the relative standard error of `groups`, by the observed information of log(θ + α) and logit α."""
        at = np.array([math.log(self.theta + self.alpha), math.log(self.alpha / (1.0 - self.alpha))])

        def moved(x: Floats) -> PitmanEwens:
            alpha = 1.0 / (1.0 + math.exp(-x[1]))
            return PitmanEwens(math.exp(x[0]) - alpha, alpha)

        def slope(log: int) -> float:
            step = _STEP * np.eye(2)[log]
            up, down = (moved(at + side * step).groups(sizes, population) for side in (1, -1))
            return math.log(up / down) / (2.0 * _STEP)

        def information(one: int, other: int) -> float:
            steps = [(a, b) for a in (1, -1) for b in (1, -1)]
            to = [at + _STEP * (a * np.eye(2)[one] + b * np.eye(2)[other]) for a, b in steps]
            values = [moved(x).log_likelihood(sizes) * a * b for x, (a, b) in zip(to, steps, strict=True)]
            return -sum(values) / (4.0 * _STEP**2)

        free = range(1 if self.alpha < _EWENS else 2)
        gradient = np.array([slope(i) for i in free])
        hessian = np.array([[information(i, j) for j in free] for i in free])
        return math.sqrt(max(float(gradient @ np.linalg.solve(hessian, gradient)), 0.0))


def _best_theta(sizes: GroupSizes, alpha: float) -> float:
    """Return the θ of maximum likelihood for an α."""
    n, u = sizes.records, sizes.groups

    def slope(theta: float) -> float:
        # Σ 1/(θ + iα) = (ψ(u + θ/α) − ψ(1 + θ/α))/α
        ratio = theta / alpha
        within = (digamma(u + ratio) - digamma(1.0 + ratio)) / alpha
        return float(within - digamma(n + theta) + digamma(1.0 + theta))

    low, high = -alpha + 1e-9, 1.0
    while slope(high) > 0 and high < 1e15:
        high *= 4.0
    return float(brentq(slope, low, high)) if slope(low) > 0 > slope(high) else low
