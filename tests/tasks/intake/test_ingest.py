"""Reading the source: right values, or a refusal that shows none of them.

Every table here carries canaries, values that stand nowhere else; they are looked for in every message, in
what an error drags along, in logs and on the terminal, and in what is left in the workspace.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import logging
import os
import pickle
import re
import shutil
import sqlite3
import tempfile
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Variable
from tasks.common.digests import sha256_of
from tasks.common.errors import Refused, sanitise_errors
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.connectors import copies as module
from tasks.connectors.fingerprint import content_digest
from tasks.connectors.limits import UNSUPPORTED
from tasks.intake.columns import identities
from tasks.intake.ingest import Ingested, ingest
from tasks.intake.read import header_of
from tasks.intake.source import SourceSection

CANARY = "CANARY4711"
NUMBER = "98765.4321"
CANARIES = (CANARY, "98765", CANARY.encode("utf-16-le").decode("latin-1"))

VARIABLES = (
    Variable("id", "nominal", role="identifier"),
    Variable("age", "continuous"),
    Variable("land", "nominal"),
    Variable("sex", "binary", levels=(0, 1)),
)
HEADER = "id,age,land,sex\n"
GOOD = f"{CANARY}a,{NUMBER},{CANARY},0\n{CANARY}b,,NA,1\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.start(Home.locate(tmp_path / "home"), SeedSection())


@pytest.fixture(autouse=True)
def nothing_is_told(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No canary reaches the terminal, a log or a warning, whatever the test does."""
    logging.captureWarnings(True)
    caplog.set_level(logging.DEBUG)
    yield
    logging.captureWarnings(False)
    said = capfd.readouterr()
    assert not any(canary in text for canary in CANARIES for text in (said.out, said.err, caplog.text))


def place(folder: Path, content: str | bytes | pd.DataFrame | pa.Table, name: str = "people.csv") -> Path:
    path = folder / name
    if isinstance(content, pd.DataFrame):
        content = pa.Table.from_pandas(content)
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(
    run: Run,
    content: Any,
    variables: tuple[Variable, ...] = VARIABLES,
    name: str = "people.csv",
    **source: Any,
) -> Ingested:
    base = run.home.path.parent
    if content is not None:
        place(base, content, name)
    return ingest(Run.start(run.home, SeedSection()), SourceSection(path=name, **source), variables, base)


def values(ingested: Ingested) -> dict[str, list[Any]]:
    """Return the ingested columns as lists, None for missing."""
    frame = ingested.data.load().frame
    return {name: [None if pd.isna(v) else v for v in frame[name].tolist()] for name in frame}


def refused(run: Run, function: Any, *arguments: Any) -> str:
    """Return the message of a refusal, after seeing that nothing came out with it or was left behind."""
    with pytest.raises(Refused) as raised:
        sanitise_errors(function)(*arguments)
    error = raised.value
    assert error.__context__ is None
    assert error.__cause__ is None
    with pytest.raises((Refused, AnonymizationError)) as direct:
        function(*arguments)
    chain: BaseException | None = direct.value
    texts = [str(error), repr(error), repr(pickle.dumps(error))]
    while chain is not None:
        texts.append(repr(chain))
        chain = chain.__cause__ or chain.__context__
    assert not any(canary in text for canary in CANARIES for text in texts)
    assert {p.name for p in run.workspace.folder.iterdir()} <= {"owner", "entropy", "persistent-key"}
    return str(error)


def refusal(
    run: Run,
    content: Any,
    variables: tuple[Variable, ...] = VARIABLES,
    name: str = "people.csv",
    **source: Any,
) -> str:
    base = run.home.path.parent
    if content is not None:
        place(base, content, name)
    return refused(run, ingest, run, SourceSection(path=name, **source), variables, base)


# CSV: right values


def test_csv_gives_the_right_values_and_counts(run: Run) -> None:
    done = read(run, HEADER + GOOD)
    assert values(done) == {"age": [98765.4321, None], "land": [CANARY, "NA"], "sex": [0, 1]}
    assert (done.summary.records, done.summary.variables, done.summary.dropped) == (2, 3, ("id",))
    assert done.summary.notes == ("age holds one value only, which is released as it is",)


def test_na_is_missing_in_numbers_and_namibia_elsewhere(run: Run) -> None:
    gaps = ["", "NA", "N/A", "NaN", "nan", "NULL", "null", "."]
    content = "land,age,grade\n" + "".join(f"NA,{gap},{gap}\n" for gap in gaps) + "DE,1,low\n"
    variables = (
        Variable("land", "nominal"),
        Variable("age", "continuous"),
        Variable("grade", "ordinal", levels=(*gaps[1:], "low")),
    )
    done = read(run, content, variables)
    found = values(done)
    assert found["land"] == ["NA"] * 8 + ["DE"]
    assert found["age"] == [None] * 8 + [1.0]
    assert found["grade"] == [None, *gaps[1:], "low"]


def test_floats_are_read_exactly(run: Run) -> None:
    numbers = np.concatenate([np.random.default_rng(0).normal(0, 1e3, 500), [0.1, 5e-324, 1.7e99, 1 / 3]])
    done = read(run, "age\n" + "\n".join(map(repr, numbers.tolist())) + "\n", (Variable("age", "continuous"),))
    assert np.array_equal(done.data.load().frame["age"].to_numpy(), numbers)


