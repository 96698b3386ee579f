"""Records that the release matches unusually closely."""

from __future__ import annotations

from anoncore.risk import UNDONE, UP_TO_CONSTANT, UP_TO_FACTOR, TailTest
from tasks.common.formatting import plain
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Aim, Attack, by_count
from tasks.policy.close_records import OTHERS, compared_with, figures, result_of
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.limits import ChanceLimit
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import people_counted

NAME, ISOLATED = "unusually close records", "isolated records"
AIM = Aim.SINGLING_OUT


def evaluate(assessment: Assessment, policy: ChanceLimit) -> tuple[GateResult, ...]:
    """Compare how many records are matched closely by the release with how many are by the reference."""
    risk, beside = assessment.risk, compared_with(assessment.risk.within_original)
    isolated = f"the same among the most isolated people: {_matched(risk.isolated)}"
    return (
        result_of(NAME, risk.tail, policy.tail_p, _matched(risk.tail), beside=beside),
        result_of(ISOLATED, risk.isolated, policy.tail_p, isolated, beside=beside),
    )


def _matched(rule: TailTest) -> str:
    undone = ", once its shrinkage is undone," if _is_undone(rule) else ""
    worst = _worst_form(rule)
    change = f", {worst} of each record," if worst in (UP_TO_FACTOR, UP_TO_CONSTANT) else ""
    within = f"within {plain(rule.tau)} times the distance to their nearest neighbour"
    return f"records that the release{undone}{change} matches {within}"


def _worst_form(rule: TailTest) -> str:
    return min(rule.forms, key=lambda form: form[1])[0] if rule.forms else ""


def _is_undone(rule: TailTest) -> bool:
    return _worst_form(rule).endswith(UNDONE)


def metrics(assessment: Assessment) -> Metrics:
    """Return all figures of both rules."""
    return figures({"tail": assessment.risk.tail, "isolated": assessment.risk.isolated}, "risk/")


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by nearly equal values, on all records and on isolated ones."""
    risk = assessment.risk
    tail = risk.tail
    attacker = (
        "An attacker who knows a person’s record nearly exactly finds a released row within "
        f"{plain(tail.tau)} times the distance to the person’s own nearest neighbour."
    )
    isolated = (
        "The same, for the most isolated people, who are the easiest to recognise, within "
        f"{plain(risk.isolated.tau)} times the distance{f', the {UNDONE}' if _is_undone(risk.isolated) else ''}."
    )
    return (
        by_count(AIM, "Unusually close records (the tail rule)", attacker, tail, NAME),
        by_count(AIM, "Isolated records", isolated, assessment.risk.isolated, ISOLATED),
    )


GATE = Gate(
    name=NAME,
    description="Records nearer to the release than τ = 0.1 times the distance to their own nearest neighbour, "
    f"against the same for {OTHERS}; and, beside the reference, close pairs among release, original and reference; "
    "also of numbers up to one factor, or one constant, of each record. "
    "Fail when the exact one-sided p-value is below a seventh of `tail_p`, which seven tests share; inconclusive below "
    "`tail_p`, and where even a release of all records could not reach that level. Once more for the most isolated 1 % "
    "of the records, or so many that ten of them are expected in the part of a release that is searched beside a "
    "smaller reference: they are the easiest to recognise; also within half of that distance and, where numbers were "
    "shrunk towards their means, with the shrinkage undone; inconclusive where the test within τ, without "
    "non-members, would fail alone.",
    evaluate=evaluate,
    limits=ChanceLimit,
    individual=True,
    publishes={"risk.tail": people_counted, "risk.isolated": people_counted},
    metrics=metrics,
    attacks=attacks,
)
