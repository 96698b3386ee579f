"""Every disclosure risk measure of a release, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from anoncore.boxes.columns import released_boxes
from anoncore.encoding import EncodedTables
from anoncore.kernels.threads import in_threads
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import drawn_people
from anoncore.risk.agreement import Agreement, agreement
from anoncore.risk.averages import DominatedAverages, dominated_averages
from anoncore.risk.boxes import BoxRisk, box_risk
from anoncore.risk.closeness import Closeness, closeness, compared_with
from anoncore.risk.coincidence import ScoreCoincidence, score_coincidence_attack
from anoncore.risk.common_change import without_common_change
from anoncore.risk.comparison import MEASURES, Comparison, ComparisonSettings, compare_matched, compare_measures
from anoncore.risk.copied_parts import CopiedParts, copied_parts, with_halves
from anoncore.risk.density import Density, density
from anoncore.risk.density_ratios import Views
from anoncore.risk.disclosure import Disclosure, DisclosureSettings, disclosure_risk
from anoncore.risk.dominance import Dominance, dominance
from anoncore.risk.group_figures import GroupFigures, group_figures
from anoncore.risk.identical import RecordsOfTwoSets
from anoncore.risk.inference import InferenceRisk, InferenceSettings, attribute_inference
from anoncore.risk.intervals import IntervalDisclosure, interval_disclosure
from anoncore.risk.linkability import Linkability, linkability
from anoncore.risk.linkage import Linkage, LinkageSettings, linkage
from anoncore.risk.membership import MembershipAttack, matched_quantiles, nearest_distance_attack
from anoncore.risk.pairs import ClosePairs
from anoncore.risk.partial_copies import PartialCopies, ScoredHalves
from anoncore.risk.population import Missing
from anoncore.risk.prediction import PredictionMeasures, measures_by_groups, sample_queries
from anoncore.risk.presence import ValuePresence, value_presence
from anoncore.risk.sampling_units import SharedSamplingUnits, shared_sampling_units
from anoncore.risk.scores import Certainty
from anoncore.risk.shrinkage import UNDONE, without_shrinkage
from anoncore.risk.singling_out import SinglingOut, singling_out
from anoncore.risk.subset_linkage import SubsetLinkage, subset_linkage
from anoncore.risk.tail import ExtremeRecords, TailTest, worst_extremes
from anoncore.risk.together import ValuesTogether, values_together
from anoncore.summary import Summarised, SummaryTable

DELTA = 0.01
# Attacks that distinguish members from non-members, two of them by all releases together: each has its share of the
# level, so that lower bounds hold together.
MEMBERSHIP_ATTACKS = 10
# Records of a table up to which attacks are made side by side: 100 000 took 3.7 in place of 2.0 GB, and 4 % less time.
_SIDE_BY_SIDE = 15_000
_SELDOM = 0.01  # of the people, whom the reference meets by chance
_FEW_UNITS = 500  # of a reference, whose own variation is then measured: that of more moves distances little


@dataclass(frozen=True, kw_only=True)
class RiskSettings:
    """How disclosure risk is measured.

    Parameters
    ----------
    k : neighbours that ambiguity and uncertainty look at, and the group size asked for
    margin, alpha, margins : of :class:`anoncore.risk.ComparisonSettings`
    tau, level : of :func:`anoncore.risk.tail_test`
    by_design : measures that the method's groups of identical records make void
    sample_above : records above which the queries are sampled, never the released records; None for never
    epsilon : bound on the error of a cumulative curve at 99 % where queries are sampled
    confidence : of the intervals of all attacks on membership together, and of every other attack by itself
    rows_linked : released records carry the index labels of the records they stem from, so that linkage can be
        measured
    copied_parts : also test whether records are put together of one person's part and other values, which takes as long
        as several attacks; a file of unknown origin may hold such records, masking by the methods here leaves none
    population : people of the population that the records are a sample of, where no variable holds weights
    missing_keys : what a missing value of a quasi-identifier means to risk in the population
    """

    k: int = 5
    margin: float = 0.05
    alpha: float = 0.05
    tau: float = 0.1
    level: float = 0.01
    by_design: tuple[Literal["ambiguity", "uncertainty"], ...] = ()
    sample_above: int | None = 100_000
    epsilon: float = 0.01
    confidence: float = 0.99
    rows_linked: bool = False
    copied_parts: bool = True
    margins: Mapping[str, float] = field(default_factory=dict)
    population: float | None = None
    missing_keys: Missing = "level"

    @property
    def comparison(self) -> ComparisonSettings:
        """How release and reference are compared."""
        return ComparisonSettings(
            k=self.k, margin=self.margin, alpha=self.alpha, by_design=self.by_design, margins=self.margins
        )

    def queries(self, records: int, rng: np.random.Generator) -> Indices:
        """Return the rows that are measured: all, or a sample where there are many."""
        if self.sample_above is None or records <= self.sample_above:
            return np.arange(records)
        return sample_queries(records, epsilon=self.epsilon, delta=DELTA, rng=rng)


@dataclass(frozen=True)
class Queries:
    """The records of the original that were measured.

    Parameters
    ----------
    used, of : their number, and that of all records
    epsilon : bound on the error of every cumulative curve at 99 %; None when all were measured
    """

    used: int
    of: int
    epsilon: float | None

    @property
    def sampled(self) -> bool:
        """Whether not all records were measured."""
        return self.used < self.of


@dataclass(frozen=True, eq=False)
class RiskCurves:
    """The prediction measures, each sorted, so that no value can be traced to its record.

    Parameters
    ----------
    released, reference : (3, q) distance, ambiguity and uncertainty, ascending
    """

    released: Floats = field(repr=False)
    reference: Floats = field(repr=False)

    @classmethod
    def of(cls, close: Closeness) -> RiskCurves:
        """Sort the measures against release and reference."""
        sides = (np.sort([getattr(side, m) for m in MEASURES]) for side in (close.released, close.reference))
        return cls(*sides)

    def named(self) -> dict[str, Floats]:
        """Return the curves by the names of their side and measure."""
        sides = (("released", self.released), ("reference", self.reference))
        return {f"{side}_{name}": row for side, rows in sides for name, row in zip(MEASURES, rows, strict=True)}


@dataclass(frozen=True, repr=False)
class RiskReport(Summarised):
    """Disclosure risk of a release, every figure beside its baseline.

    Parameters
    ----------
    k, columns : neighbours looked at, and encoded columns
    queries : the records that were measured
    comparison : distance, ambiguity and uncertainty, release against reference
    tail, isolated, extreme, identical : records that the release matches too closely
    within_original : distances were compared with those within the original, for want of enough other people
    met_by_others : units of the original with an identical record in the reference; None without a reference sample
    dominance : numbers that one unit dominates, and whether the release follows them
    averages : of groups, that are mostly one unit's; None unless released rows are linked to the source's
    group_figures : variables computed from all records of a group, and whether the release repeats them; None where
        the table may hold parts of groups
    sampling_units : whether non-members are of those of members; None without released ones or non-members
    close_pairs : among release, original and reference; None without a reference sample
    value_pairs : two values of one record released together; None without a reference sample
    membership, membership_rescaled : by the nearest released record, also once the columns of the release have the
        distributions of the reference; None without a reference sample, or where no column is apart
    score_coincidence : membership by principal scores; None without a reference sample
    presence, agreement, density, partial_copies : membership by values that stand in the release, by rows that share
        rare values, by densities, and by rows that share a part of all values; None without a reference sample
    copied_parts : members whose levels, quasi-identifiers or half stand beside others' values; None where not tested
        sample, a part, or enough people
    singling_out, linkability : success beyond that on non-members; None without a reference sample
    linkage, subset_linkage : by all variables and by some of them; None unless released rows are linked to the
        original's
    intervals : numbers near the one released for their record; None unless rows are linked
    disclosure : by the quasi-identifiers; None without such variables
    inference : every variable from the others; None without a reference sample or a second variable
    boxes : None unless ranges are released
    curves : sorted measures, for drawing; confidential, None where they are stored apart
    """

    k: int
    columns: int
    queries: Queries
    comparison: Comparison
    tail: TailTest
    isolated: TailTest
    extreme: ExtremeRecords
    identical: TailTest
    within_original: bool = False
    met_by_others: int | None = None
    dominance: Dominance | None = None
    averages: DominatedAverages | None = None
    group_figures: GroupFigures | None = None
    sampling_units: SharedSamplingUnits | None = None
    close_pairs: ClosePairs | None = None
    value_pairs: ValuesTogether | None = None
    membership: MembershipAttack | None = None
    membership_rescaled: MembershipAttack | None = None
    score_coincidence: ScoreCoincidence | None = None
    presence: ValuePresence | None = None
    agreement: Agreement | None = None
    density: Density | None = None
    partial_copies: PartialCopies | None = None
    copied_parts: CopiedParts | None = None
    singling_out: SinglingOut | None = None
    linkability: Linkability | None = None
    linkage: Linkage | None = None
    subset_linkage: SubsetLinkage | None = None
    intervals: tuple[IntervalDisclosure, ...] | None = None
    disclosure: Disclosure | None = None
    inference: InferenceRisk | None = None
    boxes: BoxRisk | None = None
    curves: RiskCurves | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"RiskReport({self.queries.used} of {self.queries.of} records, comparison: {self.comparison.verdict})"

    def summary_tables(self) -> Iterator[SummaryTable]:
        """Return the main figures beside their baselines, with the verdicts of their tests."""
        rows: list[tuple[object, ...]] = [
            (f"{one.name}, median", one.released_median, one.reference_median, one.verdict)
            for one in self.comparison.measures
        ]
        tails = {"unusually close": self.tail, "isolated and close": self.isolated, "identical": self.identical}
        rows += [(f"records {name}", one.n_released, one.n_reference, one.verdict) for name, one in tails.items()]
        attacks = {
            "membership, AUC": self.membership,
            "membership once rescaled, AUC": self.membership_rescaled,
            "membership by principal scores, AUC": self.score_coincidence and self.score_coincidence.attack,
        }
        rows += [(name, one.auc, one.baseline, one.verdict) for name, one in attacks.items() if one]
        families = {
            "presence of values": self.presence,
            "agreement": self.agreement,
            "density": self.density,
            "partial copies": self.partial_copies,
        }
        for name, family in families.items():
            if family:
                area = family.worst.attack.area
                rows.append((f"membership by {name}, AUC", area.auc, area.baseline, area.verdict))
        for size in self.singling_out.sizes if self.singling_out else ():
            rows.append((f"singled out by {size.n_conditions}, beyond non-members", size.residual.value, 0.0, None))
        if self.linkability:
            rows.append(("linkability beyond non-members", self.linkability.residual.value, 0.0, None))
        if self.linkage:
            rows.append(("records linked correctly, share", self.linkage.rate.value, self.linkage.guess, None))
        if self.subset_linkage:
            worst, guess = self.subset_linkage.worst, self.subset_linkage.guess
            rows.append((f"records linked by {worst.name}, share", worst.rate.value, guess, None))
        for one in self.inference.variables if self.inference else ():
            label = f"{one.name} inferred correctly, share"
            rows.append((label, one.members.value, one.nonmembers.value, one.verdict))
        yield SummaryTable("Disclosure risk", ("measure", "released", "baseline", "verdict"), rows)


def measure_risk(
    original: Microdata,
    released: Microdata,
    reference: Microdata | None = None,
    *,
    settings: RiskSettings | None = None,
    ranges: Microdata | None = None,
    rng: np.random.Generator,
) -> RiskReport:
    """Measure the disclosure risk of a release, every figure beside its baseline.

    Parameters
    ----------
    original : Microdata, to which the encoding is fitted
    released : Microdata, as it would be published; of released ranges their middles
    reference : Microdata of other people of the same population; without it each record is compared with the
        original without that record, and membership is not measured
    settings : RiskSettings, by default those of the class
    ranges : Microdata, the released ranges where ``released`` holds their middles
    rng : Generator, for samples and ties

    Returns
    -------
    RiskReport

    Raises
    ------
    AnonymizationError
        When the tables do not fit together or a setting is out of range.

    Notes
    -----
    Released probabilities of levels (`released: probabilities`) are seen by measures of distance alone, which encode
    levels likewise. All that compares variables by name passes over them: values, agreement, copies, singling out,
    linkability, k-anonymity, inference.

    Claim: none. Source: that of each measure, and docs/explanation/risk.md.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable("x", "continuous"), Variable("y", "continuous")])
    >>> rows = np.random.default_rng(1).normal(size=(2, 200, 2))
    >>> a, b = (Microdata(pd.DataFrame(side, columns=["x", "y"]), schema) for side in rows)
    >>> measure_risk(a, a, b, rng=np.random.default_rng(2)).comparison.verdict
    'fail'
    """
    tables = EncodedTables.of(original, released, reference)
    report, curves = measure_encoded_risk(tables, settings or RiskSettings(), ranges=ranges, rng=rng)
    return replace(report, curves=curves, group_figures=group_figures(original, released))


def measure_encoded_risk(
    tables: EncodedTables, settings: RiskSettings, *, ranges: Microdata | None = None, rng: np.random.Generator
) -> tuple[RiskReport, RiskCurves]:
    """Measure the disclosure risk of tables that are encoded already; see :func:`measure_risk`.

    Returns
    -------
    RiskReport without its curves, and the curves, which are confidential; without figures of groups, which need whole
    groups
    """
    x, y, r = tables.x, tables.y, tables.r
    rows = settings.queries(len(x), rng)
    close = closeness(x, y, r, settings.k, queries=rows, rng=rng, units=tables.units)
    unshrunk = without_shrinkage(tables, _own(tables)) if settings.rows_linked else None
    seen = None
    if unshrunk is not None:
        seen = closeness(unshrunk.x, unshrunk.y, unshrunk.r, settings.k, queries=rows, rng=rng, units=tables.units)
    measures: dict[str, Callable[..., Any]] = {
        **_attacks(tables, unshrunk, settings),
        "membership": partial(_membership, tables, rows, close, settings.confidence),
        "inference": partial(_inference, tables),
        "comparison": partial(_comparison, tables, settings, rows, close),
        "tail": partial(_tail, tables, settings, rows, close),
        "value_pairs": partial(_value_pairs, tables, rows, close.within, settings.margin),
        "disclosure": partial(_disclosure, tables, settings),
    }
    if settings.rows_linked:
        measures |= {
            "linkage": partial(_linkage, tables, rows, close),
            "subset_linkage": partial(_subset_linkage, tables),
        }
    if ranges is not None:
        measures["boxes"] = partial(_boxes, tables, ranges, rows)
    found = _measured(measures, max(map(len, tables.matrices)), rng)
    nearest, rescaled, scores = found.pop("membership")
    halves, parts = found.pop("halves", None), found.pop("copied_parts", None)
    if halves and settings.copied_parts:
        parts = with_halves(parts, halves)
    report = RiskReport(
        k=settings.k,
        columns=tables.encoder.width,
        queries=Queries(len(rows), len(x), close.released.cdf_error(DELTA) or None),
        isolated=_isolated(close, seen, settings),
        extreme=worst_extremes(c.extreme(settings.tau) for c in (close, seen) if c),
        dominance=dominance(tables.original, tables.released, tables.reference),
        averages=_averages(tables, settings),
        sampling_units=shared_sampling_units(tables.original, tables.released, tables.reference),
        identical=_identical(tables, rows, close, settings.level),
        within_original=close.within,
        met_by_others=close.met_by_others,
        close_pairs=close.pairs(settings.tau),
        membership=nearest,
        membership_rescaled=rescaled,
        score_coincidence=scores,
        partial_copies=halves and halves.attack(Certainty(settings.confidence, MEMBERSHIP_ATTACKS)),
        copied_parts=parts,
        intervals=_intervals(tables, settings.confidence) if settings.rows_linked else None,
        **found,
    )
    return report, RiskCurves.of(close)


def _measured(measures: Mapping[str, Callable[..., Any]], records: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return what is measured, each with its own random numbers: no figure depends on how many processors work.

    Many records occupy the processors and take memory: such tables are measured in one way after another.
    """
    jobs = [partial(measure, rng=own) for measure, own in zip(measures.values(), rng.spawn(len(measures)), strict=True)]
    done = in_threads(lambda job: job(), jobs) if records <= _SIDE_BY_SIDE else (job() for job in jobs)
    return dict(zip(measures, done, strict=True))


