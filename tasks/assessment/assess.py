"""Measure what the release risks and what it keeps, on the data as they would be published."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pydantic import Field

from anoncore.encoding import Encoder
from anoncore.microdata import Microdata
from anoncore.risk import (
    Closeness,
    PredictionMeasures,
    closeness,
    compare,
    compare_matched,
    sample_queries,
)
from anoncore.utility import Regression, measure_utility
from tasks.assessment.attacks import by_attributes, linked, located_in_boxes, membership, together
from tasks.common.digests import plain
from tasks.common.run import Run
from tasks.common.sections import Section
from tasks.common.workspace import StoredArrays
from tasks.intake.split import Sides
from tasks.masking.anonymize import ContinuousForm, Masked
from tasks.policy.verdict import Measure, PolicySection

# A bound so small that nobody is left out of a sample.
EXACT = 1e-5
STATISTICS = ("mean", "variance", "correlation", "rank_correlation")


class AssessmentSection(Section):
    """How disclosure risk and utility are measured.

    Parameters
    ----------
    k : Number of nearest neighbours examined around each record.
    margin : By how much the release may be riskier than the reference.
    alpha : 1 minus the confidence with which that must be shown.
    tau : A record is unusually close below this share of the distance to its nearest neighbour.
    exhaustive : Compare every record, whatever their number.
    sample_above : Above this number of records a sample of them is compared, unless ``exhaustive``. Released
        records are never sampled.
    epsilon : Largest error of that sample's cumulative curves, at 99 % confidence.
    regressions : Analyses whose results the release should preserve.
    triples : Largest number of tables of three variables that are compared. Of two variables it is 2000.
    """

    k: int = Field(default=5, ge=2)
    margin: float = Field(default=0.05, gt=0, lt=1)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    tau: float = Field(default=0.1, gt=0, lt=1)
    exhaustive: bool = False
    sample_above: int = Field(default=100_000, ge=1000)
    epsilon: float = Field(default=0.01, gt=0, lt=0.5)
    regressions: tuple[Regression, ...] = ()
    triples: int = Field(default=200, ge=0, le=10_000)

    def queries(self, records: int, rng: np.random.Generator) -> np.ndarray:
        """Return the rows that are measured: all, or a sample where there are many."""
        if self.exhaustive or records <= self.sample_above:
            return np.arange(records)
        return sample_queries(records, epsilon=self.epsilon, delta=0.01, rng=rng)


@dataclass(frozen=True)
class Assessed:
    """Every risk and utility figure with its baseline and sample size, and the curves behind them by reference."""

    figures: dict[str, Any]
    curves: StoredArrays


def assess(run: Run, sides: Sides, masked: Masked, section: AssessmentSection, policy: PolicySection) -> Assessed:
    """Measure the risk and the utility of the masked data.

    The encoding is fitted to the original records; released and reference records are encoded
    with it. Without a reference sample every record is compared with the source without it. Released
    ranges are measured by their middles, and once more as what they are. Of the policy the measures that are
    acknowledged and the level of the tail tests are used; its gates are for `tasks.policy.verdict`.
    """
    original, released = sides.original.load(), masked.measured.load()
    reference = None if sides.reference is None else sides.reference.load()
    encoder = Encoder.fit(original)
    x, masked_matrix = _encoded(encoder, original), _encoded(encoder, released)
    # Where a group is hidden and nobody else, records that did not move are identical to their source, and
    # figures of single records would count those that did: they are told as if nobody had moved.
    as_source = bool(masked.hides) and masked.unprotected
    shown, y = (original, x) if as_source else (released, masked_matrix)
    r = None if reference is None else _encoded(encoder, reference)
    rng = run.rng("assess")
    rows = section.queries(len(x), rng)
    close = closeness(x, y, r, section.k, queries=rows, rng=rng)
    near, other = close.released, close.reference
    tau, level = section.tau, policy.tail_p
    figures = {
        "records": {
            "original": len(x),
            "released": len(released),
            "reference": None if r is None else len(r),
        },
        "as_source": as_source,
        "k": section.k,
        "columns": encoder.width,
        "queries": {"used": len(rows), "of": len(x), "epsilon": near.cdf_error() or None},
        "comparison": _comparison(x, y, r, rows, section, policy.by_design, rng, (near, other)),
        "tail": asdict(close.tail(tau, level)),
        "among_people": _among_people(close, tau),
        "isolated": asdict(close.isolated(tau, level)),
        "extreme": asdict(close.extreme(tau)) | {"sampled": len(rows) < len(x)},
        "identical": asdict(close.identical(level)),
        "together": together(original, shown, reference, rows, section.margin, run.rng("together")),
        **membership(x, y, r, rows, close, rng),
        "linkage": linked(original, shown, (x, y, r), rows, (near, other), run.rng("linkage"))
        if masked.keeps_records
        else None,
        **by_attributes(original, shown, reference, section.k, section.epsilon if len(rows) < len(x) else EXACT, run),
        # Looked for by `tasks.assessment.prior_releases`, where there is a home that knows them.
        "earlier": None,
        "boxes": located_in_boxes(masked, original, reference, rows, run.rng("assess-boxes")),
        "continuous_form": _continuous_form(run, masked.continuous, reference, section, policy.by_design),
        "claims": masked.claims,
        "method": masked.figures,
        **_utility((original, released, reference), (x, masked_matrix, r), encoder, masked.hides, section),
        "rare_levels": _rare_levels(released, section.k),
    }
    return Assessed(plain(figures), run.workspace.store_arrays("curves", **_curves(near, other)))


def _among_people(close: Closeness, tau: float) -> dict[str, Any] | None:
    """Return how many close pairs of two people are of one of the original and one of the reference."""
    pairs = close.pairs(tau)
    return None if pairs is None else {"n": pairs.n_among, "cross": pairs.n_cross, "p": pairs.p_cross}


def _encoded(encoder: Encoder, data: Microdata) -> np.ndarray:
    """Return the encoding, with a column of zeros where no variable varies: then all are equally near."""
    return encoder.encode(data) if encoder.width else np.zeros((len(data), 1))


def _comparison(
    x: np.ndarray,
    y: np.ndarray,
    r: np.ndarray | None,
    rows: np.ndarray,
    section: AssessmentSection,
    by_design: tuple[Measure, ...],
    rng: np.random.Generator,
    measured: tuple[PredictionMeasures, PredictionMeasures] | None = None,
) -> dict[str, Any]:
    """Compare release and reference; sets of different size are matched by repeated subsampling."""
    if len(y) == (len(x) if r is None else len(r)):
        if measured is None:
            close = closeness(x, y, r, section.k, queries=rows, rng=rng)
            measured = close.released, close.reference
        near, other = measured
        found = compare(near, other, section.margin, alpha=section.alpha, by_design=by_design)
    else:
        found = compare_matched(
            x,
            y,
            r,
            section.k,
            section.margin,
            alpha=section.alpha,
            by_design=by_design,
            queries=rows,
            rng=rng,
        )
    return {
        "verdict": found.verdict,
        "n_released": found.n_released,
        "n_reference": found.n_reference,
        "draws": found.draws,
        "measures": [asdict(measure) for measure in found.measures],
    }


def _continuous_form(
    run: Run,
    form: ContinuousForm | None,
    reference: Microdata | None,
    section: AssessmentSection,
    by_design: tuple[Measure, ...],
) -> dict[str, Any] | None:
    """Compare in the paper's form, where scores are not yet decoded to levels."""
    if reference is None or form is None:
        return None
    data = form.data.load()
    encoder = Encoder.fit(data)
    x, y = encoder.encode(data), form.scores.load()["scores"]
    # Levels that an earlier step recoded are unknown to this encoder, and count as such.
    r = encoder.encode(reference.select(data.schema.names))
    rng = run.rng("assess-continuous")
    return _comparison(x, y, r, section.queries(len(x), rng), section, by_design, rng)


