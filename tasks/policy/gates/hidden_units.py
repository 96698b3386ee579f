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
            f"{found.others:.1f} others for each, on average",
            limit="< 0.2 others",
            baseline="0, independent records",
            records=found.records,
            meaning="whether attacks compared units of which no record is released: members and non-members may be "
            "the same ones, and then attacks understate what the release shows; name as unit the column that says "
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
    description="Records that look like several of one unit, such as visits of a patient, though no identifier or "
    "household joins them. Not tested where records with the same value of a number agree in at least two more "
    "variables four times as often as records with neighbouring values, so that each has between 0.2 and 20 others: "
    "halves and holdouts then part records of the same units, and attacks understate. Neither is it where combinations "
    "of two to eight variables, levels alone too, are held by one, two, three, … records as often as no independent "
    "records would hold them. Small areas, products and quotas, such as ten people of each day, look the same; "
    "`untested: [several records]` accepts it where each record is of another unit. Not recognised are units that "
    "agree in nothing exactly, or whose numbers of records vary as those of independent records do. Of large tables "
    "5000 records are compared, or 12 times the root of their number, and combinations of 20 000 are "
    "counted. Not looked for where settings are compared.",
    evaluate=evaluate,
    individual=True,
    untested_as="several records",
    metrics=metrics,
)
