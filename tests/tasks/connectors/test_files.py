"""Files of statistical software and spreadsheets, packed text: what is written is read, what is malformed refused."""

from __future__ import annotations

import datetime as d
import gzip
import io
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyreadstat
import pytest

from anoncore.microdata import Variable
from flows.draft import draft_plan
from flows.draft.table import Table
from flows.plan.model import load_plan
from tasks.common.errors import Refused
from tasks.connectors import compressed, parsing
from tasks.connectors.copies import fetch
from tasks.connectors.formats import FORMATS, SUFFIXES
from tasks.connectors.limits import ZIP
from tasks.connectors.parsing import parse
from tasks.connectors.storage import local_location
from tasks.intake.columns import to_microdata
from tasks.intake.read import read_file
from tasks.intake.source import SourceSection
from tests.hostile import mutations

CANARY = "CANARY4711"
VARIABLES = (
    Variable(
        "sex", "binary", levels=(1, 2), missing=(-9,), labels=((1, "männlich"), (2, "weiblich")), description="Sex"
    ),
    Variable("income", "continuous", description="Income <b>net</b>"),
    Variable("region", "nominal"),
    Variable("born", "continuous", temporal="date"),
    Variable("seen", "continuous", temporal="datetime"),
    Variable("slept", "continuous", temporal="time"),
)
FRAME = pd.DataFrame(
    {
        "sex": pd.array([1, 2, -9, None], dtype="Int64"),
        "income": [1.5, np.nan, -3e9, 0.1],
        "region": pd.array(["ä", None, CANARY, "=1"], dtype="str"),
        "born": pd.Series([d.date(2020, 2, 29), None, d.date(1871, 3, 4), d.date(1970, 1, 1)], dtype=object),
        "seen": pd.to_datetime(["2020-01-01T03:04:05", None, "1999-12-31T23:59:59", "1970-01-01T00:00:00"]),
        "slept": pd.Series([d.time(3, 4, 5), None, d.time(23, 59, 59), d.time(0)], dtype=object),
    }
)


