"""Look for records of one statistical unit of which no identifier says so."""

from __future__ import annotations

from dataclasses import replace

from anoncore.edits.model import EditSet
from anoncore.risk import hidden_units, records_looked_at
from tasks.common.partitions import StoredPartitions
from tasks.common.workspace import StoredRecords
from tasks.policy.assessment import Assessment


def with_hidden_units(assessment: Assessment, original: StoredRecords, edits: EditSet) -> Assessment:
    """Return the assessment with whether the original records look like several of one unit.

    Variables that edits compute are left out, since they follow from others.
    """
    records = None
    if isinstance(original, StoredPartitions):
        records = len(original)
        data = original.at(records_looked_at(records), list(original.schema.masked))
    else:
        data = original.load()
    computed = {str(edit.dependent) for edit in edits.dependents}
    return replace(assessment, hidden_units=hidden_units(data, computed=computed, records=records))
