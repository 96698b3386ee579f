"""What a record's box should look like: sensitivities of statistics, ideal half-widths, radii."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes.derived import QUANTILES, Derived, quantile, quantile_kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]
Statistic = tuple[str, int, int | None]

_BLOCK = 1 << 16  # records whose candidate neighbours are held at a time


def sensitivities(
    x: Floats,
    statistics: Sequence[Statistic],
    probabilities: Sequence[float] | None = None,
    accuracies: Sequence[float] | None = None,
    *,
    floor: float = 1e-3,
) -> Floats:
    """Return how much a statistic moves with each value: a_i(x) = N·|∂C/∂x_i|, mixed over statistics.

    Parameters
    ----------
    x : (N, n), any units, finite
    statistics : (name, i, j) each, name one of mean, variance, sd, covariance, correlation, ratio and slope (of i by
        and on j), lower_quartile, median, upper_quartile; i, j columns, j None but for pairs; variances with divisor N
    probabilities : how often each is asked for, summing to 1; None for equally often
    accuracies : the half-range Δ₀ wanted of each, in its own units, positive; None for 1 each.
        `statistic_scales` gives ones that make statistics in different units comparable
    floor : least sensitivity, as a share. With s_i the standard deviation of column i (1 if constant), no
        a_i(x)·s_i is left below ``floor`` times the largest column mean of a_i(x)·s_i. So columns that
        nobody asks about still have a scale, and values where a derivative vanishes a box of some size

    Returns
    -------
    (N, n)
        Σ_C (p_C/Δ₀^C)·a_i^C(x) > 0, per unit of column i.

    Raises
    ------
    AnonymizationError
        A standard deviation, correlation or slope of a constant column, which has no derivative.

    Notes
    -----
    Claim: with half-widths Δ, the statistic's linearised half-range is the mean over records of Σ_i a_i·Δ_i.

    Source: Xiang et al. 2013, section II (derivatives) and eq. 4 (mixture). The floor is an addition.

    Examples
    --------
    >>> x = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
    >>> sensitivities(x, [("variance", 0, None)])[:, 0].round(3).tolist()
    [4.0, 0.003, 4.0]
    """
    p = np.full(len(statistics), 1.0 / len(statistics)) if probabilities is None else probabilities
    wanted = np.ones(len(statistics)) if accuracies is None else accuracies
    center, sd = x.mean(axis=0), x.std(axis=0)
    sd = np.where(np.ptp(x, axis=0) > 0, sd, 0.0)
    result = np.zeros(x.shape)
    for (name, i, j), share, accuracy in zip(statistics, p, wanted, strict=True):
        for column, derivative in _derivatives(x, center, sd, name, i, i if j is None else j):
            result[:, column] += share / accuracy * np.abs(derivative)
    scale = np.where(sd > 0, sd, 1.0)
    largest = float((result.mean(axis=0) * scale).max())
    return np.maximum(result, floor * (largest if largest > 0 else 1.0) / scale)


def statistic_scales(x: Floats, statistics: Sequence[Statistic]) -> Floats:
    """Return a natural accuracy unit for each statistic.

    Parameters
    ----------
    x : (N, n), any units, finite
    statistics : as for `sensitivities`

    Returns
    -------
    (m,)
        σ_i for a mean, standard deviation or quantile, σ_i² for a variance, σ_iσ_j for a covariance, 1 for a
        correlation, σ_i/|x̄_j| for a ratio, σ_i/σ_j for a slope; a constant column counts as σ = 1. Multiply
        by the relative accuracy wanted.

    Notes
    -----
    Source: Xiang et al. 2013, section IV, suggest a share of the statistic itself; a mean or covariance
    near zero would then claim everything, so the spread takes its place.

    Examples
    --------
    >>> x = np.array([[0.0, 1.0], [4.0, 3.0]])
    >>> statistic_scales(x, [("mean", 0, None), ("covariance", 0, 1)]).tolist()
    [2.0, 2.0]
    """
    sd = x.std(axis=0)
    sd = np.where(np.ptp(x, axis=0) > 0, sd, 1.0)
    scales = []
    for name, i, j in statistics:
        other = i if j is None else j
        scales.append(
            {
                "variance": sd[i] ** 2,
                "covariance": sd[i] * sd[other],
                "correlation": 1.0,
                "ratio": sd[i] / np.abs(x[:, other].mean()),
                "slope": sd[i] / sd[other],
            }.get(name, sd[i])
        )
    return np.array(scales, dtype=float)


def half_widths(
    a: Floats,
    density: Floats,
    k: int,
    l: int | Integers | None = None,  # noqa: E741
    epsilon: Floats | float | None = None,
) -> Floats:
    """Compute the half-widths that minimise Σ_i a_i·Δ_i for a box of k records around each record.

    Parameters
    ----------
    a : (N, n), sensitivities, positive
    density : (N,), records per unit volume (not a probability density)
    k : records the box should hold
    l, epsilon : with both, no box is narrower than l·ε_i; one number or (n,) each, ε in the columns' units

    Returns
    -------
    (N, n)
        Δ_i = max(l·ε_i/2, c/a_i), in the columns' units, with the least c for which ρ·Π 2Δ_i >= k.

    Notes
    -----
    Claim: the minimum, exact up to rounding: the volume grows with c, piecewise as a power, so the piece is
    found from one sort of a_i·l·ε_i and solved in closed form.

    Source: Xiang et al. 2013, section II. Departs from their loop over t = 1…n in starting from t = 0 and
    in treating t = n, where their c_t is undefined, as Δ_i = l·ε_i/2 for all i.

    Examples
    --------
    >>> half_widths(np.array([[1.0, 4.0]]), np.array([0.25]), 4).tolist()
    [[4.0, 1.0]]
    """
    n = a.shape[1]
    least = np.zeros(n)
    if l is not None and epsilon is not None:
        least += 0.5 * np.asarray(l) * epsilon
    with np.errstate(divide="ignore", invalid="ignore"):
        log_a, log_least = np.log(a), np.log(least)
        volume = np.log(k / density) - n * np.log(2.0)
        threshold = log_a + log_least
        order = np.argsort(-threshold, axis=1, kind="stable")
        threshold = np.take_along_axis(threshold, order, axis=1)
        held = np.cumsum(log_least[order], axis=1)
        free = np.cumsum(np.take_along_axis(log_a, order, axis=1)[:, ::-1], axis=1)[:, ::-1]
        # With the t largest thresholds at their least width: t = 0 … n − 1.
        held = np.column_stack([np.zeros(len(a)), held[:, :-1]])
        log_c = (volume[:, None] - held + free) / (n - np.arange(n))
        fits = log_c >= threshold
    first = fits.argmax(axis=1)
    c = np.exp(log_c[np.arange(len(a)), first])
    return np.maximum(least, np.where(fits.any(axis=1), c, 0.0)[:, None] / a)


def stretched(x: Floats, a: Floats) -> Floats:
    """Return coordinates in which sensitivities are 1: y_i = ∫ a_i dx_i along each column.

    Parameters
    ----------
    x : (N, n), any units, finite
    a : (N, n), sensitivities

    Returns
    -------
    (N, n)
        Non-decreasing in x_i, 0 at its lowest value, equal for tied values; in units of the statistic.

    Notes
    -----
    Claim: where a_i is a function of x_i alone, distances in y are the costs of short boxes, so that
    the Chebyshev distance to the k-th nearest is c(x). Where a_i depends on other columns, its mean over records that
    are tied in x_i stands in, joined by trapezoids: only a start for `local_radius`.

    Source: elementary.

    Examples
    --------
    >>> stretched(np.array([[3.0], [0.0], [1.0]]), np.array([[2.0], [0.0], [2.0]])).ravel().tolist()
    [5.0, 0.0, 1.0]
    """
    result = np.empty(x.shape)
    for j in range(x.shape[1]):
        values, inverse, counts = np.unique(x[:, j], return_inverse=True, return_counts=True)
        mean = np.bincount(inverse, weights=a[:, j]) / counts
        steps = np.diff(values) * (0.5 * mean[1:] + 0.5 * mean[:-1])
        result[:, j] = np.append(0.0, np.cumsum(steps))[inverse]
    return result


def local_radius(x: Floats, a: Floats, k: int, *, candidates: int = 16) -> Floats:
    """Return the distance max_i a_i(x)·|x_i − x'_i| from every record to its k-th nearest other.

    Parameters
    ----------
    x : (N, n), any units, finite
    a : (N, n), sensitivities, positive; may depend on every column
    k : 1 … N − 1
    candidates : how many times k near records, by Chebyshev distance of `stretched` coordinates, are tried

    Returns
    -------
    (N,)
        c(x), in units of the statistic.

    Notes
    -----
    Claim: the k-th smallest distance among the candidates, so never below the true one; equal to it where
    the candidates hold the k nearest, as they do for constant a.

    Source: the condition of Xiang et al. 2013, section II, Δ_i = c/a_i with k records in the box, read as
    nearest neighbours: no density is estimated, and twins count, so c can be 0. A record's own a is used
    throughout its box: a local approximation.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [4.0]])
    >>> local_radius(x, np.array([[2.0], [1.0], [1.0]]), 1).tolist()
    [2.0, 1.0, 3.0]
    """
    tree = cKDTree(stretched(x, a))
    tried = min(candidates * k, len(x) - 1) + 1
    result = np.empty(len(x))
    for start in range(0, len(x), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(x)))
        near = np.asarray(tree.query(tree.data[rows], k=tried, p=np.inf, workers=-1)[1])
        distance = np.zeros(near.shape)
        for j in range(x.shape[1]):
            np.maximum(distance, a[rows, j, None] * np.abs(x[near, j] - x[rows, j, None]), out=distance)
        # With many twins a record may be missing among its own candidates; one of them is then left out.
        itself = near == rows[:, None]
        itself[~itself.any(axis=1), 0] = True
        distance[itself] = np.inf
        result[rows] = np.partition(distance, k - 1, axis=1)[:, k - 1]
    return result


def _derivatives(x: Floats, center: Floats, sd: Floats, name: str, i: int, j: int) -> list[tuple[int, Floats | float]]:
    """Return the columns a statistic depends on, each with N·∂C/∂x_column at every record."""
    if name in ("sd", "correlation", "slope") and not (sd[i] > 0 and sd[j] > 0):
        raise AnonymizationError(
            f"boxes: the {name} of columns {sorted({i, j})} has no derivative because one is constant; "
            "leave that statistic out"
        )
    u, v = x[:, i] - center[i], x[:, j] - center[j]
    if name == "mean":
        return [(i, 1.0)]
    if name == "variance" or (name == "covariance" and i == j):
        return [(i, 2.0 * u)]
    if name == "sd":
        return [(i, u / sd[i])]
    if name == "covariance":
        return [(i, v), (j, u)]
    if name == "correlation" and i == j:
        return [(i, 0.0)]
    if name in get_args(Derived):
        return _of_derived(x, u, v, name, i, j)
    if name == "correlation":
        u, v = u / sd[i], v / sd[j]
        r = float((u * v).mean())
        return [(i, (v - r * u) / sd[i]), (j, (u - r * v) / sd[j])]
    raise AnonymizationError(
        f"boxes: unknown statistic {name!r}; allowed are mean, variance, sd, covariance, correlation, ratio, slope, "
        f"{', '.join(QUANTILES)}"
    )


def _of_derived(x: Floats, u: Floats, v: Floats, name: str, i: int, j: int) -> list[tuple[int, Floats | float]]:
    """Return the same of a ratio, a slope or a quantile; u and v are the columns without their means."""
    if name in QUANTILES:
        mass = np.full(len(x), 1.0 / len(x))
        return [(i, quantile_kernel(x[:, i], quantile(x[:, i], mass, QUANTILES[name]), mass))]
    if name == "ratio":
        y, z = x[:, i].mean(), x[:, j].mean()
        return [(i, 1.0 / z), (j, -y / z**2)]
    variance = float((v * v).mean())
    slope = float((u * v).mean()) / variance
    return [(i, v / variance), (j, (u - 2.0 * slope * v) / variance)]