def table(path: Path, **source: str) -> pd.DataFrame:
    """Read a file as declared, and return what would be released of it."""
    section = SourceSection.model_validate({"path": path.name, **source})
    frame = read_file(path, section.kind(path), section, VARIABLES, shown=path.name)
    return to_microdata(frame, VARIABLES)[0].plain()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of each format that is written."""
    folder = tmp_path_factory.mktemp("files")
    for kind, name in (("spss", "a.sav"), ("stata", "a.dta"), ("sas-transport", "a.xpt")):
        write = FORMATS[kind].write
        assert write is not None
        write(folder / name, FRAME, VARIABLES)
    return folder


@pytest.mark.parametrize("name", ["a.sav", "a.dta", "a.xpt"])
def test_values_dates_and_labels_come_back(folder: Path, name: str) -> None:
    expected = to_microdata(FRAME, VARIABLES)[0].plain()
    notes, frame = parse(SUFFIXES[Path(name).suffix], folder / name, name)
    assert frame is not None
    pd.testing.assert_frame_equal(to_microdata(frame, VARIABLES)[0].plain(), expected)
    assert notes.labels == {"sex": "Sex", "income": "Income <b>net</b>"}
    # SAS keeps labels of values in another file.
    assert notes.values == ({} if name == "a.xpt" else {"sex": VARIABLES[0].labels})
    # A masked value that equals a code of the source is a value in every file.
    assert frame["sex"].isin([-9]).sum() == 1
    assert notes.missing == {}
    assert [type(frame[column][0]) for column in ("born", "seen", "slept")] == [pd.Timestamp, pd.Timestamp, d.time]


def test_the_same_table_is_the_same_file_whenever_it_is_written(folder: Path, tmp_path: Path) -> None:
    for name in ("a.sav", "a.dta", "a.xpt"):
        content = (folder / name).read_bytes()
        assert b"1970" in content or b"Jan 70" in content or b"JAN70" in content
        kind = SUFFIXES[Path(name).suffix]
        FORMATS[kind].write(tmp_path / name, FRAME, VARIABLES)  # type: ignore[misc]
        assert (tmp_path / name).read_bytes() == content


def test_values_that_a_file_declares_missing_are_read_as_missing(tmp_path: Path) -> None:
    frame = pd.DataFrame({"code": [1.0, -9.0, 90.0, 99.0, 2.5], "word": ["x", "NA", "y", "z", "NA"]})
    ranges = {"code": [-9, {"lo": 90, "hi": 99}], "word": ["NA"]}
    pyreadstat.write_sav(frame, tmp_path / "a.sav", missing_ranges=ranges)
    extended = frame.astype({"code": object}).replace({"code": {-9.0: "a", 90.0: "b", 99.0: "z"}})
    pyreadstat.write_dta(extended, tmp_path / "a.dta", missing_user_values={"code": ["a", "b", "z"]})
    stated = {"a.sav": {"code": ((90, 99), (-9, -9)), "word": (("NA", "NA"),)}, "a.dta": {}}
    for name, expected in stated.items():
        notes, read = parse(SUFFIXES[Path(name).suffix], tmp_path / name, name)
        assert read is not None
        np.testing.assert_array_equal(read["code"].to_numpy("float64"), [1, np.nan, np.nan, np.nan, 2.5])
        assert notes.missing == expected
        # Stata has no missing text.
        assert read["word"].isna().tolist() == [name == "a.sav" and word == "NA" for word in frame["word"]]


def test_names_that_a_format_cannot_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="stata files cannot hold columns called a b"):
        FORMATS["stata"].write(tmp_path / "b.dta", FRAME, [Variable("a b", "nominal")])  # type: ignore[misc]


def test_malformed_files_are_refused_also_where_the_parser_crashes(tmp_path: Path) -> None:
    crash = (Path(mutations.__file__).parent / "corpus" / "spss-crash").read_bytes()
    for name, bad in (("a.sav", crash), ("a.xlsx", b"PK\3\4" + crash)):
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(Refused, match=f"{name} is not a readable") as error:
            table(tmp_path / name)
        assert CANARY not in str(error.value)


def test_mutations_never_hang_the_parsers() -> None:
    run = [sys.executable, "-m", "tests.hostile.mutations", "--each", "15"]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def workbook(path: Path, sheets: dict[str, list[list[object]]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_spreadsheets_are_read_by_sheet(tmp_path: Path) -> None:
    # A spreadsheet's calendar begins in 1900.
    frame = FRAME.assign(born=FRAME["born"].replace(d.date(1871, 3, 4), d.date(1971, 3, 4)), region=list("abcd"))
    rows: list[list[object]] = [list(frame.columns)]
    rows += [[None if pd.isna(v) else v for v in row] for row in frame.astype(object).itertuples(index=False)]
    path = workbook(tmp_path / "a.xlsx", {"people": rows, "notes": [["x"], [1]]})
    pd.testing.assert_frame_equal(table(path, sheet="people"), to_microdata(frame, VARIABLES)[0].plain())
    with pytest.raises(Refused, match=r"several sheets; name one in source: sheet \(people, notes\)"):
        table(path)
    mixed = workbook(tmp_path / "c.xlsx", {"a": [["x"], ["a"], [1], [2.5], [d.date(2020, 1, 1)]]})
    frame = read_file(mixed, "excel", SourceSection(path="c.xlsx"), (), shown="c.xlsx")
    assert frame["x"].tolist() == ["a", "1", "2.5", "2020-01-01"]


def test_a_small_workbook_that_spans_every_cell_ends_its_parser_alone(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = "a", 1
    book.save(tmp_path / "wide.xlsx")
    with pytest.raises(Refused, match="takes too much memory or time"):
        parse("excel", tmp_path / "wide.xlsx", "wide.xlsx")


def test_a_parser_is_given_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").write_text(f"#!/bin/sh\nenv > {tmp_path}/environment\n")
    (tmp_path / "python").chmod(0o700)
    monkeypatch.setenv("ANONFLOW_SMTP_PASSWORD", CANARY)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(Refused):
        parse("spss", tmp_path / "a.sav", "a.sav")
    given = (tmp_path / "environment").read_text()
    assert "PATH=" in given
    assert CANARY not in given


def test_a_workbook_that_unpacks_beyond_measure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "MAX_TEXT", 4000)
    path = workbook(tmp_path / "a.xlsx", {"a": [["x"], [1]]})
    with pytest.raises(Refused, match="GB of text"):
        table(path)


TEXT = b"sex;income;region;born;seen;slept\n1;1,5;a;2020-02-29;;\n2;;b;;2020-01-01T03:04;03:04\n"


def packed(content: bytes, members: int = 1) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(members):
            file.writestr(f"../{number}.csv", content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", TEXT), ("a.csv.gz", gzip.compress(TEXT)), ("a.zip", packed(TEXT))],
    ids=["plain", "gzip", "zip"],
)
def test_packed_text_is_read_as_text_and_nothing_is_unpacked_on_disk(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    frame = table(tmp_path / name, delimiter=";", decimal=",")
    assert frame["income"].tolist()[0] == 1.5
    assert frame["born"].tolist()[0] == d.date(2020, 2, 29)
    assert frame["slept"].tolist()[1] == d.time(3, 4)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(TEXT)[:-20], "is not a readable gz or zip file"),
        (ZIP + TEXT, "is not a readable gz or zip file"),
        (packed(TEXT, members=2), "holds 2 files; a zip file must hold the table alone"),
        (gzip.compress(TEXT + b"\0"), "holds NUL bytes"),
        (gzip.compress(bytes(10_000)), "holds NUL bytes"),
    ],
    ids=["cut", "no zip", "two", "NUL", "zeros"],
)
def test_packed_text_that_is_damaged_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(Refused, match=message):
        table(tmp_path / "a.gz", delimiter=";", decimal=",")
    fetch(local_location(tmp_path / "a.gz"), tmp_path / "copy", text=True)


def test_packed_text_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MAX_TEXT", 1000)
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT * 100))
    with pytest.raises(Refused, match="when it is unpacked"):
        table(tmp_path / "a.gz", delimiter=";")


def test_a_draft_states_how_the_file_is_read_and_what_it_says(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = [f"{draw.choice('fm')};{draw.uniform(1, 9):.2f}".replace(".", ",") for _ in range(60)]
    days = [f"{d.date(2020, 1, 1) + d.timedelta(days=draw.randrange(600))}" for _ in rows]
    lines = ["sex;wage;day", *(f"{row};{day}" for row, day in zip(rows, days, strict=True))]
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    text = draft_plan(tmp_path / "a.csv.gz", tmp_path)
    assert '  decimal: ","  # confirm' in text or "  decimal: ','  # confirm" in text
    assert "{name: day, kind: continuous, role: excluded, temporal: date}" in text
    (tmp_path / "plan.yaml").write_text(text)
    assert load_plan(tmp_path / "plan.yaml").plan.source.decimal == ","
    codes = [*[1.0, 2.0] * 20, *[3.0] * 17, 4.0, 4.0, 5.0]
    sex = pd.DataFrame({"sex": [1.0, 2.0] * 30, "n": range(60), "relation": codes})
    relations = Variable("relation", "nominal", labels=tuple((code, f"is {code}") for code in range(1, 6)))
    variables = (VARIABLES[0], Variable("n", "continuous"), relations)
    FORMATS["spss"].write(tmp_path / "a.sav", sex, variables)  # type: ignore[misc]
    text = draft_plan(tmp_path / "a.sav", tmp_path)
    # Levels that few records hold are not named, and the others keep their labels.
    assert "labels: [[1, is 1], [2, is 2], [3, is 3]]}" in text
    assert "labels: [[1, männlich], [2, weiblich]], description: Sex}" in text


def test_a_draft_asks_for_the_sheet(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", {"one": [["x"], [1]], "two": [["y"]]})
    table = Table.open(path, tmp_path)
    assert (table.source.sheet, table.names) == ("one", ("x",))
    assert table.remarks["sheet"].startswith("confirm")
