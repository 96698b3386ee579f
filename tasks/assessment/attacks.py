"""What an attacker gets out of the release: each attack beside what it gets about people who took no part."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from anoncore.boxes.columns import ReleasedBoxes, released_boxes
from anoncore.microdata import Microdata, Schema
from anoncore.risk import (
    BoxMeasures,
    Closeness,
    PredictionMeasures,
    attribute_inference,
    box_density_attack,
    box_measures,
    disclosure_risk,
    linkage,
    moved_back,
    nearest_distance_attack,
    score_coincidence_attack,
    twins_by_chance,
    values_together,
)
from tasks.common.run import Run
from tasks.intake.external import Prepared
from tasks.masking.anonymize import Masked


def membership(
    x: np.ndarray,
    y: np.ndarray,
    r: np.ndarray | None,
    rows: np.ndarray,
    close: Closeness,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Try to tell who took part: by the nearest released record, and by principal scores that recur.

    A release that stands apart from other people is attacked once more where they stand. Where members
    are sampled, as many non-members are. Without non-members nothing can be tried.
    """
    if r is None:
        return {"membership": None, "membership_moved_back": None, "score_coincidence": None}
    near, theirs, known = _of(close.released, y), close.strangers, None
    # They were measured where nobody is sampled and sizes agree.
    if theirs is not None and len(rows) == len(x) and len(theirs.released) == len(r) == len(y):
        known = theirs.released
    if len(rows) < len(x) and len(r) > len(rows):
        r = r[rng.choice(len(r), len(rows), replace=False)]
    back = moved_back(y, r)
    return {
        "membership": asdict(nearest_distance_attack(x[rows], r, y, measures=near, strangers=known)),
        "membership_moved_back": None if back is None else asdict(nearest_distance_attack(x[rows], r, back)),
        "score_coincidence": asdict(score_coincidence_attack(x[rows], r, y)),
    }


def linked(
    original: Microdata,
    released: Microdata,
    matrices: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    rows: np.ndarray,
    measures: tuple[PredictionMeasures, PredictionMeasures],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Try to trace released rows to their people, where rows still carry the identity of their records."""
    x, y, r = matrices
    own = released.frame.index.get_indexer(original.frame.index)
    near, other = measures
    found = linkage(
        x,
        y,
        reference=r,
        own=own,
        k=near.k,
        queries=rows,
        measures=_of(near, y),
        strangers=None if r is None else _of(other, r),
        rng=rng,
    )
    return asdict(found)


def _of(measures: PredictionMeasures, points: np.ndarray) -> PredictionMeasures | None:
    """Return measures that were taken against all of ``points``; None where sizes were matched."""
    return measures if measures.n_released == len(points) else None


def together(
    original: Microdata,
    released: Microdata,
    reference: Microdata | None,
    rows: np.ndarray,
    margin: float,
    rng: np.random.Generator,
) -> dict[str, Any] | None:
    """Look for people two of whose values stand together in the release; None without other people."""
    if reference is None:
        return None
    size = min(len(released), len(reference))
    sides = (
        side if len(side) == size else side.take(np.sort(rng.choice(len(side), size, replace=False)))
        for side in (released, reference)
    )
    return asdict(values_together(original.take(rows), *sides, margin=margin, rng=rng))


def by_attributes(
    original: Microdata,
    released: Microdata,
    reference: Microdata | None,
    k: int,
    epsilon: float,
    run: Run,
) -> dict[str, Any]:
    """Attack with the quasi-identifiers alone, as far as the release holds them as the original does.

    epsilon : bound on what sampling people may add to the error of a share
    """
    schema = released.schema
    same = {v.name for v in schema if v.name in original.schema}
    keys = [n for n in schema.with_role("quasi-identifier") if n in same]
    hidden = [n for n in schema.with_role("sensitive") if n in same]
    weight = next((n for n in schema.with_role("weight") if not schema[n].is_categorical), None)
    if not keys:
        return {"disclosure": None, "inference": None}
    groups = disclosure_risk(
        released,
        original=original,
        reference=reference,
        quasi_identifiers=keys,
        sensitive=hidden,
        weight=weight,
        k=k,
        rng=run.rng("disclosure"),
    )
    guesses = None
    if reference is not None and hidden:
        guesses = attribute_inference(
            original,
            reference,
            released,
            quasi_identifiers=keys,
            sensitive=hidden,
            epsilon=epsilon,
            rng=run.rng("inference"),
        )
    return {"disclosure": asdict(groups), "inference": None if guesses is None else asdict(guesses)}


def located_in_boxes(
    masked: Masked,
    original: Microdata,
    reference: Microdata | None,
    rows: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, Any] | None:
    """Measure released ranges: what a box says about those inside, and whether boxes tell members."""
    if masked.points is None:
        return None
    points = masked.points.load().schema
    boxes = released_boxes(masked.released.load(), points)
    people_ = [original.take(rows)]
    if reference is not None:
        # Where members are sampled, as many non-members are.
        whole = len(rows) == len(original) or len(reference) <= len(rows)
        drawn = np.arange(len(reference)) if whole else rng.choice(len(reference), len(rows), replace=False)
        people_.append(reference.take(drawn))
    measured = [_among(side, original, boxes, points) for side in people_]
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


def about_files(figures: dict[str, Any], prepared: Prepared) -> dict[str, Any]:
    """Return what files of others leave open: columns nobody measured, names, a reference of members."""
    same, n = figures["identical"], figures["records"]
    members = None
    if n["reference"] is not None:
        met, own = same["n_reference"], same["n_duplicates"]
        p = twins_by_chance(met, own, n["original"], figures["comparison"]["n_reference"])
        members = {"met": met, "own": own, "n": same["n"], "p": p, "named": prepared.named_reference}
    return {"unknown": len(prepared.unknown), "named": prepared.named_released, "members": members}
