"""Trees whose leaves hold donors: records from which values are drawn for the records of the leaf."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, f

from anoncore.kernels.threads import in_threads

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Singles = NDArray[np.float32]

# Above so many records splits are sought among 255 cuts of each predictor, at places of so many records.
_EVERY_CUT, _PLACED = 50_000, 20_000
_GRID = 1024  # parts of a predictor's range, to find the place of a number among cuts
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
    independent : float, at least 1
        Independent targets that a unit has on average, for the tests; see `independent_targets`.
    """

    least: int
    significance: float
    independent: float = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class _Nodes:
    """The nodes of a tree, children after their parents.

    Parameters
    ----------
    left, right : the children, −1 in a leaf; records up to the ``threshold`` of the ``feature`` go left
    size, impurity : weight of the records, and mean squared distance from their mean, or Gini's impurity
    """

    left: Integers
    right: Integers
    feature: Integers
    threshold: Floats
    size: Floats
    impurity: Floats

    @classmethod
    def grow(cls, table: Singles, target: NDArray[np.generic], weight: Floats, least: float, seed: int) -> _Nodes:
        """Grow a tree over (N, p) predictors, of classes (integers or booleans) or numbers (float)."""
        if len(table) > _EVERY_CUT:
            return cls._from_cells(table, target, weight, least)
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        kind = DecisionTreeRegressor if target.dtype.kind == "f" else DecisionTreeClassifier
        share = min((least - 1e-6) / weight.sum(), 0.5)
        tree = kind(min_weight_fraction_leaf=share, random_state=seed)
        grown = tree.fit(table, target, sample_weight=weight).tree_
        children = grown.children_left.astype(np.intp), grown.children_right.astype(np.intp)
        feature = np.maximum(grown.feature, 0).astype(np.intp)
        return cls(*children, feature, grown.threshold.copy(), grown.weighted_n_node_samples.copy(), grown.impurity)

    @classmethod
    def _from_cells(cls, table: Singles, target: NDArray[np.generic], weight: Floats, least: float) -> _Nodes:
        """Grow a tree whose splits lie between the cells into which each predictor is cut."""
        from anoncore.kernels._donor_tree_compiled import grown

        values, classes = target.astype(np.float64), 0
        if target.dtype.kind != "f":
            levels, codes = np.unique(target, return_inverse=True)
            values, classes = codes.astype(np.float64), len(levels)
        cuts = [_cut(column) for column in table.T]
        placed = np.empty((table.shape[1], len(table)), dtype=np.uint8)

        def place(j: int) -> None:
            placed[j] = _cells(np.ascontiguousarray(table[:, j]), cuts[j])

        for _ in in_threads(place, range(len(cuts))):
            pass
        left, right, feature, cell, size, impurity = grown(placed, values, weight, classes, least - 1e-6)
        inner = left >= 0
        threshold = np.zeros(len(left))
        threshold[inner] = [cuts[j][at] for j, at in zip(feature[inner], cell[inner], strict=True)]
        return cls(left, right, np.maximum(feature, 0), threshold, size, impurity)

    def leaf_of(self, table: Singles) -> Integers:
        """Return the leaf of each row of ``table`` (M, p)."""
        from anoncore.kernels._donor_tree_compiled import leaves

        found = np.empty(len(table), dtype=np.intp)
        step = 1 << 16

        def block(start: int) -> None:
            rows = slice(start, start + step)
            found[rows] = leaves(table[rows], self.feature, self.threshold, self.left, self.right)

        for _ in in_threads(block, range(0, len(table), step)):
            pass
        return found


