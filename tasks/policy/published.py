"""The types of the published part of an assessment, and how utility is published."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anoncore.claims import ClaimCheck
from anoncore.risk import Comparison, Differencing, RiskReport
from anoncore.utility import (
    FigureComparison,
    MarginalUtility,
    PairUtility,
    Pattern,
    Propensity,
    PropensityComparison,
    RegressionComparison,
    RegressionUtility,
    Shift,
    Structure,
    TotalKept,
    UtilityReport,
    VariableUtility,
    WeightUse,
)
from tasks.common import values
from tasks.policy.assessment import (
    FORMAT,
    FullRelease,
    Half,
    InOutGame,
    PriorReleases,
    RareLevels,
    Records,
    Series,
    UnitChanges,
)
from tasks.policy.rounding import RECORDS_PER_STEP, STEPS, at_least_ten, coarse, next_ten, start_of_ten, step_above

TENTH = 0.1
# A coefficient moves by about 1/√N of its standard error with one record; shares of overlap as well.
OVERLAP_STEP = 0.05
# Standard error of a total, or part of one unit, above which a few units make up much of it.
DOMINATED = 0.05
# The place of the release among original, release and reference.
RELEASED = 1


@dataclass(frozen=True)
class PublishedColumn:
    """One encoded column: how far its statistics have moved, but for its variance, see `published_utility`."""

    name: str
    mean: float
    correlation: float
    rank_correlation: float


@dataclass(frozen=True)
class PublishedTotal:
    """What share of a total is released, in steps of its rounded ``error`` or more; fields as those of `TotalKept`."""

    released: float
    error: float


@dataclass(frozen=True)
class PublishedVariable:
    """One variable: how far it has moved, without what any table holds; fields as those of `VariableUtility`."""

    name: str
    kind: str
    released_shift: Shift
    two_samples: float
    total: PublishedTotal | None = None


@dataclass(frozen=True)
class PublishedPair:
    """A pair of variables: how far their association moved, without what it is; fields as those of `PairChange`."""

    variables: tuple[str, str]
    measure: str
    change: float
    two_samples: float


@dataclass(frozen=True)
class PublishedPairs:
    """The pairs of variables that moved most."""

    compared: int
    median: float | None
    reference_median: float | None
    worst: tuple[PublishedPair, ...]


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
class PublishedPropensity:
    """A propensity score without the null's moments, which follow from the number of the source's levels.

    Fields as those of `anoncore.utility.Propensity`.
    """

    model: str
    pmse: float
    share_released: float
    ratio: float | None
    share_of_maximum: float
    meaning: str


@dataclass(frozen=True)
class PublishedPropensities:
    """The propensity score of the release, and of a reference sample where there is one."""

    released: PublishedPropensity
    reference: PublishedPropensity | None


@dataclass(frozen=True)
class PublishedUtility:
    """Utility without each variable's statistics and without the reference's differences variable by variable."""

    figures: tuple[FigureComparison, ...]
    columns: tuple[PublishedColumn, ...]
    variables: tuple[PublishedVariable, ...]
    pairs: PublishedPairs
    structure: Structure
    propensity: PublishedPropensities | None
    tree: PublishedPropensities | None
    marginals: tuple[PublishedMarginals, ...]
    regressions: tuple[PublishedRegression, ...]
    automatic: tuple[PublishedRegression, ...]
    weights: WeightUse
    units_left_out: int = 0

    def figure(self, name: str) -> FigureComparison | None:
        """Return a published figure of all columns; None when no column is left."""
        return next((one for one in self.figures if one.name == name), None)


@dataclass(frozen=True)
class PublishedAssessment:
    """An assessment as it is published: coarse, without what describes unreleased records and levels.

    ``is_external`` is whether the release is an externally produced file, ``risk_of_part`` whether risk is of the units
    that published figures do not leave out; other fields are as those of `Assessment`.
    """

    records: Records
    risk: RiskReport
    utility: PublishedUtility
    claims: tuple[ClaimCheck, ...] = ()
    source_values: tuple[str, ...] = ()
    source_levels: tuple[str, ...] = ()
    method_figures: Mapping[str, float] = field(default_factory=dict)
    rare_levels: tuple[RareLevels, ...] = ()
    as_source: bool = False
    continuous_form: Comparison | None = None
    prior_releases: PriorReleases | None = None
    series: Series | None = None
    in_out_game: InOutGame | None = None
    is_external: bool = False
    risk_of_part: bool = False
    halves: tuple[Half, ...] = ()
    full_release: FullRelease | None = None

    def of(self, half: Half) -> PublishedAssessment:
        """Return the assessment with what was measured of one half in place of what was measured of all records."""
        risk = replace(half.risk, disclosure=self.risk.disclosure)
        return replace(self, records=half.records, risk=risk, prior_releases=half.prior_releases, halves=())

    def to_json(self) -> dict[str, Any]:
        """Return the published assessment as JSON takes it, with the number of its format."""
        return {"format": FORMAT, **values.to_json(self, whole=True)}


def published_series(series: Series | None, step: float) -> Series | None:
    """Publish what is read off of those who joined in steps of what ten of them move it by, and numbers in tens.

    Who knows all but the last of them would compute from the exact share how many of that person's values are read off,
    and from an exact number of those who changed whether that person did.
    """
    if series is None:
        return None
    least = series.least
    return replace(
        series,
        few=tuple(_in_tens(one, least) for one in series.few),
        newest=series.newest and _in_tens(series.newest, least),
        elsewhere=tuple(_in_tens(one, least) for one in series.elsewhere),
        pairs=tuple(replace(one, attack=_read_off(one.attack)) for one in series.pairs),
        as_of=0,
    )


def _in_tens(one: UnitChanges, least: int) -> UnitChanges:
    numbers = (one.joined, one.left, one.changed, one.in_common)
    joined, left, changed, both = (None if n is None else start_of_ten(n, least) for n in numbers)
    return replace(one, joined=joined, left=left, changed=changed, in_common=both)


def _read_off(attack: Differencing | None) -> Differencing | None:
    if attack is None:
        return None
    # Of so many at least: which step it is must not depend on one person.
    step = step_above(RECORDS_PER_STEP / max(RECORDS_PER_STEP, attack.n_joined // 10 * 10), STEPS[0])
    ways = tuple(replace(coarse(way, step), control=0.5) if way.traced else coarse(way, step) for way in attack.ways)
    return replace(attack, ways=ways, n_joined=at_least_ten(attack.n_joined))


def published_utility(utility: UtilityReport, step: float) -> PublishedUtility:
    """Publish utility in whole steps, without each variable's statistics in the original and the reference.

    How far variances moved is not published: with the release's own variance it gives the source's, and with it the
    number of a person who dominates the squares, to some per cent even in steps of a twentieth.
    """
    compared = utility.figures
    shown = () if compared is None else tuple(one for one in compared.figures if one.name != "variance")
    return PublishedUtility(
        figures=coarse(shown, step),
        columns=() if compared is None else coarse(_columns(utility), step),
        variables=tuple(_variable(one, step) for one in utility.variables),
        pairs=_pairs(utility.pairs, step),
        structure=_structure(utility.structure),
        propensity=_propensity(utility.propensity, step),
        tree=_propensity(utility.tree, step),
        marginals=tuple(_marginals(one, step) for one in utility.marginals),
        regressions=tuple(_regression(one, step) for one in utility.regressions),
        automatic=tuple(_regression(one, step) for one in utility.automatic),
        weights=_weights(utility.weights),
        units_left_out=utility.units_left_out,
    )


def _weights(use: WeightUse) -> WeightUse:
    """Return how weights were used; how many of those of unreleased records are unusable to the last ten."""
    counts = enumerate(use.repaired)
    return replace(use, repaired=tuple(n if place == RELEASED else n // 10 * 10 for place, n in counts))


def _columns(utility: UtilityReport) -> tuple[PublishedColumn, ...]:
    """Return each encoded column's own published figures; of correlations the largest of its pairs."""
    assert utility.figures is not None
    measured = utility.figures.released
    parts = [one.values.tolist() for one in (measured.mean, measured.correlation, measured.rank_correlation)]
    return tuple(PublishedColumn(name, *row) for name, *row in zip(utility.columns, *parts, strict=True))


