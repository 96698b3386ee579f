"""Linear and logistic regression on arrays: weighted, with defined results for what cannot be estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from anoncore.errors import NotConvergedError
from anoncore.utility._sides import Floats, Integers

ALIASED = 1e-10  # 1 − R² of a column on those before it, below which it is taken as their combination
STEPS = 30
FIRTH_STEPS = 500
CLOSE = 1e-9
EXACT = 1e-9  # standard errors below this share of the outcome's sd are rounding

Estimator = Literal["least squares", "maximum likelihood", "Firth"]


class SeparationError(Exception):
    """The outcome is predicted perfectly, so that the likelihood has no maximum."""


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Coefficients (p,) and their standard errors (p,); ``df`` of the residuals, None where normal."""

    coefficients: Floats
    errors: Floats
    df: int | None
    estimator: Estimator


@dataclass(frozen=True, eq=False, repr=False)
class Clusters:
    """Which records depend on each other, and the strata in which such clusters were drawn.

    Parameters
    ----------
    units, strata : (N,) codes; None where each record is a cluster, and where there is one stratum
    """

    units: Integers | None = None
    strata: Integers | None = None

    def take(self, used: np.ndarray) -> Clusters:
        """Return the clusters of some records."""
        return Clusters(*(None if codes is None else codes[used] for codes in (self.units, self.strata)))


INDEPENDENT = Clusters()


def independent_columns(X: Floats, w: Floats | None) -> np.ndarray:
    """Return (p,) bool: False for a column that is a combination of those before it.

    Parameters
    ----------
    X : (N, p), the first column constant
    w : (N,) positive weights, or None
    """
    Z, _ = _standardised(X, w)
    spread = _gram(Z, w) / len(Z)
    kept = np.zeros(X.shape[1], dtype=bool)
    left = spread.copy()
    for j in range(X.shape[1]):
        if left[j, j] > ALIASED:
            kept[j] = True
            left -= np.outer(left[:, j], left[j]) / left[j, j]
    return kept


def linear(X: Floats, y: Floats, w: Floats | None, clusters: Clusters = INDEPENDENT) -> Fit:
    """Fit by least squares.

    Parameters
    ----------
    X : (N, p) of full rank, N > p, the first column constant; y : (N,); w : (N,) positive weights
    clusters : of records that depend on each other

    Returns
    -------
    Fit; errors are the sandwich's.
    """
    Z, back = _standardised(X, w)
    scaled = Z if w is None else Z * w[:, None]
    gram = _gram(Z, w)
    offset = y[0]
    target = y - offset
    b = np.linalg.solve(gram, scaled.T @ target)
    b += np.linalg.solve(gram, scaled.T @ (target - Z @ b))  # once more: the products round, residuals do not
    residuals = target - Z @ b
    df = len(y) - X.shape[1]
    spread = float(np.average((target - np.average(target, weights=w)) ** 2, weights=w))
    covariance, freedom = _sandwich(gram, scaled * residuals[:, None], clusters)
    b[0] += offset
    errors = np.maximum(_errors(covariance, back), _floor(back, spread))
    return Fit(back @ b, errors, min(df, freedom), "least squares")


def logistic(X: Floats, y: Floats, w: Floats | None, clusters: Clusters = INDEPENDENT, *, firth: bool = False) -> Fit:
    """Fit by maximum likelihood, or with Firth's penalty, which always has a maximum.

    Parameters
    ----------
    X : (N, p) of full rank, the first column constant; y : (N,) of 0 and 1, both there
    w : (N,) positive weights, mean 1
    clusters : as for :func:`linear`

    Returns
    -------
    Fit; errors are the sandwich's.

    Raises
    ------
    SeparationError
        Without the penalty, when a combination of columns determines the outcome, so that Newton's steps
        never shrink.
    NotConvergedError
        With the penalty, after 500 steps.

    Source: iteratively reweighted least squares; Firth 1993, *Biometrika* 80, 27–38; Heinze and Schemper
    2002, *Statistics in Medicine* 21, 2409–2419.
    """
    Z, back = _standardised(X, w)
    weight = np.ones(len(y)) if w is None else w
    b = np.zeros(Z.shape[1])
    share = float(np.average(y, weights=w))
    b[0] = np.log(share / (1 - share))
    b = _firth(Z, y, weight, b) if firth else _newton(Z, y, weight, b)
    p = expit(Z @ b)
    information = _gram(Z, weight * p * (1 - p))
    covariance, _ = _sandwich(information, Z * (weight * (y - p))[:, None], clusters)
    return Fit(back @ b, _errors(covariance, back), None, "Firth" if firth else "maximum likelihood")