def _tail(
    tables: EncodedTables, settings: RiskSettings, rows: Indices, close: Closeness, rng: np.random.Generator
) -> TailTest:
    """Test whether more records are nearly copied than by chance, also up to one change of all numbers of a record.

    The latter where other people hardly ever are: of few values one row of the release is near many people.
    """
    found = {"all": close.tail(settings.tau, settings.level)}
    if tables.reference is not None and not close.within:
        for name, sides in without_common_change(tables.original, tables.released, tables.reference):
            near = closeness(*sides, settings.k, queries=rows, rng=rng, units=tables.units)
            test = near.tail(settings.tau, settings.level)
            if test.n_reference <= _SELDOM * test.n and test.verdict != "inconclusive":
                found[name] = test
    return TailTest.in_forms(found)


def _identical(tables: EncodedTables, rows: Indices, close: Closeness, level: float) -> TailTest:
    """Count records that are released as they are, and beside other people those of the rarest values and of groups."""
    found = close.identical(level)
    if tables.r is None:
        return found
    of = tables.encoder.variable_of_columns()
    common = RecordsOfTwoSets.of(tables.x[rows], tables.y, tables.r, units=tables.units.take(rows), variables=of)
    forms = {"rarest first": common.rarest_first(), "in one group": common.in_one_group()}
    some = {name: replace(found, p=p, verdict="fail" if p < level else "pass") for name, p in forms.items()}
    return TailTest.in_forms({"all": found, **some})


