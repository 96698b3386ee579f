"""Two values of one record that are released together."""

from __future__ import annotations

from typing import Any

from tasks.common.formatting import count, pairs_of_variables, points
from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_NON_MEMBERS, Aim, Attack, between, untested
from tasks.policy.close_records import OTHERS, compared_with
from tasks.policy.criteria import Advantage, Criterion, Knowledge, Place
from tasks.policy.gate import Gate, GateResult, Metrics, fields_of
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounded_attacks import attacks_in_steps
from tasks.policy.rounding import interval

NAME = "value pairs"
PLACE = Place(Criterion.SINGLING_OUT, Knowledge.HALF)


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Take the verdict of the pair of variables that is released together most."""
    worst = assessment.risk.value_pairs
    if worst is None or not worst.pair:
        return ()
    return (
        GateResult(
            name=NAME,
            verdict=worst.verdict,
            figure=f"{' and '.join(worst.pair)}: {worst.excess:+.2f} {interval(worst.lower, worst.upper, 2, '+')}",
            limit=f"fail: shown > 0.5; pass: not shown > {worst.margin:g}",
            baseline=f"{worst.reference / worst.n:.2f}, {compared_with(assessment.risk.within_original)}",
            records=worst.n,
            meaning="share of people, beyond that of others, with two values in one released record; the worst of "
            f"{pairs_of_variables(worst.n_pairs, worst.n_possible)}",
            variables=worst.pair,
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the excess with its bounds."""
    return fields_of(assessment.risk.value_pairs, ("excess", "lower", "upper"), "risk/value_pairs/")


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by two values."""
    worst = assessment.risk.value_pairs
    aim, name = Aim.SINGLING_OUT, "Value pairs"
    attacker = "An attacker who knows two values of a person finds them in one record."
    if worst is None:
        return (untested(aim, name, attacker, NO_NON_MEMBERS, NAME, PLACE),)
    if not worst.pair:
        reason = "no two variables have values rare enough to identify people"
        return (untested(aim, name, attacker, reason, place=PLACE),)
    looked_at = pairs_of_variables(worst.n_pairs, worst.n_possible)
    return (
        Attack(
            aim,
            name,
            f"{attacker} The worst of {looked_at}: {' and '.join(worst.pair)}.",
            f"at most {count(worst.released)} of {count(worst.n)}",
            f"{between(worst, points, 2)} beyond others",
            f"at most {count(worst.reference)}, others",
            count(worst.n),
            NAME,
            PLACE,
            Advantage.of_counts(worst.released, worst.reference, worst.n),
        ),
    )


GATE = Gate(
    name=NAME,
    description="For every pair of variables whose values are rare enough, people whose two values are together in "
    f"some released record, against the same for {OTHERS}. Fail when the lower bound of the excess is above one "
    "half for any pair; inconclusive when it is above the margin.",
    evaluate=evaluate,
    individual=True,
    publishes={"risk.value_pairs": attacks_in_steps},
    metrics=metrics,
    attacks=attacks,
)
