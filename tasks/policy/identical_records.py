"""How gates decide on records that are released as they are."""

from __future__ import annotations

from anoncore.risk import TailTest
from tasks.policy.attack import p_phrase
from tasks.policy.gate import Chance, GateResult, GateVerdict
from tasks.policy.limits import ChanceLimit

TOO_FEW = "; copies of all may not be too many for chance, or non-members are released as well: more records decide it"


def result_of(name: str, same: TailTest, policy: ChanceLimit, *, beside: str) -> GateResult:
    """Return the result of one such comparison.

    Parameters
    ----------
    beside : with what records are compared
    """
    chance = Chance(same.forms or (("", same.p),), policy.test_p, asks=policy.tail_p)
    return GateResult(
        name=name,
        verdict=_verdict(same, chance, policy.tail_p),
        figure=f"at most {same.n_released}, {p_phrase(same.p)}",
        limit=f"fail: p < {chance.level:.2g}; pass: p ≥ {policy.tail_p:g}, or none where no record repeats another",
        baseline=f"at most {same.n_reference}, {beside}",
        records=same.n,
        meaning="records of the original that are in the release unchanged; a single one is inconclusive where "
        "no record of the original or the reference repeats another, and so are many of non-members as well",
        chance=chance,
        needed=TOO_FEW if same.verdict == "inconclusive" else "",
    )


def _verdict(same: TailTest, chance: Chance, asks_below: float) -> GateVerdict:
    if chance.fails:
        return "fail"
    undecided = same.verdict == "inconclusive" or same.p < asks_below or (same.n_released and _unique(same))
    return "inconclusive" if undecided else "pass"


def _unique(same: TailTest) -> bool:
    """Return whether no record of the original or the reference repeats another, nor is one of these released."""
    return same.n_reference == same.n_duplicates == 0 and not same.others_repeat
