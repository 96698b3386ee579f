"""Whether values, and combinations of values, that stand in the release tell who is in the data."""

from __future__ import annotations

from dataclasses import replace

from anoncore.risk.presence import ONE_VARIABLE, ValuePresence
from tasks.policy.assessment import Assessment
from tasks.policy.attack_family import family_gate
from tasks.policy.gate import Metrics
from tasks.policy.rounded_attacks import attacks_in_steps
from tasks.policy.rounding import at_least_ten, coarse


def _unique_excess(assessment: Assessment) -> Metrics:
    presence = assessment.risk.presence
    return {} if presence is None else {"risk/value_presence/unique_excess": presence.excess.value}


def _variables(found: ValuePresence) -> tuple[str, ...]:
    """Return the variable where the worst attack looks at a single one."""
    name = found.worst.name
    return (name.removeprefix(ONE_VARIABLE),) if name.startswith(ONE_VARIABLE) else ()


def published_presence(presence: ValuePresence | None, step: float) -> ValuePresence | None:
    """Publish the attacks, and what is counted of values that one record alone holds, in steps."""
    if presence is None:
        return None
    members, others = (
        replace(coarse(one, step), n=at_least_ten(one.n))
        for one in (presence.unique_members, presence.unique_nonmembers)
    )
    excess = coarse(presence.excess, step)
    return attacks_in_steps(replace(presence, unique_members=members, unique_nonmembers=others, excess=excess), step)


FAMILY = family_gate(
    "value presence",
    "presence",
    meaning="whether values, and combinations of values, that stand in the release distinguish members",
    attacker="An attacker who knows a person’s record looks which of its values, and combinations of two to four "
    "values, stand in the release.",
    description="Members are distinguished from non-members by which of their values, and combinations of two to four "
    "values, stand in the release, weighed by how rare that is among people; also by all categorical values and by the "
    "quasi-identifiers together, by which values are missing, and by each variable alone.",
    more=_unique_excess,
    variables=_variables,
)
GATE = replace(FAMILY, publishes={"risk.presence": published_presence})
