"""Whether records look like several of one unit, each of which attacks took for a unit of its own."""

from __future__ import annotations

from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics

NAME = "several records of a unit"


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Say that it was not tested where records look like several of one unit."""
    found = assessment.hidden_units
    if found is None or not found.variables:
        return ()
    return (
        GateResult(
            name=NAME,
            verdict="not tested",
            figure=f"records agree in {', '.join(found.variables)} as those of one unit do: "
            f"about {max(found.others, 1):.0f} for each",
            limit="0",
            baseline="0, records with neighbouring values",
            records=found.records,
            meaning="whether attacks compared people of whom no record is released: members and non-members may be "
            "the same people, and then attacks understate what the release shows; name as unit the column that says "
            "whose each record is, or accept it where each is of another unit",
            variables=found.variables,
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return how many other records of its unit a record seems to have."""
    found = assessment.hidden_units
    return {} if found is None else {"risk/hidden_units/others": found.others}


GATE = Gate(
    name=NAME,
    description="Records that look like several of one unit, such as visits of a patient, where no identifier or "
    "household joins records. Not tested where records with the same value of a number agree in at least two more "
    "variables four times as often as records with neighbouring values, so that each has between 0.2 and 20 others: "
    "halves and holdouts then part records of the same people, and attacks understate. Variables that belong to an "
    "area or a product look the same; `untested: [several records]` accepts it where each record is of another unit. "
    "Units with few records among many alike are not recognised. Of large tables 5000 records are compared. Not looked "
    "for where settings are compared.",
    evaluate=evaluate,
    individual=True,
    untested_as="several records",
    metrics=metrics,
)
