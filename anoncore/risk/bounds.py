"""The bounds of one measure's excess, and the verdict they lead to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import norm

from anoncore.microdata.units import unit_codes
from anoncore.risk._checks import Floats, Indices
from anoncore.risk.jackknife import Deletions, set_variance
from anoncore.risk.prediction import PredictionMeasures
from anoncore.risk.verdicts import Verdict, three_way

# A thousand records cannot show an excess of 0 to be within 0.05 where many columns are nearly independent.
PASSES_WITHIN = 2.0


@dataclass(frozen=True)
class MeasureComparison:
    """One measure of a release beside the reference's: the baseline is "no excess", 0.

    Parameters
    ----------
    name : the measure
    sup_excess : largest F_released(x) − F_reference(x), as observed
    upper : largest e(x) + z·se(x), the two sets given; at or below twice the margin passes
    lower : largest e(x) − z′·se′(x), the sets' own variation counted; above the margin fails
    ks_p : p-value of the paper's one-sided Kolmogorov–Smirnov test; small means riskier
    margin, alpha : what counts as equivalent, and the level
    n : records compared
    released_median, reference_median : of the measure, for orientation
    verdict : "pass", "fail", "inconclusive" (a person must decide) or "by design"
    """

    name: str
    sup_excess: float
    upper: float
    lower: float
    ks_p: float
    margin: float
    alpha: float
    n: int
    released_median: float
    reference_median: float
    verdict: Verdict | Literal["by design"]

    @property
    def passes_within(self) -> float:
        """What the upper bound must be within to pass."""
        return PASSES_WITHIN * self.margin


@dataclass(frozen=True, eq=False, repr=False)
class Side:
    """One measure against one set: its (N,) values and, where known, those without each draw of the set.

    ``times`` is the size of the set over that of which the variance is asked for.
    """

    values: Floats
    without: Floats | None = None
    deletions: Deletions | None = None
    times: float = 1.0

    @classmethod
    def of(cls, measures: PredictionMeasures, name: str, times: float = 1.0) -> Side:
        """Take one measure out of the three."""
        deletions = measures.deletions
        without = None if deletions is None else getattr(deletions, name)
        return cls(getattr(measures, name), without, deletions, times)

    def up_to(self, grid: Floats) -> Floats:
        """Count the values at or below each grid point."""
        return np.searchsorted(np.sort(self.values), grid, side="right").astype(np.float64)

    def variance(self, grid: Floats) -> Floats:
        """Estimate the variance owed to the draw of the set; zero where no set is known."""
        if self.without is None or self.deletions is None:
            return np.zeros(len(grid))
        draw, count = self.deletions.draw, self.deletions.n_draws
        return self.times * set_variance(self.values, self.without, draw, count, grid)


def bounds(
    name: str,
    pairs: Sequence[tuple[Side, Side]],
    margin: float,
    alpha: float,
    *,
    units: Indices | None = None,
    sets: Side | None = None,
) -> MeasureComparison:
    """Compare one measure at every jump of its distribution functions, averaged over the subsamples.

    Parameters
    ----------
    name : the measure
    pairs : (released, reference) of each subsample, one pair where the sizes were equal
    margin, alpha : see :func:`anoncore.risk.compare`, where the test is described
    units : (N,) statistical unit of each record; those of one unit are not taken for independent
    sets : a sample of units from which the variation of either set is seen

    Returns
    -------
    MeasureComparison
    """
    n = len(pairs[0][0].values)
    grid = np.unique(np.concatenate([side.values for pair in pairs for side in pair]))
    codes = unit_codes(units, n)
    # Sets are samples of units, too; where those of one unit are all alike they vary so many times as much.
    alike = float((np.bincount(codes).astype(np.float64) ** 2).sum()) / n
    excess, centre, error, error_with_sets = (np.zeros(len(grid)) for _ in range(4))
    for released, reference in pairs:
        surplus = released.up_to(grid) - reference.up_to(grid)
        excess += surplus / n
        shrunk, variance = _shrunk(surplus, released.values, reference.values, codes, grid)
        centre += shrunk
        error += np.sqrt(variance)
        of_sets = alike * (released.variance(grid) + reference.variance(grid))
        if sets is not None:
            of_sets = np.maximum(of_sets, 2.0 * sets.variance(grid))
        error_with_sets += np.sqrt(variance + of_sets)
    everywhere, somewhere = float(norm.ppf(1.0 - alpha)), math.sqrt(2.0 * math.log(1.0 / alpha))
    sup, upper, lower = (
        float(curve.max()) / len(pairs)
        for curve in (excess, centre + everywhere * error, centre - somewhere * error_with_sets)
    )
    return MeasureComparison(
        name=name,
        sup_excess=sup,
        upper=upper,
        lower=lower,
        ks_p=math.exp(-n * max(0.0, sup - margin) ** 2),
        margin=margin,
        alpha=alpha,
        n=n,
        released_median=float(np.mean([np.median(released.values) for released, _ in pairs])),
        reference_median=float(np.mean([np.median(reference.values) for _, reference in pairs])),
        verdict=three_way(lower, upper, PASSES_WITHIN * margin, fails_above=margin),
    )


def _shrunk(
    surplus: Floats, released: Floats, reference: Floats, units: Indices, grid: Floats
) -> tuple[Floats, Floats]:
    """Return the adjusted Wald centre and variance of the excess at each grid point.

    With D_u(x) the surplus of unit u, of n_u records, the variance of e is that of the ratio of totals,
    Σ_u (D_u − n_u·e)² / N², after two units of mean size are added, one with all its surplus on either side. For units
    of one record it is Bonett and Price's. ΣD_u² and Σn_u·D_u are running sums over the sorted values, at each of which
    one D_u changes by one.
    """
    sizes = np.bincount(units).astype(np.float64)
    mean, total = float(sizes.mean()), float(sizes.sum() + 2.0 * sizes.mean())
    values, owner = np.concatenate([released, reference]), np.concatenate([units, units])
    change = np.repeat([1.0, -1.0], [len(released), len(reference)])
    by_unit = np.lexsort((values, owner))
    running = np.cumsum(change[by_unit])
    first = np.searchsorted(owner[by_unit], np.arange(len(sizes)))
    before = np.where(first > 0, running[first - 1], 0.0)[owner[by_unit]]
    squares = np.empty(len(values))
    # D² − (D − change)², where D is the unit's surplus after the change.
    squares[by_unit] = 2.0 * change[by_unit] * (running - before) - 1.0
    order = np.argsort(values)
    at = np.searchsorted(values[order], grid, side="right") - 1
    squared, weighted = (np.cumsum(one[order])[at] for one in (squares, change * sizes[owner]))
    centre = surplus / total
    spread = squared + 2.0 * mean**2 - 2.0 * centre * weighted + centre**2 * (float((sizes**2).sum()) + 2.0 * mean**2)
    return centre, np.maximum(spread, 0.0) / total**2