def _isolated(close: Closeness, seen: Closeness | None, settings: RiskSettings) -> TailTest:
    """Test isolated records in all forms, also with the shrinkage of the release undone where there is any."""
    tau, level = settings.tau, settings.level
    undone = {} if seen is None else {f"{n}, {UNDONE}": t for n, t in seen.isolated_forms(tau, level).items()}
    return TailTest.in_forms(close.isolated_forms(tau, level) | undone)


def compare_encoded(tables: EncodedTables, settings: RiskSettings, rng: np.random.Generator) -> Comparison:
    """Compare the three prediction measures of release and reference, and nothing else."""
    return _matched(tables, settings, settings.queries(len(tables.x), rng), rng)


def _comparison(
    tables: EncodedTables, settings: RiskSettings, rows: Indices, close: Closeness, rng: np.random.Generator
) -> Comparison:
    """Compare release and reference; sets of different size are matched by repeated subsampling."""
    sets, units = None, tables.units.nonmembers
    if tables.r is not None and units is not None and len(np.unique(units)) <= min(_FEW_UNITS, len(units) - 1):
        sets = measures_by_groups(tables.x[rows], tables.r, settings.k, units)
    if len(tables.y) == len(tables.x if close.within or tables.r is None else tables.r):
        chosen = replace(settings.comparison, units=close.units.members, sets=sets)
        return compare_measures(close.released, close.reference, chosen)
    return _matched(tables, settings, rows, rng, sets)


