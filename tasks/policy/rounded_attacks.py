"""How the success of attacks is published: as coarse as their sample is small.

An area under the ROC curve is the mean, over members, of a rank between 0 and 1, whose standard deviation is about 0.3.
The rule for means of other figures (`tasks.policy.rounding`) then asks for steps of 3/N.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from anoncore.risk import MembershipAttack, ResidualRisk, SinglingOut, SinglingOutBySize, TopScores, ValuesTogether
from tasks.policy.rounding import SETTINGS, at_least_ten, coarse, floor_to, in_steps, p_value

T = TypeVar("T")

AREA_STEPS = (0.005, 0.01, 0.02, 0.05)
COARSE_STEPS = (*AREA_STEPS, 0.1, 0.2, 0.5, 1.0)  # of what few people decide
PEOPLE_PER_STEP = 3.0


def attacks_in_steps(value: T, step: float) -> T:
    """Publish every success of an attack that is in a value in steps of its own sample; the rest as it was measured."""
    return _rounded(value)  # type: ignore[no-any-return]


def _rounded(value: Any) -> Any:
    match value:
        case MembershipAttack():
            return _area(value)
        case TopScores():
            return _top(value)
        case SinglingOut():
            return _singling_out(value)
        case ResidualRisk():
            return coarse(value, _step(min(value.attack.n, value.control.n), 10.0))
        case ValuesTogether():
            return _together(value)
        case tuple():
            return tuple(_rounded(one) for one in value)
        case dict():
            return {key: _rounded(one) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _rounded(getattr(value, f.name)) for f in fields(value) if f.init})
    return value


def _step(people: int, per_step: float, steps: tuple[float, ...] = (*AREA_STEPS, 0.1)) -> float:
    """Return the finest of the steps that holds so many people, else the last."""
    return next((step for step in steps if step * people >= per_step), steps[-1])


def _singling_out(found: SinglingOut) -> SinglingOut:
    """Publish in steps that ten people decide, and ten of the predicates: few non-members count many times each."""
    times = max(found.n_members / found.n_nonmembers, 1.0)
    people = min(found.n_members, found.n_nonmembers)

    def in_own_steps(one: SinglingOutBySize) -> SinglingOutBySize:
        one = one if one.is_pooled else replace(one, pooled=None)  # rounded bounds would decide it anew
        own, pooled = (
            risk and coarse(risk, _step(min(people, int(risk.attack.n / times)), 10.0, COARSE_STEPS))
            for risk in (one.residual, one.pooled)
        )
        assert own is not None
        step = _step(min(people, one.residual.attack.n), 10.0, COARSE_STEPS)
        return replace(one, residual=own, pooled=pooled, blind=coarse(one.blind, step))

    return replace(found, sizes=tuple(in_own_steps(one) for one in found.sizes))


def _area(area: MembershipAttack) -> MembershipAttack:
    step = _step(min(area.n_members, area.n_nonmembers), PEOPLE_PER_STEP)
    return in_steps(area, step, (*SETTINGS, "gate"))


def _top(top: TopScores) -> TopScores:
    """Count in tens; a share of so few people would reveal the count."""
    n = at_least_ten(top.n)
    members, step = min(at_least_ten(top.members), n), 10.0 / n
    lower = floor_to(top.lower, step)
    p, accepted_p = p_value(top.p), p_value(top.accepted_p)
    return replace(top, n=n, members=members, precision=members / n, lower=lower, p=p, accepted_p=accepted_p)


def _together(found: ValuesTogether) -> ValuesTogether:
    released, reference = (min(at_least_ten(one), found.n) for one in (found.released, found.reference))
    return replace(coarse(found, _step(found.n, 10.0)), released=released, reference=reference)
