"""How many records of a sample an attacker who knows the whole population would trace to their people."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from anoncore.risk._proportions import normal_quantile
from anoncore.risk.population.sizes import GroupSizes, PitmanEwens


@dataclass(frozen=True)
class Reidentifications:
    """Records that are traced on average, with an interval.

    Parameters
    ----------
    n, population : records of the sample and people of the population
    expected : Σ over records of 1/F, F people of the population having the record's key
    lower, upper : within which that sum of this sample lies
    """

    n: int
    population: float
    expected: float
    lower: float
    upper: float

    @property
    def share(self) -> float:
        """The share of the records that is traced."""
        return self.expected / self.n


def expected_reidentifications(sizes: ArrayLike, population: float, *, confidence: float = 0.95) -> Reidentifications:
    """Estimate how many records an attacker would trace who knows every person's key, and picks one that fits.

    Parameters
    ----------
    sizes : (G,) records of the sample in each group of equal keys, 1 or more
    population : people of the population N, at least the n records
    confidence : of the interval, between 0 and 1

    Returns
    -------
    Reidentifications

    Raises
    ------
    AnonymizationError
        When sizes are no group sizes, or the population is smaller than the sample.

    Notes
    -----
    Claim: on average over simple random samples Σ 1/F is n/N times the number of different keys of the population.
    That number is estimated twice: by the Pitman–Ewens distribution given the sample, u + (u + θ/α)·(Γ(θ + N +
    α)Γ(θ + n)/(Γ(θ + n + α)Γ(θ + N)) − 1), and by Shlosser's estimator, which assumes no distribution. The interval
    reaches from the smaller to the larger of both, wider by the error of the parameters and that of a Poisson number.
    In six populations that are known it covers what is known in 92 % of 200 samples at least, of 2, 5, 10 and 20 % of
    the people. The sum of individual risks, which takes each group by itself, is up to eight times too low there.

    Source: Pitman (1996), *Statistics, Probability and Game Theory*, 245–267, proposition 11; Hoshino (2001); Haas and
    Stokes (1998). The interval is our own; tests/benchmarks/test_bench_population_risk.py measures it.

    Examples
    --------
    >>> found = expected_reidentifications([1] * 60 + [2] * 10 + [5] * 4, 1000)
    >>> round(found.expected, 1), round(found.lower, 1), round(found.upper, 1)
    (40.7, 21.2, 62.3)
    """
    total = float(population)
    found = GroupSizes.of(sizes, total)
    n, groups, fraction = found.records, float(found.groups), found.records / total
    if fraction >= 1.0:
        return Reidentifications(n, total, groups, groups, groups)
    model, plain, error = PitmanEwens.fitted(found), fraction * found.groups_of_population(fraction), 0.0
    expected = plain
    if model is not None:
        expected = min(fraction * model.groups(found, total), groups)
        error = model.groups_error(found, total)
    z, edges = normal_quantile(confidence), (min(plain, expected), max(plain, expected))
    low, high = (edge + side * math.sqrt((error * edge) ** 2 + edge) for edge, side in zip(edges, (-z, z), strict=True))
    return Reidentifications(n, total, expected, max(low, fraction * groups), min(high, groups))