def _matched(
    tables: EncodedTables,
    settings: RiskSettings,
    rows: Indices,
    rng: np.random.Generator,
    sets: PredictionMeasures | None = None,
) -> Comparison:
    return compare_matched(
        tables.x,
        tables.y,
        compared_with(tables.x, tables.y, tables.r, tables.units.nonmembers),
        settings=replace(
            settings.comparison, units=tables.original.units, reference_units=tables.units.nonmembers, sets=sets
        ),
        queries=rows,
        rng=rng,
    )


def _membership(
    tables: EncodedTables, rows: Indices, close: Closeness, confidence: float, rng: np.random.Generator
) -> tuple[MembershipAttack | None, MembershipAttack | None, ScoreCoincidence | None]:
    """Attack membership by the nearest released record, also rescaled to the reference, and by principal scores.

    Methods mask numbers, or their logarithms or normal scores: axes are straight on one of these scales, and scores
    are compared on all. Where members are sampled, as many non-members are. Without non-members nothing can be tried.
    """
    x, y, r = tables.x, tables.y, tables.r
    if r is None:
        return None, None, None
    others, known = close.nonmembers, None
    # Non-members were measured already where none is sampled and sizes agree.
    if others is not None and len(rows) == len(x) and len(others.released) == len(r) == len(y):
        known = others.released
    chosen = np.arange(len(r))
    if len(rows) < len(x) and len(r) > len(rows):
        chosen = rng.choice(len(r), len(rows), replace=False)
        r = r[chosen]
    measures, units = _of_all(close.released, y), tables.units.take(rows, chosen)
    back = matched_quantiles(y, r)
    attack = partial(nearest_distance_attack, x[rows], r, confidence=confidence, tests=MEMBERSHIP_ATTACKS, units=units)
    return (
        attack(y, measures=measures, nonmembers=known),
        None if back is None else attack(back),
        _scores_on_scales(tables, rows, chosen, Certainty(confidence, MEMBERSHIP_ATTACKS, units)),
    )