def _newton(Z: Floats, y: Floats, weight: Floats, b: Floats) -> Floats:
    loss = _deviance(Z, y, weight, b)
    for _ in range(STEPS):
        p = expit(Z @ b)
        try:
            step = np.linalg.solve(_gram(Z, weight * p * (1 - p)), Z.T @ (weight * (y - p)))
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(step).all():
            break
        size = 1.0
        while (after := _deviance(Z, y, weight, b + size * step)) > loss + 1e-12 * abs(loss) and size > 1e-4:
            size /= 2
        b, loss = b + size * step, after
        if np.abs(step).max() < CLOSE * (1 + np.abs(b).max()):
            return b
    raise SeparationError


def _firth(Z: Floats, y: Floats, weight: Floats, b: Floats) -> Floats:
    def penalised(at: Floats) -> float:
        p = expit(Z @ at)
        sign, value = np.linalg.slogdet(_gram(Z, weight * p * (1 - p)))
        return _deviance(Z, y, weight, at) - value / 2 if sign > 0 else np.inf

    loss = penalised(b)
    for _ in range(FIRTH_STEPS):
        p = expit(Z @ b)
        bend = weight * p * (1 - p)
        information = _gram(Z, bend)
        leverage = bend * np.einsum("ij,ij->i", Z @ np.linalg.inv(information), Z)
        step = np.linalg.solve(information, Z.T @ (weight * (y - p) + leverage * (0.5 - p)))
        step *= min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-8 * (1 + np.abs(b).max()):
            return b + step
        size = 1.0
        while (after := penalised(b + size * step)) > loss and size > 1e-4:
            size /= 2
        b, loss = b + size * step, after
    raise NotConvergedError(
        f"Firth's logistic regression did not settle in {FIRTH_STEPS} steps; leave out predictors", b
    )


def _gram(Z: Floats, w: Floats | None) -> Floats:
    # One operand: the product of a matrix with itself is the faster one.
    root = Z if w is None else np.sqrt(w)[:, None] * Z
    return np.asarray(root.T @ root)


def _deviance(Z: Floats, y: Floats, weight: Floats, b: Floats) -> float:
    score = Z @ b
    return float(weight @ (np.log1p(np.exp(-np.abs(score))) + np.maximum(score, 0.0) - y * score))


def _sandwich(bread: Floats, scores: Floats, clusters: Clusters) -> tuple[Floats, int]:
    """Return the covariance (p, p) by Taylor linearisation, and its degrees of freedom: clusters less strata.

    The scores (N, p) are added up by cluster, and vary about the mean of their stratum, times n/(n − 1) for its n
    clusters; one that is alone in its stratum varies about 0. Corrected for p coefficients by (N − 1)/(N − p), which
    gives N/(N − p), HC1, where every record is a cluster. Source: Binder (1983), *International Statistical Review* 51,
    279–292.
    """
    n, p = scores.shape
    units = np.arange(n) if clusters.units is None else np.unique(clusters.units, return_inverse=True)[1]
    groups = int(units.max(initial=-1)) + 1
    totals = scores if groups == n else _added(scores, units, groups)
    freedom, factor = groups - 1, np.full(groups, groups / max(groups - 1, 1))
    if clusters.strata is not None:
        codes = np.unique(clusters.strata, return_inverse=True)[1]
        strata = np.zeros(groups, dtype=np.intp)
        strata[units] = codes
        size = np.bincount(strata, minlength=int(codes.max(initial=-1)) + 1)
        means = _added(totals, strata, len(size)) / np.maximum(size, 1)[:, None]
        means[size < 2] = 0.0
        totals, factor = totals - means[strata], (size / np.maximum(size - 1, 1))[strata]
        freedom = groups - int((size > 0).sum())
    inverse = np.linalg.inv(bread)
    correction = (n - 1) / max(n - p, 1)
    return np.asarray(inverse @ (totals.T @ (totals * factor[:, None])) @ inverse * correction), max(freedom, 1)


def _added(scores: Floats, groups: Integers, number: int) -> Floats:
    """Return (G, p) sums of scores by group."""
    return np.column_stack([np.bincount(groups, column, number) for column in scores.T])


def _errors(covariance: np.ndarray, back: Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(np.diagonal(back @ covariance @ back.T), 0.0)))


def _floor(back: Floats, spread: float) -> Floats:
    return EXACT * np.sqrt(spread) * np.sqrt((back**2).sum(axis=1))


def _standardised(X: Floats, w: Floats | None) -> tuple[Floats, Floats]:
    """Return columns of mean 0 and variance 1 beside the constant, and (p, p) the way back."""
    Z = X - X[0]  # a constant then is exactly zero
    mean = np.average(Z, axis=0, weights=w)
    Z -= mean
    scale = np.sqrt(np.average(Z**2, axis=0, weights=w))
    varies = np.ptp(X, axis=0) > 0
    Z[:, ~varies] = 0.0
    scale[~varies | (scale == 0)] = 1.0
    Z /= scale
    Z[:, 0], scale[0] = 1.0, 1.0
    back = np.diag(1.0 / scale)
    back[0, 1:] = -(X[0, 1:] + mean[1:]) / scale[1:]
    return Z, back
