"""Spectral swapping: principal scores are permuted, each axis on its own (Lasko & Vinterbo 2010)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import InfeasibleError
from anoncore.kernels.independent_axes import independent_axes
from anoncore.kernels.principal_axes import Basis, basis, principal_scores, symmetric_root
from anoncore.kernels.rows import row_blocks
from anoncore.kernels.smoothed_values import read_near, recommended_reach, smoothed_order, without_extremes

Floats = NDArray[np.float64]
Jitter = int | Literal["auto"] | None

# Averages that vary less than this share of what is averaged vary by rounding.
_SPREADLESS = 1e-9
# Below this eigenvalue of the swapped scores' correlation matrix, whitening would only amplify noise.
_DEGENERATE = 1e-8


def swap(
    x: Floats,
    *,
    rng: np.random.Generator,
    exact_covariance: bool = False,
    jitter: Jitter = None,
    within: NDArray[np.integer] | None = None,
    units: NDArray[np.intp] | None = None,
) -> Floats:
    """Spectral swapping: every principal score is handed to another record, each axis on its own.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values.
    rng : numpy.random.Generator
        Source of the permutations and of the jitter. Its seed is a secret.
    exact_covariance : bool
        Whether the swapped scores are made exactly uncorrelated, so that covariances are exact.
    jitter : int or "auto", optional
        Over how many ranks (at least 1), either way, scores are averaged and moved before they are permuted;
        "auto" for `recommended_reach` of each cluster.
    within : (N,) int, optional
        Cluster of each record: each cluster is swapped by itself, about its own center and axes. A cluster of
        one record is released as it is; the caller keeps clusters large.
    units : (N,) int, optional
        Statistical unit of each record, see `smoothed_order`.

    Returns
    -------
    (N, n) float
        Masked records; row i has no tie to row i of ``x`` beyond its cluster.

    Raises
    ------
    InfeasibleError
        If ``exact_covariance`` is asked of so few or so tied records that their swapped scores are collinear.

    Notes
    -----
    Claim: means exact (1e-13); covariances in expectation, or with ``exact_covariance`` exact (1e-12 once
    records clearly outnumber columns); linear relations among columns exact. Not claimed: univariate
    distributions, and anything beyond second moments across axes.

    Without options each score column keeps its exact values, merely permuted. An attacker who finds an axis
    recognises members by scores that recur, and in a table of few columns axes are found by search. ``jitter=j``
    replaces the score of rank r by a draw from the smoothed order of the column: averages over j ranks either way,
    fewer at the ends, read at a random place as near. Interpolation between single scores would leave a trace of
    their gaps. Mean and spread of each column are restored.

    Source: Lasko & Vinterbo (2010), section III-B1. Departures, all optional: jitter; swapping within
    clusters; the symmetric orthonormalisation U (U^T U)^(-1/2) of the re-centred swapped U.

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=(1000, 3))
    >>> masked = swap(x, rng=np.random.default_rng(2), exact_covariance=True)
    >>> bool(np.allclose(np.cov(masked.T), np.cov(x.T), rtol=0, atol=1e-12))
    True
    """
    return _in_clusters(x, within, units, partial(_swap, rng=rng, exact_covariance=exact_covariance, jitter=jitter))


def swap_independent(
    x: Floats,
    *,
    rng: np.random.Generator,
    exact_covariance: bool = False,
    jitter: Jitter = None,
    within: NDArray[np.integer] | None = None,
    units: NDArray[np.intp] | None = None,
) -> Floats:
    """Swap the scores along independent components instead of principal axes; otherwise as `swap`.

    Notes
    -----
    Claim: as `swap`; where the components are independent, the swapped records are draws of their distribution, which
    those swapped along principal axes are for normal data alone.

    Source: Lasko & Vinterbo (2010), section V; the components are those of `independent_axes`.

    Examples
    --------
    >>> x = np.random.default_rng(1).exponential(size=(1000, 2)) @ np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> masked = swap_independent(x, rng=np.random.default_rng(2))
    >>> bool(np.abs(masked.mean(axis=0) - x.mean(axis=0)).max() < 1e-12)
    True
    """
    one = partial(_swap, rng=rng, exact_covariance=exact_covariance, jitter=jitter, independent=True)
    return _in_clusters(x, within, units, one)


def _in_clusters(
    x: Floats, within: NDArray[np.integer] | None, units: NDArray[np.intp] | None, one: Callable[..., Floats]
) -> Floats:
    if within is None:
        return one(x, units)
    masked = np.empty(x.shape)
    order = np.argsort(within, kind="stable")
    starts = np.flatnonzero(np.diff(within[order])) + 1
    for members in np.split(order, starts):
        masked[members] = one(x[members], None if units is None else units[members])
    return masked


def _swap(
    x: Floats,
    units: NDArray[np.intp] | None,
    rng: np.random.Generator,
    exact_covariance: bool,
    jitter: Jitter,
    independent: bool = False,
) -> Floats:
    frame = basis(x)
    back = frame.loadings.T
    if independent:
        frame, back = independent_axes(x, frame)
    # Axes contiguous: a permutation touches one column at a time.
    moved = principal_scores(x, frame, order="F")
    ranks = recommended_reach(len(x), int(frame.live.sum())) if jitter == "auto" else jitter
    if ranks is not None:
        for axis in np.flatnonzero(frame.live):
            moved[:, axis] = _jittered(moved[:, axis], ranks, rng, units)
    rng.permuted(moved, axis=0, out=moved)

    if exact_covariance:
        back = _whitening(moved, frame) @ back
    shift = frame.center - moved.mean(axis=0) @ back
    masked = np.empty(x.shape)
    for rows in row_blocks(len(x)):
        np.matmul(moved[rows], back, out=masked[rows])
        masked[rows] += shift
    return masked


def _jittered(column: Floats, ranks: int, rng: np.random.Generator, units: NDArray[np.intp] | None = None) -> Floats:
    """Draw scores, in rank order, from the smoothed order of a column without extremes; keep mean and spread."""
    order = np.argsort(column, kind="stable")
    units = None if units is None else units[order]
    column = without_extremes(column[order], units=units)
    drawn = read_near(smoothed_order(column, ranks, units=units), ranks, rng=rng, units=units)
    spread, before = drawn.std(), column.std()
    # Of few records an average over all may be left.
    stretch = before / spread if spread > _SPREADLESS * before else 0.0
    return (drawn - drawn.mean()) * stretch + column.mean()


def _whitening(moved: Floats, frame: Basis) -> Floats:
    """Turn swapped scores U D into U (U^T U)^(-1/2) D, U re-centred, by the (n, n) matrix returned.

    Null axes (zero singular value) are sent to zero: they carry nothing but rounding.
    """
    lengths, live = frame.singular_values, frame.live
    means = moved.mean(axis=0)
    gram = moved.T @ moved - len(moved) * np.outer(means, means)
    unit = lengths[live]
    alike = gram[np.ix_(live, live)] / np.outer(unit, unit)
    if np.linalg.eigvalsh(alike).min(initial=1.0) < _DEGENERATE:
        raise InfeasibleError(
            f"exact_covariance needs swapped scores that are not collinear, which {len(moved)} records on "
            f"{unit.size} axes did not give; use more records, larger clusters or exact_covariance=False"
        )
    whitening = np.zeros((lengths.size, lengths.size))
    whitening[np.ix_(live, live)] = symmetric_root(alike, inverse=True) * (unit[None, :] / unit[:, None])
    return whitening
