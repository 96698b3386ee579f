"""Records that are released as they are."""

from __future__ import annotations

from anoncore.risk import TailTest
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Aim, Attack, by_count, p_phrase
from tasks.policy.gate import Chance, Gate, GateResult, GateVerdict
from tasks.policy.limits import ChanceLimit
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import people_counted

NAME = "identical records"


def evaluate(assessment: Assessment, policy: ChanceLimit) -> tuple[GateResult, ...]:
    """Compare how many records are in the release unchanged with how many are in the reference."""
    same, chance = assessment.risk.identical, Chance((("", assessment.risk.identical.p),), policy.tail_p)
    return (
        GateResult(
            name=NAME,
            verdict=_verdict(same, chance),
            figure=f"at most {same.n_released}, {p_phrase(same.p)}",
            limit=f"fail: p < {chance.level:g}; pass: otherwise, or none where no record repeats another",
            baseline=f"at most {same.n_reference}, the reference",
            records=same.n,
            meaning="records of the original that are in the release unchanged; a single one is inconclusive where "
            "no record of the original or the reference repeats another",
            chance=chance,
        ),
    )


def _verdict(same: TailTest, chance: Chance) -> GateVerdict:
    if chance.fails:
        return "fail"
    return "inconclusive" if same.n_released and _unique(same) else "pass"


def _unique(same: TailTest) -> bool:
    """Return whether no record of the original or the reference repeats another."""
    return same.n_reference == same.n_duplicates == 0


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by equal values."""
    attacker = "An attacker who knows all values of a person finds them in the release, value by value."
    aim = Aim.SINGLING_OUT
    return (by_count(aim, "Identical records", attacker, assessment.risk.identical, NAME),)


GATE = Gate(
    name=NAME,
    description="Records of the original that are in the release value by value, against the same for the reference. "
    "Fail when the exact one-sided McNemar test, with equal records counted once, gives p below `tail_p`; inconclusive "
    "where any is released and neither original nor reference repeats a record.",
    evaluate=evaluate,
    limits=ChanceLimit,
    individual=True,
    publishes={"risk.identical": people_counted},
    attacks=attacks,
)