def _variable(one: VariableUtility, step: float) -> PublishedVariable:
    """Return how far a variable moved; how many values lie beyond a rounded range describes the release."""
    shift, error = one.released_shift, one.released_shift.spike_error
    total = published_total(one.total, step)
    # From how far a mean moved in standard deviations and in shares, a unit that dominates both would be computed.
    mean = None if one.total is not None and _step(one.total, step) > DOMINATED else shift.mean
    coarser = coarse(replace(shift, variance=None), step)
    shown = replace(
        coarser,
        mean=coarse(mean, _mean_step(one, step)),
        beyond=shift.beyond,
        spike_error=error and float(f"{error:.1g}"),
    )
    return PublishedVariable(one.name, one.kind, shown, coarse(one.two_samples, step), total)


def _mean_step(one: VariableUtility, step: float) -> float:
    """Return a step of how far a mean moved that is no less than what one unit moves it by, in standard deviations."""
    mean, variance = one.original.mean, one.original.variance
    if one.total is None or mean is None or not variance:
        return step
    return step_above(one.total.largest * mean / math.sqrt(variance), step)


def published_total(total: TotalKept | None, step: float) -> PublishedTotal | None:
    """Publish what share of a total is kept in steps of its standard error, or of one unit's part where that is larger.

    Steps are rounded up: who knows all other units' numbers learns of the last one's that it lies within half of a step
    of the total, which is half of itself or more. Of units with many records the error alone says too little: it does
    not see those that are like the others.
    """
    if total is None:
        return None
    return PublishedTotal(coarse(total.released, _step(total, step)), step_above(total.error, step))


