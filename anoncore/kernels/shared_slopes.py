"""Linear relations that the leaves of a tree share, each too weak for a split: slopes within leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.stats import chi2

from anoncore.kernels.donor_tree import LeafRule
from anoncore.kernels.ridge import blocks

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Flags = NDArray[np.bool_]
Singles = NDArray[np.float32]

# With fewer units, an attacker who knew 20 000 strangers learned more about members from slopes than from leaves.
_UNITS_PER_PREDICTOR, _UNITS = 50, 2000
_MOST_CLASSES = 64
_PENALTY = 0.5  # times the number of predictors with a slope
_STEPS, _ENOUGH = 25, 0.1  # of the fit, at most; and the gain of log-likelihood by a full step at which it ends


def with_slopes(predictors: Singles, units: int) -> Singles:
    """Return the first of the predictors (N, p), one for every 50 statistical units.

    None of fewer than 2000 units that are too few for all predictors: there slopes told more of members.
    """
    allowed = units // _UNITS_PER_PREDICTOR
    return predictors[:, : allowed if units >= _UNITS or predictors.shape[1] <= allowed else 0]


@dataclass(frozen=True, eq=False, repr=False)
class _Within:
    """Distances of the s ``chosen`` predictors from their means (L, s) in the leaves (L,), divided by ``spread`` (s,).

    Weighted, the squares of a distance have mean 1; a predictor that does not vary within leaves has the distance 0.
    """

    leaves: Integers
    means: Floats
    spread: Floats
    chosen: Integers

    @classmethod
    def of(cls, predictors: Singles, leaf: Integers, weights: Floats) -> _Within:
        leaves, at = np.unique(leaf, return_inverse=True)
        p, size = predictors.shape[1], np.bincount(at, weights=weights)
        means = np.zeros((len(leaves), p))
        for rows in blocks(len(leaf), p):
            means += _sums(at[rows], predictors[rows].astype(np.float64), weights[rows], len(leaves))
        whole = cls(leaves, means / size[:, None], np.ones(p), np.arange(p))
        squares = sum((weights[rows] @ x**2 for rows, x in whole.blocks(predictors, leaf)), np.zeros(p))
        spread = np.sqrt(squares / weights.sum())
        return cls(leaves, whole.means, np.where(spread > 1e-6, spread, np.inf), np.arange(p))

    def only(self, chosen: Flags) -> _Within:
        """Return the distances of some of the predictors, (p,) flags."""
        return _Within(self.leaves, self.means[:, chosen], self.spread[chosen], self.chosen[chosen])

    def blocks(self, predictors: Singles, leaf: Integers) -> Iterator[tuple[slice, Floats]]:
        """Yield rows and their distances, in blocks, of a table of all predictors."""
        for rows in blocks(len(leaf), max(len(self.chosen), 1)):
            own = np.searchsorted(self.leaves, leaf[rows])
            yield rows, (predictors[rows][:, self.chosen] - self.means[own]) / self.spread


def slope_within(
    predictors: Singles, target: Floats, leaf: Integers, weights: Floats | None, rule: LeafRule
) -> Callable[[Singles, Integers], Floats]:
    """Return what predicts ``target`` (N,), of mean 0 in each leaf (N,), from predictors (M, p) and leaves (M,).

    By ridge regression on those of the predictors (N, p) whose relation within leaves exceeds chance. Weights and rule
    as for `tilted_shares`.
    """
    w = np.ones(len(target)) if weights is None else weights
    within = _Within.of(predictors, leaf, w)
    score, fourth = np.zeros((2, len(within.chosen)))
    for rows, x in within.blocks(predictors, leaf):
        score += (w[rows] * target[rows]) @ x
        fourth += w[rows] @ x**4
    tested = score**2 / max(float(w @ target**2), 1e-300) * rule.independent
    rests = _few_units(np.full(len(fourth), w.sum()), fourth, rule)
    shrinks = _shrinkage(tested, 1, np.isfinite(rests), rule) + rests
    chosen = np.isfinite(shrinks)
    within = within.only(chosen)
    if not chosen.any():
        return lambda table, leaves: np.zeros(len(leaves))
    products = sum((x.T * w[rows] @ x for rows, x in within.blocks(predictors, leaf)), np.zeros((chosen.sum(),) * 2))
    penalty = _PENALTY * chosen.sum() + np.diag(products) * shrinks[chosen]
    slopes = np.linalg.solve(products + np.diag(penalty), score[chosen])
    return lambda table, leaves: np.concatenate([x @ slopes for _, x in within.blocks(table, leaves)])


@dataclass(frozen=True, eq=False, repr=False)
class TiltedShares:
    """Shares of q classes, proportional to exp(log_shares of leaf and class + Σ x slope), see `tilted_shares`."""

    classes: NDArray[np.generic]
    log_shares: Floats
    within: _Within
    slopes: Floats

    def draw(self, predictors: Singles, leaf: Integers, rng: np.random.Generator) -> NDArray[np.generic]:
        """Return (M,) classes drawn for records with ``predictors`` (M, p) in leaves (M,)."""
        drawn, chance = np.empty(len(leaf), dtype=np.intp), rng.random(len(leaf))
        for rows, _, shares in self.at(predictors, leaf):
            drawn[rows] = (np.cumsum(shares, axis=1)[:, :-1] < chance[rows, None]).sum(axis=1)
        return self.classes[drawn]

    def at(self, predictors: Singles, leaf: Integers) -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield rows, their distances, and their shares of the classes, in blocks."""
        for rows, x in self.within.blocks(predictors, leaf):
            score = self.log_shares[np.searchsorted(self.within.leaves, leaf[rows])] + x @ self.slopes
            shares = np.exp(score - score.max(axis=1, keepdims=True))
            yield rows, x, shares / shares.sum(axis=1, keepdims=True)


