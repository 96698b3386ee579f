"""Whether the halves, or the sub-table, by which a release is judged are as detailed as the release."""

from __future__ import annotations

from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult

NAME = "coarser parts"


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Say that the release was not tested where a part is coarser than it is."""
    full = assessment.full_release
    parts = [one.coarser for one in assessment.halves] + ([] if full is None else [full.coarser])
    variables = tuple(dict.fromkeys(name for part in parts for name in part))
    if not variables:
        return ()
    return (
        GateResult(
            name=NAME,
            verdict="not tested",
            figure=f"coarser in a part of the records than in the release: {', '.join(variables)}",
            limit="none",
            baseline="none, parts that are recoded as the release is",
            records=assessment.records.released,
            meaning="whether attacks on parts of the records saw what the release shows: a step that decides by counts "
            "made them coarser; put it before the steps that mask (first of all, where a sub-table of a large table is "
            "attacked), state the coarser levels in the plan, or choose a reference of kind holdout or file",
            variables=variables,
        ),
    )


GATE = Gate(
    name=NAME,
    description="Variables that a half or the sub-table, which the same plan has masked, shows more coarsely than the "
    "release: recoded otherwise, without a value in more records, or, where a step decided by the part "
    "alone, without levels that as many records of the release hold, by more than 2 % of the records and "
    "three standard deviations of chance. Attacks on that part then say nothing about the release, and a "
    "person decides. Steps at the beginning of a plan that decide by counts decide by all records, of the "
    "halves too, and the first step of a plan where a sub-table is attacked: it concerns such steps after one "
    "that masks, further ones of a large table, and values left out once more after later steps.",
    evaluate=evaluate,
    individual=True,
)
