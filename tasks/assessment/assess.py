"""Measure the disclosure risk and the utility of a release, on the data as they would be published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from anoncore.encoding import EncodedTables
from anoncore.microdata import Microdata
from anoncore.recoding import recoded
from anoncore.risk import (
    Comparison,
    RiskCurves,
    RiskReport,
    RiskSettings,
    compare_encoded,
    group_figures,
    measure_encoded_risk,
    relabelling,
    row_order,
    twins_by_chance,
)
from anoncore.risk.comparison import margins_problem
from anoncore.risk.population import Missing
from anoncore.utility import Regression, UtilityReport, UtilitySettings, measure_utility, propensity_between
from tasks.assessment.rare_levels import rare_levels_named
from tasks.common.run import Run
from tasks.common.sections import Section
from tasks.common.workspace import StoredArrays
from tasks.intake.external import Prepared
from tasks.intake.split import Sides
from tasks.masking.anonymize import ContinuousForm, Masked
from tasks.policy.assessment import Assessment, ExternalFiles, Half, RareLevels, Records, ReferenceOverlap
from tasks.policy.section import PolicySection

# As of `AssessmentSection.k`.
FEWEST_NEIGHBOURS = 2


class AssessmentSection(Section):
    """How disclosure risk and utility are measured.

    Parameters
    ----------
    k : Number of nearest neighbours examined around each record.
    margin : By how much the release may be riskier than the reference.
    margins : Smaller margins of ``distance``, ``ambiguity`` or ``uncertainty``: the latter two where records that are
        linked are feared most.
    alpha : 1 minus the confidence with which that must be shown.
    tau : A record is unusually close below this share of the distance to its nearest neighbour.
    exhaustive : Compare every record, whatever their number.
    sample_above : Above this number of masked records, unless ``exhaustive``, a sub-table masked by the same plan is
        attacked, and all records are searched for what it cannot show, as with ``engine: local``. Where it would hold
        them all (20 000, or 40 000 with the reference ``cross``), where records share a unit, and in plans that tables
        in partitions do not support, a sample of the records is compared with all released ones instead.
    epsilon : Largest error of that sample's cumulative curves, at 99 % confidence.
    regressions : Analyses whose results the release should preserve.
    triples : Largest number of tables of three variables that are compared. Of two variables it is 2000.
    population : Number of people of whom the source holds a sample, for risk in the population. Without it, what a
        variable with the role weight sums to.
    missing_keys : What a missing value of a quasi-identifier means to that risk: a ``level`` of its own;
        ``holders``, it is not compared, and those count that hold what the record has left; or ``excluded``, so that
        the record is not counted.
    """

    k: int = Field(default=5, ge=2)
    margin: float = Field(default=0.05, gt=0, lt=1)
    margins: Mapping[str, float] = {}
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    tau: float = Field(default=0.1, gt=0, lt=1)
    exhaustive: bool = False
    sample_above: int = Field(default=100_000, ge=1000)
    epsilon: float = Field(default=0.01, gt=0, lt=0.5)
    regressions: tuple[Regression, ...] = ()
    triples: int = Field(default=200, ge=0, le=10_000)
    population: int | None = Field(default=None, ge=1)
    missing_keys: Missing = "level"

    @model_validator(mode="after")
    def _check_margins(self) -> AssessmentSection:
        if problem := margins_problem(self.margins, self.margin):
            raise ValueError(problem)
        return self

    def settings(self, policy: PolicySection, *, rows_linked: bool = False, copied_parts: bool = False) -> RiskSettings:
        """Return the settings of the measures, with the acknowledged measures and the level of the policy."""
        return RiskSettings(
            k=self.k,
            margin=self.margin,
            margins=self.margins,
            alpha=self.alpha,
            tau=self.tau,
            level=policy.tail_p,
            by_design=policy.by_design,
            sample_above=None if self.exhaustive else self.sample_above,
            epsilon=self.epsilon,
            rows_linked=rows_linked,
            copied_parts=copied_parts,
            population=self.population,
            missing_keys=self.missing_keys,
        )


@dataclass(frozen=True)
class Assessed:
    """The assessment, and the confidential curves behind it by reference."""

    assessment: Assessment
    curves: StoredArrays


class MaskedSides(NamedTuple):
    """The two sides of a plan's table, or of its sub-table, and what the same plan released of the original."""

    sides: Sides
    masked: Masked