@pytest.mark.parametrize(
    ("texts", "levels"),
    [
        (["01", "1", "001"], ("001", "01", "1")),
        (["3", "1", "10", ""], (1, 3, 10)),
        (["1.0", "2.0", ""], (1, 2)),
        (["-1", "0.5", "2"], (-1, 0.5, 2)),
        (["1e5", "100000", "7"], ("100000", "1e5", "7")),
        (["nan", "inf", "1"], ("1", "inf", "nan")),
        (["True", "False", ""], (0, 1)),
        (["12345678901234567", "1", ""], ("1", "12345678901234567")),
        (["x", "3", "None"], ("3", "None", "x")),
    ],
    ids=str,
)
def test_codes_become_numbers_only_where_nothing_is_lost(run: Run, texts: list[str], levels: tuple[Any, ...]) -> None:
    done = read(
        run,
        "code,x\n" + "".join(f"{t},1\n" for t in texts),
        (Variable("code", "nominal"), Variable("x", "continuous")),
    )
    assert done.data.load().schema["code"].levels == levels
    assert [v is None for v in values(done)["code"]] == [t == "" for t in texts]


def test_stated_levels_and_missing_codes_decide_how_codes_are_read(run: Run) -> None:
    variables = (
        Variable("a", "nominal", levels=("01", "02")),
        Variable("b", "ordinal", levels=(2, 1), missing=(9,)),
        Variable("c", "continuous", missing=(-1, "refused")),
        Variable("d", "nominal", missing=(9,)),
    )
    done = read(run, "a,b,c,d\n01,1,-1,9\n02,2,refused,1\n01,9,7,x\n", variables)
    assert values(done) == {
        "a": ["01", "02", "01"],
        "b": [1, 2, None],
        "c": [None, None, 7.0],
        "d": [None, "1", "x"],
    }
    assert done.data.load().schema["b"].levels == (2, 1)


@pytest.mark.parametrize(
    ("encoding", "bytes_"),
    [
        ("utf-8-sig", HEADER.encode() + GOOD.encode()),
        ("utf-8-sig", b"\xef\xbb\xbf" + (HEADER + GOOD).encode()),
        ("utf-8", b"\xef\xbb\xbf" + (HEADER + GOOD).encode()),
        ("utf-16", (HEADER + GOOD).encode("utf-16")),
        ("utf-32", (HEADER + GOOD).encode("utf-32")),
        ("latin-1", (HEADER + GOOD).encode("latin-1")),
        ("utf-8", (HEADER + GOOD).replace("\n", "\r\n").encode()),
        ("utf-8", (HEADER + GOOD).replace("\n", "\r").encode()),
        ("utf-8", (HEADER + GOOD).rstrip("\n").encode()),
        ("utf-8", (HEADER + "\n" + GOOD + "\n\n").encode()),
    ],
    ids=[
        "plain",
        "mark",
        "mark, plainly stated",
        "utf-16",
        "utf-32",
        "latin-1",
        "crlf",
        "cr",
        "no end",
        "blank lines",
    ],
)
def test_encodings_marks_and_line_ends(run: Run, encoding: str, bytes_: bytes) -> None:
    done = read(run, bytes_, encoding=encoding)
    assert values(done)["land"] == [CANARY, "NA"]
    assert done.summary.digest == hashlib.sha256(bytes_).hexdigest()


def test_other_delimiters_and_quoted_fields(run: Run) -> None:
    done = read(run, f'id;age;land;sex\na;1;"x;y""z";0\n"b\nsecond line";2;"{CANARY}; too";1\n', delimiter=";")
    assert values(done)["land"] == ['x;y"z', f"{CANARY}; too"]


def test_empty_and_constant_columns_are_noted_and_carried(run: Run) -> None:
    done = read(run, HEADER + "a,,,1\nb,,,1\n")
    assert done.summary.notes == (
        "age is missing in every record and is released so",
        "land is missing in every record and is released so",
        "sex holds one value only, which is released as it is",
    )
    assert values(done) == {"age": [None, None], "land": [None, None], "sex": [1, 1]}


def test_one_column_and_one_record(run: Run) -> None:
    assert read(run, "age\n3\n", (Variable("age", "continuous"),)).summary.records == 1


# CSV: refusals


