"""Which figures of an assessment may leave the house, and how coarse: report and release show nothing else.

Somebody who knows all people but one learns that one's value from an exact statistic of the source. In steps
of d standard deviations, or of a share, the mean of N people leaves N·d/2 standard deviations on either side
of it. So d is at least 10/N, and a hundredth at the finest; many figures put together leave less.
"""

from __future__ import annotations

import math
from typing import Any

# What is not named here or below stays inside: a new figure is confidential until somebody has thought of it.
AS_MEASURED = (
    "records",
    "as_source",
    "k",
    "columns",
    "queries",
    "comparison",
    "tail",
    "isolated",
    "extreme",
    "identical",
    "together",
    "membership",
    "membership_moved_back",
    "score_coincidence",
    "earlier",
    "boxes",
    "continuous_form",
    "claims",
    "method",
    "utility_left_out",
    "utility_weights",
    "rare_levels",
)
COLUMN = ("mean", "variance", "correlation", "rank_correlation")
STEPS = (0.01, 0.02, 0.05, 0.1)
PEOPLE_A_STEP = 10
TENTH = 0.1
# A coefficient moves by about 1/√N of its standard error with one record; shares of overlap as well.
OVERLAP_STEP = 0.05


def public_figures(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures as they are published, three digits each, and without what tells of the unreleased.

    Left out: each variable's statistics in the original and the reference, levels that are not released, and
    the reference's differences variable by variable. Its sums over all of them, the baselines, stay.
    """
    step = _step(figures["records"]["original"])
    told = {name: figures[name] for name in AS_MEASURED}
    told |= {name: _coarse(figures[name], step) for name in ("linkage", "disclosure", "inference", "utility")}
    if told["linkage"] is not None:
        # Guessing follows from the number of released rows alone.
        told["linkage"]["guess"] = figures["linkage"]["guess"]
    told["utility_propensity"] = _propensity(figures["utility_propensity"], step)
    told["utility_columns"] = [
        {"name": row["name"]} | {name: _coarse(row[name], step) for name in COLUMN}
        for row in figures["utility_columns"]
    ]
    told["utility_variables"] = [
        {"name": row["name"], "kind": row["kind"]} | _coarse(row["released_shift"], step)
        for row in figures["utility_variables"]
    ]
    told["utility_marginals"] = [_marginals(one, step) for one in figures["utility_marginals"]]
    told["utility_regressions"] = [_regression(one, step) for one in figures["utility_regressions"]]
    return {name: _three_digits(value) for name, value in told.items()}


def _propensity(both: dict[str, Any] | None, step: float) -> dict[str, Any] | None:
    """Return the propensity scores; what chance would give follows from numbers of records and columns."""
    if both is None:
        return None
    coarse = {"pmse": step, "share_of_maximum": step, "ratio": TENTH, "standardised": TENTH}
    return {
        side: found and found | {name: _coarse(found[name], by) for name, by in coarse.items()}
        for side, found in both.items()
    }


def _marginals(one: dict[str, Any], step: float) -> dict[str, Any]:
    kept = ("size", "used", "of", "mean", "largest", "expected_mean", "reference_mean", "reference_largest")
    worst = [{"variables": row["variables"], "released": _coarse(row["released"], step)} for row in one["worst_tables"]]
    return {name: _coarse(one[name], step) for name in kept} | {
        "worst_tables": worst,
        "meaning": one["meaning"],
    }


def _regression(one: dict[str, Any], step: float) -> dict[str, Any]:
    """Return how far a declared regression agrees, without what only the original can estimate."""
    found, rows = one["released"], one["released"]["coefficients"]
    return {
        "formula": one["formula"],
        "kind": one["regression"]["kind"],
        "released": _agreement(found, step),
        "reference": None if one["reference"] is None else _agreement(one["reference"], step),
        "fitted": found["estimator"] is not None and not found["problem"],
        "lost": sum(row["other"] is None and row["original"] is not None for row in rows),
        "coefficients": [
            {
                "term": row["term"],
                "difference": _coarse(row["difference"], TENTH),
                "overlap": _stepped(row["overlap"]),
                "agrees": row["agrees"],
            }
            for row in rows
            if row["other"] is not None
        ],
        "meaning": one["meaning"],
    }


def _agreement(side: dict[str, Any], step: float) -> dict[str, Any]:
    overlaps = {name: _stepped(side[name]) for name in ("mean_overlap", "smallest_overlap")}
    kept = ("records", "other_records", "estimator", "agreeing")
    return {name: _coarse(side[name], step) for name in kept} | overlaps


def _stepped(overlap: float | None) -> float | None:
    return None if overlap is None else round(overlap / OVERLAP_STEP) * OVERLAP_STEP


def _step(records: int) -> float:
    """Return the step for figures of so many people."""
    return next((step for step in STEPS if step * records >= PEOPLE_A_STEP), STEPS[-1])


def _coarse(value: Any, step: float) -> Any:
    """Round what is a share or in standard deviations to whole steps; counts stay."""
    if isinstance(value, float) and math.isfinite(value):
        return round(value / step) * step
    if isinstance(value, dict):
        return {k: _coarse(v, step) for k, v in value.items()}
    return [_coarse(v, step) for v in value] if isinstance(value, list | tuple) else value


def _three_digits(value: Any) -> Any:
    """Round to 3 digits: exact differences would give exact sums of the source back."""
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, dict):
        return {k: _three_digits(v) for k, v in value.items()}
    return [_three_digits(v) for v in value] if isinstance(value, list | tuple) else value
