"""Croissant 1.1: the release as a data set for machine learning, in JSON-LD.

Source: MLCommons Croissant format specification 1.1.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.publication.passport.facts import MEDIA_TYPES, Column, Document, Passport, to_bytes

VERSION = "http://mlcommons.org/croissant/1.1"
CROISSANT = (
    "arrayShape citeAs column conformsTo containedIn data dataType equivalentProperty examples extract field "
    "fileProperty fileObject fileSet format includes isArray isLiveDataset jsonPath key md5 parentField path recordSet "
    "references regex repeated replace samplingRate separator source subField transform"
)
# The files of a release in parts.
PARTS = "parts"
TYPES = {
    "integer": "sc:Integer",
    "number": "sc:Float",
    "string": "sc:Text",
    "date": "sc:Date",
    "time": "sc:Time",
    "datetime": "sc:DateTime",
}


def write(passport: Passport) -> bytes:
    """Return the description of the release, with a record set of the CSV or the Parquet files."""
    described = min((suffix for suffix in passport.tables if suffix in (".csv", ".parquet")), default="")
    files = passport.tables.get(described, ())
    source: Document = {"fileObject": {"@id": files[0].name}} if len(files) == 1 else {"fileSet": {"@id": PARTS}}
    document: Document = {
        "@context": _context(),
        "@type": "sc:Dataset",
        "conformsTo": VERSION,
        "name": passport.title,
        "identifier": passport.id,
        "description": f"{passport.description} {passport.disclosure_control}".strip(),
        "datePublished": passport.created[:10],
        "version": "1.0.0",
        "citeAs": f"{passport.title} ({passport.id})",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": file.name,
                "name": file.name,
                "contentUrl": file.name,
                "contentSize": f"{file.bytes} B",
                "encodingFormat": MEDIA_TYPES[PurePath(file.name).suffix],
                "sha256": file.sha256,
            }
            for file in passport.files
        ],
    }
    if passport.licence:
        document |= {"license": passport.licence}
    if passport.contact:
        document |= {"creator": {"@type": "sc:Organization", "name": passport.contact}}
    if len(files) > 1:
        document["distribution"].append(
            {
                "@type": "cr:FileSet",
                "@id": PARTS,
                "name": PARTS,
                "description": f"The {len(files)} files that hold the records together",
                "encodingFormat": MEDIA_TYPES[described],
                "includes": f"data-*{described}",
            }
        )
    if files:
        fields = [_field(number, column, source) for number, column in enumerate(passport.columns, start=1)]
        document |= {"recordSet": [{"@type": "cr:RecordSet", "@id": "records", "name": "records", "field": fields}]}
    return to_bytes(document)


def _field(number: int, column: Column, source: Document) -> Document:
    variable = column.variable
    labels = "; ".join(f"{level}: {label}" for level, label in column.levels if label)
    parts = (column.description, labels, variable.measured_in and f"in {variable.measured_in}")
    described = ". ".join(part for part in parts if part)
    return {
        "@type": "cr:Field",
        "@id": f"records/V{number}",
        "name": variable.name,
        "description": described or variable.name,
        "dataType": TYPES[column.type],
        "source": source | {"extract": {"column": variable.name}},
    }


def _context() -> Document:
    """Return the context that the specification prescribes."""
    own: Document = {term: f"cr:{term}" for term in CROISSANT.split()}
    return own | {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "description": {"@container": "@language"},
        "examples": {"@id": "cr:examples", "@type": "@json"},
        "name": {"@container": "@language"},
    }
