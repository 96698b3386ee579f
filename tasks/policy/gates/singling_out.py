"""Whether conditions read off the release are true of exactly one person."""

from __future__ import annotations

from pydantic import Field

from anoncore.risk import SinglingOutBySize
from tasks.common.formatting import count, number, percent
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_NON_MEMBERS, Aim, Attack, between, untested
from tasks.policy.criteria import Advantage, Criterion, Knowledge, Place
from tasks.policy.gate import BoundedFigure, Bounds, Gate, GateResult, Metrics, fields_of
from tasks.policy.limits import limit_phrase
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounded_attacks import attacks_in_steps
from tasks.policy.rounding import bounds_of_several, interval

NAME = "singling out"
PLACE = Place(Criterion.SINGLING_OUT, Knowledge.QUASI_IDENTIFIERS)
MEANING = "how much more often conditions read off the release are true of exactly one member than of one non-member"


class SinglingOutLimit(Section):
    """How often the release may single people out.

    Parameters
    ----------
    singling_out : Fail when conditions read off the release are shown to single people out more often than
        non-members, by more than this share of the attacks that fail on non-members. Pass when shown
        within twice as much.
    """

    singling_out: float = Field(default=0.05, gt=0, le=1)


def evaluate(assessment: Assessment, policy: SinglingOutLimit) -> tuple[GateResult, ...]:
    """Decide by the number of conditions that singles out most."""
    attack, most = assessment.risk.singling_out, policy.singling_out
    limit, baseline = limit_phrase(2 * most, most), "0, as often as non-members"
    if attack is None:
        return (GateResult(NAME, "not tested", "needs non-members", limit, baseline, 0, MEANING),)
    people = attack.n_members + attack.n_nonmembers
    if attack.worst is None:
        none = "no condition is true of one released record alone"
        return (GateResult(NAME, "pass", none, limit, baseline, people, MEANING),)
    worst, upper = attack.worst, max(one.upper for one in attack.sizes)
    risk = worst.residual
    meaning, bound = MEANING, f" {interval(risk.lower, upper, 2, '+')}"
    if worst.is_pooled:
        bound = f", {bounds_of_several(risk.lower, upper, 2, '+')}"
        meaning += ". “Of all” is the upper bound of several numbers of conditions taken together"
    figure = f"{_conditions(worst.n_conditions)}: {risk.value:+.2f}{bound}"
    bounds = Bounds(tuple(_bounded(one) for one in attack.sizes), 2 * most, most)
    return (GateResult(NAME, bounds.verdict, figure, limit, baseline, people, meaning, bounds=bounds),)


def _bounded(one: SinglingOutBySize) -> BoundedFigure:
    """Return the figure of a number of conditions; where few exist, the upper bound is of several numbers."""
    name, risk = _conditions(one.n_conditions), one.residual
    if not one.is_pooled:
        return BoundedFigure.of(risk.value, risk, name)
    return BoundedFigure(name, risk.value, risk.lower, one.upper, 0.0)


def _conditions(n: int) -> str:
    return f"{n} condition{'s'[: n > 1]}"


def metrics(assessment: Assessment) -> Metrics:
    """Return the residual risk of each number of conditions with its bounds."""
    attack = assessment.risk.singling_out
    flat: dict[str, float | None] = {}
    for one in attack.sizes if attack else ():
        flat |= fields_of(one.residual, ("value", "lower", "upper"), f"risk/singling_out_{one.n_conditions}/")
    return flat


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by each number of conditions."""
    attack, aim, name = assessment.risk.singling_out, Aim.SINGLING_OUT, "Singling out"
    attacker = "An attacker who has the release alone reads conditions off a released row and hopes that they are true "
    attacker += "of exactly one person in the data."
    if attack is None:
        return (untested(aim, name, attacker, NO_NON_MEMBERS, NAME, PLACE),)
    if not attack.sizes:
        none = "No condition is true of one released record alone."
        return (Attack(aim, name, f"{attacker} {none}", "0 conditions", gate=NAME, place=PLACE),)
    return tuple(
        Attack(
            aim,
            f"{name}, {_conditions(one.n_conditions)}",
            f"{attacker} True of one member: {percent(one.residual.attack.value)} of {count(one.residual.attack.n)}.",
            f"{number(one.residual.value, 2)}, as a share of the attacks that fail on non-members",
            between(one.residual, lambda bound: number(bound, 2), 2),
            f"{percent(one.residual.control.value)} are true of one non-member; blind, {percent(one.blind)}",
            f"{count(attack.n_members)} members, {count(attack.n_nonmembers)} non-members",
            NAME,
            PLACE,
            Advantage.of_residual(one.residual),
        )
        for one in attack.sizes
    )


GATE = Gate(
    name=NAME,
    description="Conditions on one to four variables are read off released rows and counted where they are true of "
    "exactly one person of the original, beside non-members, of whom each counts N/n times where they are n and the "
    "members N: r = (attack − control) / (1 − control), at 99 % confidence. Fail when r is shown to be above "
    "`singling_out` for any number of conditions, pass when shown to be within twice as much; numbers of conditions of "
    "which the release has fewer than 2000, or 2000·N/n, are taken together for that.",
    evaluate=evaluate,
    limits=SinglingOutLimit,
    individual=True,
    untested_as="membership",
    publishes={"risk.singling_out": attacks_in_steps},
    metrics=metrics,
    attacks=attacks,
)
