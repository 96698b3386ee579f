"""Dates, times and moments: numbers inside, ISO 8601 outside, whatever library wrote them."""

from __future__ import annotations

import datetime as d

import numpy as np
import pandas as pd
import pytest

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable

DATES = [d.date(2020, 2, 29), None, d.date(1871, 3, 4)]
TIMES = [d.time(3, 4, 5), None, d.time(23, 59, 59)]
MOMENTS = [d.datetime(2020, 2, 29, 3, 4, 5), None, d.datetime(1871, 3, 4, 23, 0, 1)]


def data(temporal: str, values: object, **more: object) -> Microdata:
    variable = Variable("when", "continuous", temporal=temporal, **more)  # type: ignore[arg-type]
    return Microdata(pd.DataFrame({"when": values}), Schema([variable]))


@pytest.mark.parametrize(
    ("temporal", "values"), [("date", DATES), ("time", TIMES), ("datetime", MOMENTS)], ids=["date", "time", "datetime"]
)
def test_every_way_to_write_them_is_read_alike_and_comes_back(temporal: str, values: list[object]) -> None:
    written = [None if v is None else v.isoformat() for v in values]  # type: ignore[attr-defined]
    forms: list[object] = [pd.Series(values, dtype=object), pd.Series(written, dtype="str")]
    if temporal != "time":
        forms.append(pd.to_datetime(pd.Series(written)))
    tables = [data(temporal, form) for form in forms]
    for table in tables:
        np.testing.assert_array_equal(table.frame["when"], tables[0].frame["when"])
        back = table.plain()["when"]
        assert [None if pd.isna(v) else v for v in back] == values
    assert tables[0].frame["when"].dtype == "float64"


def test_the_scale_is_days_and_seconds() -> None:
    assert data("date", ["1970-01-02", "1969-12-31"]).frame["when"].tolist() == [1, -1]
    assert data("time", ["00:01", "01:00:00.5"]).frame["when"].tolist() == [60, 3600.5]
    assert data("datetime", ["1970-01-01T01:00:00+01:00", "1970-01-02"]).frame["when"].tolist() == [0, 86400]
    assert data("date", pd.to_datetime(["1969-12-31T23:00"])).frame["when"].tolist() == [-1]


def test_masked_numbers_outside_the_calendar_come_to_its_ends() -> None:
    assert data("date", [1e9, -1e9]).plain()["when"].tolist() == [d.date(9999, 12, 31), d.date(1, 1, 1)]
    assert data("time", [-5.0, 90_000.0]).plain()["when"].tolist() == [d.time(0), d.time(23, 59, 59)]


def test_what_is_no_date_is_counted_and_not_shown() -> None:
    with pytest.raises(AnonymizationError, match=r"2 record\(s\) hold something that is no date") as error:
        data("date", ["31.12.2020", "2020-13-01", "2020-01-01", "never"], missing=("never",))
    assert "31.12" not in str(error.value)
    with pytest.raises(AnonymizationError, match="no time"):
        data("time", pd.to_datetime(["2020-01-01"]))


def test_declarations_that_contradict_each_other_are_refused() -> None:
    for problem in (
        {"kind": "nominal", "temporal": "date"},
        {"kind": "continuous", "temporal": "month"},
        {"kind": "nominal", "labels": [(1, "a"), (1, "b")]},
        {"kind": "nominal", "labels": [(1, 2)]},
    ):
        with pytest.raises(AnonymizationError, match=r"temporal|labels"):
            Variable("x", **problem)  # type: ignore[arg-type]
