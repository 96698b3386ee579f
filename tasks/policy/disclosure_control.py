"""What of an assessment is published: the figures that gates name, as coarse as they say, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from anoncore.risk import RiskReport
from tasks.policy.assessment import Assessment, Half
from tasks.policy.gates import GATES
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import Rounding, as_measured, next_ten, significant_digits, step_of

# Figures that no gate rests on: sizes, settings, and what a reader of the release counts there.
ALWAYS = ("records", "as_source", "rare_levels", "risk.k", "risk.queries", "risk.within_original")


def published(assessment: Assessment) -> PublishedAssessment:
    """Return the published part: what no gate names stays confidential; three digits of each figure."""
    rules = _rules()
    step = step_of(assessment.records.original)
    own = _named(assessment, "", rules, step)
    risk, part = assessment.risk, assessment.risk_published
    if part is not None:
        # Before scores become levels, the measures are of all units.
        own["continuous_form"] = None
    shown = PublishedAssessment(
        risk=_risk(risk, rules, step) if part is None else _risk(part, rules, step_of(part.queries.of)),
        risk_of_part=part is not None,
        is_external=assessment.is_external,
        halves=tuple(
            Half(risk=_risk(half.risk, rules, step_of(half.records.original)), **_named(half, "", rules, step))
            for half in assessment.halves
        ),
        **own,
    )
    return significant_digits(shown)


def _rules() -> dict[str, Rounding]:
    """Return how each figure is published; gates that share one must round it alike.

    Raises
    ------
    ValueError
        Where a gate rounds a figure otherwise than another: the finer of two texts would undo the coarser.
    """
    # Encoded columns are counted with the levels of the source: with the exact number, whether it has one more.
    rules = dict.fromkeys(ALWAYS, as_measured) | {"risk.columns": lambda columns, step: round(next_ten(columns))}
    for gate in GATES:
        for name, rule in gate.publishes.items():
            if rules.setdefault(name, rule) is not rule:
                raise ValueError(
                    f"the gate {gate.name} rounds {name} otherwise than another: both must use the same function"
                )
    return rules


def _risk(risk: RiskReport, rules: Mapping[str, Rounding], step: float) -> RiskReport:
    return RiskReport(**_named(risk, "risk.", rules, step))


def _named(value: Any, prefix: str, rules: Mapping[str, Rounding], step: float) -> dict[str, Any]:
    """Return the fields of a value that rules name, rounded."""
    own = {f.name: rules[prefix + f.name] for f in fields(value) if prefix + f.name in rules}
    return {name: rule(getattr(value, name), step) for name, rule in own.items()}


def without_source_levels(assessment: Assessment, released: Mapping[str, set[str]]) -> Assessment:
    """Leave out levels that are not released: one that few records hold is a value of theirs.

    Parameters
    ----------
    released : the released levels of each variable that has levels
    """
    utility = assessment.utility
    variables = tuple(
        one if one.levels is None else one.with_levels(released.get(one.name, set()))
        for one in utility.variables.variables
    )
    declared, chosen = (
        tuple(one.without_lost_terms() for one in fits) for fits in (utility.regressions, utility.automatic)
    )
    table = replace(utility.variables, variables=variables)
    return replace(assessment, utility=replace(utility, variables=table, regressions=declared, automatic=chosen))
