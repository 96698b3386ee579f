"""Measure what the release risks and what it keeps, on the data as they would be published."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from anoncore.encoding import Encoder
from anoncore.kernels.neighbors import nearest
from anoncore.microdata import Microdata, Schema
from anoncore.ranges import ReleasedBoxes, released_boxes
from anoncore.risk import (
    BoxMeasures,
    MembershipAttack,
    PredictionMeasures,
    box_density_attack,
    box_measures,
    compare,
    compare_matched,
    extreme_records,
    identical_records,
    isolated_test,
    nearest_distance_attack,
    prediction_measures,
    sample_queries,
    tail_test,
)
from anoncore.utility import kept_columns, utility_figures
from tasks.decide import Measure
from tasks.workspace import Run, Section

# Differences of this size are rounding, not loss.
ROUNDING = 1e-12


class AssessmentSection(Section):
    """How risk is measured.

    Above ``sample_above`` records the queries are sampled, never the released records, so that
    every cumulative curve is within ``epsilon`` at 99 % confidence; ``exhaustive`` forbids that.
    """

    k: int = Field(default=5, ge=2)
    margin: float = Field(default=0.05, gt=0, lt=1)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    tau: float = Field(default=0.1, gt=0, lt=1)
    exhaustive: bool = False
    sample_above: int = Field(default=100_000, ge=1000)
    epsilon: float = Field(default=0.01, gt=0, lt=0.5)


def assess(run: Run, section: AssessmentSection, by_design: tuple[Measure, ...]) -> dict[str, Any]:
    """Write ``figures``: every risk and utility figure with its baseline and sample size.

    The encoding is fitted to the original records; released and reference records are encoded
    with it. Without a reference sample every record is compared with the source without it. Released
    ranges are measured by their middles, and once more as what they are.
    """
    original, released = run.load("original"), run.load("points" if run.has("points") else "released")
    reference = run.load("reference") if (run.folder / "reference.parquet").exists() else None
    masked = run.read_json("masked")
    encoder = Encoder.fit(original)
    x, masked_matrix = encoder.encode(original), encoder.encode(released)
    # Where a group is hidden and nobody else, records that did not move are identical to their source, and
    # figures of single records would count those that did: they are told as if nobody had moved.
    as_source = bool(masked["hides"]) and masked["unprotected"]
    y = x if as_source else masked_matrix
    r = encoder.encode(reference) if reference is not None else None
    rng = run.rng("assess")
    rows = _queries(len(x), section, rng)
    near, other = _measures(x, y, r, rows, section.k, rng)
    gaps = nearest(x[rows], x, 2, skip_self=rows)[0] / np.sqrt(x.shape[1])
    own = gaps[:, 0]
    # The neighbour that the reference of leave-one-out finds is the own one; what it comes close to by
    # chance is told by the next: d₁ < τ·d₂, written as d₁²/d₂ < τ·d₁.
    chance = other.distance if r is not None else own**2 / np.where(gaps[:, 1] > 0, gaps[:, 1], 1.0)
    whole = nearest(x[rows], y, 1)[0][:, 0] / np.sqrt(x.shape[1])
    figures = {
        "records": {
            "original": len(x),
            "released": len(released),
            "reference": None if r is None else len(r),
        },
        "as_source": as_source,
        "k": section.k,
        "columns": x.shape[1],
        "queries": {"used": len(rows), "of": len(x), "epsilon": near.cdf_error() or None},
        "comparison": _comparison(x, y, r, rows, section, by_design, rng, (near, other)),
        "tail": asdict(tail_test(near.distance, chance, own, tau=section.tau)),
        "isolated": asdict(isolated_test(near.distance, chance, own, tau=section.tau)),
        "extreme": asdict(extreme_records(whole, chance, own, tau=section.tau))
        | {"sampled": len(rows) < len(x)},
        "identical": asdict(identical_records(near.distance, other.distance, own)),
        "membership": None if r is None else asdict(_membership(x[rows], y, r, len(rows) == len(x), rng)),
        "continuous_form": _continuous_form(run, reference, section, by_design),
        "claims": run.read_json("claims"),
        "method": masked["figures"],
        **_utility(x, masked_matrix, r, encoder, kept_columns(encoder, released, masked["hides"])),
        "rare_levels": _rare_levels(released, section.k),
        "boxes": _boxes(run, original, reference, rows, run.rng("assess-boxes")),
    }
    run.write_json("figures", figures)
    run.save_arrays("curves", **_curves(near, other))
    return figures


def _queries(records: int, section: AssessmentSection, rng: np.random.Generator) -> np.ndarray:
    if section.exhaustive or records <= section.sample_above:
        return np.arange(records)
    return sample_queries(records, epsilon=section.epsilon, delta=0.01, rng=rng)


def _measures(
    x: np.ndarray, y: np.ndarray, r: np.ndarray | None, rows: np.ndarray, k: int, rng: np.random.Generator
) -> tuple[PredictionMeasures, PredictionMeasures]:
    """Measure against the release and against the reference, both of about the same size."""
    if r is None:
        return (
            prediction_measures(x, y, k, queries=rows),
            prediction_measures(x, None, k, leave_one_out=True, queries=rows),
        )
    size = min(len(y), len(r))
    y_same, r_same = (s if len(s) == size else s[rng.choice(len(s), size, replace=False)] for s in (y, r))
    return prediction_measures(x, y_same, k, queries=rows), prediction_measures(x, r_same, k, queries=rows)


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
        near, other = measured or _measures(x, y, r, rows, section.k, rng)
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


def _membership(
    x: np.ndarray, y: np.ndarray, r: np.ndarray, whole: bool, rng: np.random.Generator
) -> MembershipAttack:
    """Attack with the nearest distance; where members are sampled, as many non-members are."""
    if not whole and len(r) > len(x):
        r = r[rng.choice(len(r), len(x), replace=False)]
    return nearest_distance_attack(x, r, y)


def _continuous_form(
    run: Run, reference: Microdata | None, section: AssessmentSection, by_design: tuple[Measure, ...]
) -> dict[str, Any] | None:
    """Compare in the paper's form, where scores are not yet decoded to levels."""
    if reference is None or not (run.folder / "scores.npz").exists():
        return None
    data = run.load("step-input")
    encoder = Encoder.fit(data)
    x, y = encoder.encode(data), run.load_arrays("scores")["scores"]
    # Levels that an earlier step recoded are unknown to this encoder, and count as such.
    r = encoder.encode(reference.select(data.schema.names))
    rng = run.rng("assess-continuous")
    return _comparison(x, y, r, _queries(len(x), section, rng), section, by_design, rng)


