"""The four figures of analytic utility: means, variances, correlations, rank correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from anoncore.errors import AnonymizationError
from anoncore.kernels.threads import in_threads, one_blas_thread
from anoncore.utility._sides import Floats, checked_weights, frozen, matrix, mid_ranks

_ROWS = 1 << 14  # rows whose products are summed at a time
_TIE = 1e-12  # differences of this size are rounding, not loss

MEANINGS = {
    "mean": "How far means have moved, in standard deviations of the original; 0 is unchanged.",
    "variance": "How far variances have moved, as a share of the original's; 0 is unchanged.",
    "correlation": "How far Pearson correlations of pairs of columns have moved; 0 is unchanged, 2 the most.",
    "rank_correlation": "How far rank correlations of pairs have moved; unlike Pearson's they do not depend on "
    "extreme values; 0 is unchanged, 2 the most.",
}


@dataclass(frozen=True, eq=False)
class Figure:
    """One kind of difference between two tables.

    Parameters
    ----------
    name : "mean", "variance", "correlation" or "rank_correlation"
    median, largest : over columns, or over pairs of columns; 0 when there are no pairs
    values : (n,) per column; for correlations the largest over the pairs a column belongs to
    worst : the column with the largest difference, or the two of the pair; empty when there are no pairs
    """

    name: str
    median: float
    largest: float
    values: Floats = field(repr=False)
    worst: tuple[int, ...] = ()


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
    worst, reference_worst : names of the column or pair that has moved most; empty without pairs
    meaning : a sentence

    Notes
    -----
    What concerns the reference is None where there is none.
    """

    name: str
    released_median: float
    reference_median: float | None
    released_largest: float
    reference_largest: float | None
    sufficient_median: bool | None
    sufficient_largest: bool | None
    worst: tuple[str, ...] = field(default=(), repr=False)
    reference_worst: tuple[str, ...] | None = field(default=None, repr=False)
    meaning: str = ""


@dataclass(frozen=True, eq=False)
class UtilityComparison:
    """The four figures of a release beside those of the reference sample.

    Parameters
    ----------
    released, reference : the figures against the same original, with per-column values
    figures : the four comparisons, in the order of the paper
    sufficient : all four medians are at or below the reference's; None without a reference
    """

    released: UtilityFigures = field(repr=False)
    reference: UtilityFigures | None = field(repr=False)
    figures: tuple[FigureComparison, ...]
    sufficient: bool | None


@dataclass(frozen=True, eq=False, repr=False)
class _Statistics:
    mean: Floats
    variance: Floats
    correlation: Floats
    rank_correlation: Floats
    records: int


def utility_figures(
    original: ArrayLike,
    other: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    other_weights: ArrayLike | None = None,
) -> UtilityFigures:
    """Compare means, variances and correlations of two tables.

    Always defined: a column that is constant in the original has no scale, so its differences of mean and
    variance are given in the matrix's own units, undivided; a correlation with a constant column is 0.

    Parameters
    ----------
    original : (N, n), encoded, in standard deviations
    other : (M, n), same encoding; M may differ from N
    weights, other_weights : (N,), (M,) survey weights, not negative; every record counts the same when None

    Returns
    -------
    UtilityFigures

    Raises
    ------
    AnonymizationError
        When the tables are not finite matrices with the same columns, or weights do not fit them.

    Notes
    -----
    Variances have divisor N, weighted ones the sum of weights. The rank of a weighted record is the weight
    below its value plus half of that at it. Source: Lasko and Vinterbo 2010, sections II.B and IV (medians).
    The largest, each column's own, and weights are this library's.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [2.0]])
    >>> round(utility_figures(line, line + 1).mean.median, 4)
    1.2247
    """
    rows_original = matrix("original", original)
    rows_other = matrix("other", other, rows_original.shape[1])
    # Differences from a record: a constant column then varies by exactly zero.
    return _difference(
        _statistics(rows_original, rows_original[0], checked_weights("weights", weights, len(rows_original))),
        _statistics(rows_other, rows_original[0], checked_weights("other_weights", other_weights, len(rows_other))),
    )


