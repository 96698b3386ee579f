"""A dossier's figures as flat names with numbers, which MLflow draws as curves over releases."""

from __future__ import annotations

from tasks.policy.gates import GATES
from tasks.policy.halves import metrics_of
from tasks.record.dossier import Dossier


def metrics(dossier: Dossier) -> dict[str, float]:
    """Return the figures in groups: risk/…, utility/…, claim/…, method/…, edits/…, size/…."""
    records, edits, results = dossier.assessment.records, dossier.edits, dossier.verdict.gates
    flat: dict[str, float | None] = {
        "size/source": dossier.source.records,
        "size/released": records.released,
        "size/reference": records.reference,
        "risk/gates_failed": sum(result.verdict == "fail" for result in results),
        "risk/gates_inconclusive": sum(result.verdict == "inconclusive" for result in results),
        "edits/repaired_records": edits.repaired.records,
        "edits/repaired_cells": edits.repaired.cells,
        "edits/repaired_share": edits.repaired.share,
        "edits/set_aside": edits.set_aside,
    }
    for side, report in (("raw", edits.raw), ("masked", edits.masked)):
        flat[f"edits/violated_{side}"] = len(report.violated)
        flat[f"edits/violations_{side}"] = sum(rule.violated for rule in report.rules)
    for gate in GATES:
        flat |= metrics_of(gate, dossier.assessment)
    return {name: readable(float(value)) for name, value in flat.items() if value is not None}


def readable(value: float) -> float:
    """Return a count as it is, and any other figure with five digits that count: more would be noise."""
    return value if value.is_integer() else float(f"{value:.5g}")
