"""DCAT-AP: the release as an entry of a catalogue of public data, in JSON-LD.

Source: SEMIC, DCAT application profile for data portals in Europe 3.0: mandatory and recommended properties; its
extension HealthDCAT-AP, where the plan states what that asks for.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from tasks.publication.passport.facts import MEDIA_TYPES, Document, Passport, clean, to_bytes
from tasks.record.dossier import HealthFacts, ReleasedFile

CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
HEALTH_CONTEXT = {
    "adms": "http://www.w3.org/ns/adms#",
    "dcatap": "http://data.europa.eu/r5r/",
    "dpv": "https://w3id.org/dpv#",
    "eli": "http://data.europa.eu/eli/ontology#",
    "healthdcatap": "http://healthdataportal.eu/ns/health#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
}
# The regulation on the European Health Data Space, and health among the themes of data portals.
LAW: Document = {
    "dcatap:applicableLegislation": {"@id": "http://data.europa.eu/eli/reg/2025/327/oj", "@type": "eli:LegalResource"}
}
HEALTH_THEME = "http://publications.europa.eu/resource/authority/data-theme/HEAL"
ACCESS_RIGHT = "http://publications.europa.eu/resource/authority/access-right/"
IANA = "https://www.iana.org/assignments/media-types/"


def write(passport: Passport) -> bytes:
    """Return the data set with a distribution for each file; addresses of files are relative to the release.

    Whatever is referred to states its class, since the profile's shapes find no other document that does.
    """
    stated = {"@type": "dct:LicenseDocument", "rdfs:label": passport.licence}
    licence: Document = {"dct:license": stated} if passport.licence else {}
    health = passport.health
    files = [_file(passport, file) | licence for file in passport.files]
    document: Document = {
        "@context": CONTEXT,
        "@id": f"urn:anonflow:{passport.id}",
        "@type": "dcat:Dataset",
        "dct:title": passport.title,
        "dct:description": f"{passport.description} {passport.disclosure_control}".strip(),
        "dct:identifier": passport.id,
        "dct:issued": {"@value": passport.created[:10], "@type": "xsd:date"},
        "dcat:distribution": files,
    }
    if passport.contact:
        document |= {
            "dcat:contactPoint": {"@type": "vcard:Kind", "vcard:fn": passport.contact}
            | (_contact(health.email, health.page) if health else {}),
            "dct:publisher": {"@type": "foaf:Agent", "foaf:name": passport.contact}
            | (_publisher(health) if health else {}),
        }
    return to_bytes(document | (_health(passport, health) if health else {}))


def _file(passport: Passport, file: ReleasedFile) -> Document:
    """Return the distribution of a file."""
    media_type = IANA + MEDIA_TYPES[PurePath(file.name).suffix]
    facts: Document = {
        "@id": f"urn:anonflow:{passport.id}:{file.name}",
        "@type": "dcat:Distribution",
        "dct:title": ", ".join(filter(None, (file.name, passport.part(file)))),
        "dcat:accessURL": {"@id": file.name, "@type": "rdfs:Resource"},
        "dcat:mediaType": {"@id": media_type, "@type": "dct:MediaType"},
        "dcat:byteSize": {"@value": str(file.bytes), "@type": "xsd:nonNegativeInteger"},
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256", "@type": "spdx:ChecksumAlgorithm"},
            "spdx:checksumValue": {"@value": file.sha256, "@type": "xsd:hexBinary"},
        },
    }
    if passport.health:
        form = {"@id": media_type, "@type": "dct:MediaTypeOrExtent"}
        facts |= LAW | {"dct:format": form, "dct:rights": _rights(passport.health)}
    return facts


def _health(passport: Passport, health: HealthFacts) -> Document:
    """Return what HealthDCAT-AP asks of the data set, as the plan states it; the release's own files are its sample."""
    return LAW | {
        "@context": CONTEXT | HEALTH_CONTEXT,
        "dct:identifier": {"@value": f"urn:anonflow:{passport.id}", "@type": "xsd:anyURI"},
        "dcat:theme": _concept(HEALTH_THEME),
        "dcat:keyword": [clean(keyword) for keyword in health.keywords],
        "dct:accessRights": _rights(health),
        "dct:type": _concept(health.kind),
        "dct:spatial": [{"@id": place, "@type": "dct:Location"} for place in health.places],
        "dct:provenance": {"@type": "dct:ProvenanceStatement", "rdfs:label": clean(health.provenance)},
        "dpv:hasPurpose": [_concept(purpose) for purpose in health.purposes],
        "healthdcatap:healthCategory": [_concept(category) for category in health.categories],
        "healthdcatap:healthTheme": [_concept(theme) for theme in health.themes],
        "healthdcatap:hdab": {
            "@type": "foaf:Agent",
            "foaf:name": clean(health.access_body),
            "foaf:mbox": {"@id": f"mailto:{health.access_body_email}"},
            "foaf:homepage": {"@id": health.access_body_page},
        },
        "adms:sample": [{"@id": f"urn:anonflow:{passport.id}:{file.name}"} for file in passport.files],
    }


def _contact(email: str, page: str) -> Document:
    return {"vcard:hasEmail": {"@id": f"mailto:{email}"}, "vcard:hasURL": {"@id": page}}


def _publisher(health: HealthFacts) -> Document:
    return {
        "healthdcatap:publisherType": _concept(health.publisher_type),
        "healthdcatap:publisherNote": clean(health.publisher_note),
        "healthdcatap:trustedDataHolder": health.trusted,
    }


def _rights(health: HealthFacts) -> Document:
    return {"@id": ACCESS_RIGHT + health.access, "@type": "dct:RightsStatement"}


def _concept(address: str) -> Document:
    """Return a term of a vocabulary, whose label is the end of its address."""
    return {"@id": address, "@type": "skos:Concept", "skos:prefLabel": re.split("[/#:]", address.rstrip("/#:"))[-1]}
