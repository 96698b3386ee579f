"""Ridge regression of numbers, and axes along which classes differ, on many predictors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Singles = NDArray[np.float32]

_BLOCK = 1 << 16  # records turned into double precision at a time
_AXES, _FOLDS = 3, 5
_MOST_CLASSES = 64
# Each slope adapts to the records a little: in tables of 200 to 500 units members were recognised better.
_UNITS_PER_PREDICTOR = 200
_PENALTY = 4.0  # per predictor
_PLACE = 2.0**-20  # places on axes are rounded to it: rounding errors would order what is equal


@dataclass(frozen=True, eq=False, repr=False)
class _Moments:
    """Weighted sums of products of p predictors with each other (p, p), and with q targets (p, q) or one (p,)."""

    products: Floats
    with_targets: Floats

    @classmethod
    def of(cls, predictors: Singles, targets: Floats, weights: Floats, centre: Floats, level: Floats) -> _Moments:
        """Sum over one block of records, about ``centre`` (p,) and ``level`` (q,) or ()."""
        x = predictors - centre
        weighted = x.T * weights
        return cls(weighted @ x, weighted @ (targets - level))

    def __add__(self, other: _Moments) -> _Moments:
        return _Moments(self.products + other.products, self.with_targets + other.with_targets)

    def __sub__(self, other: _Moments) -> _Moments:
        return _Moments(self.products - other.products, self.with_targets - other.with_targets)

    def slopes(self, penalty: float) -> Floats:
        """Return (p, q) or (p,) the coefficients of ridge regression."""
        return np.asarray(np.linalg.solve(self.products + penalty * np.eye(len(self.products)), self.with_targets))


def ridge(predictors: Singles, target: Floats, weights: Floats | None, penalty: float) -> Callable[[Singles], Floats]:
    """Return what predicts ``target`` (N,), less its mean, by ridge regression on predictors (N, p).

    Sums are in double precision, by blocks. Source: Hoerl and Kennard 1970; the intercept is not penalised.
    """
    w = np.ones(len(target)) if weights is None else weights
    centre, level = (w @ predictors) / w.sum(), np.asarray(w @ target / w.sum())
    moments = _Moments(np.zeros((predictors.shape[1],) * 2), np.zeros(predictors.shape[1]))
    for rows in _blocks(np.arange(len(target))):
        moments += _Moments.of(predictors[rows], target[rows], w[rows], centre, level)
    slopes = moments.slopes(penalty)
    return lambda table: _times(table, centre, slopes)


def may_have_axes(predictors: Singles, target: Integers, units: Integers) -> bool:
    """Return whether classes (N,) have axes: few enough classes, and 200 statistical ``units`` (N,) a predictor."""
    n_classes = len(np.unique(target))
    enough = len(np.unique(units)) >= _UNITS_PER_PREDICTOR * predictors.shape[1]
    return 1 < n_classes <= _MOST_CLASSES and predictors.shape[1] > 1 and enough


def class_axes(
    source: Singles, table: Singles, target: Integers, weights: Floats | None, units: Integers
) -> tuple[Singles, Singles]:
    """Return (N, a) and (M, a), a at most 3: places on the axes along which the classes of ``target`` (N,) differ most.

    Parameters
    ----------
    source, table : (N, p) and (M, p) predictors of the records that have a class, and of those that are to be placed
    target : (N,) classes
    weights : (N,) of the records, or None where all count alike
    units : (N,) numbers of the statistical units; each fifth of them is placed by slopes of the others

    Notes
    -----
    Source: discriminant analysis by optimal scoring (Hastie, Tibshirani and Buja 1994), with a ridge. Departures:
    slopes are cross-fitted, so that a record does not draw its own place towards its class; the axes themselves rest on
    all records. Equal axes are told apart by the order of the classes, and the sign is fixed, so that every machine
    places alike.
    """
    classes = np.unique(target, return_inverse=True)[1]
    w = np.ones(len(target)) if weights is None else weights
    share = np.bincount(classes, weights=w) / w.sum()
    centre, level, order = (w @ source) / w.sum(), np.sqrt(share), np.arange(len(share))
    fold = units % _FOLDS
    empty = _Moments(np.zeros((source.shape[1],) * 2), np.zeros((source.shape[1], len(share))))
    parts = [empty] * _FOLDS
    for f in range(_FOLDS):
        for rows in _blocks(np.flatnonzero(fold == f)):
            coded = (classes[rows, None] == order) / level
            parts[f] += _Moments.of(source[rows], coded, w[rows], centre, level)
    whole, penalty = sum(parts, empty), _PENALTY * source.shape[1]
    slopes = whole.slopes(penalty)
    axes = _unique_axes(slopes.T @ whole.products @ slopes)[:, : min(_AXES, len(share) - 1)]
    places = np.empty((len(source), axes.shape[1]), dtype=np.float32)
    for f, part in enumerate(parts):
        own = fold == f
        places[own] = _rounded(_times(source[own], centre, (whole - part).slopes(penalty) @ axes))
    return places, _rounded(_times(table, centre, slopes @ axes))


def _unique_axes(spread: Floats) -> Floats:
    """Return the eigenvectors of a symmetric (q, q) matrix, largest first, the same ones whatever the library."""
    order = np.arange(len(spread))
    apart = np.trace(spread) * 1e-6 * np.diag(order) / len(order)
    axes = np.linalg.eigh(spread - apart)[1][:, ::-1]
    # Cosines of whole numbers: no table of counts makes an axis orthogonal to them.
    return np.asarray(axes * np.where(np.cos(order) @ axes < 0, -1.0, 1.0))


def _rounded(places: Floats) -> Singles:
    return (np.rint(places / _PLACE) * _PLACE + 0.0).astype(np.float32)  # no −0


def _times(table: Singles, centre: Floats, slopes: Floats) -> Floats:
    return np.concatenate([(table[rows] - centre) @ slopes for rows in _blocks(np.arange(len(table)))])


def _blocks(rows: Integers) -> list[Integers]:
    """Return ``rows`` in blocks; one, empty block where there are none."""
    return [rows[start : start + _BLOCK] for start in range(0, max(len(rows), 1), _BLOCK)]
