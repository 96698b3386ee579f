"""Read the source into microdata, from one consistent copy, without its identifiers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anoncore.microdata import Variable
from tasks.common.keys import keyed_digest
from tasks.common.run import Run
from tasks.common.workspace import StoredMicrodata, StoredTable
from tasks.connectors.fingerprint import record_digests, records_digest
from tasks.intake.columns import check_levels, identities, to_microdata
from tasks.intake.read import read
from tasks.intake.source import SourceSection
from tasks.record.dossier import SourceSummary


@dataclass(frozen=True)
class Ingested:
    """The source as microdata and its identifiers as text, by reference, with what was read."""

    data: StoredMicrodata
    identifiers: StoredTable | None
    summary: SourceSummary


def ingest(run: Run, source: SourceSection, variables: tuple[Variable, ...], base: Path) -> Ingested:
    """Read the source, check it against the declarations, and store it.

    Raises
    ------
    Refused
        With everything that is wrong with the columns at once; the message holds no value.
    """
    frame, digest = read(run, source, variables, base)
    data, notes = to_microdata(frame, variables)
    notes += check_levels(data, variables)
    names = tuple(v.name for v in variables if v.role == "identifier")
    digest_of_records = keyed_digest(run.home, f"records {records_digest(record_digests(frame, names))}")
    return Ingested(
        run.workspace.store("source", data),
        run.workspace.store_table("identifiers", identities(frame, names)) if names else None,
        SourceSummary(len(data), len(data.schema), names, digest, digest_of_records, tuple(notes)),
    )
