"""Read the source into microdata, from one consistent copy, without its identifiers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anoncore.microdata import Variable
from anoncore.risk import GroupFigure, find_group_figures
from tasks.common.keys import keyed_digest
from tasks.common.run import Run
from tasks.common.workspace import StoredRecords, StoredTable
from tasks.connectors.fingerprint import record_digests, records_digest
from tasks.intake.columns import as_read, check_levels, identities, to_microdata
from tasks.intake.read import read
from tasks.intake.source import SourceSection
from tasks.intake.units import Declared, keys_of, units_of
from tasks.record.dossier import SourceSummary


@dataclass(frozen=True)
class Ingested:
    """The source as microdata with its units, by reference, with what was read.

    Parameters
    ----------
    data, keys : the table, and what joins its records as text
    summary : what was read
    sampling_units : text of the columns that name them, where they are not released
    figures : variables that were computed from all records of a group, which no part of the table shows
    """

    data: StoredRecords
    keys: StoredTable | None
    summary: SourceSummary
    figures: tuple[GroupFigure, ...]
    sampling_units: StoredTable | None = None


def ingest(
    run: Run,
    source: SourceSection,
    variables: tuple[Variable, ...],
    base: Path,
    unit: tuple[str, ...] = (),
    sampling_units: tuple[str, ...] = (),
) -> Ingested:
    """Read the source, check it against the declarations, join its records to units, and store it.

    Raises
    ------
    Refused
        With everything that is wrong with the columns at once; the message holds no value.
    """
    frame, digest = read(run, source, variables, base)
    data, notes = to_microdata(frame, variables)
    notes += check_levels(data.schema, variables)
    names = tuple(v.name for v in variables if v.is_dropped)
    keys = keys_of(frame, Declared(variables, unit).keys)
    if len(keys.columns):
        units = units_of(keys)
        # Where no two records share a unit, each is its own, as in a table without keys.
        data = data.with_units(units if int(units.max(initial=-1)) + 1 < len(units) else None)
    digest_of_records = keyed_digest(run.home, f"records {records_digest([record_digests(frame, names)])}")
    return Ingested(
        run.workspace.store("source", data),
        run.workspace.store_table("identifiers", keys) if len(keys.columns) else None,
        SourceSummary(
            records=len(data),
            units=data.n_units,
            unit=tuple(keys.columns),
            variables=len(data.schema),
            dropped=names,
            digest=digest,
            records_digest=digest_of_records,
            notes=tuple(notes),
        ),
        find_group_figures(as_read(frame, data), data.schema.masked, data.units),
        run.workspace.store_table("sampling-units", identities(frame, sampling_units)) if sampling_units else None,
    )
