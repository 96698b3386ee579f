"""Whether attacks could see what a released code of sampling units shows."""

from __future__ import annotations

from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult

NAME = "sampling units"


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Say that it was not tested where non-members are of the members' own sampling units."""
    found = assessment.risk.sampling_units
    if found is None or not found.is_untested:
        return ()
    return (
        GateResult(
            name=NAME,
            verdict="not tested",
            figure=f"more than half of the non-members are of the members’ own ({', '.join(found.variables)})",
            limit="at most half",
            baseline="0, people of sampling units that were not drawn",
            records=assessment.records.reference or 0,
            meaning="whether a released code of sampling units shows who is in the data: anyone who knows what it "
            "stands for knows which schools, villages or firms were drawn",
            variables=found.variables,
            needed="the code is excluded, or named in the plan’s reference: sampling_units",
        ),
    )


GATE = Gate(
    name=NAME,
    description="Released variables with the role `sampling-unit`. Not tested where more than half of the non-members "
    "are of the members’ own sampling units, as in halves and holdouts that are cut by person: attacks then compare "
    "nobody with people of sampling units that were not drawn. `untested: [sampling units]` accepts it, as of codes "
    "that mean nothing outside the data.",
    evaluate=evaluate,
    individual=True,
    untested_as="sampling units",
)
