"""Whether declared regressions give the same results on the original, the release and the reference."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit
from scipy.stats import norm

from anoncore.errors import AnonymizationError, NotConvergedError
from anoncore.microdata import Microdata
from anoncore.utility._coefficients import Coefficient, Estimate, compared_coefficient
from anoncore.utility._design import Design, design_pair
from anoncore.utility._fits import Estimator, Fit, SeparationError, linear, logistic
from anoncore.utility._sides import Weights, weighting
from anoncore.utility.regression_model import Regression

MEANING = (
    "How far the confidence intervals an analyst would compute from the two tables overlap: the mean over "
    "coefficients of the shared length as a share of either interval; 1 is the same result, 0 intervals "
    "apart or coefficients that cannot be estimated any more. Two samples of one population give about "
    "0.7."
)


@dataclass(frozen=True)
class RegressionComparison:
    """A regression on the original and on another table.

    Parameters
    ----------
    coefficients : the constant first
    mean_overlap : over the original's coefficients; 0 when the other table has none of them; None when the
        original has none
    smallest_overlap, worst : the coefficient with the least overlap; None and "" as above
    largest_difference : in standard errors of the original; None when none is in both
    agreeing : share of the original's coefficients that agree in sign and significance
    estimator : "least squares", "maximum likelihood", or "Firth" for both tables when in one of them the
        predictors separate the outcome perfectly; None when nothing could be fitted
    records, other_records : complete ones, that were used
    problem : why one of the tables could not be fitted, "" when both could
    notes : what was left out, a sentence each
    """

    coefficients: tuple[Coefficient, ...]
    mean_overlap: float | None
    smallest_overlap: float | None
    worst: str
    largest_difference: float | None
    agreeing: float | None
    estimator: Estimator | None
    records: int
    other_records: int
    problem: str = ""
    notes: tuple[str, ...] = ()

    def with_terms(self, shown: Collection[str]) -> RegressionComparison:
        """Return the same without the names of the coefficients that are not ``shown``: they name a level."""
        rows = tuple(row if row.term in shown else replace(row, term="") for row in self.coefficients)
        return replace(self, coefficients=rows, worst=self.worst if self.worst in shown else "")


@dataclass(frozen=True)
class RegressionUtility:
    """A declared regression: release and reference, each beside the original.

    Parameters
    ----------
    regression : as declared
    released, reference : comparisons with the original; None without a reference
    meaning : a sentence
    """

    regression: Regression
    released: RegressionComparison
    reference: RegressionComparison | None
    meaning: str = MEANING

    @property
    def formula(self) -> str:
        """The model as analysts write it."""
        return self.regression.formula

    @property
    def fitted(self) -> bool:
        """Whether the regression was fitted to the original and to the release."""
        return self.released.estimator is not None and not self.released.problem

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        """The coefficients that the release can estimate."""
        return tuple(row for row in self.released.coefficients if row.other is not None)

    def without_lost_terms(self) -> RegressionUtility:
        """Return the same without the names of the coefficients that the release cannot estimate."""
        estimated = {row.term for row in self.released.coefficients if row.other is not None}
        reference = None if self.reference is None else self.reference.with_terms(estimated)
        return replace(self, released=self.released.with_terms(estimated), reference=reference)


def regression_utility(
    regression: Regression,
    original: Microdata,
    released: Microdata,
    reference: Microdata | None = None,
    *,
    weights: Weights = None,
) -> RegressionUtility:
    """Fit a declared regression to the original, the release and the reference, and compare.

    Each table is fitted as an analyst would who has nothing else: complete records; what cannot be estimated
    there is left out there, and said. The base of a variable is the first level that both tables hold.

    Parameters
    ----------
    regression : Regression
    original, released, reference : Microdata
    weights : as for :func:`anoncore.utility.variable_utility`

    Returns
    -------
    RegressionUtility; no figure is ever NaN.

    Raises
    ------
    AnonymizationError
        When the regression does not suit the original's schema, or weights do not fit.

    Notes
    -----
    Source: Karr, Kohnen, Oganian, Reiter and Sanil 2006, *The American Statistician* 60, 224–232 (overlap:
    the mean of shared length / length of either interval; below 0 is given as 0); Snoke et al. 2018
    (standardised difference). Standard errors are the sandwich's, the records of a statistical unit being one cluster
    (Liang and Zeger 1986, *Biometrika* 73, 13–22), or those of a primary sampling unit within its stratum where the
    schema declares the design (Binder 1983, *International Statistical Review* 51, 279–292): halves of EIA's sales,
    whose variances differ by size, overlap by 0.47 with the classical ones and by 0.72 with these. Intervals: t with
    the residual degrees of freedom, or those of the clusters if fewer; normal for logistic.
    Perfect separation: Firth 1993, for both tables; where that does not converge, the other table counts as one that
    has none of the coefficients, if the original can be fitted alone. A standard error below 1e-9 of the outcome's
    standard deviation (an exact linear relation) is rounding and set to that.

    Examples
    --------
    >>> import pandas as pd; from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable("y", "continuous"), Variable("x", "continuous")])
    >>> data = Microdata(pd.DataFrame({"y": [1, 2, 4, 4], "x": [0, 1, 2, 3]}), schema)
    >>> regression_utility(Regression(outcome="y", predictors=("x",)), data, data).released.mean_overlap
    1.0
    """
    if problems := regression.problems(original.schema):
        raise AnonymizationError("\n".join(problems))
    tables = [table for table in (original, released, reference) if table is not None]
    own, *arrays = weighting(tables, weights).arrays
    compared = [
        _compared(regression, *design_pair(regression, (original, table), (own, array)))
        for table, array in zip(tables[1:], arrays, strict=True)
    ]
    return RegressionUtility(regression, compared[0], compared[1] if reference is not None else None)


def _compared(regression: Regression, original: Design, other: Design) -> RegressionComparison:
    notes = tuple(dict.fromkeys((*original.notes, *other.notes)))
    sizes = (len(original.outcome), len(other.outcome))
    if original.problem:
        return _not_fitted((), sizes, f"original: {original.problem}", notes)
    try:
        first, second = _fitted(regression, original, None if other.problem else other)
    except NotConvergedError as error:
        if not other.problem:
            return _compared(regression, original, replace(other, problem=str(error)))
        return _not_fitted(original.terms, sizes, f"original: {error}", notes)
    mine = _estimates(regression, original, first)
    others = {} if second is None else _estimates(regression, other, second)
    terms = dict.fromkeys((*original.all_terms, *other.all_terms))
    rows = tuple(compared_coefficient(t, mine.get(t), others.get(t), original.why(t) or other.why(t)) for t in terms)
    overlaps = {row.term: row.overlap for row in rows if row.overlap is not None}
    worst = min(overlaps, key=lambda term: overlaps[term])
    return RegressionComparison(
        coefficients=rows,
        mean_overlap=float(np.mean(list(overlaps.values()))),
        smallest_overlap=overlaps[worst],
        worst=worst,
        largest_difference=max((row.difference for row in rows if row.difference is not None), default=None),
        agreeing=float(np.mean([row.agrees for row in rows if row.agrees is not None])),
        estimator=first.estimator,
        records=sizes[0],
        other_records=sizes[1],
        problem=f"other table: {other.problem}" if other.problem else "",
        notes=notes,
    )


def _not_fitted(
    terms: tuple[str, ...], sizes: tuple[int, int], problem: str, notes: tuple[str, ...]
) -> RegressionComparison:
    rows = tuple(Coefficient(term, None, None, None, None, None, problem) for term in terms)
    return RegressionComparison(rows, None, None, "", None, None, None, *sizes, problem, notes)


def _fitted(regression: Regression, original: Design, other: Design | None) -> tuple[Fit, Fit | None]:
    """Fit both with one estimator: a coefficient of Firth's is not compared with one of another."""
    sides = [
        (side.columns, side.outcome, side.weights, side.clusters) for side in (original, other) if side is not None
    ]
    if regression.kind == "linear":
        fits = [linear(*side) for side in sides]
    else:
        try:
            fits = [logistic(*side) for side in sides]
        except SeparationError:
            fits = [logistic(*side, firth=True) for side in sides]
    return fits[0], fits[1] if len(fits) > 1 else None


def _estimates(regression: Regression, design: Design, fit: Fit) -> dict[str, Estimate]:
    tail = (1 + regression.level) / 2
    z = float(norm.ppf(tail) if fit.df is None else stdtrit(fit.df, tail))
    return {
        term: Estimate(float(b), float(se), float(b - z * se), float(b + z * se))
        for term, b, se in zip(design.terms, fit.coefficients, fit.errors, strict=True)
    }
