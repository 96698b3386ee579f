"""Look for records of one statistical unit where no identifier says whose they are."""

from __future__ import annotations

from dataclasses import replace

from anoncore.edits.model import EditSet
from anoncore.risk import hidden_units
from tasks.common.workspace import StoredRecords
from tasks.policy.assessment import Assessment


def with_hidden_units(assessment: Assessment, original: StoredRecords, edits: EditSet) -> Assessment:
    """Return the assessment with whether the original records look like several of one unit.

    Not looked for where identifiers join records. Variables that edits compute are left out: they follow from others.
    """
    data = original.load()
    if data.units is not None:
        return assessment
    computed = {str(edit.dependent) for edit in edits.dependents}
    return replace(assessment, hidden_units=hidden_units(data, computed=computed))
