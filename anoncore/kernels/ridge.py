"""Ridge regression of numbers on many predictors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_CELLS = 1 << 22  # turned into double precision at a time


def ridge(predictors: Singles, target: Floats, weights: Floats | None, penalty: float) -> Callable[[Singles], Floats]:
    """Return what predicts ``target`` (N,), less its mean, by ridge regression on predictors (N, p).

    Sums are in double precision, by blocks. Source: Hoerl and Kennard 1970; the intercept is not penalised.
    """
    w = np.ones(len(target)) if weights is None else weights
    centre, level = (w @ predictors) / w.sum(), w @ target / w.sum()
    products, sums = np.zeros((predictors.shape[1],) * 2), np.zeros(predictors.shape[1])
    for rows in blocks(len(target), len(sums)):
        x = predictors[rows] - centre
        weighted = x.T * w[rows]
        products += weighted @ x
        sums += weighted @ (target[rows] - level)
    slopes = np.linalg.solve(products + penalty * np.eye(len(products)), sums)
    return lambda table: np.concatenate([(table[rows] - centre) @ slopes for rows in blocks(len(table), len(sums))])


def blocks(n: int, columns: int) -> list[slice]:
    """Return 0 … n − 1 in blocks of so many columns that fit in memory; one, empty block where there are none."""
    step = max(_CELLS // max(columns, 1), 1)
    return [slice(start, start + step) for start in range(0, max(n, 1), step)]