def tilted_shares(
    predictors: Singles, target: NDArray[np.generic], leaf: Integers, weights: Floats | None, rule: LeafRule
) -> TiltedShares | None:
    """Tilt the shares of classes in leaves so that relations within leaves are carried; None where chance explains all.

    Parameters
    ----------
    predictors : (N, p)
    target : (N,) classes
    leaf : (N,) the leaf of each record
    weights : (N,) of the records, or None where all count alike
    rule : LeafRule
        A slope rests on more than ``least`` statistical units in effect, (Σ w x²)² / Σ w x⁴ over distances x from the
        mean of the leaf, of those in the class, and is 0 for classes and predictors that fewer hold;
        ``significance`` is the probability with which chance gives one predictor a slope.

    Notes
    -----
    Multinomial logistic regression with a ridge on the slopes and an intercept for each leaf and class: a class that a
    leaf does not hold is not drawn in it. At the fit each leaf has the shares of the source, and the sums of predictors
    over the records of each class are those of the source but for the ridge: what is lost within leaves of a relation
    with each predictor is restored.

    Predictors are chosen by score tests at the shares of the leaves (Rao 1948). With t the statistic and c what chance
    exceeds with probability ``significance``, the ridge adds c² / (t² − c²) of the information: a predictor by itself
    keeps 1 − (c / t)² of its slope, which is 0 where the test just passes, so that no single person decides whether
    there is a relation (after the non-negative garrote, Breiman 1995, which keeps 1 − c / t: at t = 10 c that
    still loses a tenth). For u units in effect it adds least / (u − least). t ignores that the
    classes of a leaf exclude each other, and is too small where leaves differ.

    Each step takes share · XᵀX for the information of a class, without that of two classes together, and scales the
    shares of the leaves (Deming and Stephan 1940); a step that loses likelihood is halved.
    """
    classes, codes = np.unique(target, return_inverse=True)
    if not 1 < len(classes) <= _MOST_CLASSES:
        return None
    w = np.ones(len(target)) if weights is None else weights
    within, q = _Within.of(predictors, leaf, w), len(classes)
    n_leaves, at = len(within.leaves), np.searchsorted(within.leaves, leaf)
    held = np.bincount(at * q + codes, weights=w, minlength=n_leaves * q).reshape(-1, q).astype(np.float64)
    shares = held / held.sum(axis=1, keepdims=True)
    second, fourth = np.zeros((2, n_leaves, len(within.chosen)))
    score = np.zeros((q, len(within.chosen)))
    for rows, x in within.blocks(predictors, leaf):
        squares = x**2
        second += _sums(at[rows], squares, w[rows], n_leaves)
        fourth += _sums(at[rows], squares**2, w[rows], n_leaves)
        score += _sums(codes[rows], x, w[rows], q)  # that of the shares is 0
    second, fourth, score = second.T @ shares, fourth.T @ shares, score.T
    few = _few_units(second, fourth, rule)
    rests = np.isfinite(few)
    tested = np.where(rests, score**2 / np.maximum(second, 1e-9), 0.0).sum(axis=1) * rule.independent
    freedom = np.minimum(rests.sum(axis=1), q - 1)
    shrinks = _shrinkage(tested, freedom, freedom > 0, rule)
    chosen = np.isfinite(shrinks)
    if not chosen.any():
        return None
    with np.errstate(divide="ignore"):
        start = TiltedShares(classes, np.log(shares), within.only(chosen), np.zeros((int(chosen.sum()), q)))
    few = np.where(rests, few, 0.0)[chosen]
    penalty = _PENALTY * chosen.sum() + second[chosen] * (shrinks[chosen, None] + few)
    return _Fit(predictors, codes, leaf, w, held, penalty).best(start, rests[chosen], score[chosen])


