"""DDI-Codebook 2.5: study, files and variables as data archives describe them, in XML.

Source: DDI Alliance, DDI-Codebook 2.5 (2012), schema codebook.xsd, whose order of elements is kept.
"""

from __future__ import annotations

from pathlib import PurePath
from xml.etree import ElementTree as ET

from tasks.publication.passport.facts import MEDIA_TYPES, Column, Passport, clean
from tasks.record.dossier import ReleasedFile

NAMESPACE = "ddi:codebook:2_5"
NATURE = {"continuous": "interval", "ordinal": "ordinal", "binary": "nominal", "nominal": "nominal"}


def write(passport: Passport) -> bytes:
    """Return the codebook of the release."""
    book = ET.Element("codeBook", {"xmlns": NAMESPACE, "version": "2.5"})
    _study(book, passport)
    for number, file in enumerate(passport.files, start=1):
        _file(book, passport, number, file)
    described = ET.SubElement(book, "dataDscr")
    files = " ".join(f"F{number}" for number in range(1, len(passport.files) + 1))
    weights = " ".join(f"V{n}" for n, c in enumerate(passport.columns, start=1) if c.variable.role == "weight")
    for number, column in enumerate(passport.columns, start=1):
        _variable(described, number, column, passport.records, {"files": files, "weight": weights})
    ET.indent(book)
    return bytes(ET.tostring(book, encoding="utf-8", xml_declaration=True)) + b"\n"


def _text(parent: ET.Element, tag: str, text: object, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = clean(str(text))


def _study(book: ET.Element, passport: Passport) -> None:
    study = ET.SubElement(book, "stdyDscr")
    citation = ET.SubElement(study, "citation")
    titles = ET.SubElement(citation, "titlStmt")
    _text(titles, "titl", passport.title)
    _text(titles, "IDNo", passport.id)
    distribution = ET.SubElement(citation, "distStmt")
    if passport.contact:
        _text(distribution, "contact", passport.contact)
    _text(distribution, "distDate", passport.created[:10], date=passport.created[:10])
    if passport.description:
        _text(ET.SubElement(study, "stdyInfo"), "abstract", passport.description)
    method = ET.SubElement(study, "method")
    _text(method, "notes", passport.disclosure_control, subject="disclosure control")
    if passport.licence:
        use = ET.SubElement(ET.SubElement(study, "dataAccs"), "useStmt")
        _text(use, "conditions", passport.licence)


def _file(book: ET.Element, passport: Passport, number: int, file: ReleasedFile) -> None:
    described = ET.SubElement(book, "fileDscr", {"ID": f"F{number}", "URI": file.name})
    texts = ET.SubElement(described, "fileTxt")
    _text(texts, "fileName", file.name)
    if part := passport.part(file):
        _text(texts, "fileCont", f"{part} of the records")
    size = ET.SubElement(texts, "dimensns")
    _text(size, "caseQnty", file.records)
    _text(size, "varQnty", len(passport.columns))
    _text(texts, "fileType", MEDIA_TYPES[PurePath(file.name).suffix])
    _text(described, "notes", f"SHA-256 {file.sha256}", subject="digest")


def _variable(parent: ET.Element, number: int, column: Column, records: int, references: dict[str, str]) -> None:
    variable = column.variable
    is_weight = variable.role == "weight"
    stated = {
        "ID": f"V{number}",
        "name": clean(variable.name),
        "wgt": "wgt" if is_weight else "not-wgt",
        "intrvl": "contin" if variable.kind == "continuous" else "discrete",
        "measUnit": clean(variable.measured_in),
        "nature": NATURE[variable.kind],
        "temporal": "Y" if variable.temporal else "N",
        "geog": "Y" if variable.role == "area" else "N",
    } | (references | {"weight": ""} if is_weight else references)
    element = ET.SubElement(parent, "var", {key: text for key, text in stated.items() if text})
    _text(element, "labl", column.description or variable.name)
    if variable.universe:
        _text(element, "universe", variable.universe)
    _text(element, "sumStat", records - column.missing, type="vald")
    _text(element, "sumStat", column.missing, type="invd")
    for level, label in column.levels:
        category = ET.SubElement(element, "catgry")
        _text(category, "catValu", level)
        if label:
            _text(category, "labl", label)
    what = {"date": "date", "time": "time", "datetime": "date"}.get(column.type, "other")
    kind = "character" if column.type == "string" else "numeric"
    ET.SubElement(element, "varFormat", {"type": kind, "schema": "ISO", "category": what})
