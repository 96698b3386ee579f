"""How every gate of a family of attacks on membership decides, and how it is reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from anoncore.risk import AttackFamily, NamedAttack
from tasks.common.formatting import count, pvalue
from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_NON_MEMBERS, Aim, Attack, by_auc, untested
from tasks.policy.criteria import IN_THE_DATA
from tasks.policy.gate import DOUBTFUL, BoundedFigure, Chance, Gate, GateResult, Metrics
from tasks.policy.limits import MembershipLimit, MembershipPolicy, nonmembers_needed
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounded_attacks import attacks_in_steps
from tasks.policy.rounding import interval

_RULE = (
    "Fail when an area under the ROC curve is shown to be above `membership_auc`, or when members are over-represented "
    "among the highest scores at a seventh of the level `tail_p`, by more than an attack with an area of 0.55 shows. "
    "Pass when all areas are shown to be within `membership_pass`."
)
_OF_EVERYBODY = (
    "Every release that is like its source tells a little of everybody in it. So members among the highest scores fail "
    "it only where, at `tail_p`, an attack with an area of 0.55 does not explain them either; else they ask a person, "
    "unless such an attack shows as much in a fifth of the cases, in each form."
)
_OF_SOME = f"{_OF_EVERYBODY} Files of other tools, which may hold copies of some people, fail by the first alone."


def family_gate(
    name: str,
    field: str,
    *,
    meaning: str,
    attacker: str,
    description: str,
    of_everybody: bool = False,
    more: Callable[[Assessment], Metrics] = lambda assessment: {},
    variables: Callable[[Any], tuple[str, ...]] = lambda family: (),
) -> Gate:
    """Return the gate of a family of attacks.

    Parameters
    ----------
    name : of the gate
    field : of the report on risk that holds the family
    meaning : what the figure says, as part of a sentence
    attacker : who attacks and how, one sentence
    description : what is compared with what; the rule of the verdict is added
    of_everybody : the attack sees a little of everybody in any file that is like the source; other attacks do so in
        releases of a plan alone, since no masking step copies some people and leaves others out
    more : metrics beside the worst area and the p-value
    variables : that drive the figure, from the family, where single ones can be named
    """

    def evaluate(assessment: Assessment | PublishedAssessment, policy: MembershipPolicy) -> tuple[GateResult, ...]:
        family, by_both = getattr(assessment.risk, field), of_everybody or not assessment.is_external
        result = family_result(name, family, policy, meaning, by_both)
        return (result if family is None else replace(result, variables=variables(family)),)

    def metrics(assessment: Assessment) -> Metrics:
        figures = family_metrics(getattr(assessment.risk, field), f"risk/{name.replace(' ', '_')}/")
        return {**figures, **more(assessment)}

    def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
        return family_attacks(f"Membership by {name}", attacker, getattr(assessment.risk, field), name)

    return Gate(
        name=name,
        description=f"{description} {_RULE} {_OF_EVERYBODY if of_everybody else _OF_SOME}",
        evaluate=evaluate,
        limits=MembershipLimit,
        individual=True,
        untested_as="membership",
        publishes={f"risk.{field}": attacks_in_steps},
        metrics=metrics,
        attacks=attacks,
    )


def family_result(
    name: str, family: AttackFamily | None, policy: MembershipPolicy, meaning: str, by_both: bool
) -> GateResult:
    """Decide by the worst form of an attack: its area under the curve, and members among its highest scores.

    These fail the release when chance does not explain them; ``by_both`` only if an accepted area does not either.
    """
    limit, baseline = policy.area_limit, "0.50, guessing"
    if family is None:
        return GateResult(name, "not tested", "needs non-members", limit, baseline, 0, meaning)
    area, top = family.worst.attack.area, family.worst_top
    figure = f"AUC {area.auc:.3f} {interval(area.lower, family.upper, 3)}"
    meaning += f"; worst of {family.n_tests} form{'s'[: family.n_tests > 1]}: {family.worst.name}"
    areas = (BoundedFigure.of(one.attack.area.auc, one.attack.area, one.name) for one in family.attacks)
    bounds, chance = policy.area_bounds(*areas), Chance(family.top_p, policy.test_p)
    if by_both:
        chance = replace(chance, beyond=Chance(family.accepted_p, policy.tail_p))
    verdict, needed = chance.beside(bounds.verdict), ""
    if beyond_chance := chance.phrase("corrected for all forms"):
        scores = top.attack.top
        figure += beyond_chance
        limit += f"; {chance.limit}"
        meaning += f"; of about {scores.n} highest scores at most {scores.members} are members’ ({top.name})"
    if bounds.verdict == "inconclusive":
        needed = nonmembers_needed(area, policy)
    elif verdict == "inconclusive":
        needed = DOUBTFUL
    n = family.n_members + family.n_nonmembers
    return GateResult(name, verdict, figure, limit, baseline, n, meaning, bounds=bounds, chance=chance, needed=needed)


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
        return (untested(aim, title, attacker, NO_NON_MEMBERS, gate, IN_THE_DATA),)
    top = family.worst_top
    surest = Attack(
        aim,
        f"{title}, highest scores",
        f"The same attacker keeps to the people of whom the attack is surest. Worst of {_of(top, family)}",
        f"at most {count(top.attack.top.members)} members of about {count(top.attack.top.n)}",
        f"p\u00a0{_with_sign(pvalue(family.p))}, corrected for all forms",
        f"{top.attack.top.baseline:.2f} of the people are members",
        f"{count(family.n_members)} members, {count(family.n_nonmembers)} non-members",
        gate,
    )
    everyone = f"{attacker} Worst of {_of(family.worst, family)}"
    return (by_auc(aim, title, everyone, family.worst.attack.area, gate, IN_THE_DATA), surest)


def _of(one: NamedAttack, family: AttackFamily) -> str:
    return f"{count(family.n_tests)} forms: {one.name}."


def _with_sign(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"
