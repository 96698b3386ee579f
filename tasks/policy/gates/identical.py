"""Records that are released as they are."""

from __future__ import annotations

from dataclasses import replace

from anoncore.risk import TailTest
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Aim, Attack, by_count
from tasks.policy.close_records import compared_with
from tasks.policy.gate import Gate, GateResult
from tasks.policy.identical_records import result_of
from tasks.policy.limits import ChanceLimit
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import people_counted

NAME = "identical records"


def evaluate(assessment: Assessment, policy: ChanceLimit) -> tuple[GateResult, ...]:
    """Compare how many records are in the release unchanged with how many are in the reference."""
    return (result_of(NAME, assessment.risk.identical, policy, beside=compared_with(assessment.risk.within_original)),)


def _counted(same: TailTest, step: float) -> TailTest:
    """Publish the counts; whether records of the reference repeat each other stands in the verdict."""
    return replace(people_counted(same, step), others_repeat=None)


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by equal values."""
    attacker = "An attacker who knows all values of a person finds them in the release, value by value."
    aim = Aim.SINGLING_OUT
    return (by_count(aim, "Identical records", attacker, assessment.risk.identical, NAME),)


GATE = Gate(
    name=NAME,
    description="Records of the original that are in the release value by value, against the same for the "
    "reference. Fail when the exact one-sided McNemar test, with equal records counted once and "
    "released non-members where sizes are equal, or that of the rarest records, or that of the records "
    "of one group, gives p below a seventh of `tail_p`, which seven tests share; inconclusive below "
    "`tail_p`, where any is released and no record of original or reference is repeated there or "
    "released by chance, and where the test without non-members alone would fail.",
    evaluate=evaluate,
    limits=ChanceLimit,
    individual=True,
    publishes={"risk.identical": _counted},
    attacks=attacks,
)
