"""The published part of an assessment: which figures report and release show, and how coarse they are.

An attacker who knows all records but one could compute that one from an exact statistic of the source. In steps
of d standard deviations, or of a share, the mean of N records leaves N·d/2 standard deviations on either side
of it. So d is at least 10/N, and a hundredth at the finest; several figures together leave less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from anoncore.risk import Comparison, RiskReport
from anoncore.utility import (
    FigureComparison,
    MarginalUtility,
    Propensity,
    PropensityComparison,
    RegressionComparison,
    RegressionUtility,
    Shift,
    UtilityReport,
    WeightUse,
)
from tasks.common import values
from tasks.policy.assessment import FORMAT, Assessment, CheckedClaim, PriorReleases, RareLevels, Records

T = TypeVar("T")

# Risk figures that are published as measured; a figure that is named neither here nor below stays confidential.
AS_MEASURED = (
    "k",
    "columns",
    "queries",
    "comparison",
    "tail",
    "isolated",
    "extreme",
    "identical",
    "value_pairs",
    "membership",
    "membership_rescaled",
    "score_coincidence",
    "boxes",
)
# Settings of a measure, which are no figures.
SETTINGS = ("guess", "margin", "confidence", "tolerance", "sampling_error", "baseline")
STEPS = (0.01, 0.02, 0.05, 0.1)
RECORDS_PER_STEP = 10
TENTH = 0.1
# A coefficient moves by about 1/√N of its standard error with one record; shares of overlap as well.
OVERLAP_STEP = 0.05


@dataclass(frozen=True)
class PublishedColumn:
    """One encoded column: how far its statistics have moved."""

    name: str
    mean: float
    variance: float
    correlation: float
    rank_correlation: float


@dataclass(frozen=True)
class PublishedVariable:
    """One variable: how far it has moved, without what any table holds."""

    name: str
    kind: str
    shift: Shift


@dataclass(frozen=True)
class PublishedTable:
    """One marginal table, and how far it has moved."""

    variables: tuple[str, ...]
    released: float


@dataclass(frozen=True)
class PublishedMarginals:
    """Marginal tables of one size; fields as those of `anoncore.utility.MarginalUtility`."""

    size: int
    used: int
    of: int
    mean: float
    largest: float
    expected_mean: float
    reference_mean: float | None
    reference_largest: float | None
    worst_tables: tuple[PublishedTable, ...]
    meaning: str


@dataclass(frozen=True)
class PublishedAgreement:
    """How far a regression agrees with the original's; fields as those of `anoncore.utility.RegressionComparison`."""

    records: int
    other_records: int
    estimator: str | None
    agreeing: float | None
    mean_overlap: float | None
    smallest_overlap: float | None


@dataclass(frozen=True)
class PublishedCoefficient:
    """One coefficient that the release can estimate; fields as those of `anoncore.utility.Coefficient`."""

    term: str
    difference: float | None
    overlap: float | None
    agrees: bool | None


@dataclass(frozen=True)
class PublishedRegression:
    """A declared regression: how far it agrees, without what only the original can estimate.

    Parameters
    ----------
    fitted : to both tables
    lost : coefficients that the release cannot estimate
    """

    formula: str
    kind: str
    released: PublishedAgreement
    reference: PublishedAgreement | None
    fitted: bool
    lost: int
    coefficients: tuple[PublishedCoefficient, ...]
    meaning: str


@dataclass(frozen=True)
class PublishedUtility:
    """Utility without each variable's statistics and without the reference's differences variable by variable."""

    figures: tuple[FigureComparison, ...]
    columns: tuple[PublishedColumn, ...]
    left_out: int
    variables: tuple[PublishedVariable, ...]
    propensity: PropensityComparison | None
    marginals: tuple[PublishedMarginals, ...]
    regressions: tuple[PublishedRegression, ...]
    weights: WeightUse

    def figure(self, name: str) -> FigureComparison | None:
        """Return one of the four figures; None when no column is left."""
        return next((one for one in self.figures if one.name == name), None)


@dataclass(frozen=True)
class PublishedAssessment:
    """An assessment as it is published: coarse, without what describes unreleased records and levels."""

    records: Records
    risk: RiskReport
    utility: PublishedUtility
    claims: tuple[CheckedClaim, ...]
    method_figures: Mapping[str, float]
    rare_levels: tuple[RareLevels, ...]
    as_source: bool
    continuous_form: Comparison | None
    prior_releases: PriorReleases | None

    def to_json(self) -> dict[str, Any]:
        """Return the published assessment as JSON takes it, with the number of its format."""
        plain: dict[str, Any] = values.to_json(self, whole=True)
        return {"format": FORMAT} | plain


def published(assessment: Assessment) -> PublishedAssessment:
    """Return the figures as they are published: in whole steps, and three digits each."""
    step = step_of(assessment.records.original)
    risk = assessment.risk
    unnamed = {f.name: None for f in fields(risk) if f.name not in AS_MEASURED}
    coarse_risk = {name: coarse(getattr(risk, name), step) for name in ("linkage", "disclosure", "inference")}
    shown = PublishedAssessment(
        records=assessment.records,
        risk=replace(risk, **unnamed | coarse_risk),
        utility=_utility(assessment.utility, step),
        claims=assessment.claims,
        method_figures=assessment.method_figures,
        rare_levels=assessment.rare_levels,
        as_source=assessment.as_source,
        continuous_form=assessment.continuous_form,
        prior_releases=assessment.prior_releases,
    )
    return _each_float(shown, lambda value: float(f"{value:.3g}"))


