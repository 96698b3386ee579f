"""Data Package, version 2: fields with types, categories and constraints, so that tools check the file against them.

Source: Data Package standard 2.0 (datapackage.org), Table Schema with categories.
"""

from __future__ import annotations

import re

from tasks.publication.passport.facts import MEDIA_TYPES, Column, Document, Passport, to_bytes
from tasks.record.dossier import ReleasedFile

PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
LICENCE_NAME = re.compile(r"[-a-zA-Z0-9._]+")


def write(passport: Passport) -> bytes:
    """Return the descriptor of the release, which stands beside the data."""
    # Tools open every resource, and few have readers of statistical software: its files are listed apart.
    described = [suffix for suffix in passport.tables if suffix in (".csv", ".parquet")] or list(passport.tables)
    document: Document = {
        "$schema": PROFILE,
        "name": passport.name,
        "id": passport.id,
        "title": passport.title,
        "description": passport.description,
        "created": passport.created,
        "disclosureControl": passport.disclosure_control,
        "resources": [_resource(passport, suffix) for suffix in described],
    }
    if others := [suffix for suffix in passport.tables if suffix not in described]:
        document |= {"alternatives": [_resource(passport, suffix) for suffix in others]}
    if passport.licence:
        name = passport.licence if LICENCE_NAME.fullmatch(passport.licence) else "other"
        document |= {"licenses": [{"name": name, "title": passport.licence}]}
    if passport.contact:
        document |= {"contributors": [{"title": passport.contact, "roles": ["contact"]}]}
    return to_bytes(document)


def _resource(passport: Passport, suffix: str) -> Document:
    files = passport.tables[suffix]
    facts: Document = {"name": f"data-{suffix[1:]}", "format": suffix[1:], "mediatype": MEDIA_TYPES[suffix]}
    if len(files) == 1:
        facts |= _stored(files[0])
    else:
        # The standard has one digest and one size for a resource, of which none is of all files in a list.
        parts = [_stored(file) | {"records": file.records} for file in files]
        facts |= {"path": [file.name for file in files], "parts": parts}
    if suffix != ".csv":
        # Validators count the bytes of no other format, and would find another size than the one that is stated.
        facts.pop("bytes", None)
        return facts
    schema = {"fields": [_field(c, passport.records) for c in passport.columns], "missingValues": [""]}
    return facts | {"type": "table", "encoding": "utf-8", "schema": schema}


def _stored(file: ReleasedFile) -> Document:
    return {"path": file.name, "bytes": file.bytes, "hash": f"sha256:{file.sha256}"}


def _field(column: Column, records: int) -> Document:
    variable = column.variable
    facts: Document = {"name": variable.name, "type": column.type}
    if column.description:
        facts |= {"description": column.description}
    if column.levels:
        values = [level for level, _ in column.levels]
        facts |= {
            "constraints": {"enum": values},
            "categories": [{"value": v, "label": label} if label else {"value": v} for v, label in column.levels],
            "categoriesOrdered": variable.kind == "ordinal",
        }
    extra = {"unit": variable.measured_in, "universe": variable.universe}
    return facts | {key: text for key, text in extra.items() if text} | {"missing": column.missing, "records": records}