def _scores_on_scales(tables: EncodedTables, rows: Indices, chosen: Indices, certainty: Certainty) -> ScoreCoincidence:
    """Attack membership by principal scores, with numbers on each scale that methods use; the worst decides."""
    linear, normal = tables.on_scale("linear"), tables.on_scale("normal")
    # Normal scores come back from averages over ranks, which no single direction follows: nothing to search for.
    scales = [((tables.x, tables.y, tables.r), True), (linear, True), (normal, False)]
    present = [(scale, search) for scale, search in scales if scale is not None]
    together = certainty.over(len(present))
    attacks = [
        score_coincidence_attack(x[rows], r[chosen], y, search=search, certainty=together)
        for (x, y, r), search in present
        if r is not None
    ]
    return max(attacks, key=lambda one: (one.attack.lower, one.attack.auc))


def _attacks(
    tables: EncodedTables, unshrunk: EncodedTables | None, settings: RiskSettings
) -> dict[str, Callable[..., Any]]:
    """Return the attacks that compare members with non-members, the longest first; none without non-members."""
    if tables.reference is None or tables.r is None:
        return {}
    data = tables.original, tables.released, tables.reference
    keys, level = _names(tables, "quasi-identifier"), settings.confidence
    many, own = Certainty(level, MEMBERSHIP_ATTACKS), _own(tables) if settings.rows_linked else None
    attacks: dict[str, Callable[..., Any]] = {
        "density": partial(_density, tables, unshrunk, keys, many),
        "agreement": partial(agreement, *data, quasi_identifiers=keys, own=own, certainty=many),
        "singling_out": partial(singling_out, *data, confidence=level),
        "presence": partial(value_presence, *data, quasi_identifiers=keys, certainty=many),
        "linkability": partial(linkability, *data, confidence=level),
        "halves": partial(ScoredHalves.of, *data),
    }
    copied = partial(copied_parts, *data, quasi_identifiers=keys)
    return attacks | ({"copied_parts": copied} if settings.copied_parts else {})