def _utility(
    tables: tuple[Microdata, Microdata, Microdata | None],
    matrices: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    encoder: Encoder,
    hides: tuple[str, ...],
    section: AssessmentSection,
) -> dict[str, Any]:
    """Measure what the release keeps, without the variables between which a hidden group was moved."""
    original, released, reference = tables
    told = [n for n in original.schema.names if n not in hides]
    fits = encoder
    encoded: tuple[np.ndarray | None, ...] = matrices
    if hides:
        fits, encoded = Encoder.fit(original.select(told)), ()
    found = measure_utility(
        original.select(told),
        released.select([n for n in released.schema.names if n not in hides]),
        None if reference is None else reference.select([n for n in told if n in reference.schema]),
        encoder=fits,
        encoded=encoded,
        regressions=section.regressions,
        triples=section.triples,
    ).summary()
    # Where nothing varies there is nothing to compare, and a limit on it cannot be kept.
    nothing = {"median": None, "largest": None}
    empty: dict[str, Any] = {"released": nothing, "reference": None, "sufficient": None, "worst": []}
    return found | {"utility": {name: found["utility"].get(name, empty) for name in STATISTICS}}


def _rare_levels(released: Microdata, k: int) -> list[dict[str, Any]]:
    """Name the released levels that fewer than k released records hold, as they can be counted there."""
    found = []
    for variable in released.schema:
        if variable.is_categorical and variable.is_masked:
            counts = released.level_counts(variable.name)
            rare = [str(level) for level, count in counts.items() if 0 < count < k]
            if rare:
                found.append({"variable": variable.name, "levels": rare})
    return found


def _curves(released: PredictionMeasures, reference: PredictionMeasures) -> dict[str, np.ndarray]:
    """Return each measure sorted, so that no value can be traced to its record."""
    return {
        f"{side}_{name}": np.sort(getattr(measures, name))
        for side, measures in (("released", released), ("reference", reference))
        for name in ("distance", "ambiguity", "uncertainty")
    }
