"""Averages that one contribution dominates, and averages over more groups in their place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]
Flags = NDArray[np.bool_]

# Of the largest contribution, what must stay open.
OPEN = 0.1
# Of two units each knows the other's contribution from the total, whatever they are.
FEWEST = 3
# Of the records, those by whose deviations no prediction is estimated.
OUTERMOST = 0.01
# Of a deviation, what counts as unexplained at least.
SURE = 1.0 / 3.0


class Contributions:
    """What each record contributes to totals of groups, and whether the totals give the largest of them away.

    Parameters
    ----------
    deviations : (N,) float64 from the variable's median; 0 where a record contributes nothing
    units : (N,) statistical unit of each record; None where each is one of its own
    k : a contribution that so many units make, up to what is open of it, is nobody's
    unexplained : (N,) what is left of a deviation once other variables have predicted it; None for all of it

    Notes
    -----
    Claim: a total is dominated where all but a tenth of the largest contribution d₁ follows from it for who knows the
    second. Open are the others. Who takes their total for what other variables predict is off by √Σr² of their
    unexplained parts r, as errors cancel, or, since r is not known either, by so many median ones. Where k units
    contribute what lies as near to d₁ as that, for as many records, it is not dominated.

    Source: after the p % rule for magnitude tables, Hundepool et al. 2012, *Statistical Disclosure Control*, section
    4.2.2, with p = 10. Departures: deviations from the median in place of amounts; a standard error in place of the sum
    of all others, which grows with the size of a group while what an attacker misses of it grows with the root; the
    median contribution, without which groups of ordinary values would be dominated that happen to lie near the median.

    Examples
    --------
    >>> cost = np.array([0.0, 0.0, 0.0, 700.0, 0.0, 0.0, 400.0, 700.0, 300.0])
    >>> Contributions(cost, None, 3).dominate(np.repeat([0, 1], [4, 5])).tolist()
    [True, False]
    """

    def __init__(self, deviations: Floats, units: Labels | None, k: int, unexplained: Floats | None = None) -> None:
        self._deviations, self._k = deviations, k
        self._unexplained = deviations if unexplained is None else unexplained
        self._units: Labels = np.arange(len(deviations)) if units is None else units
        of_unit = np.unique(self._units, return_inverse=True)[1]
        self._of_record = np.sort(np.bincount(of_unit, deviations) / np.bincount(of_unit))
        self._median = float(np.median(np.abs(self._unexplained)))

    def dominate(self, groups: Labels, *, slack: Floats | float = 0.0) -> Flags:
        """Return (G,) bool, whether the total of each group is dominated.

        Parameters
        ----------
        groups : (N,) group of each record, every number 0..G-1 in use
        slack : (G,) or one, by how much what is published of the total is off
        """
        return self._of(np.arange(len(groups)), groups, slack)

    def pools(self, groups: Labels, positions: Floats, means: Floats) -> Labels:
        """Join groups whose total is dominated with the nearest, until none is.

        Parameters
        ----------
        groups : (N,) group of each record, every number 0..G-1 in use
        positions : (G, m) where the groups lie, in any units
        means : (G,) what is published of each group, as a deviation; of a pool it is their weighted mean

        Returns
        -------
        (G,) int, the pool of each group, 0..P-1 in the order of their first groups

        Notes
        -----
        Claim: no pool is dominated, unless it holds all records, and none of the groups that were would seem to be
        given away by its pool's average. Dominated groups are joined with each other first, so that few others change;
        of equally near ones the first. Source: elementary.

        Examples
        --------
        >>> cost = np.array([0.0, 0.0, 700.0, 0.0, 0.0, 400.0, 0.0, 0.0, 500.0, 1.0, 2.0, 3.0])
        >>> groups, means = np.repeat([0, 1, 2, 3], 3), np.array([700.0, 400.0, 500.0, 6.0]) / 3.0
        >>> Contributions(cost, None, 3).pools(groups, np.arange(4.0)[:, None], means).tolist()
        [0, 0, 0, 0]
        """
        sizes = np.bincount(groups)
        pool, centres, weights = np.arange(len(sizes)), positions.astype(np.float64), sizes.astype(np.float64)
        records = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
        shown = [[one] if alone else [] for one, alone in zip(records, self.dominate(groups), strict=True)]
        bad = self.dominate(groups, slack=np.abs(sizes * means - np.bincount(groups, self._deviations)))
        means, standing = means.copy(), np.ones(len(sizes), dtype=bool)
        while bad.any() and standing.sum() > 1:
            one = int(np.argmax(bad))
            among = np.flatnonzero(bad if bad.sum() > 1 else standing)
            among = among[among != one]
            other = int(among[np.argmin(np.square(centres[among] - centres[one]).sum(axis=1))])
            share = weights[other] / (weights[one] + weights[other])
            for held in (centres, means):
                held[one] += share * (held[other] - held[one])
            weights[one] += weights[other]
            records[one] = np.concatenate([records[one], records[other]])
            shown[one] += shown[other]
            pool[pool == other] = one
            standing[other] = bad[other] = False
            bad[one] = self._shows([records[one], *shown[one]], means[one])
        return np.unique(pool, return_inverse=True)[1]

    def _shows(self, groups: list[Labels], mean: float) -> bool:
        """Return whether one average, taken for that of any of some groups of records, gives one unit away."""
        sizes = np.array([len(group) for group in groups])
        totals = np.array([self._deviations[group].sum() for group in groups])
        codes = np.repeat(np.arange(len(groups)), sizes)
        return bool(self._of(np.concatenate(groups), codes, np.abs(sizes * mean - totals)).any())

    def _of(self, records: Labels, groups: Labels, slack: Floats | float) -> Flags:
        """Return whether groups of some records are dominated."""
        kinds, units = np.unique(self._units[records], return_inverse=True)
        pairs, which = np.unique(groups * len(kinds) + units, return_inverse=True)
        parts, held = np.bincount(which, self._deviations[records]), np.bincount(which)
        open_, groups = np.square(np.bincount(which, self._unexplained[records])), pairs // len(kinds)
        sizes = np.bincount(groups)
        starts = np.cumsum(sizes) - sizes
        order = np.lexsort((-np.abs(parts), groups))
        top, of_top = parts[order][starts], held[order][starts]
        others = np.ones(len(order), dtype=bool)
        others[starts] = False
        others[starts[sizes > 1] + 1] = False
        misses = np.add.reduceat(np.where(others, open_[order], 0.0), starts)
        typical = np.add.reduceat(np.where(others, held[order], 0), starts) * self._median**2
        left = np.sqrt(np.maximum(misses, typical)) + slack
        found = (sizes >= FEWEST) & (top != 0) & (left <= OPEN * np.abs(top))
        value, near = (one[found] / of_top[found] for one in (top, left))
        high = np.searchsorted(self._of_record, value + near, side="right")
        low = np.searchsorted(self._of_record, value - near, side="left")
        found[found] = high - low < self._k
        return np.asarray(found)


def unexplained(deviations: Floats, others: Floats) -> Floats:
    """Return (N,) sizes of what least squares on other variables leave of deviations, without the outermost hundredth.

    Parameters
    ----------
    deviations : (N,) float64
    others : (N, m) float64, finite; with half as many records as columns or fewer nothing is explained

    Notes
    -----
    Claim: none; an attacker's prediction of what a group's other records hold, or their median where that is nearer.
    At least a third of each deviation counts as unexplained: numbers that add up to others say no more than these.
    Source: elementary.

    Examples
    --------
    >>> x = np.arange(9.0)
    >>> unexplained(3.0 * x - 12.0, x[:, None]).round(6).tolist()
    [4.0, 3.0, 2.0, 1.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    """
    ordinary = np.abs(deviations) <= np.quantile(np.abs(deviations), 1.0 - OUTERMOST)
    if ordinary.sum() <= 2 * (others.shape[1] + 1):
        return np.abs(deviations)
    design = np.column_stack([np.ones(len(others)), others])
    used = design[ordinary]
    slopes = np.linalg.lstsq(used.T @ used, used.T @ deviations[ordinary], rcond=None)[0]
    # Fitted to few records, residuals are too small.
    wider = np.sqrt(ordinary.sum() / (ordinary.sum() - design.shape[1]))
    return np.clip(wider * np.abs(deviations - design @ slopes), SURE * np.abs(deviations), np.abs(deviations))
