"""The four figures of analytic utility: means, variances, correlations, rank correlations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from anoncore.errors import AnonymizationError

Floats = NDArray[np.float64]

_ROWS = 1 << 14  # rows whose products are summed at a time
_TIE = 1e-12  # differences of this size are rounding, not loss

NAMES = ("mean", "variance", "correlation", "rank_correlation")


@dataclass(frozen=True, eq=False)
class Figure:
    """One kind of difference between two tables.

    Parameters
    ----------
    name : "mean", "variance", "correlation" or "rank_correlation"
    median, largest : over columns, or over pairs of columns; 0 when there are no pairs
    values : (n,) per column; for correlations the largest over the pairs a column belongs to
    """

    name: str
    median: float
    largest: float
    values: Floats


@dataclass(frozen=True, eq=False)
class UtilityFigures:
    """How far a table's statistics lie from the original's; 0 is perfect.

    Parameters
    ----------
    mean : |difference of means| / sd
    variance : |difference of variances| / variance
    correlation, rank_correlation : |difference|, Pearson's and Spearman's
    n_original, n_other : records of the two tables
    """

    mean: Figure
    variance: Figure
    correlation: Figure
    rank_correlation: Figure
    n_original: int
    n_other: int

    @property
    def figures(self) -> tuple[Figure, Figure, Figure, Figure]:
        """The four, in the order of the paper."""
        return self.mean, self.variance, self.correlation, self.rank_correlation


@dataclass(frozen=True)
class FigureComparison:
    """One figure of a release beside the same figure of the reference sample, its baseline.

    Parameters
    ----------
    name : as in :class:`Figure`
    released_median, reference_median, released_largest, reference_largest : of the two figures
    sufficient_median, sufficient_largest : the release's is at or below the reference's
    """

    name: str
    released_median: float
    reference_median: float
    released_largest: float
    reference_largest: float
    sufficient_median: bool
    sufficient_largest: bool


@dataclass(frozen=True, eq=False)
class UtilityComparison:
    """The four figures of a release beside those of the reference sample.

    Parameters
    ----------
    released, reference : the figures against the same original, with per-column values
    figures : the four comparisons, in the order of the paper
    sufficient : all four medians are at or below the reference's
    """

    released: UtilityFigures = field(repr=False)
    reference: UtilityFigures = field(repr=False)
    figures: tuple[FigureComparison, ...]
    sufficient: bool


def utility_figures(original: ArrayLike, other: ArrayLike) -> UtilityFigures:
    """Compare means, variances and correlations of two tables.

    Always defined: a column that is constant in the original has no scale, so its differences of mean and
    variance are given in the matrix's own units, undivided; a correlation with a constant column is 0.

    Parameters
    ----------
    original : (N, n), encoded, in standard deviations
    other : (M, n), same encoding; M may differ from N

    Returns
    -------
    UtilityFigures

    Raises
    ------
    AnonymizationError
        When the tables are not finite matrices with the same columns.

    Notes
    -----
    Variances have divisor N. Source: Lasko and Vinterbo 2010, sections II.B and IV (medians).
    The largest, and each column's own, are ours.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [2.0]])
    >>> round(utility_figures(line, line + 1).mean.median, 4)
    1.2247
    """
    ours = _matrix("original", original)
    theirs = _matrix("other", other)
    if ours.shape[1] != theirs.shape[1]:
        raise AnonymizationError(
            f"other must have {ours.shape[1]} columns as original has, got {theirs.shape[1]}"
        )
    shift = ours[0]  # differences from a record: a constant column then varies by exactly zero
    ours, theirs = ours - shift, theirs - shift
    mean, variance, correlation = _moments(ours)
    other_mean, other_variance, other_correlation = _moments(theirs)
    scale = np.where(variance > 0.0, variance, 1.0)
    rank, other_rank = (
        _moments(np.stack([rankdata(column) for column in side.T], axis=1))[2] for side in (ours, theirs)
    )
    return UtilityFigures(
        mean=_columns("mean", np.abs(other_mean - mean) / np.sqrt(scale)),
        variance=_columns("variance", np.abs(other_variance - variance) / scale),
        correlation=_pairs("correlation", np.abs(other_correlation - correlation)),
        rank_correlation=_pairs("rank_correlation", np.abs(other_rank - rank)),
        n_original=len(ours),
        n_other=len(theirs),
    )


def compare_utility(original: ArrayLike, released: ArrayLike, reference: ArrayLike) -> UtilityComparison:
    """Set a release's utility figures beside those of a reference sample.

    A figure at or below the reference's is *sufficient*: the release moves that statistic no more than
    drawing other people from the same population does.

    Parameters
    ----------
    original, released, reference : (N, n), (M, n), (L, n), one encoding, in standard deviations

    Returns
    -------
    UtilityComparison

    Raises
    ------
    AnonymizationError
        When the tables are not finite matrices with the same columns.

    Notes
    -----
    An orientation, not a test: the reference's figures vary from sample to sample, and shrink with its
    size, so it should be as large as the release. Source: docs/risk.md.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [2.0]])
    >>> compare_utility(line, line, line + 1).sufficient
    True
    """
    ours, baseline = utility_figures(original, released), utility_figures(original, reference)
    parts = tuple(
        FigureComparison(
            name=mine.name,
            released_median=mine.median,
            reference_median=theirs.median,
            released_largest=mine.largest,
            reference_largest=theirs.largest,
            sufficient_median=mine.median <= theirs.median + _TIE,
            sufficient_largest=mine.largest <= theirs.largest + _TIE,
        )
        for mine, theirs in zip(ours.figures, baseline.figures, strict=True)
    )
    return UtilityComparison(ours, baseline, parts, all(part.sufficient_median for part in parts))


def _matrix(name: str, values: ArrayLike) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise AnonymizationError(f"{name} must be numeric; encode the table before measuring") from None
    if array.ndim != 2 or 0 in array.shape:
        raise AnonymizationError(f"{name} must be a matrix of records by columns, got shape {array.shape}")
    if not np.isfinite(array).all():
        count = int((~np.isfinite(array)).sum())
        raise AnonymizationError(
            f"{name} must be finite, got {count} missing or infinite values; encode them"
        )
    return array


def _moments(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Means, variances and correlations, the products summed over row blocks."""
    mean = rows.mean(axis=0)
    constant = rows.max(axis=0) == rows.min(axis=0)
    mean[constant] = rows[0, constant]
    products = np.zeros((rows.shape[1], rows.shape[1]))
    for begin in range(0, len(rows), _ROWS):
        centred = rows[begin : begin + _ROWS] - mean
        products += centred.T @ centred
    products /= len(rows)
    variance = np.diagonal(products).copy()
    root = np.sqrt(np.where(variance > 0.0, variance, 1.0))
    return mean, variance, np.clip(products / np.outer(root, root), -1.0, 1.0)


def _columns(name: str, values: Floats) -> Figure:
    return Figure(name, float(np.median(values)), float(values.max()), _frozen(values))


def _pairs(name: str, differences: Floats) -> Figure:
    np.fill_diagonal(differences, 0.0)
    pairs = differences[np.triu_indices(len(differences), 1)]
    median = float(np.median(pairs)) if len(pairs) else 0.0
    return Figure(name, median, float(differences.max()), _frozen(differences.max(axis=1)))


def _frozen(values: Floats) -> Floats:
    values = np.array(values)
    values.setflags(write=False)
    return values
