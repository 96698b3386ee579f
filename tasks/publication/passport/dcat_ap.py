"""DCAT-AP: the release as an entry of a catalogue of public data, in JSON-LD.

Source: SEMIC, DCAT application profile for data portals in Europe 3.0: mandatory and recommended properties.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.publication.passport.facts import MEDIA_TYPES, Document, Passport, to_bytes

CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
IANA = "https://www.iana.org/assignments/media-types/"


def write(passport: Passport) -> bytes:
    """Return the data set with a distribution for each file; addresses of files are relative to the release.

    Whatever is referred to states its class, since the profile's shapes find no other document that does.
    """
    stated = {"@type": "dct:LicenseDocument", "rdfs:label": passport.licence}
    licence: Document = {"dct:license": stated} if passport.licence else {}
    document: Document = {
        "@context": CONTEXT,
        "@id": f"urn:anonflow:{passport.id}",
        "@type": "dcat:Dataset",
        "dct:title": passport.title,
        "dct:description": f"{passport.description} {passport.disclosure_control}".strip(),
        "dct:identifier": passport.id,
        "dct:issued": {"@value": passport.created[:10], "@type": "xsd:date"},
        "dcat:distribution": [
            {
                "@id": f"urn:anonflow:{passport.id}:{file.name}",
                "@type": "dcat:Distribution",
                "dct:title": ", ".join(filter(None, (file.name, passport.part(file)))),
                "dcat:accessURL": {"@id": file.name, "@type": "rdfs:Resource"},
                "dcat:mediaType": {"@id": IANA + MEDIA_TYPES[PurePath(file.name).suffix], "@type": "dct:MediaType"},
                "dcat:byteSize": {"@value": str(file.bytes), "@type": "xsd:nonNegativeInteger"},
                "spdx:checksum": {
                    "@type": "spdx:Checksum",
                    "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256", "@type": "spdx:ChecksumAlgorithm"},
                    "spdx:checksumValue": {"@value": file.sha256, "@type": "xsd:hexBinary"},
                },
            }
            | licence
            for file in passport.files
        ],
    }
    if passport.contact:
        document |= {
            "dcat:contactPoint": {"@type": "vcard:Kind", "vcard:fn": passport.contact},
            "dct:publisher": {"@type": "foaf:Agent", "foaf:name": passport.contact},
        }
    return to_bytes(document)