def step_of(records: int) -> float:
    """Return the step for figures of so many records."""
    return next((step for step in STEPS if step * records >= RECORDS_PER_STEP), STEPS[-1])


def coarse(value: T, step: float) -> T:
    """Round what is a share or in standard deviations to whole steps; counts and settings stay."""
    return _each_float(value, lambda one: round(one / step) * step, SETTINGS)


def _each_float(value: T, rounded: Callable[[float], float], without: tuple[str, ...] = ()) -> T:
    """Return a value with every finite float in it rounded, but for the fields ``without``."""
    if isinstance(value, float):
        return rounded(value) if math.isfinite(value) else value  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(_each_float(one, rounded, without) for one in value)  # type: ignore[return-value]
    if isinstance(value, Mapping):
        return {key: _each_float(one, rounded, without) for key, one in value.items()}  # type: ignore[return-value]
    if is_dataclass(value) and not isinstance(value, type):
        names = (f.name for f in fields(value) if f.name not in without)
        return replace(value, **{name: _each_float(getattr(value, name), rounded, without) for name in names})
    return value


def _utility(utility: UtilityReport, step: float) -> PublishedUtility:
    compared = utility.figures
    return PublishedUtility(
        figures=() if compared is None else coarse(compared.figures, step),
        columns=() if compared is None else coarse(_columns(utility), step),
        left_out=utility.left_out,
        variables=tuple(
            PublishedVariable(one.name, one.kind, coarse(one.released_shift, step))
            for one in utility.variables.variables
        ),
        propensity=_propensity(utility.propensity, step),
        marginals=tuple(_marginals(one, step) for one in utility.marginals),
        regressions=tuple(_regression(one, step) for one in utility.regressions),
        weights=utility.weights,
    )


def _columns(utility: UtilityReport) -> tuple[PublishedColumn, ...]:
    """Return each encoded column's own figures; of correlations the largest of its pairs."""
    assert utility.figures is not None
    parts = [one.values.tolist() for one in utility.figures.released.figures]
    return tuple(PublishedColumn(name, *row) for name, *row in zip(utility.columns, *parts, strict=True))


def _propensity(both: PropensityComparison | None, step: float) -> PropensityComparison | None:
    """Return the propensity scores; what chance would give follows from numbers of records and columns."""
    if both is None:
        return None

    def one(side: Propensity) -> Propensity:
        return replace(
            side,
            pmse=coarse(side.pmse, step),
            share_of_maximum=coarse(side.share_of_maximum, step),
            ratio=coarse(side.ratio, TENTH),
            standardised=coarse(side.standardised, TENTH),
        )

    return PropensityComparison(one(both.released), None if both.reference is None else one(both.reference))


def _marginals(one: MarginalUtility, step: float) -> PublishedMarginals:
    worst = zip(one.tuples, one.values.tolist(), strict=True)
    shown = PublishedMarginals(
        size=one.size,
        used=one.used,
        of=one.of,
        mean=one.mean,
        largest=one.largest,
        expected_mean=one.expected_mean,
        reference_mean=one.reference_mean,
        reference_largest=one.reference_largest,
        worst_tables=tuple(PublishedTable(names, distance) for names, distance in worst),
        meaning=one.meaning,
    )
    return coarse(shown, step)


def _regression(one: RegressionUtility, step: float) -> PublishedRegression:
    rows = one.released.coefficients
    return PublishedRegression(
        formula=one.regression.formula,
        kind=one.regression.kind,
        released=_agreement(one.released, step),
        reference=None if one.reference is None else _agreement(one.reference, step),
        fitted=one.released.estimator is not None and not one.released.problem,
        lost=sum(row.other is None and row.original is not None for row in rows),
        coefficients=tuple(
            PublishedCoefficient(row.term, coarse(row.difference, TENTH), coarse(row.overlap, OVERLAP_STEP), row.agrees)
            for row in rows
            if row.other is not None
        ),
        meaning=one.meaning,
    )


def _agreement(side: RegressionComparison, step: float) -> PublishedAgreement:
    return PublishedAgreement(
        records=side.records,
        other_records=side.other_records,
        estimator=side.estimator,
        agreeing=coarse(side.agreeing, step),
        mean_overlap=coarse(side.mean_overlap, OVERLAP_STEP),
        smallest_overlap=coarse(side.smallest_overlap, OVERLAP_STEP),
    )


def without_source_levels(assessment: Assessment, released: Mapping[str, set[str]]) -> Assessment:
    """Leave out levels that are not released: one that few records hold is a value of theirs.

    Parameters
    ----------
    released : the released levels of each variable that has levels
    """
    utility = assessment.utility
    variables = tuple(
        one if one.levels is None else one.with_levels(released.get(one.name, set()))
        for one in utility.variables.variables
    )
    regressions = tuple(one.without_lost_terms() for one in utility.regressions)
    table = replace(utility.variables, variables=variables)
    return replace(assessment, utility=replace(utility, variables=table, regressions=regressions))
