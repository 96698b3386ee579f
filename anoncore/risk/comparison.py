"""Is the release riskier than the reference? A paired non-inferiority test on each measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from anoncore.errors import AnonymizationError
from anoncore.parameters import between, not_below
from anoncore.risk._checks import Floats, Indices, matrix, same_size, vector
from anoncore.risk._equal_sizes import equal_sizes
from anoncore.risk.bounds import MeasureComparison, Side, bounds
from anoncore.risk.prediction import PredictionMeasures, chosen_rows, measure
from anoncore.risk.verdicts import Verdict, worst_of

MEASURES = ("distance", "ambiguity", "uncertainty")


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """How a release and a reference are compared.

    Parameters
    ----------
    k, margin, alpha, by_design : see :func:`prediction_measures` and :func:`compare`
    margins : smaller margins of single measures, where linking or inferring is feared more than the rest
    draws : subsamples of the larger set where sizes differ, at least 1
    units : (N,) statistical unit of each record of the original, all of whose records A − A_j lacks
    reference_units : (L,) that of each record of the reference; of each unit one is compared with a larger release
    sets : the same records against all of the reference, with `measures_by_groups`, where it has units of several
        records; both sets then vary as much as this shows
    """

    k: int = 5
    margin: float = 0.05
    alpha: float = 0.05
    by_design: Sequence[str] = ()
    margins: Mapping[str, float] = field(default_factory=dict)
    draws: int = 5
    units: Indices | None = field(default=None, repr=False, compare=False)
    reference_units: Indices | None = field(default=None, repr=False, compare=False)
    sets: PredictionMeasures | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        between("margin", self.margin, 0, 1)
        between("alpha", self.alpha, 0, 0.5)
        if problem := margins_problem(self.margins, self.margin):
            raise AnonymizationError(problem)


def margins_problem(margins: Mapping[str, float], margin: float) -> str:
    """Return what is wrong with margins of single measures beside that of all, empty if nothing is."""
    if unknown := sorted(set(margins) - set(MEASURES)):
        return f"margins: {', '.join(unknown)} is no measure; those are {', '.join(MEASURES)}"
    if wide := sorted(name for name, value in margins.items() if not 0 < value <= margin):
        return f"margins must be above 0 and at most margin = {margin:g}, not so for {', '.join(wide)}"
    return ""


_SETTINGS = ComparisonSettings()


@dataclass(frozen=True)
class Comparison:
    """All measures of a release beside the reference's.

    Parameters
    ----------
    distance, ambiguity, uncertainty : one comparison each
    n_queries, n_released, n_reference : records compared, sizes of the two sets searched
    draws : subsamples pooled to make the sizes equal (1 when they were)
    verdict : "fail" if any measure fails, else "inconclusive" if any is, else "pass"
    """

    distance: MeasureComparison
    ambiguity: MeasureComparison
    uncertainty: MeasureComparison
    n_queries: int
    n_released: int
    n_reference: int
    draws: int
    verdict: Verdict

    @property
    def measures(self) -> tuple[MeasureComparison, MeasureComparison, MeasureComparison]:
        """The three comparisons, in the order of the paper."""
        return self.distance, self.ambiguity, self.uncertainty


@overload
def compare(
    released: PredictionMeasures,
    reference: PredictionMeasures,
    margin: float = 0.05,
    *,
    alpha: float = 0.05,
    by_design: Sequence[str] = (),
    units: Indices | None = None,
) -> Comparison: ...


@overload
def compare(
    released: ArrayLike,
    reference: ArrayLike,
    margin: float = 0.05,
    *,
    alpha: float = 0.05,
    by_design: Sequence[str] = (),
    units: Indices | None = None,
) -> MeasureComparison: ...


def compare(
    released: PredictionMeasures | ArrayLike,
    reference: PredictionMeasures | ArrayLike,
    margin: float = 0.05,
    *,
    alpha: float = 0.05,
    by_design: Sequence[str] = (),
    units: Indices | None = None,
) -> Comparison | MeasureComparison:
    """Test, record by record, that a release is not riskier than the reference.

    With F the distribution of a measure over records, small values meaning risk, the excess is
    e(x) = F_released(x) − F_reference(x), the mean over records j of 1[released_j ≤ x] − 1[reference_j ≤ x].
    *Pass* when e(x) + z·se(x) ≤ 2·margin at every x; *fail* when e(x) − z′·se′(x) > margin at some x; else
    *inconclusive*. The two sides differ, because they claim different things.

    Passing is a claim about this release beside this reference: both sets are given, no other is going to
    be published, and se counts the sampling of the queried records only. It must hold at every x, an
    intersection–union test, of level alpha without correction: z is the normal quantile.

    Failing is a claim about the way the release was made: another draw would do harm too. One draw of
    records can lie nearer to A than another by chance alone, a few records being the neighbours of very
    many. So se′² = se² + v_released(x) + v_reference(x), with v the jackknife variance of
    :func:`anoncore.risk.jackknife.set_variance`: by the law of total variance, what e(x) varies when
    records and sets are drawn independently. And because one x suffices, z′ = √(2·ln(1/alpha)), 2.45 at
    0.05, from Smirnov's limit for a whole curve. Where only arrays are given, no sets are known, and
    se′ = se.

    Where few records disagree, the plain standard error is zero and one record would decide. The bounds
    therefore use the adjusted Wald interval: with b(x) and c(x) the records for which only the released
    or only the reference value is ≤ x, e = (b − c)/(N + 2) and
    se² = ((b + c + 2)/(N + 2) − e²)/(N + 2). At margin 0.05 fewer than 22 records cannot pass, and fewer
    than 5 cannot fail; at thousands the adjustment is invisible.

    ``ks_p`` belongs to the null hypothesis F_released(x) ≤ F_reference(x) + margin for all x (the paper's
    "equivalent or greater"): exp(−N·max(0, sup e − margin)²), Smirnov's two-sample limit, which takes the
    two sides for independent; paired as they are it errs towards large values. It is reported, not gated
    on, because it rewards small samples.

    Parameters
    ----------
    released, reference : PredictionMeasures of the same records against two sets of equal size; or one
        measure of each, (N,) arrays in the same order of records
    margin : vertical difference between distribution functions that counts as equivalent, 0 … 1
    alpha : level of the one-sided test, 0 … 0.5
    by_design : "ambiguity" and/or "uncertainty" where the method's groups of identical records make it
        void: reported with that verdict, without weight in the overall one
    units : (N,) statistical unit of each record compared; the standard error is that of a sample of units

    Returns
    -------
    Comparison, or MeasureComparison for arrays

    Raises
    ------
    AnonymizationError
        When the two sides do not belong to the same records or their sets differ in size.

    Notes
    -----
    Source: Lasko and Vinterbo 2010, section II.A (reference standard, Kolmogorov–Smirnov test). Departs
    from it in gating on the paired test. Interval: Bonett and Price 2012, *Journal of Educational and
    Behavioral Statistics* 37, 479–488. z′: P(sup |bridge| > λ) one-sided is exp(−2λ²), and the bridge's
    largest standard deviation ½.

    Examples
    --------
    >>> values = np.linspace(0.5, 1.5, 1000)
    >>> compare(values, values).verdict, compare(0 * values, values).verdict
    ('pass', 'fail')
    """
    settings = ComparisonSettings(margin=margin, alpha=alpha, by_design=by_design, units=units)
    if isinstance(released, PredictionMeasures) and isinstance(reference, PredictionMeasures):
        return compare_measures(released, reference, settings)
    if isinstance(released, PredictionMeasures) or isinstance(reference, PredictionMeasures):
        raise AnonymizationError("released and reference must both be PredictionMeasures or both arrays")
    left = vector("released", released)
    if by_design:
        raise AnonymizationError("by_design must be empty when arrays are compared; leave it out")
    right = vector("reference", reference, len(left))
    return bounds("measure", [(Side(left), Side(right))], margin, alpha, units=units)


def compare_measures(
    released: PredictionMeasures, reference: PredictionMeasures, settings: ComparisonSettings = _SETTINGS
) -> Comparison:
    """Compare the measures of the same records against two sets of equal size, see :func:`compare`.

    Parameters
    ----------
    released, reference : PredictionMeasures
    settings : ComparisonSettings; its ``k`` and ``draws`` play no part

    Returns
    -------
    Comparison

    Raises
    ------
    AnonymizationError
        When the two sides do not belong to the same records or their sets differ in size.
    """
    return _pooled([(released, reference)], settings)


def compare_matched(
    original: ArrayLike,
    released: ArrayLike,
    reference: ArrayLike | None,
    *,
    settings: ComparisonSettings = _SETTINGS,
    queries: ArrayLike | None = None,
    rng: np.random.Generator,
) -> Comparison:
    """Measure and compare a release and a reference that may differ in size.

    Nearest distances shrink with the size of the set searched. When sizes differ, the larger set is
    subsampled to the size of the smaller, ``settings.draws`` times, and e(x) and both bounds are averaged over the
    draws at every x. The average of standard errors is at least the standard error of the average, so
    pooling is on the safe side.

    Parameters
    ----------
    original : (N, n), encoded, in standard deviations
    released : (M, n), same encoding
    reference : (L, n), same encoding, no record of the original among it; ``None`` for A − A_j
    settings : ComparisonSettings
    queries : see :func:`prediction_measures`
    rng : generator; not drawn from when the sizes are equal

    Returns
    -------
    Comparison

    Raises
    ------
    AnonymizationError
        When shapes, values or parameters do not allow the comparison.

    Notes
    -----
    Source: docs/explanation/risk.md; the paper assumes equal sizes.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> a, b, c = (rng.normal(size=(size, 3)) for size in (60, 90, 60))
    >>> compare_matched(a, b, c, rng=rng).n_released
    60
    """
    not_below(1, draws=settings.draws)
    rows = matrix("original", original)
    left = matrix("released", released, rows.shape[1])
    right = rows if reference is None else matrix("reference", reference, rows.shape[1])
    chosen = chosen_rows(queries, len(rows))
    # Of A − A_j a person's own records are left out, all records of the unit where units are known.
    own_units = settings.units

    def of_release(part: Indices) -> PredictionMeasures:
        return measure(rows, chosen, left[part], settings.k, None)

    def of_others(part: Indices) -> PredictionMeasures:
        if reference is not None:
            return measure(rows, chosen, right[part], settings.k, None)
        if own_units is not None:
            return measure(rows, chosen, right[part], settings.k, own_units[chosen], own_units[part])
        own = np.full(len(right), -1)
        own[part] = np.arange(len(part))
        return measure(rows, chosen, right[part], settings.k, own[chosen])

    pairs: list[tuple[PredictionMeasures, PredictionMeasures]] = []
    for _ in range(settings.draws if len(left) != len(right) else 1):
        parts = equal_sizes(len(left), len(right), None if reference is None else settings.reference_units, rng)
        # What is compared in whole is measured once.
        pairs.append((
            pairs[0][0] if pairs and parts[0] is None else of_release(_or_all(parts[0], left)),
            pairs[0][1] if pairs and parts[1] is None else of_others(_or_all(parts[1], right)),
        ))  # fmt: skip
    return _pooled(pairs, replace(settings, units=None if own_units is None else own_units[chosen]))


def _times(settings: ComparisonSettings, reference: PredictionMeasures) -> float:
    """Return how many times as many units the whole reference has as the set that was compared."""
    units = settings.reference_units
    if units is None or reference.n_released == len(np.unique(units)):
        return 1.0
    return max(len(units) / reference.n_released, 1.0)


def _or_all(part: Indices | None, points: Floats) -> Indices:
    return np.arange(len(points)) if part is None else part


def _pooled(pairs: Sequence[tuple[PredictionMeasures, PredictionMeasures]], settings: ComparisonSettings) -> Comparison:
    by_design, sets = settings.by_design, settings.sets
    wrong = [name for name in by_design if name not in MEASURES[1:]]
    if wrong or isinstance(by_design, str):
        raise AnonymizationError(
            f"by_design must list 'ambiguity' and/or 'uncertainty', got {by_design!r}; distance always counts"
        )
    released, reference = pairs[0]
    if released.k != reference.k:
        raise AnonymizationError(f"k must be equal on both sides, got {released.k} and {reference.k}")
    if (released.n_queries, released.n_original) != (reference.n_queries, reference.n_original):
        raise AnonymizationError(
            f"both sides must measure the same records, got {released.n_queries} and {reference.n_queries}"
        )
    same_size(released.n_released, reference.n_released)
    found = [
        bounds(
            name,
            [(Side.of(one, name), Side.of(other, name)) for one, other in pairs],
            settings.margins.get(name, settings.margin),
            settings.alpha,
            units=settings.units,
            sets=None if sets is None else Side.of(sets, name, _times(settings, reference)),
        )
        for name in MEASURES
    ]
    distance, ambiguity, uncertainty = (
        replace(part, verdict="by design") if part.name in by_design else part for part in found
    )
    return Comparison(
        distance=distance,
        ambiguity=ambiguity,
        uncertainty=uncertainty,
        n_queries=released.n_queries,
        n_released=released.n_released,
        n_reference=reference.n_released,
        draws=len(pairs),
        verdict=worst_of({part.verdict for part in (distance, ambiguity, uncertainty)}),
    )
