"""How every gate of a family of attacks on membership decides, and how it is reported."""

from __future__ import annotations

from anoncore.risk import AttackFamily, NamedAttack
from tasks.common.formatting import count, pvalue
from tasks.policy.attack import NO_NON_MEMBERS, Aim, Attack, by_auc, untested
from tasks.policy.gate import GateResult, GateVerdict, Metrics
from tasks.policy.limits import MembershipPolicy, nonmembers_needed

# Each test of highest scores has this share of the level `tail_p`, so that all of them together keep it.
SHARE = 1.0 / 6.0


def family_result(name: str, family: AttackFamily | None, policy: MembershipPolicy, meaning: str) -> GateResult:
    """Decide by the worst form of an attack: its area under the curve, and members among its highest scores."""
    limit, baseline = policy.area_limit, "0.50, guessing"
    if family is None:
        return GateResult(name, "not tested", "needs non-members", limit, baseline, 0, meaning)
    area, top, level = family.worst.attack.area, family.worst_top, policy.tail_p * SHARE
    figure = f"AUC {area.auc:.3f} [{area.lower:.3f}, {family.upper:.3f}]"
    meaning += f"; worst of {family.n_tests} forms: {family.worst.name}"
    verdict: GateVerdict = policy.area_verdict(area.lower, family.upper)
    if not family.p >= level:
        verdict = "fail"
        scores = top.attack.top
        figure += f", p = {family.p:.2g}"
        limit += f", p ≥ {level:.2g}"
        meaning += f"; of the {scores.n} highest scores {scores.members} are members’ ({top.name})"
    elif verdict == "inconclusive":
        meaning += nonmembers_needed(area, policy)
    n = family.n_members + family.n_nonmembers
    return GateResult(name, verdict, figure, limit, baseline, n, meaning)


def family_metrics(family: AttackFamily | None, prefix: str) -> Metrics:
    """Return the worst area with its bounds, and the p-value of the highest scores."""
    if family is None:
        return {}
    area = family.worst.attack.area
    figures = {"auc": area.auc, "lower": area.lower, "upper": family.upper, "p": family.p}
    return {f"{prefix}{name}": value for name, value in figures.items()}


def family_attacks(title: str, attacker: str, family: AttackFamily | None, gate: str) -> tuple[Attack, ...]:
    """Return the rows of the form with the largest area and of the one with the most members at its top."""
    aim = Aim.MEMBERSHIP
    if family is None:
        return (untested(aim, title, attacker, NO_NON_MEMBERS, gate),)
    top = family.worst_top
    top = family.worst_top
    surest = Attack(
        aim,
        f"{title}, highest scores",
        f"The same attacker keeps to the people of whom the attack is surest. Worst of {_of(top, family)}",
        f"{count(top.attack.top.members)} members of {count(top.attack.top.n)}",
        f"p\u00a0{_with_sign(pvalue(family.p))}",
        f"{top.attack.top.baseline:.2f} of the people are members",
        f"{count(family.n_members)} members, {count(family.n_nonmembers)} non-members",
        gate,
    )
    everyone = f"{attacker} Worst of {_of(family.worst, family)}"
    return (by_auc(aim, title, everyone, family.worst.attack.area, gate), surest)


def _of(one: NamedAttack, family: AttackFamily) -> str:
    return f"{count(family.n_tests)} forms: {one.name}."


def _with_sign(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"