BAD_CSV: dict[str, tuple[str | bytes, str]] = {
    "text in numbers": (f"{HEADER}a,{CANARY},DE,0\nb,2,DE,1\n", r"'age' is declared continuous but 1 rec"),
    "outside levels": (f"{HEADER}a,1,DE,{CANARY}\nb,2,DE,1\n", r"'sex': 1 record\(s\) hold a value that is"),
    "number outside": (f"{HEADER}a,1,DE,{NUMBER}\nb,2,DE,1\n", r"'sex': 1 record\(s\)"),
    "all at once": (f"{HEADER}a,{CANARY},DE,{CANARY}\n", r"(?s)'age'.*'sex'"),
    "missing column": (f"id,age,land\n{CANARY},1,{CANARY}\n", "declared variables are not in the data: sex$"),
    "surplus column": (f"id,age,land,sex,more\na,1,{CANARY},0,{CANARY}\n", "without a declaration: more;"),
    "both": (f"id,age,land,more\na,1,{CANARY},{CANARY}\n", r"(?s)not in the data: sex\n.*declaration: more;"),
    "double column": (f"id,age,land,sex,sex\na,1,{CANARY},0,1\n", r"holds columns twice: sex \(4 and 5\);"),
    "double unknown": (f"{CANARY},age,land,sex,{CANARY}\na,1,x,0,1\n", r"holds columns twice: \(1 and 5\)"),
    "blank name": (f"id,age,,sex\na,1,{CANARY},0\n", "has a column without a name"),
    "spaces as name": (f"id,age,  ,sex\na,1,{CANARY},0\n", "has a column without a name"),
    "empty": ("", "people.csv is empty"),
    "mark alone": (b"\xef\xbb\xbf", "holds no columns|none of the 4|without a name"),
    "line ends alone": ("\n\n\n", "holds no columns|none of the 4"),
    "header only": (HEADER, "people.csv holds no records"),
    "header without end": (HEADER.strip(), "people.csv holds no records"),
    "bytes": (HEADER.encode() + f"a,1,{CANARY}".encode() + b"\xff\xfe,0\n", "holds bytes that are not utf-8"),
    "bytes in header": (b"id,\xff\n" + CANARY.encode(), "holds bytes that are not utf-8"),
    "late bytes": (HEADER.encode() + b"a,1,DE,0\n" * 99_999 + CANARY.encode() + b"\xff,1,,0\n", "not utf"),
    "utf-16": ((HEADER + GOOD).encode("utf-16"), "holds NUL bytes; state its encoding"),
    "nul": (f"{HEADER}a,1,{CANARY}\0,0\n", "holds NUL bytes"),
    "more fields first": (f"{HEADER}a,1,DE,0,{CANARY}\nb,2,DE,1\n", "more fields than its header"),
    "more fields later": (f"{HEADER}a,1,DE,0\nb,2,DE,1,{CANARY}\n", "line 3 has 5 fields, the header 4"),
    "more fields always": (f"{HEADER}a,1,DE,0,{CANARY}\nb,2,DE,1,{CANARY}\n", "more fields than its header"),
    "fewer fields": (f"{HEADER}a,1,DE,0\nb,2,{CANARY}\nc,1,DE,1\n", "line 3 has 3 fields, the header 4"),
    "cut at the end": (f"{HEADER}a,1,DE,0\nb,2,{CANARY}", "line 3 has 3 fields, the header 4"),
    "open quote": (f'{HEADER}a,1,"{CANARY},0\nb,2,DE,1\n', "is not regular; check its quotes"),
    "open quote in header": (f'id,"age,land,sex\na,1,{CANARY},0\n', "none of the 4|check its quotes"),
    "endless header": ("x" * 200_000 + f",{CANARY}\n1,2\n", "holds a field of more than 131072 characters"),
    "1e400": (f"{HEADER}{CANARY},1e400,DE,0\n", r"'age': 1 record\(s\) hold an infinite value"),
    "400 digits": (f"{HEADER}a,{'98765' * 80},DE,0\n", "whole numbers that are too large: age;"),
    "5000 digits": (f"{HEADER}a,{'98765' * 1000},DE,0\n", "'age'"),
    "400 digits in a code": (f"{HEADER}a,1,DE,{'98765' * 80}\n", "'sex'"),
    "infinite": (f"{HEADER}{CANARY},-inf,DE,0\n", r"'age': 1 record\(s\) hold an infinite value"),
    "another delimiter": (f"id;age;land;sex\n{CANARY};1;{CANARY};0\n", "none of the 4 .* delimiter"),
    "no header": (f"{CANARY},{NUMBER},DE,0\nb,2,DE,1\n", "none of the 4 .* first line"),
    "no header, twice": (f"{CANARY},98765,{CANARY},98765\nb,2,DE,1\n", r"twice: \(1 and 3\), \(2 and 4\);"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CSV)
def test_a_bad_csv_is_refused_without_a_value(run: Run, name: str) -> None:
    content, message = BAD_CSV[name]
    # Packages that read CSV, too, raise the limit of the whole process.
    csv.field_size_limit(10**9)
    assert pd.Series([refusal(run, content)]).str.contains(message).all()


def test_a_binary_variable_of_more_values_and_a_mixed_column_are_refused(run: Run) -> None:
    variables = (Variable("a", "binary"), Variable("b", "continuous"))
    assert "3 different values" in refusal(run, f"a,b\n{CANARY},1\nx,2\ny,3\n", variables)


@pytest.mark.parametrize("encoding", ["nope", "base64", "undefined", "utf\0", f"{'x' * 300}"])
def test_an_encoding_that_does_not_exist_is_refused(run: Run, encoding: str) -> None:
    assert "encoding" in refusal(run, HEADER + GOOD, encoding=encoding)


@pytest.mark.parametrize("delimiter", ['"', "\n", "\r", "\0", "", ";;"])
def test_an_impossible_delimiter_is_refused_with_the_plan(delimiter: str) -> None:
    with pytest.raises(ValidationError, match=r"delimiter|character"):
        SourceSection(path="x.csv", delimiter=delimiter)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ('"re\nd"', r"re\nd"),
        ("\u202edlrow", r"\u202edlrow"),
        ("\u200b", r"\u200b"),
    ],
)
def test_control_characters_of_a_column_name_are_written_out(run: Run, name: str, shown: str) -> None:
    message = refusal(run, f"id,age,land,sex,{name}\na,1,{CANARY},0,1\n")
    assert f"without a declaration: {shown};" in message
    assert all(c.isprintable() for c in message)
    own = (*VARIABLES, Variable(name.strip('"'), "continuous"))
    notes = read(run, f"id,age,land,sex,{name}\na,1,x,0,1\nb,2,y,1,1\n", own).summary.notes
    assert notes == (f"{shown} holds one value only, which is released as it is",)


def test_a_plan_of_identifiers_alone_is_refused(run: Run) -> None:
    message = refusal(run, f"id\n{CANARY}\n", (Variable("id", "nominal", role="identifier"),))
    assert message == "every variable is dropped (identifier or excluded); nothing would be released"


# What stands at the path


def test_what_is_no_file_is_refused(run: Run) -> None:
    base = run.home.path.parent
    (base / "folder.csv").mkdir()
    os.mkfifo(base / "pipe.csv")
    (base / "dangling.csv").symlink_to(base / "nowhere")
    (base / "loop.csv").symlink_to(base / "loop.csv")
    place(base, "x")
    assert refusal(run, None, name="gone.csv") == "source: there is no file gone.csv"
    assert refusal(run, None, name="folder.csv") == "source: folder.csv is a folder, not a file"
    assert refusal(run, None, name="pipe.csv") == "source: pipe.csv is not an ordinary file"
    assert refusal(run, None, name="dangling.csv") == "source: there is no file dangling.csv"
    assert refusal(run, None, name="loop.csv") == "source: there is no file loop.csv"
    assert refusal(run, None, name="people.csv/x.csv") == "source: there is no file x.csv"
    assert "there is no file" in refusal(run, None, name="x" * 300 + ".csv")
    assert refusal(run, None, name="x\0.csv") == r"source: there is no file x\x00.csv"
    assert "has no suffix that determines its format" in refusal(run, None, name="people")


