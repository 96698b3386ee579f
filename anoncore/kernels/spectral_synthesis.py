"""Spectral synthesis: scores are drawn from the distribution of each axis, and projected back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.score_basis import ScoreBasis, score_basis
from anoncore.kernels.smoothed_values import recommended_reach, smoothed_order, without_extremes

Floats = NDArray[np.float64]
Margins = Literal["smoothed", "normal"]

# What varies less than this share of the scores varies by rounding.
_SPREADLESS = 1e-9


def synthesize(
    x: Floats,
    size: int,
    *,
    rng: np.random.Generator,
    basis_of: Callable[[Floats], ScoreBasis] = score_basis,
    margins: Margins = "smoothed",
    units: NDArray[np.intp] | None = None,
) -> Floats:
    """Draw records whose scores have the distributions of the table's, each axis independently of the others.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values; N >= 2.
    size : int
        Records to draw, at least 1.
    rng : numpy.random.Generator
        Source of all draws. Its seed is a secret.
    basis_of : callable
        Returns the scores of a table and the way back; principal axes by default.
    margins : {"smoothed", "normal"}
        Scores are drawn from the smoothed order of each axis (`smoothed_order`), or from a normal law; either of the
        axis's mean and variance without its extremes (`without_extremes`).
    units : (N,) int, optional
        Statistical unit of each record, see `smoothed_order`.

    Returns
    -------
    (size, n) float

    Notes
    -----
    Claim: given the fitted axes and distributions, records are independent draws, of expectation and covariance as the
    table's would be if on each axis the few outermost scores were less far out. An exact variance would reveal whether
    someone far from all others took part.

    Source: Lasko & Vinterbo (2010), section V, propose synthesis in a spectral basis; the smoothed bootstrap of each
    axis: Silverman and Young 1987, *Biometrika* 74, 469-479, here by ranks in place of a kernel.

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=(1000, 3)) @ np.array([[1.0, 1, 0], [0, 1, 0], [0, 0, 2]])
    >>> drawn = synthesize(x, 4000, rng=np.random.default_rng(2))
    >>> drawn.shape, bool(np.abs(np.cov(drawn.T) - np.cov(x.T)).max() < 0.5)
    ((4000, 3), True)
    """
    frame = basis_of(x)
    drawn = np.zeros((size, x.shape[1]), order="F")
    reach = recommended_reach(len(x), len(frame.live))
    for axis in frame.live:
        order = np.argsort(frame.scores[:, axis], kind="stable")
        own = None if units is None else units[order]
        inner = without_extremes(frame.scores[order, axis], units=own, rng=rng)
        if margins == "normal":
            drawn[:, axis] = rng.normal(inner.mean(), inner.std(), size)
        else:
            drawn[:, axis] = _read(smoothed_order(inner, reach, units=own), inner, size, rng)
    return frame.records(drawn)


def _read(ordered: Floats, like: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Draw from sorted scores (N,), interpolated, that are given the mean and the spread of others (N,)."""
    low, high = ordered[:-1], ordered[1:]
    mean = (low + high).mean() / 2
    spread = np.sqrt(max((np.square(low) + low * high + np.square(high)).mean() / 3 - mean**2, 0.0))
    drawn = np.interp(rng.uniform(0, len(ordered) - 1, size), np.arange(len(ordered)), ordered)
    return np.asarray(
        (drawn - mean) * (like.std() / spread if spread > _SPREADLESS * like.std() else 0.0) + like.mean()
    )
