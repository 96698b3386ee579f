"""A CSV file read some records at a time is what it is when read at once, and refused where that is."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from anoncore.microdata import Variable
from tasks.common.errors import Refused
from tasks.connectors.csv import csv_batches, read_csv
from tasks.intake.source import SourceSection

VARIABLES = [
    Variable("id", "nominal", role="identifier"),
    Variable("age", "continuous"),
    Variable("grade", "ordinal"),
    Variable("works", "binary"),
]


def both(path: Path, text: str, rows: int, encoding: str = "utf-8") -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    path.write_text(text, encoding=encoding)
    source = SourceSection(path=path.name, encoding=encoding)
    parts = list(csv_batches(path, source, VARIABLES, rows, "the file"))
    return read_csv(path, source, VARIABLES, "the file"), parts


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("last", ["3,x", "04,TRUE", "4,", ',"false"'])
def test_the_parts_are_the_table(tmp_path: Path, rows: int, encoding: str, last: str) -> None:
    text = f"id,age,grade,works\n1,30,1,true\n2,NA,2,false\n3,40.5,,true\n4,50,3,true\n5,60,{last}\n"
    whole, parts = both(tmp_path / "a.csv", text, rows, encoding)
    assert [len(part) for part in parts][:-1] == [rows] * (len(parts) - 1)
    # Pieces of whole numbers are whole; pieces without a missing value are not of floats.
    together = pd.concat(parts, ignore_index=True).astype(whole.dtypes)
    pd.testing.assert_frame_equal(together, whole)


@pytest.mark.parametrize("rows", [1, 2])
def test_columns_of_any_name_truth_values_with_missing_ones_and_no_record_at_all(tmp_path: Path, rows: int) -> None:
    path, source = tmp_path / "a.csv", SourceSection(path="a.csv")
    variables = [Variable("self", "nominal"), Variable("works", "continuous")]
    path.write_text("self,works\n1,true\n2,\n3,false\n4,true\n")
    parts = pd.concat(csv_batches(path, source, variables, rows, "the file"), ignore_index=True)
    assert parts["self"].tolist() == [1, 2, 3, 4]
    assert parts["works"].astype("float").tolist() == pytest.approx([1, float("nan"), 0, 1], nan_ok=True)
    path.write_text("self,works\n")
    assert list(csv_batches(path, source, variables, rows, "the file")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,age,grade,works\n1,2,3,true\n2,3,4\n", "line 3 has 3 fields, the header 4"),
        ("id,age,grade,works\n1,2,3,true\n2,3,4,false,9\n", "line 3 has 5 fields, the header 4"),
        ("id,age,age,works\n1,2,3,true\n", "holds columns twice"),
        ("id,age,grade,works\n1,true,3,true\n2,3,4,false\n", "holds numbers and truth values in age"),
        ("id,age,grade,works\n1,2\0,3,true\n", "NUL"),
        ("id,age,grade,works\n1,2,3," + "x" * 140_000 + "\n", "longer|more than"),
    ],
)
def test_irregular_files_are_refused_without_a_value(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(Refused, match=message) as refused:
        list(csv_batches(path, SourceSection(path="a.csv"), VARIABLES, 1, "the file"))
    assert "xxx" not in str(refused.value)