def compare_utility(
    original: ArrayLike,
    released: ArrayLike,
    reference: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    weights: Sequence[ArrayLike | None] = (None, None, None),
) -> UtilityComparison:
    """Set a release's utility figures beside those of a reference sample.

    A figure at or below the reference's is *sufficient*: the release moves that statistic no more than
    drawing other people from the same population does.

    Parameters
    ----------
    original, released, reference : (N, n), (M, n), (L, n), one encoding, in standard deviations
    names : n names of the columns, their positions when None
    weights : survey weights of the three tables, (N,), (M,) and (L,), each None for equal weights

    Returns
    -------
    UtilityComparison

    Raises
    ------
    AnonymizationError
        When the tables are not finite matrices with the same columns, or weights do not fit them.

    Notes
    -----
    An orientation, not a test: the reference's figures vary from sample to sample, and shrink with its
    size, so it should be as large as the release. Source: docs/explanation/risk.md.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [2.0]])
    >>> compare_utility(line, line, line + 1).sufficient
    True
    """
    first = matrix("original", original)
    tables = [first, matrix("released", released, first.shape[1])]
    if reference is not None:
        tables.append(matrix("reference", reference, first.shape[1]))
    measured = [
        _statistics(table, first[0], checked_weights("weights", array, len(table)))
        for table, array in zip(tables, [*weights, *[None] * 3], strict=False)
    ]
    labels = list(map(str, range(first.shape[1]))) if names is None else list(names)
    if len(labels) != first.shape[1]:
        raise AnonymizationError(f"names must be {first.shape[1]}, one per column, got {len(labels)}")
    released_loss, *rest = (_difference(measured[0], other) for other in measured[1:])
    baseline = rest[0] if rest else None
    references = baseline.figures if baseline else (None,) * 4
    figures = tuple(
        _compared(one, beside, labels) for one, beside in zip(released_loss.figures, references, strict=True)
    )
    sufficient = all(figure.sufficient_median for figure in figures) if baseline else None
    return UtilityComparison(released_loss, baseline, figures, sufficient)


def _compared(released: Figure, reference: Figure | None, labels: Sequence[str]) -> FigureComparison:
    return FigureComparison(
        name=released.name,
        released_median=released.median,
        reference_median=reference.median if reference else None,
        released_largest=released.largest,
        reference_largest=reference.largest if reference else None,
        sufficient_median=released.median <= reference.median + _TIE if reference else None,
        sufficient_largest=released.largest <= reference.largest + _TIE if reference else None,
        worst=tuple(labels[j] for j in released.worst),
        reference_worst=tuple(labels[j] for j in reference.worst) if reference else None,
        meaning=MEANINGS[released.name],
    )


def _statistics(rows: Floats, shift: Floats, array: Floats | None) -> _Statistics:
    if array is not None:
        rows, array = rows[array > 0], array[array > 0]
    ranks = np.empty(rows.shape)
    for j, own in enumerate(in_threads(lambda column: mid_ranks(column, array), rows.T)):
        ranks[:, j] = own
    with one_blas_thread():
        mean, variance, correlation = _moments(rows - shift, array)
        return _Statistics(mean, variance, correlation, _moments(ranks, array)[2], len(rows))


def _difference(original: _Statistics, other: _Statistics) -> UtilityFigures:
    scale = np.where(original.variance > 0.0, original.variance, 1.0)
    return UtilityFigures(
        mean=_columns("mean", np.abs(other.mean - original.mean) / np.sqrt(scale)),
        variance=_columns("variance", np.abs(other.variance - original.variance) / scale),
        correlation=_pairs("correlation", np.abs(other.correlation - original.correlation)),
        rank_correlation=_pairs("rank_correlation", np.abs(other.rank_correlation - original.rank_correlation)),
        n_original=original.records,
        n_other=other.records,
    )


def _moments(rows: Floats, array: Floats | None) -> tuple[Floats, Floats, Floats]:
    """Means, variances and correlations, the products summed over row blocks."""
    total = float(len(rows)) if array is None else float(array.sum())
    mean = rows.mean(axis=0) if array is None else array @ rows / total
    constant = rows.max(axis=0) == rows.min(axis=0)
    mean[constant] = rows[0, constant]
    products = np.zeros((rows.shape[1], rows.shape[1]))
    for begin in range(0, len(rows), _ROWS):
        centred = rows[begin : begin + _ROWS] - mean
        if array is not None:
            centred *= np.sqrt(array[begin : begin + _ROWS, None])
        products += centred.T @ centred
    products /= total
    variance = np.diagonal(products).copy()
    root = np.sqrt(np.where(variance > 0.0, variance, 1.0))
    return mean, variance, np.clip(products / np.outer(root, root), -1.0, 1.0)


def _columns(name: str, values: Floats) -> Figure:
    at = int(values.argmax())
    return Figure(name, float(np.median(values)), float(values[at]), frozen(values), (at,))


def _pairs(name: str, differences: Floats) -> Figure:
    np.fill_diagonal(differences, 0.0)
    rows, columns = np.triu_indices(len(differences), 1)
    pairs = differences[rows, columns]
    if not len(pairs):
        return Figure(name, 0.0, 0.0, frozen(differences.max(axis=1)))
    at = int(pairs.argmax())
    worst = (int(rows[at]), int(columns[at]))
    return Figure(name, float(np.median(pairs)), float(pairs[at]), frozen(differences.max(axis=1)), worst)
