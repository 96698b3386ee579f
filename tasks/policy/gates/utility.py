"""How much of the statistics the release preserves, where the policy limits what may be lost."""

from __future__ import annotations

from pydantic import Field

from anoncore.utility import FigureComparison
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics, fields_of
from tasks.policy.published import published_utility

SIDES = ("released", "reference")


class UtilityLimits(Section):
    """The largest median differences that are accepted. A limit that is not stated is reported and has no gate.

    Parameters
    ----------
    mean : Of the variables' means, in standard deviations.
    variance : Of their variances, as a share of the variance.
    correlation : Of their correlations.
    rank_correlation : Of their rank correlations.
    """

    mean: float | None = Field(default=None, ge=0)
    variance: float | None = Field(default=None, ge=0)
    correlation: float | None = Field(default=None, ge=0)
    rank_correlation: float | None = Field(default=None, ge=0)


class UtilityLimit(Section):
    """How much of the statistics may be lost.

    Parameters
    ----------
    utility : The largest median differences that are accepted.
    """

    utility: UtilityLimits = UtilityLimits()


def evaluate(assessment: Assessment, policy: UtilityLimit) -> tuple[GateResult, ...]:
    """Compare the median differences with the limits that are stated."""
    records = assessment.records.released
    return tuple(
        _result(name, assessment.utility.figure(name), limit, records)
        for name, limit in policy.utility
        if limit is not None
    )


def _result(name: str, figure: FigureComparison | None, limit: float, records: int) -> GateResult:
    observed = None if figure is None else figure.released_median
    other = None if figure is None else figure.reference_median
    return GateResult(
        name=f"utility: {name.replace('_', ' ')}",
        # Where nothing varies nothing was measured, and a limit on it is not kept.
        verdict="pass" if observed is not None and observed <= limit else "fail",
        figure="nothing to compare" if observed is None else f"median difference {observed:.2f}",
        limit=f"≤ {limit:g}",
        baseline="no reference sample" if other is None else f"{other:.2f} in the reference",
        records=records,
        meaning="how much of the statistics is preserved",
        topic="Utility",
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return what is preserved of the statistics, beside the reference's; regressions by number."""
    utility = assessment.utility
    flat: dict[str, float | None] = {}
    for part in utility.figures.figures if utility.figures else ():
        keys = tuple(f"{side}_{key}" for side in SIDES for key in ("median", "largest"))
        flat |= fields_of(part, keys, f"utility/{part.name}/")
    for side in SIDES:
        keys = ("pmse", "ratio", "share_of_maximum")
        flat |= fields_of(getattr(utility.propensity, side, None), keys, f"utility/propensity/{side}_")
    for one in utility.marginals:
        flat |= fields_of(one, ("mean", "largest", "reference_mean"), f"utility/marginals_{one.size}/")
    for number, regression in enumerate(utility.regressions, start=1):
        for side in SIDES:
            if (compared := getattr(regression, side)) is not None:
                flat[f"utility/regression_{number}/{side}_overlap"] = compared.mean_overlap
    return flat


GATE = Gate(
    name="utility",
    description="Median differences of means, variances, correlations and rank correlations from the original's. Fail "
    "when one is above the limit that the policy states in `utility`; without a limit they are reported.",
    evaluate=evaluate,
    limits=UtilityLimit,
    publishes={"utility": published_utility},
    metrics=metrics,
)
