"""Trees whose leaves hold donors: records from which values are drawn for the records of the leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, f

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

# A split is the best of about so many cuts of each predictor that are independent of each other.
_CUTS = 10
# Axes along which the levels of a predictor are placed, and records that hold them to the mean of all.
_AXES, _SHRINKAGE = 3, 5.0
_PARTS = 10  # of a number's range, by rank, in place of classes


@dataclass(frozen=True)
class LeafRule:
    """When a leaf is divided.

    Parameters
    ----------
    least : int
        Smallest number of statistical units in a leaf.
    significance : float
        Probability with which chance alone makes any split of a tree stay. A split stays if it, or one below it, is
        better than that.
    """

    least: int
    significance: float


@dataclass(frozen=True, eq=False, repr=False)
class DonorTree:
    """A grown and pruned tree over (N, p) predictors, whose leaves hold at least so many statistical units.

    Build it with `DonorTree.grow`.

    Examples
    --------
    >>> x = np.arange(100.0)[:, None]
    >>> tree = DonorTree.grow(x, x[:, 0] > 49, LeafRule(20, 0.05), rng=np.random.default_rng(0))
    >>> bool((tree.donors(x[:10], np.random.default_rng(1)) < 50).all())
    True
    """

    tree: DecisionTreeClassifier | DecisionTreeRegressor | None
    kept: Integers
    ordered: Integers
    leaves: Integers

    @classmethod
    def grow(
        cls,
        predictors: Floats,
        target: NDArray[np.generic],
        rule: LeafRule,
        *,
        rng: np.random.Generator,
        weights: Floats | None = None,
    ) -> DonorTree:
        """Grow a classification or regression tree, and remove splits that chance explains.

        Parameters
        ----------
        predictors : (N, p) float
            Stored as float32.
        target : (N,)
            Classes (integers or booleans), or numbers (float), for which squared errors are reduced.
        rule : LeafRule
        rng : numpy.random.Generator
            Decides between equally good splits.
        weights : (N,) float, optional
            One over the records of the same unit, so that units are counted; 1 by default.

        Returns
        -------
        DonorTree
            A single leaf where there is nothing to split by, or too few units.

        Notes
        -----
        The p value of a split is that of the F test of two means (numbers), or of CATANOVA, (n − 1)(q − 1) R² on
        q − 1 degrees of freedom (q classes), times 10 p for the choice among cuts, an approximation, and times the
        number of splits. Splits that chance explains adapt to single records and to nothing else.

        Source: Breiman, Friedman, Olshen and Stone 1984 (CART); Light and Margolin 1971 (CATANOVA). Pruning by
        significance after Hothorn, Hornik and Zeileis 2006.
        """
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        weight = np.ones(len(target)) if weights is None else weights
        kept, leaf = np.zeros(1, dtype=np.intp), np.zeros(len(target), dtype=np.intp)
        tree = None
        if predictors.shape[1] and weight.sum() >= 2 * rule.least:
            classes = 0 if target.dtype.kind == "f" else len(np.unique(target))
            kind = DecisionTreeClassifier if classes else DecisionTreeRegressor
            share = min((rule.least - 1e-6) / weight.sum(), 0.5)
            tree = kind(min_weight_fraction_leaf=share, random_state=int(rng.integers(2**31)))
            tree.fit(predictors.astype(np.float32), target, sample_weight=weight)
            kept = _kept_nodes(tree, classes, rule.significance / (_CUTS * predictors.shape[1]))
            leaf = kept[tree.apply(predictors.astype(np.float32))]
        order = np.argsort(leaf, kind="stable")
        return cls(tree, kept, order, leaf[order])

    def donors(self, predictors: Floats, rng: np.random.Generator) -> Integers:
        """Draw for each row of ``predictors`` (M, p) a record of its leaf: (M,) numbers of grown-from records."""
        at = self.leaf_of(predictors)
        first, last = (np.searchsorted(self.leaves, at, side) for side in ("left", "right"))
        return self.ordered[first + (rng.random(len(at)) * (last - first)).astype(np.intp)]

    def leaf_of(self, predictors: Floats) -> Integers:
        """Return the number of the leaf of each row of ``predictors`` (M, p)."""
        if self.tree is None or not len(predictors):
            return np.zeros(len(predictors), dtype=np.intp)
        return np.asarray(self.kept[self.tree.apply(predictors.astype(np.float32))])

    def variance_within(self, target: Floats) -> float:
        """Return the mean squared distance of ``target`` (N,) from the mean of the own leaf."""
        leaf = np.unique(self.leaves, return_inverse=True)[1]
        values = target[self.ordered]
        mean = np.bincount(leaf, weights=values) / np.bincount(leaf)
        return float(np.mean((values - mean[leaf]) ** 2))


@dataclass(frozen=True, eq=False, repr=False)
class LeafLines:
    """A line in each of L leaves: the predictor, the slope (0 where there is none), and the predictor's mean.

    Build it with `leaf_lines`.
    """

    leaves: Integers
    predictor: Integers
    slope: Floats
    centre: Floats

    def at(self, predictors: Floats, leaf: Integers) -> Floats:
        """Return (M,) how far the line of ``leaf`` (M,) lies above the leaf's mean at ``predictors`` (M, p)."""
        if not predictors.shape[1]:
            return np.zeros(len(predictors))
        own = np.searchsorted(self.leaves, leaf)
        x = predictors[np.arange(len(leaf)), self.predictor[own]]
        return np.asarray(self.slope[own] * (x - self.centre[own]))