def _step(total: TotalKept, step: float) -> float:
    """Return the step in which a total is published."""
    return step_above(max(total.error, total.largest), step)


def _pairs(pairs: PairUtility, step: float) -> PublishedPairs:
    """Return the changes alone: the associations of the source are not published exactly."""
    worst = (PublishedPair(one.variables, one.measure, one.change, one.two_samples) for one in pairs.worst)
    return coarse(PublishedPairs(pairs.compared, pairs.median, pairs.reference_median, tuple(worst)), step)


def _structure(full: Structure) -> Structure:
    """Return counts to the next ten: of what the release holds, and of what the source lacks, or holds once.

    Combinations of at most ten records are left out. A person who alone holds a combination, or breaks a dependency,
    decides whether released records count; an attacker who knows all other records would learn it. Which variables
    follow from another may be due to one person: neither their names nor their number.
    """
    rare = None if full.reference is None else next_ten(full.reference)

    def in_tens(one: Pattern) -> Pattern:
        return replace(one, records=at_least_ten(one.records))

    return replace(
        full,
        absent=round(next_ten(full.absent)),
        combinations=tuple(in_tens(one) for one in full.combinations if one.records > RECORDS_PER_STEP),
        impossible=at_least_ten(full.impossible),
        by_chance=next_ten(full.by_chance),
        reference=rare,
        dependencies=0,
        broken=(Pattern(("", ""), at_least_ten(max((one.records for one in full.broken), default=0))),),
    )


def _propensity(both: PropensityComparison | None, step: float) -> PublishedPropensities | None:
    if both is None:
        return None

    def one(side: Propensity) -> PublishedPropensity:
        return PublishedPropensity(
            model=side.model,
            pmse=coarse(side.pmse, step),
            share_released=side.share_released,
            ratio=coarse(side.ratio, TENTH),
            share_of_maximum=coarse(side.share_of_maximum, step),
            meaning=side.meaning,
        )

    return PublishedPropensities(one(both.released), None if both.reference is None else one(both.reference))


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
        fitted=one.fitted,
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
        records=round(next_ten(side.records)),
        other_records=side.other_records,
        estimator=side.estimator,
        agreeing=coarse(side.agreeing, step),
        mean_overlap=coarse(side.mean_overlap, OVERLAP_STEP),
        smallest_overlap=coarse(side.smallest_overlap, OVERLAP_STEP),
    )
