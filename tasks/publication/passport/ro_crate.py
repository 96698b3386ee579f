"""RO-Crate 1.1: the release's folder as a research object, with the disclosure check as an action in it.

Source: RO-Crate Metadata Specification 1.1; the check is described as in Five Safes RO-Crate 0.4, of whose profile the
request and its review by a secure environment have no counterpart here.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.publication.passport.facts import ASSESSMENT_FILE, MEDIA_TYPES, METHOD_FILE, Document, Passport, to_bytes

SPECIFICATION = "https://w3id.org/ro/crate/1.1"
DISCLOSURE_CHECK = "https://w3id.org/shp#DisclosureCheck"
SOFTWARE = "#anonflow"
# Documents of every release, beside its data.
DOCUMENTS = {
    METHOD_FILE: ("Method statement", "text/markdown"),
    ASSESSMENT_FILE: ("Published figures of risk and utility", "application/json"),
}


def write(passport: Passport) -> bytes:
    """Return the metadata file of the crate; paths are relative to the release's folder."""
    licence = {"@id": "#licence"}
    parts = [{"@id": name} for name in (*(file.name for file in passport.files), *DOCUMENTS)]
    root: Document = {
        "@id": "./",
        "@type": "Dataset",
        "name": passport.title,
        "identifier": passport.id,
        "description": f"{passport.description} {passport.disclosure_control}".strip(),
        "datePublished": passport.created[:10],
        "license": licence,
        "hasPart": parts,
        "mentions": {"@id": "#disclosure-check"},
        "variableMeasured": [{"@id": f"#variable-{number}"} for number in range(1, len(passport.columns) + 1)],
    }
    if passport.contact:
        root |= {"author": {"@id": "#publisher"}, "publisher": {"@id": "#publisher"}}
    graph: list[Document] = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": SPECIFICATION},
        },
        root,
        *_files(passport),
        *_variables(passport),
        *_check(passport, parts),
        {"@id": "#licence", "@type": "CreativeWork", "name": passport.licence, "description": passport.licence},
    ]
    if passport.contact:
        graph.append({"@id": "#publisher", "@type": "Organization", "name": passport.contact})
    return to_bytes({"@context": f"{SPECIFICATION}/context", "@graph": graph})


def _files(passport: Passport) -> list[Document]:
    data = [
        {
            "@id": file.name,
            "@type": "File",
            "name": file.name,
            "description": ", ".join(filter(None, (f"{file.records} released records", passport.part(file)))),
            "contentSize": str(file.bytes),
            "encodingFormat": MEDIA_TYPES[PurePath(file.name).suffix],
            "sha256": file.sha256,
        }
        for file in passport.files
    ]
    documents = [
        {"@id": name, "@type": "File", "name": title, "description": title, "encodingFormat": media_type}
        for name, (title, media_type) in DOCUMENTS.items()
    ]
    return [*data, *documents]


def _variables(passport: Passport) -> list[Document]:
    entities: list[Document] = []
    for number, column in enumerate(passport.columns, start=1):
        facts: Document = {"@id": f"#variable-{number}", "@type": "PropertyValue", "name": column.variable.name}
        texts = {"description": column.description, "unitText": column.variable.measured_in}
        entities.append(facts | {key: text for key, text in texts.items() if text})
    return entities


def _check(passport: Passport, parts: list[dict[str, str]]) -> list[Document]:
    check: Document = {
        "@id": "#disclosure-check",
        "@type": "AssessAction",
        "additionalType": {"@id": DISCLOSURE_CHECK},
        "name": "Disclosure check",
        "description": f"Risk and utility were measured and gates decided: see {ASSESSMENT_FILE}.",
        "instrument": {"@id": SOFTWARE},
        "agent": {"@id": "#publisher"} if passport.contact else {"@id": SOFTWARE},
        "object": {"@id": "./"},
        "result": parts[-1],
        "endTime": passport.created,
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }
    software = {"@id": SOFTWARE, "@type": "SoftwareApplication", "name": "anonflow"}
    return [check, software]