def leaf_lines(
    tree: DonorTree, predictors: Floats, target: Floats, significance: float, weights: Floats | None = None
) -> LeafLines:
    """Fit a line in each leaf, by the predictor that the target follows most closely there.

    Parameters
    ----------
    tree : DonorTree, grown from these records
    predictors : (N, p) float
    target : (N,) float
    significance : float
        Probability with which chance alone gives a leaf a line; the p value is that of the F test of a correlation,
        times p.
    weights : (N,) float, optional
        As for `DonorTree.grow`.

    Notes
    -----
    Variables that few records hold together share few leaves, within which their relation is lost otherwise. Source:
    Quinlan 1992 (model trees), with one predictor a leaf.
    """
    leaves, starts = np.unique(tree.leaves, return_index=True)
    w = (np.ones(len(target)) if weights is None else weights)[tree.ordered]
    size = np.add.reduceat(w, starts)
    if not predictors.shape[1]:
        return LeafLines(leaves, np.zeros(len(leaves), dtype=np.intp), np.zeros(len(leaves)), np.zeros(len(leaves)))
    x, y = predictors[tree.ordered], target[tree.ordered]

    def mean(values: Floats) -> Floats:
        return np.asarray(np.add.reduceat(values, starts, axis=0) / size.reshape(-1, *[1] * (values.ndim - 1)))

    centre = mean(x * w[:, None])
    counts = np.diff([*starts, len(y)])
    x = x - np.repeat(centre, counts, axis=0)
    y = y - np.repeat(mean(y * w), counts)
    xx, xy, yy = mean(x**2 * w[:, None]), mean(x * (y * w)[:, None]), mean(y**2 * w)
    explained = np.where(xx > 1e-9, xy**2 / np.maximum(xx, 1e-9), 0.0)
    chosen = explained.argmax(axis=1).astype(np.intp)
    rows = np.arange(len(leaves))
    best, freedom = explained[rows, chosen], np.maximum(size - 2, 1.0)
    p = f.sf(best * freedom / np.maximum(yy - best, 1e-12), 1, freedom)
    slope = np.where(p * x.shape[1] <= significance, xy[rows, chosen] / np.maximum(xx[rows, chosen], 1e-9), 0.0)
    return LeafLines(leaves, chosen, slope, centre[rows, chosen])


def _kept_nodes(tree: DecisionTreeClassifier | DecisionTreeRegressor, classes: int, level: float) -> Integers:
    """Return for each node the node at which its records stay, after pruning."""
    grown = tree.tree_
    left, right, n, impurity = grown.children_left, grown.children_right, grown.weighted_n_node_samples, grown.impurity
    inner = np.flatnonzero(left >= 0)
    within = n[left[inner]] * impurity[left[inner]] + n[right[inner]] * impurity[right[inner]]
    total, size = n[inner] * impurity[inner], n[inner]
    gain = np.maximum(total - within, 0.0)
    least = 1e-12 * max(float(total.max(initial=0.0)), 1e-300)
    if classes:
        p = chi2.sf((size - 1) * (classes - 1) * gain / np.maximum(total, least), classes - 1)
    else:
        freedom = np.maximum(size - 2, 1.0)
        p = f.sf(gain * freedom / np.maximum(within, least), 1, freedom)
    split = np.zeros(grown.node_count, dtype=bool)
    split[inner] = p * len(inner) <= level
    for node in inner[::-1]:  # children have larger numbers than their parents
        split[node] |= split[left[node]] | split[right[node]]
    stays = np.arange(grown.node_count)
    for node in inner:
        if not split[node] or stays[node] != node:
            stays[[left[node], right[node]]] = stays[node]
    return stays


def level_scores(codes: Integers, target: NDArray[np.generic], n_levels: int) -> Floats:
    """Place the levels of a predictor along axes that order them by what they say of the target.

    Parameters
    ----------
    codes : (N,) int, 0..n_levels-1
    target : (N,) classes, or numbers (float), of which ten classes of equal size are made by rank
    n_levels : int

    Returns
    -------
    (n_levels, a) float, a at most 3; levels that few records hold lie near 0, the mean of all.

    Notes
    -----
    One cut of an ordered axis separates sets of levels, which for two classes or numbers includes the best cut of all
    (Breiman et al. 1984, theorem 4.5).

    Source: correspondence analysis of predictor by target; shares of levels shrunk as if 5 records more were average.
    """
    groups = np.unique(target, return_inverse=True)[1]
    if target.dtype.kind == "f":
        groups = np.argsort(np.argsort(target, kind="stable"), kind="stable") * _PARTS // len(target)
    table = np.zeros((n_levels, int(groups.max(initial=0)) + 1))
    np.add.at(table, (codes, groups), 1.0)
    held, share = table.sum(axis=1, keepdims=True), table.sum(axis=0) / len(target)
    size = np.sqrt(np.maximum(held, 0.5))
    away = ((table + _SHRINKAGE * share) / (held + _SHRINKAGE) - share) / np.sqrt(np.maximum(share, 1e-12))
    u, s, _ = np.linalg.svd(away * size, full_matrices=False)
    scores: Floats = (u * s)[:, :_AXES] / size
    return scores