@dataclass(frozen=True, eq=False, repr=False)
class _Fit:
    """What slopes are fitted to: N records, the weight of each class in each leaf (L, q), and the ridge (s, q)."""

    predictors: Singles
    codes: Integers
    leaf: Integers
    weights: Floats
    held: Floats
    penalty: Floats

    def best(self, start: TiltedShares, rests: Flags, sums: Floats) -> TiltedShares:
        """Return the shares of largest likelihood, slopes where (s, q) ``rests``; ``sums`` are Σ w x by class."""
        inverses, best, likelihood, step = self._inverses(start.within, rests), start, -np.inf, 1.0
        move = np.zeros_like(sums), np.zeros_like(self.held)
        for _ in range(_STEPS):
            tried = replace(best, log_shares=best.log_shares + step * move[1], slopes=best.slopes + step * move[0])
            reached, gradient, totals = self._at(tried)
            reached -= float((self.penalty * tried.slopes**2).sum()) / 2
            if reached <= likelihood:
                step /= 2
                continue
            gained, best, likelihood, step = (reached - likelihood) / step, tried, reached, 1.0
            if gained < _ENOUGH:
                break
            scaled = np.log(np.where(self.held > 0, self.held / np.maximum(totals, 1e-300), 1.0))
            move = np.einsum("cij,jc->ic", inverses, sums - gradient - self.penalty * tried.slopes), scaled
        return best

    def _at(self, tilted: TiltedShares) -> tuple[float, Floats, Floats]:
        """Return the logarithm of the likelihood, and what shares expect: Σ w x by class, and the weight by leaf."""
        likelihood, sums, totals = 0.0, np.zeros(tilted.slopes.shape), np.zeros(self.held.shape)
        for rows, x, shares in tilted.at(self.predictors, self.leaf):
            w, own = self.weights[rows], np.searchsorted(tilted.within.leaves, self.leaf[rows])
            likelihood += float(w @ np.log(shares[np.arange(len(x)), self.codes[rows]]))
            sums += x.T @ (shares * w[:, None])
            totals += _sums(own, shares, w, len(totals))
        return likelihood, sums, totals

    def _inverses(self, within: _Within, rests: Flags) -> Floats:
        """Return (q, s, s) inverses of share · XᵀX and the ridge of each class, 0 where there is no slope."""
        products, w = np.zeros((len(rests),) * 2), self.weights
        for rows, x in within.blocks(self.predictors, self.leaf):
            products += x.T * w[rows] @ x
        inverses = np.zeros((rests.shape[1], *products.shape))
        shares = self.held.sum(axis=0) / self.held.sum()
        for one, own, share, penalty in zip(inverses, rests.T, shares, self.penalty.T, strict=True):
            free = np.ix_(own, own)
            one[free] = np.linalg.inv(share * products[free] + np.diag(penalty[own]))
        return inverses


def _sums(group: Integers, x: Floats, weights: Floats, n_groups: int) -> Floats:
    """Return (n_groups, p) weighted sums of the rows (n, p) of each group."""
    return np.asarray(csr_matrix((weights, (group, np.arange(len(group)))), shape=(n_groups, len(group))) @ x)


def centred(target: Floats, leaf: Integers, weights: Floats | None) -> Floats:
    """Return ``target`` (N,) less the mean of the own leaf."""
    leaves, at = np.unique(leaf, return_inverse=True)
    w = np.ones(len(target)) if weights is None else weights
    means = np.bincount(at, weights=w * target, minlength=len(leaves)) / np.bincount(at, weights=w)
    return np.asarray(target - means[at])


def _few_units(second: Floats, fourth: Floats, rule: LeafRule) -> Floats:
    """Return the ridge for the units on which slopes rest, in parts of the information; infinite for too few."""
    # A predictor that is the same throughout all leaves rests on none.
    spread = (second > 1e-9) & (fourth > 1e-200)
    effective = np.where(spread, second**2 / np.where(spread, fourth, 1.0), 0.0)
    beyond = np.maximum(effective - rule.least, 0.0)
    return np.where(beyond > 0, rule.least / np.maximum(beyond, 1e-300), np.inf)


def _shrinkage(tested: Floats, freedom: Integers | int, rests: Flags, rule: LeafRule) -> Floats:
    """Return (p,) the ridge that each predictor adds, in parts of its information; infinite where it has no slope."""
    by_chance = chi2.isf(rule.significance, np.maximum(freedom, 1))
    beyond = np.where(rests & (tested > by_chance), tested**2 - by_chance**2, 0.0)
    return np.where(beyond > 0, by_chance**2 / np.maximum(beyond, 1e-300), np.inf)
