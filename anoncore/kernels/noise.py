"""Additive normal noise whose covariance is that of the data, with three ways to correct for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import InfeasibleError
from anoncore.kernels.spectral import basis

Floats = NDArray[np.float64]
Correction = Literal["corrected", "exact", "none"]
Axes = Literal["original", "spectral"]

_BLOCK_ROWS = 32_768
# Axes shorter than this, relative to the longest, are rounding noise of constant or dependent columns.
_NULL_AXIS = 1e-10
# Below this eigenvalue of the noisy records' covariance, whitening would only amplify noise.
_DEGENERATE = 1e-8
# A column of which no more than this share is new is a combination of those before it.
_DEPENDENT = 1e-7


def add_noise(
    x: Floats,
    *,
    b: float,
    rng: np.random.Generator,
    correction: Correction = "corrected",
    axes: Axes = "original",
) -> Floats:
    """Add normal noise of covariance b Sigma, Sigma being the covariance of the records.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, N >= 2, any units. No missing values.
    b : float
        Variance of the noise as a share of the variance of the data; above 0.
    rng : numpy.random.Generator
        Source of the noise. Its seed is a secret.
    correction : {"corrected", "exact", "none"}
        Shrink towards the means so that means are exact and covariances right on average; transform so that
        covariances are exact too; or leave variances inflated by 1 + b.
    axes : {"original", "spectral"}
        Whether the noise is built by the Cholesky factor of Sigma, column by column, or as independent noise
        on every principal score, in proportion to that score's variance.

    Returns
    -------
    (N, n) float
        Record i stems from record i of ``x``.

    Raises
    ------
    InfeasibleError
        If ``exact`` is asked of so few records that noisy ones are collinear.

    Notes
    -----
    Claim: "corrected" has exact means (1e-13) and, over draws, the covariance of ``x``; "exact" has both
    exactly (1e-10), whatever the rank of Sigma. "none" has covariance (1 + b) Sigma on average. Linear
    relations among columns hold up to rounding in all three.

    As both factors are square roots of the same b Sigma, the two choices of axes have the same law: what
    the paper hopes for from spectral axes over independent noise on every column, noise of covariance b Sigma
    has already. Only "exact" tells them apart. Its triangular factors go by column order (the first column is
    merely rescaled, the last takes from all others) or by order of axes.

    Source: Kim (1986), Tendick & Matloff (1994) and Lasko & Vinterbo (2010), section IV-B:
    Y = X + E, Z = c Y + (1 - c) mean(X), c = 1 / sqrt(1 + b); exact: Z = mean(X) + (Y - mean(Y))
    L_Y^-T L_X^T. Departures: but for "none" the noise is centred, as the means of their Table I, exact to
    1e-13, require; where Sigma is singular the triangular factors are those of the first columns that are
    linearly independent, which the others follow.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> z = add_noise(x, b=0.1, rng=np.random.default_rng(1), correction="exact")
    >>> bool(np.allclose(np.cov(z.T), np.cov(x.T)))
    True
    """
    frame = basis(x)
    lengths = frame.singular_values
    live = lengths > _NULL_AXIS * lengths.max(initial=0.0)
    # Sigma = root @ root.T, with divisor N - 1: centred noise then has covariance b Sigma on average.
    deviations = lengths[live] / np.sqrt(len(x) - 1)
    root = frame.loadings[:, live] * deviations
    turn = np.eye(len(deviations))
    if axes == "original":
        turn = _triangular_frame(root, _independent(root)).T
    if correction == "exact":
        to_white = frame.loadings[:, live] / deviations
        return _exact(x, frame.center, to_white, root, np.sqrt(b) * turn, rng, axes)
    shrink = 1.0 if correction == "none" else 1.0 / np.sqrt(1.0 + b)
    factor = np.sqrt(b) * turn @ root.T
    result = np.empty(x.shape)
    drift = np.zeros(x.shape[1])
    for rows in _blocks(len(x)):
        noise = rng.standard_normal((rows.stop - rows.start, len(deviations))) @ factor
        drift += noise.sum(axis=0)
        result[rows] = noise
    drift /= len(x)
    for rows in _blocks(len(x)):
        if correction == "none":
            result[rows] += x[rows]
        else:
            result[rows] += (x[rows] - frame.center) - drift
            result[rows] *= shrink
            result[rows] += frame.center
    return result


def _exact(
    x: Floats,
    center: Floats,
    to_white: Floats,
    root: Floats,
    spread: Floats,
    rng: np.random.Generator,
    axes: Axes,
) -> Floats:
    """Whiten noisy records along the axes of ``x``, and give them its covariance.

    Whitened, records have covariance near 1 + b in every direction, so that nothing here is ill-conditioned,
    however short an axis is.
    """
    white = np.empty((len(x), root.shape[1]))
    for rows in _blocks(len(x)):
        np.matmul(x[rows] - center, to_white, out=white[rows])
        white[rows] += rng.standard_normal((rows.stop - rows.start, len(spread))) @ spread
    white -= white.mean(axis=0)
    gram = np.zeros((white.shape[1], white.shape[1]))
    for rows in _blocks(len(x)):
        gram += white[rows].T @ white[rows]
    gram /= len(x) - 1
    if np.linalg.eigvalsh(gram).min(initial=1.0) < _DEGENERATE:
        raise InfeasibleError(
            f"correction: exact needs noisy records that are not collinear, which {len(x)} records on "
            f"{len(gram)} axes did not give; use more records or correction: corrected"
        )
    lower = np.linalg.cholesky(gram)
    back = root.T
    if axes == "original":
        # (Y - mean) L_Y^-T L_X^T, both factors written as an orthogonal frame times a triangle.
        first = _independent(root)
        back = _triangular_frame(root @ lower, first) @ _triangular_frame(root, first).T @ back
    back = np.linalg.solve(lower.T, back)
    result = np.empty(x.shape)
    for rows in _blocks(len(x)):
        np.matmul(white[rows], back, out=result[rows])
        result[rows] += center
    return result


def _triangular_frame(root: Floats, columns: NDArray[np.intp]) -> Floats:
    """Return the orthogonal Q for which root[columns] @ Q is lower triangular, its diagonal positive.

    root : (n, r) of rank r; columns : (r,) those of :func:`_independent`. For S = root @ root.T of full rank,
    root @ Q is the Cholesky factor of S.
    """
    q, r = np.linalg.qr(root[columns].T)
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)


def _independent(root: Floats) -> NDArray[np.intp]:
    """Return the first columns of the data, (r,) rows of ``root``, that no earlier ones combine to."""
    frame = np.zeros((0, root.shape[1]))
    chosen: list[int] = []
    for number, row in enumerate(root):
        rest = row - (frame @ row) @ frame
        # Once more, so that what is left is at right angles to rounding.
        rest -= (frame @ rest) @ frame
        length = float(np.linalg.norm(rest))
        if length > _DEPENDENT * np.linalg.norm(row) and len(chosen) < root.shape[1]:
            frame = np.vstack([frame, rest / length])
            chosen.append(number)
    return np.array(chosen, dtype=np.intp)


def _blocks(n_records: int) -> Iterator[slice]:
    for start in range(0, n_records, _BLOCK_ROWS):
        yield slice(start, min(start + _BLOCK_ROWS, n_records))