def _cut(column: Singles) -> Singles:
    """Return at most 255 ascending cuts of a column: all of its values, or quantiles; none of a constant."""
    placed = np.sort(column[:: max(1, len(column) // _PLACED)])
    known = np.unique(np.concatenate([placed, [column.min(), column.max()]]))
    if len(known) <= 256:
        return known[:-1]
    return np.unique(placed[np.linspace(0, len(placed) - 1, 257).astype(np.intp)[1:-1]])


def _cells(column: Singles, cuts: Singles) -> NDArray[np.uint8]:
    """Return (N,) how many cuts lie below each value."""
    from anoncore.kernels._donor_tree_compiled import cells

    if not len(cuts):
        return np.zeros(len(column), dtype=np.uint8)
    ends = cuts[0] + (cuts[-1] - cuts[0]) * np.arange(_GRID) / _GRID
    return np.asarray(cells(column, cuts, np.searchsorted(cuts, ends)), dtype=np.uint8)


@dataclass(frozen=True, eq=False, repr=False)
class DonorTree:
    """A grown and pruned tree over (N, p) predictors, whose leaves hold at least so many statistical units.

    Build it with `DonorTree.grow`.

    Examples
    --------
    >>> x = np.arange(100.0, dtype=np.float32)[:, None]
    >>> tree = DonorTree.grow(x, x[:, 0] > 49, LeafRule(20, 0.05), rng=np.random.default_rng(0))
    >>> bool((tree.donors(tree.leaf_of(x[:10]), np.random.default_rng(1)) < 50).all())
    True
    """

    nodes: _Nodes | None
    kept: Integers
    ordered: Integers
    leaves: Integers

    @classmethod
    def grow(
        cls,
        predictors: Singles,
        target: NDArray[np.generic],
        rule: LeafRule,
        *,
        rng: np.random.Generator,
        weights: Floats | None = None,
    ) -> DonorTree:
        """Grow a classification or regression tree, and remove splits that chance explains.

        Parameters
        ----------
        predictors : (N, p) float32
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

        Of more than 50 000 records splits are sought among 255 cuts of each predictor, quantiles of 20 000 records, and
        the first of equally good ones is taken; predictors of at most 256 values lose nothing by it.

        Source: Breiman, Friedman, Olshen and Stone 1984 (CART); Light and Margolin 1971 (CATANOVA). Pruning by
        significance after Hothorn, Hornik and Zeileis 2006. Cuts: Ke et al. 2017 (LightGBM).
        """
        weight = np.ones(len(target)) if weights is None else weights
        kept, leaf = np.zeros(1, dtype=np.intp), np.zeros(len(target), dtype=np.intp)
        nodes = None
        if predictors.shape[1] and weight.sum() >= 2 * rule.least:
            classes = 0 if target.dtype.kind == "f" else len(np.unique(target))
            nodes = _Nodes.grow(predictors, target, weight, rule.least, int(rng.integers(2**31)))
            level = rule.significance / (_CUTS * predictors.shape[1])
            kept = _kept_nodes(nodes, classes, level, rule.independent)
            leaf = kept[nodes.leaf_of(predictors)]
        order = np.argsort(leaf, kind="stable")
        return cls(nodes, kept, order, leaf[order])

    def donors(self, leaf: Integers, rng: np.random.Generator) -> Integers:
        """Draw for each number of a leaf (M,), see `leaf_of`, a record of it: (M,) numbers of grown-from records."""
        first, last = (np.searchsorted(self.leaves, leaf, side) for side in ("left", "right"))
        return self.ordered[first + (rng.random(len(leaf)) * (last - first)).astype(np.intp)]

    def leaf_of(self, predictors: Singles) -> Integers:
        """Return the number of the leaf of each row of ``predictors`` (M, p)."""
        if self.nodes is None or not len(predictors):
            return np.zeros(len(predictors), dtype=np.intp)
        return np.asarray(self.kept[self.nodes.leaf_of(predictors)])

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

    def at(self, predictors: Singles, leaf: Integers) -> Floats:
        """Return (M,) how far the line of ``leaf`` (M,) lies above the leaf's mean at ``predictors`` (M, p)."""
        if not predictors.shape[1]:
            return np.zeros(len(predictors))
        own = np.searchsorted(self.leaves, leaf)
        x = predictors[np.arange(len(leaf)), self.predictor[own]]
        return np.asarray(self.slope[own] * (x - self.centre[own]))


def leaf_lines(
    tree: DonorTree, predictors: Singles, target: Floats, significance: float, weights: Floats | None = None
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
    Variables that few records hold together share few leaves, within which their relation is lost otherwise. A slope is
    shrunk by 1 − c / F for what chance gives at most, c: it is 0 where its test just passes, so that no single person
    decides whether there is a line, but one may decide which predictor it follows. Source: Quinlan 1992 (model trees),
    with one predictor a leaf; Breiman 1995 (garrote).
    """
    leaves, starts = np.unique(tree.leaves, return_index=True)
    w = (np.ones(len(target)) if weights is None else weights)[tree.ordered]
    size = np.add.reduceat(w, starts)
    if not predictors.shape[1]:
        return LeafLines(leaves, np.zeros(len(leaves), dtype=np.intp), np.zeros(len(leaves)), np.zeros(len(leaves)))
    y, counts = target[tree.ordered], np.diff([*starts, len(target)])

    def mean(values: Floats) -> Floats:
        return np.asarray(np.add.reduceat(values, starts) / size)

    y = np.asarray(y - np.repeat(mean(y * w), counts))
    yy = mean(y**2 * w)
    centre, xx, xy = np.empty((3, predictors.shape[1], len(leaves)))
    for j, column in enumerate(predictors.T):
        x = column[tree.ordered].astype(np.float64)
        centre[j] = mean(x * w)
        x -= np.repeat(centre[j], counts)
        xx[j], xy[j] = mean(x**2 * w), mean(x * y * w)
    explained = np.where(xx > 1e-9, xy**2 / np.maximum(xx, 1e-9), 0.0)
    chosen = explained.argmax(axis=0).astype(np.intp)
    rows = np.arange(len(leaves))
    best, freedom = explained[chosen, rows], np.maximum(size - 2, 1.0)
    by_chance = f.isf(significance / len(explained), 1, freedom)
    kept = np.maximum(1 - by_chance * np.maximum(yy - best, 1e-12) / np.maximum(best * freedom, 1e-12), 0.0)
    slope = kept * xy[chosen, rows] / np.maximum(xx[chosen, rows], 1e-9)
    return LeafLines(leaves, chosen, slope, centre[chosen, rows])


def _kept_nodes(grown: _Nodes, classes: int, level: float, independent: float) -> Integers:
    """Return for each node the node at which its records stay, after pruning."""
    left, right, n, impurity = grown.left, grown.right, grown.size, grown.impurity
    inner = np.flatnonzero(left >= 0)
    within = n[left[inner]] * impurity[left[inner]] + n[right[inner]] * impurity[right[inner]]
    total, size = n[inner] * impurity[inner], n[inner] * independent
    gain = np.maximum(total - within, 0.0)
    least = 1e-12 * max(float(total.max(initial=0.0)), 1e-300)
    if classes:
        p = np.asarray(chi2.sf((size - 1) * (classes - 1) * gain / np.maximum(total, least), classes - 1))
    else:
        freedom = np.maximum(size - 2, 1.0)
        p = np.asarray(f.sf(gain * freedom / np.maximum(within, least), 1, freedom))
    split = np.zeros(len(left), dtype=bool)
    split[inner] = p * len(inner) <= level
    for node in inner[::-1]:  # children have larger numbers than their parents
        split[node] |= split[left[node]] | split[right[node]]
    stays = np.arange(len(left))
    for node in inner:
        if not split[node] or stays[node] != node:
            stays[[left[node], right[node]]] = stays[node]
    return stays


def independent_targets(target: NDArray[np.generic], units: Integers) -> float:
    """Return how many independent targets a statistical unit has on average.

    Parameters
    ----------
    target : (N,) classes (integers or booleans), or numbers (float)
    units : (N,) int, the unit of each record

    Returns
    -------
    float
        1 where the records of a unit are all alike, N / n where they are as different as those of n units: the mean of
        m / (1 + (m − 1) ρ) over units of m records.

    Notes
    -----
    ρ is the intraclass correlation by analysis of variance (Donner and Koval 1980), of classes over their indicators
    together. Variances of means grow by 1 + (m − 1) ρ where predictors are constant in a unit, and by less where they
    are not (Moulton 1986), so that tests by this number are conservative.
    """
    _, unit, size = np.unique(units, return_inverse=True, return_counts=True)
    n, groups = len(units), len(size)
    if n == groups or groups < 2:
        return 1.0
    if target.dtype.kind == "f":
        values = target.astype(np.float64) - target.mean()
        explained, mean, total = np.bincount(unit, weights=values) ** 2 @ (1.0 / size), 0.0, values @ values
    else:
        levels, level, held = np.unique(target, return_inverse=True, return_counts=True)
        cells, by_cell = np.unique(unit * len(levels) + level, return_counts=True)
        explained, mean, total = by_cell**2 @ (1.0 / size[cells // len(levels)]), float((held**2).sum()) / n, n
    between, within = float(explained - mean) / (groups - 1), float(total - explained) / (n - groups)
    typical = (n - float((size**2).sum()) / n) / (groups - 1)
    spread = between + (typical - 1.0) * within
    rho = min(max((between - within) / spread, 0.0), 1.0) if spread > 0 else 1.0
    return float((size / (1.0 + (size - 1.0) * rho)).mean())


def target_groups(target: NDArray[np.generic]) -> Integers:
    """Return (N,) the place of each class, or of numbers (float) the tenth by rank."""
    if target.dtype.kind != "f":
        return np.unique(target, return_inverse=True)[1]
    groups = np.empty(len(target), dtype=np.intp)
    groups[np.argsort(target, kind="stable")] = np.arange(len(target)) * _PARTS // len(target)
    return groups


def level_scores(codes: Integers, groups: Integers, n_levels: int) -> Floats:
    """Place the levels of a predictor along axes that order them by what they say of the target.

    Parameters
    ----------
    codes : (N,) int, 0..n_levels-1
    groups : (N,) of the target, by `target_groups`
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
    width = int(groups.max(initial=0)) + 1
    table = np.bincount(codes * width + groups, minlength=n_levels * width).reshape(n_levels, width).astype(np.float64)
    held, share = table.sum(axis=1, keepdims=True), table.sum(axis=0) / len(groups)
    size = np.sqrt(np.maximum(held, 0.5))
    away = ((table + _SHRINKAGE * share) / (held + _SHRINKAGE) - share) / np.sqrt(np.maximum(share, 1e-12))
    u, s, _ = np.linalg.svd(away * size, full_matrices=False)
    scores: Floats = (u * s)[:, :_AXES] / size
    return scores