def _density(
    tables: EncodedTables,
    unshrunk: EncodedTables | None,
    keys: Sequence[str],
    certainty: Certainty,
    rng: np.random.Generator,
) -> Density:
    views, certain = Views.of(tables, unshrunk, keys, rng), replace(certainty, units=tables.units)
    return density(tables.x, np.asarray(tables.r), tables.y, views=views, certainty=certain, rng=rng)


def _linkage(tables: EncodedTables, rows: Indices, close: Closeness, rng: np.random.Generator) -> Linkage:
    """Link records to released rows, by the index labels that both carry."""
    return linkage(
        tables.x,
        tables.y,
        reference=tables.r,
        own=_own(tables),
        settings=LinkageSettings(
            k=close.released.k,
            queries=rows,
            measures=_of_all(close.released, tables.y),
            nonmembers=None if tables.r is None else _of_all(close.reference, tables.r),
            units=tables.original.units,
            row_units=tables.released.units,
        ),
        rng=rng,
    )


def _subset_linkage(tables: EncodedTables, rng: np.random.Generator) -> SubsetLinkage | None:
    return subset_linkage(tables, _own(tables), quasi_identifiers=_names(tables, "quasi-identifier"), rng=rng)


def _intervals(tables: EncodedTables, confidence: float) -> tuple[IntervalDisclosure, ...]:
    return interval_disclosure(tables.original, tables.released, _own(tables), confidence=confidence)