def assess(
    run: Run,
    sides: Sides,
    masked: Masked,
    section: AssessmentSection,
    policy: PolicySection,
    *,
    copied_parts: bool = False,
) -> Assessed:
    """Measure the risk and the utility of the masked data.

    The encoding is fitted to the original records; released and reference records are encoded with it. Without a
    reference sample every record is compared with the source without it. Released ranges are measured by their
    middles, and once more as ranges. Of the policy the acknowledged measures and the level of the tail tests are
    used; its gates are for `tasks.policy.verdict`. ``copied_parts`` are tested in files of other tools alone: no
    masking step puts a person's part beside the values of another.
    """
    measured = section.settings(policy, rows_linked=masked.keeps_records, copied_parts=copied_parts)
    tables, risk, curves = _measured(run.rng("assess"), sides.original.load(), sides, masked, measured)
    settings = section.settings(policy)
    records, released = _records(tables), tables.released if masked.points is None else masked.released.load()
    assessment = Assessment(
        records=records,
        risk=risk,
        overlap=_overlap(risk, records),
        utility=_utility(tables, sides, masked, section),
        claims=masked.claims,
        source_values=masked.source_values,
        source_levels=rare_levels_named(tables.original, tables.released, released, rows_linked=masked.keeps_records),
        method_figures=masked.figures,
        rare_levels=_rare_levels(tables.released, section.k),
        as_source=_as_source(masked),
        continuous_form=_continuous_form(masked.continuous, tables.reference, settings, run.rng("assess-continuous")),
    )
    return Assessed(assessment, run.workspace.store_arrays("curves", **curves.named()))


def assess_half(run: Run, half: Sides, masked: Masked, section: AssessmentSection, policy: PolicySection) -> Half:
    """Measure the risk of one masked half of the units, the other being its reference; utility is of all records."""
    settings = section.settings(policy, rows_linked=masked.keeps_records)
    tables, risk, _ = _measured(run.rng("assess"), half.original.load(), half, masked, settings)
    return Half(_records(tables), risk)


def with_published_risk(
    run: Run, sides: Sides, masked: Masked, assessed: Assessed, section: AssessmentSection, policy: PolicySection
) -> Assessed:
    """Add risk as it is published where an attacker who knows all people knows the members: of a secret half of them.

    Such an attacker, who lacks one person's values, would compute for each possible one what would be published. The
    figures of all units decide.
    """
    left_out = sides.left_out_rows("risk")
    if left_out is None or not left_out.any():
        return assessed
    part = sides.original.load().take(np.flatnonzero(~left_out))
    neighbours = len(part) - int(np.bincount(part.unit_codes).max(initial=0)) - 1
    if neighbours < FEWEST_NEIGHBOURS:
        return assessed
    settings = section.settings(policy, rows_linked=masked.keeps_records)
    settings = replace(settings, k=min(settings.k, neighbours))
    _, risk, curves = _measured(run.rng("assess-published"), part, sides, masked, settings)
    stored = run.workspace.store_arrays("curves-published", **curves.named())
    return Assessed(replace(assessed.assessment, risk_published=risk), stored)


def _measured(
    rng: np.random.Generator, original: Microdata, sides: Sides, masked: Masked, settings: RiskSettings
) -> tuple[EncodedTables, RiskReport, RiskCurves]:
    reference = None if sides.reference is None else recoded(sides.reference.load(), masked.recodings)
    tables = EncodedTables.of(recoded(original, masked.recodings), masked.measured.load(), reference)
    risk, curves = measure_encoded_risk(
        tables.unmasked if _as_source(masked) else tables,
        settings,
        ranges=None if masked.points is None else masked.released.load(),
        rng=rng,
    )
    return tables, risk, curves


