"""What externally produced files hold besides what was measured."""

from __future__ import annotations

from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Fail where released records carry identifiers; inconclusive where columns were not measured."""
    files, released = assessment.external, assessment.records.released
    results = []
    if files is not None and files.named:
        meaning = "released rows that carry an identifier of a person of the original"
        results.append(GateResult("identifiers of the original", "fail", f"{files.named}", "0", "0", released, meaning))
    if files is not None and files.unmeasured:
        meaning = "released columns that the original lacks, or has as identifiers, under other values"
        figure = f"{files.unmeasured}"
        results.append(GateResult("columns not measured", "inconclusive", figure, "0", "0", released, meaning))
    return tuple(results)


GATE = Gate(
    name="files",
    description="Of externally produced files: fail when released rows carry an identifier of the original; "
    "inconclusive when released columns have no counterpart in the original, since nothing was measured of them.",
    evaluate=evaluate,
)
