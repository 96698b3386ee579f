"""Trees whose leaves hold donors: records from which values are drawn for the records of the leaf."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, f
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
        weight = np.ones(len(target)) if weights is None else weights
        kept, found = np.zeros(1, dtype=np.intp), np.zeros(len(target), dtype=np.intp)
        tree = None
        if predictors.shape[1] and weight.sum() >= 2 * rule.least:
            classes = 0 if target.dtype.kind == "f" else len(np.unique(target))
            kind = DecisionTreeClassifier if classes else DecisionTreeRegressor
            share = min((rule.least - 1e-6) / weight.sum(), 0.5)
            tree = kind(min_weight_fraction_leaf=share, random_state=int(rng.integers(2**31)))
            tree.fit(predictors.astype(np.float32), target, sample_weight=weight)
            kept = _kept_nodes(tree, classes, rule.significance / (_CUTS * predictors.shape[1]))
            found = kept[tree.apply(predictors.astype(np.float32))]
        order = np.argsort(found, kind="stable")
        return cls(tree, kept, order, found[order])

    def donors(self, predictors: Floats, rng: np.random.Generator) -> Integers:
        """Draw for each row of ``predictors`` (M, p) a record of its leaf: (M,) numbers of grown-from records."""
        at = np.zeros(len(predictors), dtype=np.intp)
        if self.tree is not None and len(predictors):
            at = self.kept[self.tree.apply(predictors.astype(np.float32))]
        first, last = (np.searchsorted(self.leaves, at, side) for side in ("left", "right"))
        return self.ordered[first + (rng.random(len(at)) * (last - first)).astype(np.intp)]

    def variance_within(self, target: Floats) -> float:
        """Return the mean squared distance of ``target`` (N,) from the mean of the own leaf."""
        leaf = np.unique(self.leaves, return_inverse=True)[1]
        values = target[self.ordered]
        mean = np.bincount(leaf, weights=values) / np.bincount(leaf)
        return float(np.mean((values - mean[leaf]) ** 2))


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