def _as_source(masked: Masked) -> bool:
    """Return whether single records are measured as if none had moved.

    Where a group alone is hidden, records that did not move are identical to their source, and figures of single
    records would count those that did.
    """
    return bool(masked.hidden_variables) and masked.records_unchanged


def _records(tables: EncodedTables) -> Records:
    return Records(len(tables.x), len(tables.y), None if tables.r is None else len(tables.r))


def with_external_files(assessment: Assessment, prepared: Prepared) -> Assessment:
    """Return the assessment with what externally produced files hold besides what was measured."""
    original, released = prepared.sides.original.load(), prepared.masked.measured.load()
    reference, overlap = prepared.sides.reference, assessment.overlap
    if overlap is not None:
        overlap = replace(overlap, named=prepared.named_reference)
    levels = relabelling(original, released, None if reference is None else reference.load())
    order = row_order(original, released)
    external = ExternalFiles(len(prepared.unknown), prepared.named_released, prepared.supposed, levels, order)
    risk = replace(assessment.risk, group_figures=group_figures(original, released))
    return replace(assessment, risk=risk, external=external, overlap=overlap)


def _overlap(risk: RiskReport, records: Records) -> ReferenceOverlap | None:
    """Return how many records of the original are in the reference unchanged, of which no identifier is compared."""
    met = risk.met_by_others
    if records.reference is None or met is None:
        return None
    same = risk.identical
    p = twins_by_chance(met, same.n_duplicates, records.original, min(records.released, records.reference))
    return ReferenceOverlap(met, same.n_duplicates, same.n, p, 0)


def _continuous_form(
    form: ContinuousForm | None, reference: Microdata | None, settings: RiskSettings, rng: np.random.Generator
) -> Comparison | None:
    """Compare in the paper's form, where scores are not yet decoded to levels, with a reference in the same levels."""
    if reference is None or form is None:
        return None
    data = form.data.load()
    tables = EncodedTables.of(data, data, reference.select(data.schema.names))
    return compare_encoded(replace(tables, y=form.scores.load()["scores"]), settings, rng)


def _utility(tables: EncodedTables, sides: Sides, masked: Masked, section: AssessmentSection) -> UtilityReport:
    """Measure what the release preserves, without the variables between which a hidden group was moved.

    Figures are published, so that some units are left out of the original: an attacker does not know which.
    """
    original, released, reference = tables.original, tables.released, tables.reference
    hides = masked.hidden_variables
    shown = [n for n in original.schema.names if n not in hides]
    utility = measure_utility(
        original.select(shown),
        released.select([n for n in released.schema.names if n not in hides]),
        None if reference is None else reference.select([n for n in shown if n in reference.schema]),
        settings=UtilitySettings(regressions=section.regressions, computed=masked.computed, triples=section.triples),
        encoded=None if hides else tables,
        left_out=sides.left_out_rows("utility"),
    )
    return _beside_halves(utility, sides, hides)


def _beside_halves(utility: UtilityReport, sides: Sides, hides: tuple[str, ...]) -> UtilityReport:
    """Return utility with what separates the halves, two samples of one population, as a baseline where there is none.

    Everybody is in the release, so that no other sample is at hand.
    """
    if not sides.halves:
        return utility
    halves = [half.original.load() for half in sides.halves]
    between = propensity_between(*(half.select([n for n in half.schema.names if n not in hides]) for half in halves))
    logistic, tree = (
        score and replace(score, reference=between.get(score.released.model))
        for score in (utility.propensity, utility.tree)
    )
    return replace(utility, propensity=logistic, tree=tree)


def _rare_levels(released: Microdata, k: int) -> tuple[RareLevels, ...]:
    """Name the released levels that fewer than k units of the release hold; where rows are of no unit, than k rows."""
    rare = []
    for variable in released.schema:
        if variable.is_categorical and variable.is_masked:
            counts = released.level_units(variable.name)
            levels = tuple(str(level) for level, count in counts.items() if 0 < count < k)
            rare += [RareLevels(variable.name, levels)] if levels else []
    return tuple(rare)
