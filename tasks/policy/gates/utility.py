"""How much of the statistics the release loses, by the worst variable, total, pair, spike and regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from scipy.stats import norm

from anoncore.utility import PairChange, Propensity, UtilityReport, VariableUtility
from tasks.common.formatting import count, number, percent, significant
from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics, Threshold, fields_of
from tasks.policy.limits import UtilityLimit, UtilityLimits
from tasks.policy.published import (
    PublishedPair,
    PublishedPropensity,
    PublishedTotal,
    PublishedUtility,
    PublishedVariable,
    published_total,
    published_utility,
)
from tasks.policy.rounding import step_of

Utility: TypeAlias = UtilityReport | PublishedUtility

SIDES = ("released", "reference")
MOST_DIGITS = 4  # of a figure just beyond its limit
LEAST = 1e-9  # limit that figures are divided by
ERRORS = 3  # standard errors between two samples, that the share of a spike may differ by in any case
# Of the overlap of a coefficient's intervals between two samples: mean and standard deviation, measured on halves of
# Adult, the household survey, NHANES and EIA.
OVERLAP, OVERLAP_DEVIATION = 0.70, 0.27
LOWEST = 0.2  # mean overlap that is a limit at least; below it nearly nothing would fail
CHANCE = 0.01  # that the worst regression of another sample is beyond its limit


def evaluate(assessment: Assessment, policy: UtilityLimit) -> tuple[GateResult, ...]:
    """Compare the worst variable, total, spike, pair, regression and the propensity score with their limits."""
    parts = (_variable, _total, _spike, _pair, _separated, _regression)
    results = (part(assessment.utility, policy.utility) for part in parts)
    return tuple(replace(one, records=assessment.records.released) for one in results if one is not None)


def _share(value: float, digits: int = 1) -> str:
    """Return a share as consoles take it, too, with a plain space."""
    return percent(value, digits).replace("\u00a0", " ")


def _digits(figure: float, limit: float, digits: int) -> int:
    """Return the decimals, from ``digits`` on, with which a figure beyond its limit does not look equal to it."""
    while figure > limit and digits < MOST_DIGITS and number(figure, digits) == number(limit, digits):
        digits += 1
    return digits


def _result(
    name: str, limits: UtilityLimits, threshold: Threshold, texts: tuple[str, ...], variables: tuple[str, ...] = ()
) -> GateResult:
    """Return a result from its figure, limit, baseline and meaning."""
    figure, limit, baseline, meaning = texts
    verdict = limits.loss_verdict(threshold.is_met)
    return GateResult(name, verdict, figure, limit, baseline, 0, meaning, "Utility", variables, threshold=threshold)


def _variable(utility: Utility, limits: UtilityLimits) -> GateResult | None:
    """Return the variable whose distribution moved most."""
    variables: Sequence[VariableUtility | PublishedVariable] = tuple(utility.variables)
    if not variables:
        return None
    own = {one.name: limits.distance(one.two_samples) for one in variables}
    worst = max(variables, key=lambda one: one.released_shift.distance / max(own[one.name], LEAST))
    digits = _digits(worst.released_shift.distance, own[worst.name], 2)
    texts = (
        f"{worst.name}: distance {number(worst.released_shift.distance, digits)}",
        f"≤ {number(own[worst.name], digits)}",
        f"{number(worst.two_samples, 2)}, the worst between two samples",
        "the variable whose distribution moved most: the share of records that would have to move",
    )
    threshold = Threshold(worst.released_shift.distance, own[worst.name])
    more = (one.name for one in variables if one.released_shift.distance > max(limits.marginal, one.two_samples))
    return replace(_result("worst variable", limits, threshold, texts, (worst.name,)), moved=tuple(more))


def _total(utility: Utility, limits: UtilityLimits) -> GateResult | None:
    """Return the non-negative number whose total moved most."""
    totals = [(one.total, one.name) for one in utility.variables if one.total is not None]
    if not totals:
        return None
    total, name = max(
        totals, key=lambda one: abs(one[0].released - 1) / max(limits.share(one[0].error, len(totals)), LEAST)
    )
    limit = limits.share(total.error, len(totals))
    largest, moved = max(totals, key=lambda one: abs(one[0].released - 1))
    beside = "" if moved == name else f"; {moved}: {_share(largest.released, 0)}, which chance explains more of"
    # A published standard error is rounded up, and with it what it allows; the exact one decided.
    error, allowed = (
        f"at most {shown}" if isinstance(total, PublishedTotal) else shown
        for shown in (_share(total.error), _share(limit, 0))
    )
    texts = (
        f"{name}: {_share(total.released, 0)} of its total{beside}",
        f"100 % ± {allowed if limit > limits.total else _share(limit, 0)}",
        f"± {error}, standard error of the source’s total",
        "the non-negative number whose total (weighted, where there are weights) moved most",
    )
    return _result("worst total", limits, Threshold(abs(total.released - 1), limit), texts, (name,))


def _spike(utility: Utility, limits: UtilityLimits) -> GateResult | None:
    """Return the variable in which the share of a frequent value moved most."""
    spikes = [
        (one.released_shift.spike, one.released_shift.spike_error, one.name)
        for one in utility.variables
        if one.released_shift.spike is not None and one.released_shift.spike_error is not None
    ]
    if not spikes:
        return None
    moved, error, name = max(spikes, key=lambda one: one[0] / max(limits.spike, ERRORS * one[1], LEAST))
    limit = max(limits.spike, ERRORS * error)
    digits = _digits(100 * moved, 100 * limit, 1)
    texts = (
        f"{name}: the share of a frequent value moved by {_share(moved, digits)}",
        f"≤ {_share(limit, digits)}",
        f"{_share(error)}, standard error between two samples",
        "values that at least 5 % of a variable’s values are, often 0",
    )
    return _result("spikes", limits, Threshold(moved, limit), texts, (name,))


def _pair(utility: Utility, limits: UtilityLimits) -> GateResult | None:
    """Return the pair of variables whose association moved most."""
    pairs: Sequence[PairChange | PublishedPair] = utility.pairs.worst
    if not pairs:
        return None
    own = {one.variables: limits.change(one.two_samples) for one in pairs}
    worst = max(pairs, key=lambda one: one.change / max(own[one.variables], LEAST))
    digits = _digits(worst.change, own[worst.variables], 2)
    texts = (
        f"{' and '.join(worst.variables)}: {worst.measure} moved by {number(worst.change, digits)}",
        f"≤ {number(own[worst.variables], digits)}",
        f"{number(worst.two_samples, 2)}, the worst between two samples",
        "the two variables whose association moved most, on the records that hold both",
    )
    more = (" and ".join(one.variables) for one in pairs if one.change > max(limits.pair, one.two_samples))
    result = _result("worst pair", limits, Threshold(worst.change, own[worst.variables]), texts, worst.variables)
    return replace(result, moved=tuple(more))


def _separated(utility: Utility, limits: UtilityLimits) -> GateResult | None:
    """Return how well the better of two classifiers separates released from original records."""
    models = {"logistic regression": utility.propensity, "classification tree": utility.tree}
    scores = [
        (_ratio(one.released), limits.ratio(None if one.reference is None else one.reference.ratio), name, one)
        for name, one in models.items()
        if one is not None
    ]
    if not scores:
        return None
    ratio, limit, name, one = max(scores, key=lambda score: score[0] / score[1])
    reference = "" if one.reference is None else f"; {significant(one.reference.ratio)}, the reference"
    texts = (
        f"{significant(ratio)} times its null, by {name}",
        f"≤ {significant(limit)} times",
        f"about {significant(1 / (1 - one.released.share_released))}, another sample{reference}",
        "whether a classifier can separate released from original records",
    )
    return _result("propensity score", limits, Threshold(ratio, limit), texts)


def _ratio(score: Propensity | PublishedPropensity) -> float:
    return math.inf if score.ratio is None else score.ratio


def _regression(utility: Utility, limits: UtilityLimits) -> GateResult | None:
    """Return the regression whose confidence intervals overlap least: of the declared ones, else of those chosen.

    Where that one has too few coefficients to differ from another sample's, the mean over all regressions decides.
    """
    regressions = utility.regressions or utility.automatic
    fits = [(one.released.mean_overlap, one) for one in regressions if one.released.mean_overlap is not None]
    if not fits:
        return None
    overlap, one = min(fits, key=lambda fit: (fit[0], fit[1].fitted))
    usual = _usual_overlap(len(one.coefficients), len(fits))
    observed = f"{one.formula}: mean overlap {_share(overlap, 0)}"
    if not one.fitted:
        observed = f"{one.formula}: could not be fitted to the release"
    elif usual < min(LOWEST, limits.overlap):
        sizes = [max(len(fit.coefficients), 1) for _, fit in fits]
        overlap = sum(size * value for size, (value, _) in zip(sizes, fits, strict=True)) / sum(sizes)
        usual = _usual_overlap(sum(sizes), 1)
        observed = f"mean overlap {_share(overlap, 0)} of all; least {observed}"
    limit = min(limits.overlap, max(LOWEST, usual))
    texts = (
        observed,
        f"≥ {_share(limit, 0)}",
        f"about {_share(OVERLAP, 0)}, another sample",
        "how far the confidence intervals of a regression overlap, the least of "
        f"{count(len(fits))} {'declared ones' if utility.regressions else 'of the strongest associations'}",
    )
    result = _result("regressions", limits, Threshold(overlap if one.fitted else -1.0, limit, at_least=True), texts)
    # What could not be fitted has no overlap, and no curve shows one.
    return result if one.fitted else replace(result, threshold=None)


def _usual_overlap(coefficients: int, tests: int) -> float:
    """Return the mean overlap that another sample exceeds in 99 of 100 cases, in all of several tests."""
    return OVERLAP - float(norm.isf(CHANCE / tests)) * OVERLAP_DEVIATION / math.sqrt(max(coefficients, 1))


def metrics(assessment: Assessment) -> Metrics:
    """Return the worst figures, and the others beside the reference's; regressions by number."""
    utility = assessment.utility
    flat = _of_variables(utility, step_of(assessment.records.original))
    if utility.pairs.worst:
        flat |= fields_of(utility.pairs.worst[0], ("change", "reference", "two_samples"), "utility/pair/")
    for part in utility.figures.figures if utility.figures else ():
        keys = tuple(f"{side}_{key}" for side in SIDES for key in ("median", "largest"))
        flat |= fields_of(part, keys, f"utility/{part.name}/")
    for name in ("propensity", "tree"):
        for side in SIDES:
            keys = ("pmse", "ratio", "share_of_maximum")
            flat |= fields_of(getattr(getattr(utility, name), side, None), keys, f"utility/{name}/{side}_")
    for one in utility.marginals:
        flat |= fields_of(one, ("mean", "largest", "reference_mean"), f"utility/marginals_{one.size}/")
    for place, regression in enumerate(utility.regressions, start=1):
        for side in SIDES:
            if (compared := getattr(regression, side)) is not None:
                flat[f"utility/regression_{place}/{side}_overlap"] = compared.mean_overlap
    return flat


def _of_variables(utility: UtilityReport, step: float) -> dict[str, float | None]:
    """Return the metrics of the worst variable, and of totals as coarse as they are published."""
    flat: dict[str, float | None] = {}
    if worst := utility.worst_variable:
        base = worst.reference_shift
        flat |= {
            "utility/variable/largest": worst.released_shift.distance,
            "utility/variable/two_samples": worst.two_samples,
            "utility/variable/reference": None if base is None else base.distance,
        }
    if totals := [total.released for one in utility.variables if (total := published_total(one.total, step))]:
        flat |= {"utility/total/least": min(totals), "utility/total/most": max(totals)}
    return flat


GATE = Gate(
    name="utility",
    description="The worst variable, total of a non-negative number, spike, pair of variables and regression "
    "(declared, or else of the strongest associations), and the propensity score, each beside what two samples of one "
    "population differ by. Where one is beyond the limit that the policy states in `utility`, a person decides, or the "
    "release is rejected where `exceeded` says so.",
    evaluate=evaluate,
    limits=UtilityLimit,
    publishes={"utility": published_utility},
    metrics=metrics,
)