def test_a_link_to_a_file_is_followed(run: Run) -> None:
    base = run.home.path.parent
    real = place(base, HEADER + GOOD, "of-2024.data")
    (base / "latest.csv").symlink_to(real)
    assert read(run, None, name="latest.csv").summary.digest == sha256_of(real)


def test_a_file_that_may_not_be_read_is_refused() -> None:
    """As somebody else where the tests run as root, whom no permission stops."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    base = folder / "x"
    root = os.geteuid() == 0
    try:
        base.mkdir()
        place(base, HEADER + GOOD).chmod(0)
        place(base, HEADER + GOOD, "inside.csv")
        (base / "closed").mkdir()
        shutil.copy(base / "inside.csv", base / "closed")
        (base / "closed").chmod(0)
        if root:
            os.chown(base, 65534, 65534)
            folder.chmod(0o711)
            os.seteuid(65534)
        run = Run.start(Home.locate(base / "home"), SeedSection())
        assert refusal(run, None) == "source: people.csv may not be read by this user"
        assert "inside.csv may not be read" in refusal(run, None, name="closed/inside.csv")
        with pytest.raises(Refused, match="may not be read"):
            header_of(SourceSection(path="people.csv"), base)
    finally:
        if root:
            os.seteuid(0)
        (base / "closed").chmod(0o700)
        shutil.rmtree(folder)


CHANGES = {
    "grows": lambda path: path.open("a").write("c,3,DE,0\n"),
    "shrinks": lambda path: os.truncate(path, 100_000),
    "is overwritten": lambda path: path.write_bytes(path.read_bytes().replace(b"DE", b"FR")),
    "is overwritten and dated back": lambda path: dated_back(path),
    "is replaced": lambda path: os.replace(shutil.copy2(path, path.with_suffix(".new")), path),
}


def dated_back(path: Path) -> None:
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"DE", b"FR"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class Meddling:
    """A digest that, after a few blocks, has another thread change the file which is being copied."""

    def __init__(self, change: Any, path: Path) -> None:
        self.inner, self.blocks, self.change, self.path = hashlib.new("sha256"), 0, change, path

    def update(self, block: bytes) -> None:
        self.inner.update(block)
        self.blocks += 1
        if self.blocks == 3:
            other = threading.Thread(target=self.change, args=(self.path,))
            other.start()
            other.join()

    def hexdigest(self) -> str:
        return self.inner.hexdigest()


@pytest.mark.parametrize("how", CHANGES)
def test_a_file_that_changes_while_it_is_read_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    path = place(run.home.path.parent, HEADER + f"{CANARY},1,DE,0\n" * 60_000)
    os.utime(path, (1, 1))
    monkeypatch.setattr(module, "BLOCK", 1 << 16)
    monkeypatch.setattr(module.hashlib, "sha256", lambda: Meddling(CHANGES[how], path))
    message = refused_once(run, path)
    assert message == "source: people.csv changed while it was read; run again when it is complete"


def test_a_file_that_vanishes_while_it_is_read_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place(run.home.path.parent, HEADER + f"{CANARY},1,DE,0\n" * 60_000)
    monkeypatch.setattr(module, "BLOCK", 1 << 16)
    monkeypatch.setattr(module.hashlib, "sha256", lambda: Meddling(Path.unlink, path))
    assert refused_once(run, path) == "source: people.csv vanished while it was read"


def refused_once(run: Run, path: Path) -> str:
    with pytest.raises(Refused) as raised:
        sanitise_errors(ingest)(run, SourceSection(path=path.name), VARIABLES, path.parent)
    assert {p.name for p in run.workspace.folder.iterdir()} <= {"owner", "entropy", "persistent-key"}
    return str(raised.value)


def test_a_file_inside_a_package_is_found_and_a_missing_package_refused(run: Run) -> None:
    source = SourceSection(package="causaldata", path="nhefs/nhefs.dta", values="labels")
    assert source.file(Path("/")).is_file()
    for package in ("no_such_package", "", ".x", "a.b", "os"):
        message = refusal(run, None, name="x.csv", package=package)
        assert "is not installed, or carries no files" in message


# Parquet and Stata


COLUMNS: dict[str, Any] = {
    "id": [CANARY, "b"],
    "age": [98765.4321, None],
    "land": ["NA", CANARY],
    "sex": [0, 1],
}


def parquet(run: Run, variables: tuple[Variable, ...] = VARIABLES, **columns: Any) -> Ingested:
    return read(run, pa.table(COLUMNS | columns), variables, "people.parquet")


def test_parquet_gives_the_right_values(run: Run) -> None:
    done = parquet(run)
    assert values(done) == {"age": [98765.4321, None], "land": ["NA", CANARY], "sex": [0, 1]}
    assert done.summary.digest == sha256_of(run.home.path.parent / "people.parquet")


@pytest.mark.parametrize(
    ("column", "given", "found"),
    [
        ("age", pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)), [1.5, None]),
        ("land", pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)), [1.5, None]),
        ("age", pa.array([True, None]), [1.0, None]),
        ("sex", pa.array([True, None]), [1, None]),
        ("land", pa.array(["x", None]).dictionary_encode(), ["x", None]),
        ("age", pa.nulls(2), [None, None]),
        ("land", pa.nulls(2), [None, None]),
        ("land", ["", "x"], ["", "x"]),
        ("land", pa.array([2**40 + 1, None]), [2**40 + 1, None]),
        ("age", pa.array(np.array([1, 2], dtype=np.float16)), [1.0, 2.0]),
        ("age", pa.array(["1.5", None]), [1.5, None]),
        ("age", pa.array([7, None], pa.uint64()), [7.0, None]),
        ("id", pa.array([datetime.date(2020, 1, day) for day in (1, 2)]), None),
        ("id", pa.array([CANARY.encode(), None]), None),
    ],
    ids=str,
)
def test_parquet_types_that_are_numbers_or_text(run: Run, column: str, given: Any, found: list[Any] | None) -> None:
    done = parquet(run, **{column: given})
    if found is not None:
        assert values(done)[column] == found


def test_long_codes_with_gaps_keep_their_last_digits(run: Run) -> None:
    done = parquet(run, land=pa.array([2**60 + 1, None]))
    assert done.data.load().schema["land"].levels == (2**60 + 1,)


DAY = datetime.datetime(1987, 6, 5)
ODD = {
    "list": [[98765.4321], [1.0]],
    "struct": [{"a": CANARY}, {"a": "x"}],
    "map": pa.array([[(CANARY, 1)], []], pa.map_(pa.string(), pa.int64())),
    "bytes": [CANARY.encode(), b"x"],
    "date": [DAY.date(), DAY.date()],
    "datetime": [DAY, None],
    "zoned": pa.array([DAY, None], pa.timestamp("us", "UTC")),
    "time": [DAY.time(), None],
    "duration": [datetime.timedelta(5), None],
    "dates as levels": pa.array([DAY.date(), DAY.date()]).dictionary_encode(),
}


@pytest.mark.parametrize("column", ["age", "land"])
@pytest.mark.parametrize("kind", ODD)
def test_parquet_types_that_are_neither_are_refused(run: Run, column: str, kind: str) -> None:
    message = refusal(run, pa.table(COLUMNS | {column: ODD[kind]}), name="people.parquet")
    assert message == (f"source: {UNSUPPORTED.format('people.parquet', column)}")


def bad_parquet() -> dict[str, tuple[Any, str]]:
    whole = io.BytesIO()
    pq.write_table(pa.table(COLUMNS), whole)
    names = ["id", "age", "age", "sex"]
    return {
        "garbage": (CANARY.encode() * 9, "is not a readable parquet file"),
        "cut": (whole.getvalue()[:-30], "is not a readable parquet file"),
        "broken inside": (
            whole.getvalue()[:40] + b"\0" * 60 + whole.getvalue()[100:],
            "parquet|'|declar|none",
        ),
        "empty file": (b"", "is empty"),
        "no records": (pa.table(COLUMNS).slice(0, 0), "holds no records"),
        "no columns": (pa.table({}), "holds no records|none of the 4"),
        "double": (pa.table([pa.array([CANARY])] * 4, names=names), r"holds columns twice: age \(2 and 3\)"),
        "blank": (
            pa.table([pa.array([CANARY])] * 4, names=["id", "age", "", "sex"]),
            r"declaration: \(no name\)",
        ),
        "escape": (pa.table(COLUMNS | {"a\x1b\nb": [1, 2]}), r"declaration: a\\x1b\\nb;"),
        "nested id": (pa.table(COLUMNS | {"id": [[CANARY], []]}), "neither numbers nor text, .*: id;"),
        "infinite": (pa.table(COLUMNS | {"age": [np.inf, 98765.4321]}), "1 record.* infinite"),
        "text": (pa.table(COLUMNS | {"age": [CANARY, "1"]}), "1 record.* not a number"),
        "other names": (pd.DataFrame({("a", "b"): [98765], ("c", "d"): [2]}), "none of the 4"),
    }


@pytest.mark.parametrize("name", bad_parquet())
def test_a_bad_parquet_file_is_refused_without_a_value(run: Run, name: str) -> None:
    content, message = bad_parquet()[name]
    assert pd.Series([refusal(run, content, name="people.parquet")]).str.contains(message).all()


def test_what_pandas_keeps_as_an_index_is_a_column(run: Run) -> None:
    done = read(run, pd.DataFrame(COLUMNS).set_index("land"), name="people.parquet")
    assert values(done)["land"] == ["NA", CANARY]
    source = SourceSection(path="people.parquet")
    assert set(header_of(source, run.home.path.parent) or ()) == set(COLUMNS)


def test_stata_gives_the_right_values_and_a_broken_file_is_refused(run: Run) -> None:
    base = run.home.path.parent
    frame = pd.DataFrame(COLUMNS | {"sex": pd.Categorical([CANARY, "f"])})
    frame.to_stata(base / "people.dta", write_index=False)
    variables = (*VARIABLES[:3], Variable("sex", "binary"))
    done = read(run, None, variables, name="people.dta", values="labels")
    assert values(done) == {"age": [98765.4321, None], "land": ["NA", CANARY], "sex": [CANARY, "f"]}
    whole = (base / "people.dta").read_bytes()
    other = Run.start(run.home, SeedSection())
    for content in (whole[: len(whole) // 2],):
        assert "is not a readable stata file" in refusal(other, content, variables, "people.dta")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(0, index=[0], columns=[f"v{i}" for i in range(5001)], dtype="int8"), "has 5001 columns; a table"),
        (pd.DataFrame({"id": ["x" * 131_073], "age": [1.0]}), "holds a field of more than 131072 characters, in id;"),
    ],
    ids=["columns", "field"],
)
def test_a_format_that_checks_nothing_itself_is_held_to_the_limits(run: Run, frame: pd.DataFrame, message: str) -> None:
    out = io.BytesIO()
    frame.to_stata(out, write_index=False, version=118, convert_strl=["id"] if "id" in frame else None)
    assert message in refusal(run, out.getvalue(), name="people.dta")


def test_nhefs_is_read_whole(run: Run, nhefs_plan: dict, nhefs: Microdata) -> None:
    variables = tuple(
        Variable(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
        for given in nhefs_plan["variables"]
    )
    done = ingest(run, SourceSection(**nhefs_plan["source"]), variables, Path("/"))
    assert (done.summary.records, done.summary.dropped) == (1629, ("seqn", "id"))
    again = done.data.load()
    assert again.schema == nhefs.schema
    assert again.frame.equals(nhefs.frame)


# SQL


@pytest.fixture
def database(run: Run) -> Path:
    path = run.home.path.parent / "people.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (id, age, land, sex, at)")
        rows = [
            (CANARY, 98765.4321, "NA", 0, "12:30"),
            (7, None, CANARY, 1, "x%"),
            ("c:d", 3, "x", None, "y"),
        ]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    return path


SELECT = "SELECT id, age, land, sex FROM people"


def query(run: Run, sql: str, address: str, variables: tuple[Variable, ...] = VARIABLES) -> Ingested:
    fresh = Run.start(run.home, SeedSection())
    return ingest(fresh, SourceSection(sql=sql, url=address), variables, run.home.path.parent)


def query_refused(run: Run, sql: str, address: str) -> str:
    return refused(run, query, run, sql, address)


def test_a_query_gives_the_right_values(run: Run, database: Path) -> None:
    done = query(run, SELECT, f"sqlite:///{database}")
    assert values(done) == {"age": [98765.4321, None, 3.0], "land": ["NA", CANARY, "x"], "sex": [0, 1, None]}
    assert (done.summary.records, done.summary.dropped) == (3, ("id",))
    again = Run.start(run.home, SeedSection())
    assert query(again, f"{SELECT} ORDER BY land DESC", "sqlite:///people.db").summary.digest == done.summary.digest


def test_colons_and_percent_signs_in_a_query_mean_themselves(run: Run, database: Path) -> None:
    address = f"sqlite:///{database}"
    assert query(run, f"{SELECT} WHERE at = '12:30'", address).summary.records == 1
    assert query(run, f"{SELECT} WHERE at LIKE '%2:3%' OR at LIKE 'x%'", address).summary.records == 2


def test_a_database_path_of_odd_characters_is_found(run: Run, database: Path) -> None:
    odd = database.rename(database.with_name("pe ple#é.db"))
    assert query(run, SELECT, f"sqlite:///{odd}").summary.records == 3


def test_the_address_may_come_from_the_environment(run: Run, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SourceSection(sql=SELECT, url_from="ANONFLOW_TEST_DB")
    monkeypatch.delenv("ANONFLOW_TEST_DB", raising=False)
    for value in (None, ""):
        if value is not None:
            monkeypatch.setenv("ANONFLOW_TEST_DB", value)
        message = refused(run, ingest, run, source, VARIABLES, Path("/"))
        assert message == "source: the environment variable ANONFLOW_TEST_DB holds no database address"
    monkeypatch.setenv("ANONFLOW_TEST_DB", f"sqlite:///{database}")
    assert ingest(run, source, VARIABLES, Path("/")).summary.records == 3


BAD_QUERIES = {
    "no table": ("SELECT * FROM nobody", r"the query failed in the database \(OperationalError\)"),
    "no column": (f"SELECT id, '{CANARY}' || nothing FROM people", r"failed .*\(OperationalError\)"),
    "syntax": (f"SELEC '{CANARY}'", r"failed .*\(OperationalError\)"),
    "at run time": (f"SELECT abs(json('{CANARY}')) AS age FROM people", r"failed .*\(OperationalError\)"),
    "double": (
        f"{SELECT.replace('FROM', ', age FROM')}",
        r"query's result holds columns twice: age \(2 and 5\)",
    ),
    "no records": (f"{SELECT} WHERE 0", "the query returns no records"),
    "bytes": (
        "SELECT id, age, CAST(land AS BLOB) land, sex FROM people",
        "neither numbers nor text, .*: land;",
    ),
    "text": (
        f"SELECT id, '{CANARY}' age, land, sex FROM people",
        r"3 record\(s\) hold something that is not",
    ),
    "infinite": ("SELECT id, 9e999 age, land, sex FROM people", r"3 record\(s\) hold an infinite value"),
    "surplus": ("SELECT *, 1 AS more FROM people", "without a declaration: at, more;"),
    "insert": (
        f"INSERT INTO people VALUES ('{CANARY}', 1, 'x', 1, '')",
        "failed .*Operational|returns no table",
    ),
    "delete": ("DELETE FROM people", "failed .*Operational|returns no table"),
    "drop": ("DROP TABLE people", "failed .*Operational|returns no table"),
    "two": (f"{SELECT}; DROP TABLE people", "the query failed in the database"),
    "pragma": ("PRAGMA user_version = 5", "failed .*Operational|returns no table"),
    "empty": ("", "failed|returns no table"),
}


@pytest.mark.parametrize("name", BAD_QUERIES)
def test_a_bad_query_is_refused_without_a_value_and_changes_nothing(run: Run, database: Path, name: str) -> None:
    sql, message = BAD_QUERIES[name]
    before = sha256_of(database)
    assert pd.Series([query_refused(run, sql, f"sqlite:///{database}")]).str.contains(message).all()
    assert sha256_of(database) == before


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sqlite:///gone.db", "there is no database file gone.db"),
        ("sqlite:///", "the query failed in the database"),
        ("sqlite://", "the query failed in the database"),
        ("nope://host/db", "no driver is installed"),
        ("postgresql+nope://host/db", "no driver is installed"),
        ("mssql+pymssql://host/db", "the database driver pymssql is not installed"),
        ("mysql+pymysql://127.0.0.1:1/db", "the query failed in the database (OperationalError)"),
        ("duckdb:///gone.duckdb", "there is no database file gone.duckdb"),
        ("postgresql://host:port/db", "the database address cannot be read"),
        ("just text", "the database address cannot be read"),
        ("sqlite+aiosqlite:///people.db", "the query failed in the database"),
    ],
)
def test_a_bad_database_address_is_refused(run: Run, address: str, message: str) -> None:
    place(run.home.path.parent, b"", "people.db")
    assert message in query_refused(run, SELECT, address)
    assert not (run.home.path.parent / "gone.db").exists()


def test_a_file_that_is_no_database_is_refused(run: Run) -> None:
    place(run.home.path.parent, CANARY * 500, "people.db")
    assert "failed in the database (DatabaseError)" in query_refused(run, SELECT, "sqlite:///people.db")


@pytest.fixture
def duck(run: Run) -> Path:
    """The same people in a DuckDB database, with dates."""
    path = run.home.path.parent / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE people (id TEXT, age DOUBLE, land TEXT, sex TINYINT, born DATE, seen TIMESTAMP)"
        )
        rows = [
            (CANARY, 98765.4321, "NA", 0, "1990-02-28", "2020-01-01 12:30:00"),
            ("7", None, CANARY, 1, None, None),
            ("c:d", 3, "x", None, "1871-03-04", "1970-01-01 00:00:00"),
        ]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
    return path


def test_duckdb_gives_the_right_values_also_dates(run: Run, duck: Path) -> None:
    dated = (Variable("born", "continuous", temporal="date"), Variable("seen", "continuous", temporal="datetime"))
    sql = "SELECT * FROM people WHERE land LIKE '%' AND id <> ':x'"
    done = query(run, sql, "duckdb:///people.duckdb", (*VARIABLES, *dated))
    assert values(done)["age"] == [98765.4321, None, 3.0]
    assert values(done)["sex"] == [0, 1, None]
    assert done.data.load().plain()["born"].tolist() == [datetime.date(1990, 2, 28), None, datetime.date(1871, 3, 4)]
    assert values(done)["seen"][2] == 0
    assert "neither numbers nor text" in query_refused(
        run, sql.replace("*", "id, seen AS age, land, sex"), f"duckdb:///{duck}"
    )


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE people",
        f"{SELECT}; DROP TABLE people",
        "COPY people TO 'out.csv'",
        "SELECT id, age, land, sex FROM read_csv('people.csv')",
        "ATTACH 'other.duckdb'",
        "SET enable_external_access = true",
        f"SELECT '{CANARY}'::INTEGER AS age",
    ],
)
def test_a_duckdb_statement_reads_its_database_and_nothing_else(run: Run, duck: Path, sql: str) -> None:
    base = run.home.path.parent
    place(base, HEADER + GOOD)
    before = sha256_of(duck)
    for address in (f"duckdb:///{duck}", "duckdb:///:memory:?enable_external_access=true&lock_configuration=false"):
        assert re.search("failed in|returns no table", query_refused(run, sql, address))
    assert sha256_of(duck) == before
    assert not {"out.csv", "other.duckdb"} & {p.name for p in (*base.iterdir(), *Path.cwd().iterdir())}


PASSWORD = "hunter2-CANARY4711"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://me:{PASSWORD}@host/db",
        f"postgresql://me:{PASSWORD}/x@host/db",
        f"postgresql+psycopg://:{PASSWORD}@host",
        f"postgresql://host/db?user=me&password={PASSWORD}",
        f"mysql://host/db?PASSWD={PASSWORD}",
        f"mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BPWD%3D{PASSWORD}",
    ],
)
def test_a_password_in_the_plan_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(ValidationError) as raised:
        SourceSection(sql="SELECT 1", url=address)
    (error,) = raised.value.errors(include_input=False, include_url=False)
    assert "url holds a password" in error["msg"]
    assert "url_from" in error["msg"]
    assert PASSWORD not in str(error)


def test_a_password_in_the_environment_is_never_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (
        f"nope://me:{PASSWORD}@h/d",
        f"mysql+pymysql://me:{PASSWORD}@h/d",
        f"{PASSWORD}",
        f"x://h:{PASSWORD}/",
    ):
        monkeypatch.setenv("ANONFLOW_TEST_DB", address)
        source = SourceSection(sql=SELECT, url_from="ANONFLOW_TEST_DB")
        assert PASSWORD not in refused(run, ingest, run, source, VARIABLES, Path("/"))


@pytest.mark.parametrize(
    "address",
    ["sqlite:///people.db", "sqlite:////srv/people.db", "postgresql://me@host:5432/db", "duckdb:///a:b.db"],
)
def test_addresses_without_a_password_are_accepted(address: str) -> None:
    assert SourceSection(sql="SELECT 1", url=address).url == address


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"sql": "x"},
        {"sql": "x", "url": "sqlite://", "url_from": "X"},
        {"sql": "x", "url": "sqlite://", "path": "x.csv"},
        {"path": "x.csv", "url": "sqlite://"},
        {"path": "x.csv", "surplus": 1},
        {"path": "x.csv", "format": "word"},
    ],
    ids=str,
)
def test_a_source_is_one_source(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SourceSection(**given)


# Identifiers


def test_identifiers_are_not_in_what_is_worked_on(run: Run) -> None:
    done = read(run, HEADER + f"{CANARY}a,1,x,0\n{CANARY}b,2,y,1\n")
    for file in done.data.path.parent.iterdir():
        assert (CANARY.encode() in file.read_bytes()) == (file.name == "identifiers.parquet")
    assert "id" not in done.data.load().schema


def test_records_with_one_identifier_are_one_unit(run: Run) -> None:
    content = HEADER + "".join(f"{i},{n},x,{n % 2}\n" for n, i in enumerate([CANARY, CANARY, "b", CANARY, "b", "", ""]))
    done = read(run, content)
    assert (done.summary.records, done.summary.units, done.summary.unit) == (7, 4, ("id",))
    units = done.data.load().units
    assert units is not None
    assert units.tolist() == [0, 0, 1, 0, 1, 2, 3]
    assert CANARY not in str(done)


def test_without_identifiers_each_record_is_a_unit_of_its_own(run: Run) -> None:
    done = read(run, "age,land,sex\n1,x,0\n1,x,0\n2,y,1\n", VARIABLES[1:])
    assert done.data.load().units is done.keys is None
    assert (done.summary.units, done.summary.unit) == (3, ())


@pytest.mark.parametrize(
    "column",
    [
        [7, 8, None],
        [7.0, 8.0, None],
        ["7", "8", None],
        ["007", " 8 ", ""],
        pd.array([7, 8, None], dtype="Int64"),
        pd.Categorical([7, 8, None]),
        [Decimal("7"), "8.0", None],
    ],
    ids=str,
)
def test_an_identifier_is_the_same_however_it_is_written(column: Any) -> None:
    (found,) = identities(pd.DataFrame({"id": column}), ["id"]).fillna("missing").to_numpy().T.tolist()
    assert found == ["7", "8", "missing"]


def test_other_identifiers_stay_apart() -> None:
    given = ["a7", "A7", "7.5", "1e5", "-7", "0", "00", 2.0**60, uuid.UUID(int=5), datetime.date(2020, 1, 1)]
    found = identities(pd.DataFrame({"id": pd.Series(given, dtype=object)}), ["id"])["id"]
    assert found.nunique() == len(given) - 1
    assert found[5] == found[6] == "0"


# Digests


def test_the_content_digest_knows_every_cell_and_no_order() -> None:
    frame = pd.DataFrame(
        {
            "a": [1.5, 2.5, None, 2.5],
            "b": ["x", "y", None, "<NA>"],
            "c": [1, 2, 3, 4],
            "d": [True, False, True, True],
        }
    )
    digest = content_digest(frame)
    for seed in range(3):
        assert content_digest(frame.sample(frac=1, random_state=seed)) == digest
    seen = {digest}
    for row in range(4):
        for column, other in {"a": 9.5, "b": "z", "c": 99, "d": bool(row % 2)}.items():
            changed = frame.astype(object)
            changed.loc[row, column] = other if changed.loc[row, column] != other else None
            seen.add(content_digest(changed))
    assert len(seen) == 17
    seen |= {
        content_digest(frame.rename(columns={"a": "z"})),
        content_digest(frame[["b", "a", "c", "d"]]),
        content_digest(frame.iloc[:3]),
        content_digest(pd.concat([frame, frame.iloc[:1]])),
        content_digest(frame.assign(b=["x", "y", "", "<NA>"])),
    }
    assert len(seen) == 22


def test_the_seed_is_bound_to_the_data(run: Run) -> None:
    seeded = Run.start(run.home, SeedSection(public=1, data_are_public=True))
    digests = [read(run, HEADER + f"a,{age},x,0\n").summary.digest for age in (1, 1, 2)]
    drawn = [seeded.bound_to(digest).rng("x").random() for digest in digests]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_header_is_had_without_reading_the_data(run: Run) -> None:
    base = run.home.path.parent
    place(base, b"\xef\xbb\xbf" + (HEADER + GOOD).encode())
    place(base, pa.table(COLUMNS), "people.parquet")
    assert header_of(SourceSection(path="people.csv"), base) == ["id", "age", "land", "sex"]
    assert header_of(SourceSection(path="people.parquet"), base) == ["id", "age", "land", "sex"]
    assert header_of(SourceSection(sql="SELECT 1", url="sqlite://"), base) is None
    place(base, CANARY, "people.parquet")
    place(base, f"{CANARY},{CANARY}\n")
    for name in ("people.csv", "people.parquet", "gone.csv"):
        with pytest.raises(Refused) as raised:
            sanitise_errors(header_of)(SourceSection(path=name), base)
        assert CANARY not in str(raised.value)


@pytest.mark.parametrize("number", ["1e308", "-1.7e308", "1.01e100"])
def test_numbers_with_which_nothing_can_be_computed_are_refused(run: Run, number: str) -> None:
    said = refusal(run, f"{HEADER}a,{number},x,0\nb,2,y,1\n")
    assert said.startswith("variables hold numbers beyond 1e100, with which nothing can be computed: age;")
    assert number not in said
    said = refusal(run, pd.DataFrame({"grade": [1.0, float(number)]}), ORDERED, "people.parquet")
    assert "beyond 1e100, with which nothing can be computed: grade;" in said


def test_large_numbers_with_which_one_can_compute_are_read(run: Run) -> None:
    done = read(run, f"{HEADER}a,-1e100,x,0\nb,9e99,y,1\nc,,y,1\n")
    assert values(done)["age"] == [-1e100, 9e99, None]


ORDERED = (Variable("grade", "ordinal"),)


@pytest.mark.parametrize("letter", ["\x1b]0;pwn\x07", "\u202eevil", "\t", "\n", "\x85", "\u2028"])
@pytest.mark.parametrize("stated", [False, True])
def test_text_that_writes_to_a_terminal_or_turns_the_writing_is_refused(run: Run, letter: str, stated: bool) -> None:
    levels = (f"no{letter}", "y") if stated else None
    variables = (Variable("land", "nominal", levels=levels),)
    frame = pd.DataFrame({"land": [f"no{letter}", "y", "y"]})
    said = refusal(run, frame, variables, "people.parquet")
    assert said.startswith("text with NUL or other control characters, tabs, line ends or half a character in")
    assert letter not in said


def test_a_first_record_is_not_shown_because_one_value_is_a_variables_name(run: Run) -> None:
    said = refusal(run, f"{CANARY},98765.4321,land,0\nb,2,y,1\n")
    assert "columns without a declaration: 3 (names are shown when most agree);" in said
    assert "columns without a declaration: more;" in refusal(run, "id,age,more\na,1,2\n")
