"""Which figures of an assessment may leave the house, and how coarse: report and release show nothing else.

Somebody who knows all people but one learns that one's value from an exact statistic of the source. In steps
of a hundredth of a standard deviation, or of a share, it is hidden among a hundred people and more.
"""

from __future__ import annotations

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
    "membership",
    "score_coincidence",
    "earlier",
    "boxes",
    "continuous_form",
    "claims",
    "method",
    "utility",
    "utility_left_out",
    "utility_propensity",
    "utility_weights",
    "rare_levels",
)
COLUMN = ("mean", "variance", "correlation", "rank_correlation")
HUNDREDTHS, TENTHS = 2, 1
# A coefficient moves by about 1/√N of its standard error with one record; shares of overlap as well.
OVERLAP_STEP = 0.05


def public_figures(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures as they are published, three digits each, and without what tells of the unreleased.

    Left out: each variable's statistics in the original and the reference, levels that are not released, and
    the reference's differences variable by variable. Its sums over all of them, the baselines, stay.
    """
    told = {name: figures[name] for name in AS_MEASURED}
    told |= {name: _coarse(figures[name]) for name in ("linkage", "disclosure", "inference")}
    if told["linkage"] is not None:
        # Guessing follows from the number of released rows alone.
        told["linkage"]["guess"] = figures["linkage"]["guess"]
    told["utility_columns"] = [
        {"name": row["name"]} | {name: _coarse(row[name]) for name in COLUMN}
        for row in figures["utility_columns"]
    ]
    told["utility_variables"] = [
        {"name": row["name"], "kind": row["kind"]} | _coarse(row["released_shift"])
        for row in figures["utility_variables"]
    ]
    told["utility_marginals"] = [_marginals(one) for one in figures["utility_marginals"]]
    told["utility_regressions"] = [_regression(one) for one in figures["utility_regressions"]]
    return {name: _three_digits(value) for name, value in told.items()}


def _marginals(one: dict[str, Any]) -> dict[str, Any]:
    kept = ("size", "used", "of", "mean", "largest", "expected_mean", "reference_mean", "reference_largest")
    worst = [
        {"variables": row["variables"], "released": _coarse(row["released"])} for row in one["worst_tables"]
    ]
    return {name: _coarse(one[name]) for name in kept} | {"worst_tables": worst, "meaning": one["meaning"]}


def _regression(one: dict[str, Any]) -> dict[str, Any]:
    """Return how far a declared regression agrees, without what only the original can estimate."""
    found, rows = one["released"], one["released"]["coefficients"]
    return {
        "formula": one["formula"],
        "kind": one["regression"]["kind"],
        "released": _agreement(found),
        "reference": None if one["reference"] is None else _agreement(one["reference"]),
        "fitted": found["estimator"] is not None and not found["problem"],
        "lost": sum(row["other"] is None and row["original"] is not None for row in rows),
        "coefficients": [
            {
                "term": row["term"],
                "difference": _coarse(row["difference"], TENTHS),
                "overlap": _stepped(row["overlap"]),
                "agrees": row["agrees"],
            }
            for row in rows
            if row["other"] is not None
        ],
        "meaning": one["meaning"],
    }


def _agreement(side: dict[str, Any]) -> dict[str, Any]:
    overlaps = {name: _stepped(side[name]) for name in ("mean_overlap", "smallest_overlap")}
    kept = ("records", "other_records", "estimator", "agreeing")
    return {name: _coarse(side[name]) for name in kept} | overlaps


def _stepped(overlap: float | None) -> float | None:
    return None if overlap is None else round(overlap / OVERLAP_STEP) * OVERLAP_STEP


def _coarse(value: Any, digits: int = HUNDREDTHS) -> Any:
    """Round what is a share or in standard deviations; whole numbers stay, and so does what exceeds 1."""
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, dict):
        return {k: _coarse(v, digits) for k, v in value.items()}
    return [_coarse(v, digits) for v in value] if isinstance(value, list | tuple) else value


def _three_digits(value: Any) -> Any:
    """Round to 3 digits: exact differences would give exact sums of the source back."""
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, dict):
        return {k: _three_digits(v) for k, v in value.items()}
    return [_three_digits(v) for v in value] if isinstance(value, list | tuple) else value
