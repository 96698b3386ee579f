"""Data shuffling: draw a normal table with the rank correlations of the original, and fill it by rank.

Also here: rank correlations of large tables, and what makes a matrix a correlation matrix.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from anoncore.kernels.principal_axes import canonical_axes, symmetric_root
from anoncore.kernels.rows import BLOCK_ROWS, row_blocks

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

# Each sorting thread holds a few columns beside the table.
_THREADS = 4
_SWEEPS = 100
_TOLERANCE = 1e-4
# Eigenvalues of a correlation matrix below this are zero but for rounding.
_NULL = 1e-10
# How many times more than its model a combination of known scores may vary before it is left out.
_EXCESS = 2.0


def average_ranks(x: Floats) -> Floats:
    """Rank of every value within its column, ties sharing their average.

    Parameters
    ----------
    x : (N, n) float
        Values in any units, none missing.

    Returns
    -------
    (N, n) float, columns contiguous
        Ranks 1..N.

    Notes
    -----
    Claim: ties share their average rank, so that ranks are a function of the value.

    Source: elementary.

    Examples
    --------
    >>> average_ranks(np.array([[7.0], [3.0], [7.0]])).ravel().tolist()
    [2.5, 1.0, 2.5]
    """
    result = np.empty(x.shape, order="F")

    def rank(at: int) -> None:
        values = x[:, at]
        order = np.argsort(values)
        ordered = values[order]
        ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, len(values))
        sizes = np.diff(ends, prepend=0)
        result[order, at] = np.repeat(ends - (sizes - 1) / 2, sizes)

    _for_each(rank, range(x.shape[1]), len(x))
    return result


def rank_correlation(ranks: Floats) -> Floats:
    """Pearson's correlation of ranks, which is Spearman's of the values.

    Parameters
    ----------
    ranks : (N, n) float
        As given by `average_ranks`.

    Returns
    -------
    (n, n) float
        1 on the diagonal; 0 beside a constant column.

    Notes
    -----
    Claim: Spearman's coefficient with average ranks, to rounding.

    Source: elementary.

    Examples
    --------
    >>> rank_correlation(np.array([[1.0, 3.0], [2.0, 1.0], [3.0, 2.0]])).round(6).tolist()
    [[1.0, -0.5], [-0.5, 1.0]]
    """
    n_records, n_columns = ranks.shape
    gram = np.zeros((n_columns, n_columns))
    for rows in row_blocks(n_records):
        centred = (ranks[rows] - (n_records + 1) / 2) / n_records
        gram += centred.T @ centred
    lengths = np.sqrt(np.diag(gram))
    lengths[lengths == 0] = 1.0
    correlation = gram / np.outer(lengths, lengths)
    np.fill_diagonal(correlation, 1.0)
    return np.clip(correlation, -1.0, 1.0)


def nearest_correlation(matrix: Floats) -> Floats:
    """Nearest correlation matrix, in the Frobenius norm.

    Parameters
    ----------
    matrix : (n, n) float
        Symmetric, in units of correlation.

    Returns
    -------
    (n, n) float
        Symmetric, positive semi-definite to 1e-12, 1 on the diagonal.

    Notes
    -----
    Claim: a correlation matrix is returned as it is; of any other, the nearest, sweeps ending when they
    change no entry by more than 1e-4, or after 100. A last clipping and rescaling makes the result valid in
    any case. A sweep is one eigendecomposition.

    Source: Higham (2002), Computing the nearest correlation matrix, algorithm 3.3 (alternating projections
    with Dykstra's correction).

    Examples
    --------
    >>> a = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    >>> nearest_correlation(a).round(4).tolist()[0]
    [1.0, 0.7607, 0.1573]
    """
    if np.linalg.eigvalsh(matrix).min(initial=0.0) >= 0 and (np.diag(matrix) == 1.0).all():
        return matrix.copy()
    nearest, correction = matrix.copy(), np.zeros(matrix.shape)
    for _ in range(_SWEEPS):
        before = nearest
        reduced = nearest - correction
        semidefinite = _clipped(reduced)
        correction = semidefinite - reduced
        nearest = semidefinite.copy()
        np.fill_diagonal(nearest, 1.0)
        if np.abs(nearest - before).max(initial=0.0) < _TOLERANCE:
            break
    valid = _clipped(nearest)
    lengths = np.sqrt(np.diag(valid))
    valid /= np.outer(lengths, lengths)
    np.fill_diagonal(valid, 1.0)
    return valid


def normal_correlation(rank_correlations: Floats) -> Floats:
    """Correlations that a normal table must have for its rank correlations to be these.

    Parameters
    ----------
    rank_correlations : (n, n) float
        Spearman's.

    Returns
    -------
    (n, n) float
        2 sin(pi R / 6), replaced by the nearest correlation matrix where it is none.

    Notes
    -----
    Claim: exact for continuous columns while no repair is needed. Between columns with ties the rank
    correlations of the shuffled values come out weaker than R: two columns halved at their medians keep
    (2 / pi) asin(2 sin(pi R / 6)), two thirds of a small R.

    Source: Muralidhar & Sarathy (2006), after Pearson (1907). Departure: they say nothing of matrices that
    the sine makes indefinite.

    Examples
    --------
    >>> normal_correlation(np.array([[1.0, 0.5], [0.5, 1.0]])).round(4).tolist()
    [[1.0, 0.5176], [0.5176, 1.0]]
    """
    correlation = 2.0 * np.sin(np.pi / 6.0 * rank_correlations)
    np.fill_diagonal(correlation, 1.0)
    return nearest_correlation(correlation)


def conditional_normal(
    correlation: Floats, known: Places, drawn: Places, moments: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return how standard normal columns depend on others that are known.

    Parameters
    ----------
    correlation : (n, n) float
        Correlation matrix P.
    known : (s,) int
        Columns S whose scores are known; may be empty.
    drawn : (x,) int
        Columns X to be drawn.
    moments : (s, s) float, optional
        Mean products of the known scores as they are. A combination of them that varies more than twice as much as
        P_SS says (an almost singular one would blow it up) is left out.

    Returns
    -------
    weights : (s, x) float
        Known scores times these are the conditional means: P_SS^-1 P_SX.
    covariance : (x, x) float
        P_XX - P_XS P_SS^-1 P_SX, the same for every record.

    Notes
    -----
    Claim: the conditional distribution of a multivariate normal. A singular P_SS has its pseudo-inverse.

    Source: Muralidhar & Sarathy (2006); elementary.

    Examples
    --------
    >>> p = np.array([[1.0, 0.6], [0.6, 1.0]])
    >>> [a.round(4).tolist() for a in conditional_normal(p, np.array([0]), np.array([1]))]
    [[[0.6]], [[0.64]]]
    """
    values, vectors = _eigen(correlation[np.ix_(known, known)])
    kept = values > _NULL
    if moments is not None:
        kept &= np.einsum("ij,ik,kj->j", vectors, moments, vectors) <= _EXCESS * values
    across = vectors[:, kept].T @ correlation[np.ix_(known, drawn)]
    weights = vectors[:, kept] @ (across / values[kept, None])
    covariance = correlation[np.ix_(drawn, drawn)] - across.T @ (across / values[kept, None])
    return weights, (covariance + covariance.T) / 2


def shuffling_scores(x: Floats, *, drawn: Places, rng: np.random.Generator) -> Floats:
    """Draw the normal scores by whose ranks shuffled columns are filled.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, any units; only ranks matter. No missing values.
    drawn : (x,) int
        Columns to shuffle; the others are known and guide the draw.
    rng : numpy.random.Generator
        Source of the draw. Its seed is a secret.

    Returns
    -------
    (N, x) float, columns contiguous
        Y*, about standard normal. Row i depends on the known columns of record i, and on nothing else of it:
        where every column is drawn, on no single record at all.

    Notes
    -----
    Claim: for continuous columns the rank correlations of Y*, and with the known columns, are those of ``x``
    up to sampling. A combination of known columns that varies more than twice as much as its model P_SS says
    guides nothing; the conditional covariance makes up for it.

    Source: Muralidhar & Sarathy (2006): Y* = s* P_SS^-1 P_SX + N(0, P_XX - P_XS P_SS^-1 P_SX), s* the normal
    scores of the known columns.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(1000, 2)) @ np.array([[1.0, 1.0], [0.0, 0.5]])
    >>> y = shuffling_scores(x, drawn=np.array([0, 1]), rng=np.random.default_rng(1))
    >>> bool(abs(np.corrcoef(y.T)[0, 1] - np.corrcoef(x.T)[0, 1]) < 0.05)
    True
    """
    n_records, n_columns = x.shape
    ranks = average_ranks(x)
    correlation = normal_correlation(rank_correlation(ranks))
    known = np.setdiff1d(np.arange(n_columns), drawn)
    scores = ranks[:, known]
    del ranks
    scores -= 0.5
    scores /= n_records
    ndtri(scores, out=scores)
    moments = np.zeros((len(known), len(known)))
    for rows in row_blocks(n_records):
        moments += scores[rows].T @ scores[rows] / n_records
    weights, covariance = conditional_normal(correlation, known, drawn, moments)

    root = symmetric_root(covariance)
    result = np.empty((n_records, len(drawn)), order="F")
    for rows in row_blocks(n_records):
        noise = rng.standard_normal((rows.stop - rows.start, len(drawn)))
        result[rows] = noise @ root + scores[rows] @ weights
    return result


def _eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues of a positive semi-definite matrix, descending, and eigenvectors without arbitrary choice."""
    values, vectors = np.linalg.eigh(matrix)
    return canonical_axes(np.maximum(values[::-1], 0.0), vectors[:, ::-1])


def _for_each(work: Callable[[int], None], places: range, n_records: int) -> None:
    """Work on columns side by side where they are long: sorting lets other threads run."""
    threads = min(_THREADS, os.cpu_count() or 1) if n_records > BLOCK_ROWS else 1
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, places))


def _clipped(matrix: Floats) -> Floats:
    """Return the nearest positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray((clipped + clipped.T) / 2)
