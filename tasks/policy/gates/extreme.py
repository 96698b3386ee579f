"""Records far from all others."""

from __future__ import annotations

from typing import Any

from tasks.common.formatting import count, plain
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Aim, Attack, share_interval
from tasks.policy.close_records import compared_with, extremes_counted, matched, result_of_extremes, up_to
from tasks.policy.criteria import Advantage, Criterion, Knowledge, Place
from tasks.policy.gate import Gate, GateResult, Metrics, fields_of
from tasks.policy.published import PublishedAssessment

NAME = "extreme records"


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Count the extreme records that the release matches; one is too many, unless chance explains it."""
    return (result_of_extremes(NAME, assessment.risk.extreme, beside=compared_with(assessment.risk.within_original)),)


def metrics(assessment: Assessment) -> Metrics:
    """Return the counts."""
    return fields_of(assessment.risk.extreme, ("n", "n_extreme", "n_matched", "baseline"), "risk/extreme/")


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the rule for extreme records."""
    extreme = assessment.risk.extreme
    n = extreme.n_extreme
    attacker = (
        f"The same, for people more than {plain(extreme.factor)} times as far from their neighbour as 99 % of the "
        "people are."
    )
    return (
        Attack(
            Aim.SINGLING_OUT,
            "Extreme records",
            attacker,
            matched(extreme),
            share_interval(extreme.n_matched, n),
            f"{up_to(extreme.baseline)}, others",
            f"{up_to(n)} of {count(extreme.n)}",
            NAME,
            Place(Criterion.SINGLING_OUT, Knowledge.EVERYTHING),
            Advantage.of_counts(extreme.n_matched, extreme.baseline, n),
        ),
    )


GATE = Gate(
    name=NAME,
    description="Records whose nearest neighbour is farther than five times the 99th percentile of such distances. "
    "Fail when a released record is nearer to one of them than a tenth of its distance, also once "
    "numbers that were shrunk towards their means are moved back, unless other people match isolated "
    "ones so often that chance explains it with a probability of 0.01 or more: then inconclusive, and "
    "passed where this is at least 0.05 and people as far out are matched by others as often; "
    "inconclusive where it is equal to them and at least 5 % of the records repeat another one, since "
    "another sample then repeats extreme ones, too. All records are searched for them, also where the "
    "other measures are of a sample.",
    evaluate=evaluate,
    individual=True,
    publishes={"risk.extreme": extremes_counted},
    metrics=metrics,
    attacks=attacks,
)
