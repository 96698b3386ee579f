"""The passport of a release is read by tools that are not ours, and states nothing but the release."""

from __future__ import annotations

import datetime as d
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import frictionless
import mlcroissant
import numpy as np
import pandas as pd
import pytest
import rdflib
from pydantic import ValidationError

from anoncore.microdata import Microdata, Schema, Variable
from tasks.common.digests import sha256_of
from tasks.common.values import from_json, to_json
from tasks.connectors.formats import FORMATS
from tasks.publication.candidate import PublicationSection
from tasks.publication.health import HealthSection
from tasks.publication.passport import WRITERS, Passport
from tasks.publication.passport.ddi import NAMESPACE
from tasks.record.dossier import MethodFacts, MethodStep, PlanIdentity, ReleasedFile, ReleaseIdentity
from tests.tasks.dossiers import small_dossier

HOSTILE = "<b>=cmd|'/C calc'!A0</b> & \"\u202equoted\0\""
VARIABLES = (
    Variable("sex", "binary", levels=(1, 2), labels=((1, "male"), (2, HOSTILE)), description=HOSTILE),
    Variable("wage", "continuous", precision=0.01, measured_in="EUR", universe="employees"),
    Variable("town <é>", "nominal", role="area", levels=("a", "b,c")),
    Variable("grade", "ordinal", levels=("low", "high")),
    Variable("born", "continuous", temporal="date"),
    Variable("at", "continuous", temporal="time"),
    Variable("w", "continuous", role="weight", precision=1.0),
)
FRAME = pd.DataFrame(
    {
        "sex": [1, 2, 2, None],
        "wage": [1.25, np.nan, 3.0, 1e5],
        "town <é>": ["a", "b,c", None, "a"],
        "grade": ["low", "high", "low", None],
        "born": [d.date(2020, 2, 29), None, d.date(1871, 3, 4), d.date(1970, 1, 1)],
        "at": [d.time(3, 4, 5), None, d.time(23, 59, 59), d.time(0)],
        "w": [1, 2, 3, 4],
    }
)
HEALTH = {
    "categories": ["https://example.org/category/survey"],
    "themes": ["https://example.org/theme/smoking"],
    "purposes": ["https://w3id.org/dpv#ResearchAndDevelopment"],
    "places": ["http://publications.europa.eu/resource/authority/country/BEL"],
    "kind": "http://publications.europa.eu/resource/authority/dataset-type/STATISTICAL",
    "keywords": [HOSTILE],
    "provenance": "A survey",
    "email": "data@example.org",
    "page": "https://example.org/data",
    "publisher_type": "https://example.org/publisher/statistics",
    "publisher_note": "Publishes statistics",
    "access_body": "Access body",
    "access_body_email": "body@example.org",
    "access_body_page": "https://example.org/body",
}
# The order of elements in the schema of DDI-Codebook 2.5, of those that are written.
ORDER = {
    "codeBook": ["stdyDscr", "fileDscr", "dataDscr"],
    "stdyDscr": ["citation", "stdyInfo", "method", "dataAccs"],
    "citation": ["titlStmt", "distStmt"],
    "titlStmt": ["titl", "IDNo"],
    "distStmt": ["contact", "distDate"],
    "fileDscr": ["fileTxt", "notes"],
    "fileTxt": ["fileName", "fileCont", "dimensns", "fileType"],
    "dimensns": ["caseQnty", "varQnty"],
    "var": ["labl", "universe", "sumStat", "catgry", "varFormat"],
    "catgry": ["catValu", "labl"],
}


