"""Data Package, version 2: fields with types, categories and constraints, so that tools check the file against them.

Source: Data Package standard 2.0 (datapackage.org), Table Schema with categories.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from tasks.publication.passport.facts import MEDIA_TYPES, Column, Document, Passport, to_bytes
from tasks.record.dossier import ReleasedFile

PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
LICENCE_NAME = re.compile(r"[-a-zA-Z0-9._]+")


def write(passport: Passport) -> bytes:
    """Return the descriptor of the release, which stands beside the data."""
    # Tools open every resource, and few have readers of statistical software: its files are listed apart.
    described = [f for f in passport.files if f.name.endswith((".csv", ".parquet"))] or list(passport.files)
    document: Document = {
        "$schema": PROFILE,
        "name": passport.name,
        "id": passport.id,
        "title": passport.title,
        "description": passport.description,
        "created": passport.created,
        "disclosureControl": passport.disclosure_control,
        "resources": [_resource(passport, file) for file in described],
    }
    if others := [file for file in passport.files if file not in described]:
        document |= {"alternatives": [_resource(passport, file) for file in others]}
    if passport.licence:
        name = passport.licence if LICENCE_NAME.fullmatch(passport.licence) else "other"
        document |= {"licenses": [{"name": name, "title": passport.licence}]}
    if passport.contact:
        document |= {"contributors": [{"title": passport.contact, "roles": ["contact"]}]}
    return to_bytes(document)


def _resource(passport: Passport, file: ReleasedFile) -> Document:
    suffix = PurePath(file.name).suffix
    facts: Document = {
        "name": file.name.replace(".", "-"),
        "path": file.name,
        "format": suffix[1:],
        "mediatype": MEDIA_TYPES[suffix],
        "hash": f"sha256:{file.sha256}",
    }
    if suffix != ".csv":
        return facts
    schema = {"fields": [_field(c, passport.records) for c in passport.columns], "missingValues": [""]}
    return facts | {"bytes": file.bytes, "type": "table", "encoding": "utf-8", "schema": schema}


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
