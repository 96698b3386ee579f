"""Principal axes of a table and square roots of covariances, defined without any arbitrary choice.

Eigenvectors are unique up to their sign, and those of equal eigenvalues up to rotation: what a library returns
there differs between processors. Here signs and bases are fixed by a rule, so that the same table has the same
axes on every machine, up to rounding.

The axes come from the n x n matrix of cross-products, summed over blocks of rows. Loadings, scores and singular
values are secrets: an attacker who has them can undo most of a spectral masking. They stay inside the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.rows import row_blocks
from anoncore.kernels.ties import TIED

Floats = NDArray[np.float64]

# Axes shorter than this, relative to the longest, are rounding noise of constant or dependent columns.
NULL_AXIS = 1e-10
_NULL_EIGENVALUE = 1e-13
# Short axes are equal only if their lengths agree to this share, whatever the longest is.
_ALIKE = 1e-3
# Entries within this share of the largest are as large: far above rounding, so that rounding picks none of them.
_AS_LARGE = 1e-6


# No repr: loadings must not reach a log or a traceback.
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Basis:
    """The principal axes of a table: x = center + U D V^T.

    Parameters
    ----------
    center : (n,) float
        Column means, in the units of the columns.
    singular_values : (n,) float
        The diagonal of D, descending; the variance along an axis is its square over N.
    loadings : (n, n) float
        V, one axis per column, signs and bases of equally long axes as `canonical_axes` defines them.
    """

    center: Floats
    singular_values: Floats
    loadings: Floats

    @property
    def live(self) -> NDArray[np.bool_]:
        """(n,) axes along which records vary by more than rounding errors."""
        return self.singular_values > NULL_AXIS * self.singular_values.max(initial=0.0)


def basis(x: Floats) -> Basis:
    """Principal axes of a table, from its n x n matrix of cross-products.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values; N >= 1.

    Returns
    -------
    Basis
        Center, singular values and loadings.

    Notes
    -----
    Claim: deterministic, and the same on every machine up to rounding; memory beyond ``x`` is a few blocks of
    rows. Axes whose lengths differ by no more than 1e-11 of the longest are equally long: they get their common
    root mean square. Cross-products square the condition number, so an axis shorter than 1e-8 of the longest is
    determined only up to rotation among such axes. The singular values do not suffer: they are measured again as
    the lengths of the score columns, to about 1e-15 of the longest.

    Source: Lasko & Vinterbo (2010), section III-A. Departure: the paper calls singular values the squares of
    the eigenvalues of X^T X; they are the square roots.

    Examples
    --------
    >>> frame = basis(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]))
    >>> frame.singular_values.round(6).tolist(), frame.loadings[:, 0].round(6).tolist()
    ([7.071068, 0.0], [0.6, 0.8])
    """
    n_records, n_columns = x.shape
    center = np.sum([x[rows].sum(axis=0) for rows in row_blocks(n_records)], axis=0) / n_records
    residual = np.zeros(n_columns)
    gram = np.zeros((n_columns, n_columns))
    for rows in row_blocks(n_records):
        centred = x[rows] - center
        residual += centred.sum(axis=0)
        gram += centred.T @ centred
    # The second pass recovers what the first lost to rounding in a long sum.
    center = center + residual / n_records
    axes = np.linalg.eigh(gram)[1]

    squares = np.zeros(n_columns)
    for rows in row_blocks(n_records):
        squares += np.square((x[rows] - center) @ axes).sum(axis=0)
    order = np.argsort(-squares, kind="stable")
    lengths, axes = canonical_axes(np.sqrt(squares[order]), axes[:, order])
    return Basis(center=center, singular_values=lengths, loadings=axes)


def principal_scores(x: Floats, frame: Basis, *, order: Literal["C", "F"] = "C") -> Floats:
    """Coordinates of records on principal axes: T = U D.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, in the units of the basis.
    frame : Basis
        Center and loadings.
    order : {"C", "F"}
        Memory layout of the result: records contiguous, or axes contiguous.

    Returns
    -------
    (N, n) float
        One column per axis, longest axis first. A secret.

    Notes
    -----
    Claim: ``frame.center + principal_scores(x, frame) @ frame.loadings.T`` is ``x`` up to rounding.

    Source: Lasko & Vinterbo (2010), section III-A.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    >>> principal_scores(x, basis(x))[:, 0].round(6).tolist()
    [-5.0, 0.0, 5.0]
    """
    result = np.empty(x.shape, order=order)
    for rows in row_blocks(len(x)):
        np.matmul(x[rows] - frame.center, frame.loadings, out=result[rows])
    return result


def canonical_axes(lengths: Floats, axes: Floats) -> tuple[Floats, Floats]:
    """Fix the signs of orthonormal axes, and the basis wherever axes are equally long.

    Parameters
    ----------
    lengths : (m,) float
        Length or eigenvalue of each axis, at least 0, descending; neighbours that differ by at most 1e-11 of the
        longest, and by less than a thousandth of themselves, are equal.
    axes : (n, m) float
        Orthonormal, one axis per column.

    Returns
    -------
    lengths : (m,) float
        The same, equal ones replaced by their root mean square.
    axes : (n, m) float
        For each set of equally long axes the same space, spanned so: the first coordinate with (nearly) the
        largest share in the space lies in the half-space of the first axis, positive; then the same for what is
        left of the space. A single axis has its first (nearly) largest entry positive.

    Notes
    -----
    Claim: a function of the spaces alone, not of the axes that were given for them. Axes shorter than 1e-10 of
    the longest, which are rounding noise, are left as they are.

    Source: the pivoted Cholesky factor of the projection onto each space, which is unique (Higham 2002,
    *Accuracy and Stability of Numerical Algorithms*, section 10.3).

    Examples
    --------
    >>> turned = np.array([[0.6, 0.8], [-0.8, 0.6]])
    >>> bool(np.allclose(canonical_axes(np.ones(2), turned)[1], np.eye(2)))
    True
    """
    lengths, axes = lengths.copy(), axes.copy()
    longest = lengths.max(initial=0.0)
    live = int((lengths > NULL_AXIS * longest).sum())
    steps = lengths[: max(live - 1, 0)] - lengths[1:live]
    apart = (steps > TIED * longest) | (steps > _ALIKE * lengths[: max(live - 1, 0)])
    starts = [0, *(np.flatnonzero(apart) + 1).tolist(), live] if live else []
    for start, stop in pairwise(starts):
        lengths[start:stop] = np.sqrt(np.square(lengths[start:stop]).mean())
        axes[:, start:stop] = axes[:, start:stop] @ _rotation(axes[:, start:stop])
    return lengths, axes


def symmetric_root(matrix: Floats, *, inverse: bool = False) -> Floats:
    """Symmetric square root of a positive semi-definite matrix, or the inverse of that root.

    Parameters
    ----------
    matrix : (n, n) float
        Symmetric; eigenvalues below 1e-13 of the largest are rounding noise and count as 0.
    inverse : bool
        Whether to return matrix^(-1/2); all eigenvalues must then be above 0.

    Returns
    -------
    (n, n) float

    Notes
    -----
    Claim: the only positive semi-definite root, whatever eigenvectors a library returns.

    Source: Higham (2008), *Functions of Matrices*, theorem 1.29.

    Examples
    --------
    >>> symmetric_root(np.array([[4.0, 0.0], [0.0, 9.0]])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    values, vectors = np.linalg.eigh(matrix)
    roots = np.sqrt(np.where(values > _NULL_EIGENVALUE * values.max(initial=0.0), values, 0.0))
    return np.asarray((vectors / roots if inverse else vectors * roots) @ vectors.T)


def _rotation(axes: Floats) -> Floats:
    """Return the (m, m) orthogonal Q for which ``axes @ Q`` is the pivoted Cholesky factor of axes @ axes.T."""
    rest, rows = axes.copy(), []
    for _ in range(axes.shape[1]):
        shares = np.square(rest).sum(axis=1)
        pivot = int((shares >= (1 - _AS_LARGE) * shares.max()).argmax())
        rows.append(rest[pivot] / np.sqrt(shares[pivot]))
        rest -= np.outer(rest @ rows[-1], rows[-1])
    # Once more, so that rounding errors of the steps leave nothing that is not orthogonal.
    q, r = np.linalg.qr(np.array(rows).T)
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