def _with_passports(folder: Path, frame: pd.DataFrame, files: dict[str, int]) -> None:
    """Write every passport of some files, with the number of their records."""
    release = ReleaseIdentity(
        "people-0123456789ab",
        "people",
        len(frame),
        variables=VARIABLES,
        files=tuple(ReleasedFile(f, (folder / f).stat().st_size, sha256_of(folder / f), n) for f, n in files.items()),
        missing={str(n): int(c) for n, c in frame.isna().sum().items()},
    )
    about = {"contact": "Office", "licence": "CC-BY-4.0", "health": HealthSection(**HEALTH).facts}
    plan = PlanIdentity("people", "0" * 64, "People", HOSTILE, **about)
    method = MethodFacts((MethodStep("rare-levels", {"k": 5}), MethodStep("mdav", {"k": 3})))
    dossier = replace(small_dossier(), plan=plan, release=release, method=method)
    for file, write in WRITERS.values():
        (folder / file).write_bytes(write(Passport.of(dossier)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release's files with every passport."""
    folder = tmp_path_factory.mktemp("release")
    frame = Microdata(FRAME, Schema(VARIABLES)).plain()
    frame.to_csv(folder / "data.csv", index=False, lineterminator="\n")
    frame.to_parquet(folder / "data.parquet", index=False)
    FORMATS["spss"].write(folder / "data.sav", frame, [v for v in VARIABLES if v.name != "town <é>"])  # type: ignore[misc]
    _with_passports(folder, frame, dict.fromkeys(("data.parquet", "data.csv", "data.sav"), len(frame)))
    return folder


def test_passports_of_a_release_in_parts_lead_to_all_records(tmp_path: Path) -> None:
    frame, files = Microdata(FRAME, Schema(VARIABLES)).plain(), {}
    for number, part in enumerate((frame[:3], frame[3:])):
        part.to_parquet(tmp_path / f"data-{number:05}.parquet", index=False)
        part.to_csv(tmp_path / f"data-{number:05}.csv", index=False, lineterminator="\n")
        files |= {f"data-{number:05}.{suffix}": len(part) for suffix in ("parquet", "csv")}
    _with_passports(tmp_path, frame, files)
    report = frictionless.validate(str(tmp_path / "datapackage.json"))
    assert report.valid, report.flatten(["type", "note"])
    resources = frictionless.Package(str(tmp_path / "datapackage.json")).resources
    assert [len(r.paths) for r in resources] == [2, 2]
    assert [row["w"] for row in resources[1].read_rows()] == [1, 2, 3, 4]
    dataset = mlcroissant.Dataset(jsonld=tmp_path / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    assert sorted(r["records/V7"] for r in dataset.records("records")) == [1, 2, 3, 4]
    book = ET.parse(tmp_path / "ddi-codebook.xml").getroot()
    assert [e.text for e in book.iter(f"{{{NAMESPACE}}}caseQnty")] == ["3", "3", "1", "1"]
    catalogue = json.loads((tmp_path / "dcat-ap.jsonld").read_text())
    assert catalogue["dcat:distribution"][2]["dct:title"] == "data-00001.parquet, part 2 of 2"
    crate = json.loads((tmp_path / "ro-crate-metadata.json").read_text())
    described = {entity["@id"]: entity.get("description") for entity in crate["@graph"]}
    assert described["data-00000.csv"] == "3 released records, part 1 of 2"


def test_frictionless_finds_no_error_in_package_and_data(folder: Path) -> None:
    report = frictionless.validate(str(folder / "datapackage.json"))
    assert report.valid, report.flatten(["type", "note"])
    package = json.loads((folder / "datapackage.json").read_text())
    assert [file["path"] for file in package["alternatives"]] == ["data.sav"]
    fields = package["resources"][1]["schema"]["fields"]
    assert [f["type"] for f in fields] == ["integer", "number", "string", "string", "date", "time", "integer"]
    assert fields[0]["categories"][0] == {"value": 1, "label": "male"}
    assert (fields[1]["unit"], fields[1]["universe"], fields[1]["missing"]) == ("EUR", "employees", 1)
    assert fields[3]["categoriesOrdered"]
    # The check is one: other data are refused.
    content = (folder / "data.csv").read_text()
    (folder / "data.csv").write_text(content.replace("low", "lower"))
    assert not frictionless.validate(str(folder / "datapackage.json")).valid
    (folder / "data.csv").write_text(content)


def test_mlcroissant_reads_the_records(folder: Path) -> None:
    dataset = mlcroissant.Dataset(jsonld=folder / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    assert dataset.metadata.conforms_to == ["http://mlcommons.org/croissant/1.1"]
    records = list(dataset.records("records"))
    assert len(records) == len(FRAME)
    assert sorted(r["records/V7"] for r in records) == [1, 2, 3, 4]


def test_the_ddi_codebook_has_the_elements_of_its_schema_in_order(folder: Path) -> None:
    book = ET.parse(folder / "ddi-codebook.xml").getroot()
    names = {id(element): element.tag.removeprefix(f"{{{NAMESPACE}}}") for element in book.iter()}
    for element in book.iter():
        if (order := ORDER.get(names[id(element)])) is not None:
            at = [order.index(names[id(child)]) for child in element]
            assert at == sorted(at)
    found = {"d": NAMESPACE}
    variables = book.findall("d:dataDscr/d:var", found)
    assert [v.get("name") for v in variables] == [v.name for v in VARIABLES]
    assert [v.get("wgt") for v in variables] == ["not-wgt"] * 6 + ["wgt"]
    assert {v.get("weight") for v in variables} == {"V7", None}
    assert variables[0].findtext("d:labl", namespaces=found) == HOSTILE.replace("\u202e", "").replace("\0", "")
    assert [s.text for s in variables[1].findall("d:sumStat", found)] == ["3", "1"]
    assert variables[4].find("d:varFormat", found).get("category") == "date"  # type: ignore[union-attr]
    assert len({v.get("ID") for v in variables}) == len(VARIABLES)


def test_dcat_is_linked_data(folder: Path) -> None:
    graph = rdflib.Graph().parse(folder / "dcat-ap.jsonld", format="json-ld")
    dcat, spdx = rdflib.Namespace("http://www.w3.org/ns/dcat#"), rdflib.Namespace("http://spdx.org/rdf/terms#")
    assert len(set(graph.subjects(rdflib.RDF.type, dcat.Distribution))) == 3
    digests = {str(value) for value in graph.objects(None, spdx.checksumValue)}
    assert sha256_of(folder / "data.csv").upper() in {digest.upper() for digest in digests}
    # The profile's shapes ask for the class of whatever is referred to.
    places = ("hasEmail", "hasURL", "mbox", "homepage")
    pages = {o for _, p, o in graph if str(p).endswith(places)}
    entities = set(graph.objects()) - set(graph.objects(None, rdflib.RDF.type)) - pages
    named = {thing for thing in entities if not isinstance(thing, rdflib.Literal)}
    assert {thing for thing in named if (thing, rdflib.RDF.type, None) not in graph} == set()


def test_a_data_set_on_health_states_what_its_profile_asks_for(folder: Path) -> None:
    graph = rdflib.Graph().parse(folder / "dcat-ap.jsonld", format="json-ld")
    health = rdflib.Namespace("http://healthdataportal.eu/ns/health#")
    (data,) = graph.subjects(rdflib.RDF.type, rdflib.DCAT.Dataset)
    assert [str(one) for one in graph.objects(data, health.healthCategory)] == HEALTH["categories"]
    assert str(graph.value(graph.value(data, health.hdab), rdflib.FOAF.mbox)) == "mailto:body@example.org"
    assert str(graph.value(data, rdflib.DCTERMS.accessRights)).endswith("/PUBLIC")
    laws = set(graph.objects(None, rdflib.URIRef("http://data.europa.eu/r5r/applicableLegislation")))
    assert len(laws) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"passport": ["croissant"]}, "add dcat-ap to passport"),
        ({"contact": ""}, "state contact"),
        ({"health": HEALTH | {"page": "javascript:alert(1)"}}, "must be an address"),
        ({"health": HEALTH | {"email": "nobody"}}, "email"),
        ({"health": HEALTH | {"themes": []}}, "themes"),
    ],
)
def test_statements_on_health_are_checked_in_the_plan(changed: dict[str, object], message: str) -> None:
    sound = {"health": HEALTH, "contact": "Office", "passport": ["dcat-ap"]}
    health = PublicationSection.model_validate(sound).health
    assert health is not None
    plan = PlanIdentity("people", "0" * 64, health=health.facts)
    assert from_json(PlanIdentity, to_json(plan)) == plan
    with pytest.raises(ValidationError, match=message):
        PublicationSection.model_validate(sound | changed)


def test_the_crate_names_every_file_and_the_disclosure_check(folder: Path) -> None:
    crate = json.loads((folder / "ro-crate-metadata.json").read_text())
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert len(entities) == len(crate["@graph"])
    assert entities[entities["ro-crate-metadata.json"]["about"]["@id"]]["name"] == "People"
    assert entities["data.csv"]["sha256"] == sha256_of(folder / "data.csv")
    assert {part["@id"] for part in entities["./"]["hasPart"]} >= {"data.csv", "data.sav", "method.md"}
    assert entities["#disclosure-check"]["result"] == {"@id": "assessment.json"}
    # Whatever is referred to is described.
    named = [value for entity in entities.values() for value in entity.values()]
    links = [link for value in named for link in (value if isinstance(value, list) else [value])]
    inside = {link["@id"] for link in links if isinstance(link, dict) and not link["@id"].startswith("https:")}
    assert inside <= entities.keys()
