"""Spectral swapping: principal scores are permuted, each axis on its own (Lasko & Vinterbo 2010)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import InfeasibleError
from anoncore.kernels.principal_axes import Basis, symmetric_root
from anoncore.kernels.score_basis import ScoreBasis, score_basis
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
    basis_of: Callable[[Floats], ScoreBasis] = score_basis,
    exact_covariance: bool = False,
    jitter: Jitter = None,
    units: NDArray[np.intp] | None = None,
) -> Floats:
    """Spectral swapping: every principal score is handed to another record, each axis on its own.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values.
    rng : numpy.random.Generator
        Source of the permutations and of the jitter. Its seed is a secret.
    basis_of : callable
        Returns the scores of a table and the way back; principal axes by default.
    exact_covariance : bool
        Whether the swapped scores are made exactly uncorrelated, so that covariances are exact.
    jitter : int or "auto", optional
        Over how many ranks (at least 1), either way, scores are averaged and moved before they are permuted;
        "auto" for `recommended_reach`.
    units : (N,) int, optional
        Statistical unit of each record, see `smoothed_order`.

    Returns
    -------
    (N, n) float
        Masked records; row i has no tie to row i of ``x``.

    Raises
    ------
    InfeasibleError
        If ``exact_covariance`` is asked of so few or so tied records that their swapped scores are collinear.

    Notes
    -----
    Claim, where all axes are used: means exact (1e-13); covariances in expectation, or with ``exact_covariance`` exact
    (1e-12 once records clearly outnumber columns); linear relations among columns exact. Not claimed: univariate
    distributions, and anything beyond second moments across axes. Along independent components that are independent,
    swapped records are draws of the distribution, which along principal axes they are for normal data alone.

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
    frame = basis_of(x)
    moved = frame.scores
    ranks = recommended_reach(len(x), len(frame.live)) if jitter == "auto" else jitter
    if ranks is not None:
        for axis in frame.live:
            moved[:, axis] = jittered(moved[:, axis], ranks, rng, units)
    rng.permuted(moved, axis=0, out=moved)
    back = _whitening(moved, frame.frame) @ frame.back if exact_covariance else frame.back
    return frame.records(moved, back, mean=moved.mean(axis=0), in_place=True)


def in_clusters(
    x: Floats, labels: NDArray[np.integer], mask: Callable[..., Floats], units: NDArray[np.intp] | None = None
) -> Floats:
    """Mask each cluster (N,) of records (N, n) by itself, as `swap` does about its own center and axes.

    A cluster of one record is released as it is; the caller keeps clusters large. ``units`` go to ``mask`` by name.
    """
    masked = np.empty(x.shape)
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    for members in np.split(order, starts):
        masked[members] = mask(x[members], units=None if units is None else units[members])
    return masked


def jittered(column: Floats, ranks: int, rng: np.random.Generator, units: NDArray[np.intp] | None = None) -> Floats:
    """Draw scores (N,), in rank order, from the smoothed order of a column without extremes; keep mean and spread."""
    if units is None:
        column = np.sort(column)
    else:
        order = np.argsort(column, kind="stable")
        column, units = column[order], units[order]
    column = without_extremes(column, units=units)
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
