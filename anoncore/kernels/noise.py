"""Additive normal noise whose covariance is that of the data, with three ways to correct for it."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import InfeasibleError
from anoncore.kernels.principal_axes import Basis, basis, symmetric_root
from anoncore.kernels.rows import row_blocks

Floats = NDArray[np.float64]
Correction = Literal["corrected", "exact", "none"]
Axes = Literal["original", "spectral"]

# Below this eigenvalue of the noisy records' covariance, whitening would only amplify noise.
_DEGENERATE = 1e-8
# A column of which no more than this share is new is a combination of those before it.
_DEPENDENT = 1e-7
# A column that varies less than this, relative to the one that varies most, is constant but for rounding.
_CONSTANT = 1e-10


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
        For "exact" alone: whether covariances are restored by triangular factors, column by column, or
        symmetrically along the principal axes.

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

    The noise is Z Sigma^(1/2) sqrt(b), Z standard normal and the root symmetric: noise built column by column or
    on every principal score has the same law, and depends on the order of columns or on the signs of axes
    besides. What the paper expects from spectral axes over independent noise on every column, noise of
    covariance b Sigma has already. Only "exact" distinguishes the axes. Triangular factors go by column order:
    the first column is merely rescaled, the last takes from all others. Along principal axes the whitened
    records are made uncorrelated by the least change.

    Source: Kim (1986), Tendick & Matloff (1994) and Lasko & Vinterbo (2010), section IV-B:
    Y = X + E, Z = c Y + (1 - c) mean(X), c = 1 / sqrt(1 + b); exact: Z = mean(X) + (Y - mean(Y))
    L_Y^-T L_X^T. Departures: but for "none" the noise is centred, as the means of their Table I, exact to
    1e-13, require; where Sigma is singular the triangular factors are those of the first columns that are
    linearly independent, which the others follow; along principal axes the factor of the whitened records W is
    the symmetric cov(W)^(-1/2), which no sign or order of axes changes.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> z = add_noise(x, b=0.1, rng=np.random.default_rng(1), correction="exact")
    >>> bool(np.allclose(np.cov(z.T), np.cov(x.T)))
    True
    """
    frame = basis(x)
    loadings = frame.loadings[:, frame.live]
    # Sigma = root @ root.T, with divisor N - 1: centred noise then has covariance b Sigma on average.
    root = loadings * (frame.singular_values[frame.live] / np.sqrt(len(x) - 1))
    if correction == "exact":
        white = _whitened(x, frame, np.sqrt(b), rng)
        return _recoloured(white, root, axes, frame.center)
    factor = np.sqrt(b) * root @ loadings.T
    result = np.empty(x.shape)
    for rows in row_blocks(len(x)):
        result[rows] = rng.standard_normal(x[rows].shape) @ factor
    if correction == "none":
        return np.add(result, x, out=result)
    drift = result.mean(axis=0)
    for rows in row_blocks(len(x)):
        result[rows] += (x[rows] - frame.center) - drift
        result[rows] /= np.sqrt(1.0 + b)
        result[rows] += frame.center
    return result


def _whitened(x: Floats, frame: Basis, scale: float, rng: np.random.Generator) -> Floats:
    """Return noisy records, centred, in standard deviations along each live axis of ``x``: (N, r).

    Their covariance is near 1 + b in every direction, so that nothing here is ill-conditioned, however short an
    axis is.
    """
    loadings = frame.loadings[:, frame.live]
    to_white = loadings / (frame.singular_values[frame.live] / np.sqrt(len(x) - 1))
    white = np.empty((len(x), loadings.shape[1]))
    for rows in row_blocks(len(x)):
        np.matmul(x[rows] - frame.center, to_white, out=white[rows])
        white[rows] += scale * rng.standard_normal(x[rows].shape) @ loadings
    white -= white.mean(axis=0)
    return white


def _recoloured(white: Floats, root: Floats, axes: Axes, center: Floats) -> Floats:
    """Return (N, n) records with exactly the covariance root @ root.T, from whitened noisy ones (N, r)."""
    gram = np.zeros((white.shape[1], white.shape[1]))
    for rows in row_blocks(len(white)):
        gram += white[rows].T @ white[rows]
    gram /= len(white) - 1
    if np.linalg.eigvalsh(gram).min(initial=1.0) < _DEGENERATE:
        raise InfeasibleError(
            f"correction: exact needs noisy records that are not collinear, which {len(white)} records on "
            f"{len(gram)} axes did not give; use more records or correction: corrected"
        )
    if axes == "spectral":
        back = symmetric_root(gram, inverse=True) @ root.T
    else:
        # (Y - mean) L_Y^-T L_X^T, both factors written as an orthogonal frame times a triangle.
        lower, first = np.linalg.cholesky(gram), _independent(root)
        back = _triangular_frame(root @ lower, first) @ _triangular_frame(root, first).T @ root.T
        back = np.linalg.solve(lower.T, back)
    result = np.empty((len(white), len(root)))
    for rows in row_blocks(len(white)):
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
    """Return the first columns of the data, (r,) rows of ``root``, that are no combinations of earlier ones."""
    frame = np.zeros((0, root.shape[1]))
    chosen: list[int] = []
    lengths = np.linalg.norm(root, axis=1)
    for number, row in enumerate(root):
        rest = row - (frame @ row) @ frame
        # Once more, so that what is left is at right angles up to rounding.
        rest -= (frame @ rest) @ frame
        length = float(np.linalg.norm(rest))
        if length > max(_DEPENDENT * lengths[number], _CONSTANT * lengths.max()) and len(chosen) < root.shape[1]:
            frame = np.vstack([frame, rest / length])
            chosen.append(number)
    return np.array(chosen, dtype=np.intp)


def strip_noise(noisy: Floats, covariance: Floats) -> Floats:
    """Estimate the records behind additive noise of known covariance: the stripping attack.

    Parameters
    ----------
    noisy : (N, n) float
        Records plus noise, any units. No missing values.
    covariance : (n, n) float
        Of the noise, which the attacker knows from the method statement.

    Returns
    -------
    (N, n) float
        ȳ + (y − ȳ)(I − S⁺R), S being the covariance of ``noisy`` and R that of the noise.

    Notes
    -----
    Claim: of all estimates that are linear in the noisy record, the one with the least mean squared error, up to the
    sampling of S. Noise of covariance bΣ shrinks by the same factor along every axis, so that nothing is gained
    but (1 + b)^(−1/2); independent noise is removed from the axes along which the data do not vary.

    Source: Huang, Du and Chen 2005, *Deriving private information from randomized data*, SIGMOD, the Bayes estimate;
    it is at least as close as the filter of Kargupta et al. 2005, which Lasko and Vinterbo 2010 cite.

    Examples
    --------
    >>> strip_noise(np.array([[2.0], [-2.0]]), np.array([[4.0]])).tolist()
    [[1.0], [-1.0]]
    """
    mean = noisy.mean(axis=0)
    total = np.atleast_2d(np.cov(noisy, rowvar=False))
    return mean + (noisy - mean) @ (np.eye(len(total)) - np.linalg.pinv(total) @ covariance)