def _averages(tables: EncodedTables, settings: RiskSettings) -> DominatedAverages | None:
    if not settings.rows_linked:
        return None
    return dominated_averages(tables.original, tables.released, _own(tables), settings.k)


def _own(tables: EncodedTables) -> Indices:
    return tables.released.frame.index.get_indexer(tables.original.frame.index)


def _of_all(measures: PredictionMeasures, points: Floats) -> PredictionMeasures | None:
    """Return measures that were taken against all of ``points``; None where sizes were matched."""
    return measures if measures.n_released == len(points) else None


def _value_pairs(
    tables: EncodedTables, rows: Indices, within: bool, margin: float, rng: np.random.Generator
) -> ValuesTogether | None:
    if tables.reference is None:
        return None
    others = tables.original if within else tables.reference
    size = min(len(tables.released), len(others))
    # Of the original all stay: without the other one of two people with the same values neither would count.
    released, others = (
        side if len(side) <= most else side.take(np.sort(rng.choice(len(side), size, replace=False)))
        for side, most in ((tables.released, size), (others, len(others) if within else size))
    )
    people = tables.original.take(rows)
    if people.units is not None:
        people = people.take(drawn_people(people, len(people), rng))
    return values_together(people, released, others, within=within, margin=margin, rng=rng)


def _names(tables: EncodedTables, role: Literal["quasi-identifier", "sensitive", "weight"]) -> list[str]:
    """Return the released variables of a role that the original has too."""
    return [n for n in tables.released.schema.with_role(role) if n in tables.original.schema]


def _disclosure(tables: EncodedTables, settings: RiskSettings, rng: np.random.Generator) -> Disclosure | None:
    schema = tables.released.schema
    if not (keys := _names(tables, "quasi-identifier")):
        return None
    return disclosure_risk(
        tables.released,
        original=tables.original,
        reference=tables.reference,
        settings=DisclosureSettings(
            quasi_identifiers=keys,
            sensitive=_names(tables, "sensitive"),
            weight=next((n for n in schema.with_role("weight") if not schema[n].is_categorical), None),
            population=settings.population,
            missing=settings.missing_keys,
            k=settings.k,
        ),
        rng=rng,
    )


def _inference(tables: EncodedTables, rng: np.random.Generator) -> InferenceRisk | None:
    if tables.reference is None:
        return None
    settings = InferenceSettings(quasi_identifiers=_names(tables, "quasi-identifier"))
    return attribute_inference(tables.original, tables.reference, tables.released, settings=settings, rng=rng)


def _boxes(tables: EncodedTables, ranges: Microdata, rows: Indices, rng: np.random.Generator) -> BoxRisk:
    """Locate the queried records and as many of the reference among the released boxes."""
    original, reference = tables.original, tables.reference
    levels = tables.released.schema
    if reference is not None and len(rows) < len(original) and len(reference) > len(rows):
        reference = reference.take(rng.choice(len(reference), len(rows), replace=False))
    return box_risk(
        original, original.take(rows), reference, released_boxes(ranges, levels), levels, tests=MEMBERSHIP_ATTACKS
    )