def _boxes(
    run: Run,
    original: Microdata,
    reference: Microdata | None,
    rows: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, Any] | None:
    """Measure released ranges: what a box says about those inside, and whether boxes tell members."""
    if not run.has("points"):
        return None
    points = run.load("points").schema
    boxes = released_boxes(run.load("released"), points)
    sides_ = [original.take(rows)]
    if reference is not None:
        # Where members are sampled, as many non-members are.
        whole = len(rows) == len(original) or len(reference) <= len(rows)
        drawn = np.arange(len(reference)) if whole else rng.choice(len(reference), len(rows), replace=False)
        sides_.append(reference.take(drawn))
    measured = [_among(side, original, boxes, points) for side in sides_]
    sides = {
        side: {
            "reidentification": float(one.reidentification.mean()),
            "largest_reidentification": float(one.reidentification.max()),
            "inside": float((one.distance == 0).mean()),
            "uncertainty": float(np.median(one.uncertainty)),
            "log_volume": float(np.median(one.log_volume)),
            "people": len(one.distance),
        }
        for side, one in zip(("original", "reference"), measured, strict=False)
    }
    attack = None if reference is None else asdict(box_density_attack(*measured))
    # Without a reference sample there is nobody else to locate.
    return {"reference": None} | sides | {"membership": attack, "variables": len(boxes.names)}


def _among(people: Microdata, original: Microdata, boxes: ReleasedBoxes, levels: Schema) -> BoxMeasures:
    """Locate people among boxes, numbers in standard deviations of the original records."""
    known = original.frame[list(boxes.names)]
    middle = known.mean().to_numpy()
    spread = known.std(ddof=0).replace(0.0, 1.0).fillna(1.0).to_numpy()
    values = people.frame[list(boxes.names)].to_numpy(dtype="float64")
    codes = [
        np.where(people.frame[n].isna(), -1, np.where(own < 0, -2, own))
        for n in boxes.held
        for own in [pd.Index(levels[n].levels or ()).get_indexer(people.frame[n].astype("object"))]
    ]
    return box_measures(
        (values - middle) / spread,
        (boxes.lower - middle) / spread,
        (boxes.upper - middle) / spread,
        boxes.sizes,
        levels=np.column_stack(codes) if codes else None,
        held=tuple(boxes.held.values()),
    )


def _utility(
    x: np.ndarray, y: np.ndarray, r: np.ndarray | None, encoder: Encoder, kept: np.ndarray
) -> dict[str, Any]:
    """Return the four figures, and each column's, beside those of the reference sample where there is one.

    Levels that the release does not have at all are counted and left out: what was suppressed on
    purpose would otherwise hide what masking did to the rest.
    """
    names = [name for name, keep in zip(encoder.column_names(), kept, strict=True) if keep]
    ours = utility_figures(x[:, kept], y[:, kept])
    theirs = None if r is None else utility_figures(x[:, kept], r[:, kept])
    table: dict[str, Any] = {}
    for figure in ours.figures:
        base = None if theirs is None else getattr(theirs, figure.name)
        table[figure.name] = {
            "released": {"median": figure.median, "largest": figure.largest},
            "reference": base and {"median": base.median, "largest": base.largest},
            "sufficient": base and bool(figure.median <= base.median + ROUNDING),
        }
    columns = [
        {
            "name": name,
            "mean": float(ours.mean.values[j]),
            "variance": float(ours.variance.values[j]),
            "reference_mean": None if theirs is None else float(theirs.mean.values[j]),
            "reference_variance": None if theirs is None else float(theirs.variance.values[j]),
        }
        for j, name in enumerate(names)
    ]
    return {"utility": table, "utility_columns": columns, "utility_left_out": int((~kept).sum())}


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
