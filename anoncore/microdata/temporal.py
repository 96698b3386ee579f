"""Dates, times of day and moments as numbers on a continuous scale, and back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time
from typing import Literal

import numpy as np
import pandas as pd
from pandas.api import types

from anoncore.errors import AnonymizationError

Temporal = Literal["date", "time", "datetime"]
DAY = 86_400.0
# The years 1 and 9999, beyond which Python and most formats of files hold no date.
FIRST, LAST = np.datetime64("0001-01-01", "D"), np.datetime64("9999-12-31", "D")
SCALE = {"date": "days since 1970-01-01", "time": "seconds since midnight", "datetime": "seconds since 1970-01-01"}
WRITTEN = {"date": "2024-12-31", "time": "23:59:59", "datetime": "2024-12-31T23:59:59"}


def to_numbers(column: pd.Series, temporal: Temporal, name: str) -> pd.Series:
    """Return a column as float64: days since 1970-01-01, or seconds since midnight or that day; NaN where missing.

    Parameters
    ----------
    column : (N,) numbers on this scale already, dates or times of any library, or text by ISO 8601
    temporal : what its values are
    name : the variable's, for messages

    Raises
    ------
    AnonymizationError
        When a value is none; the message counts records and shows no value.
    """
    if types.is_numeric_dtype(column):
        return column
    codes, distinct = pd.factorize(column)
    seconds = np.append(_seconds(pd.Series(distinct), temporal), np.nan)[codes]
    if unreadable := int((np.isnan(seconds) & column.notna().to_numpy()).sum()):
        raise AnonymizationError(
            f"variable {name!r}: {unreadable} record(s) hold something that is no {temporal}; write it by ISO 8601, "
            f"as {WRITTEN[temporal]}, or declare a missing code"
        )
    return pd.Series(np.floor(seconds / DAY) if temporal == "date" else seconds, index=column.index)


def from_numbers(column: pd.Series, temporal: Temporal) -> pd.Series:
    """Return numbers as `to_numbers` gives them as dates, times or moments, to the day or the second.

    What lies outside a day, or the years 1 to 9999, is brought to the nearest end.
    """
    values, missing = column.to_numpy("float64", copy=True), column.isna().to_numpy()
    values[missing] = 0.0
    if temporal == "time":
        whole = np.clip(np.round(values), 0, DAY - 1).astype("int64")
        parts = zip((whole // 3600).tolist(), (whole // 60 % 60).tolist(), (whole % 60).tolist(), strict=True)
        made = np.array([time(*part) for part in parts], dtype=object)
    else:
        unit = "D" if temporal == "date" else "s"
        low, high = (end.astype(f"datetime64[{unit}]").astype("int64") for end in (FIRST, LAST))
        moments = np.clip(np.round(values), low, high).astype("int64").astype(f"datetime64[{unit}]")
        if temporal == "datetime":
            return pd.Series(moments, index=column.index, name=column.name).mask(missing)
        made = moments.astype(object)
    made[missing] = None
    return pd.Series(made, index=column.index, name=column.name, dtype=object)


def temporal_of(values: Iterable[object]) -> Temporal | None:
    """Return what all of some values are; None where they are not all times, or all dates and moments."""
    every = list(values)
    if not np.isnan([_second_of(value, "time") for value in every]).any():
        return "time"
    seconds = np.array([_second_of(value, "datetime") for value in every])
    if np.isnan(seconds).any():
        return None
    return "date" if not (seconds % DAY).any() else "datetime"


def _seconds(values: pd.Series, temporal: Temporal) -> np.ndarray:
    """Return (N,) seconds since 1970-01-01T00:00, or since midnight; NaN for what is neither date nor time."""
    if types.is_timedelta64_dtype(values) and temporal == "time":
        return np.asarray(values.dt.total_seconds())
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    if types.is_datetime64_dtype(values):
        return np.full(len(values), np.nan) if temporal == "time" else _since_1970(values)
    return np.array([_second_of(value, temporal) for value in values], dtype="float64")


def _since_1970(values: pd.Series) -> np.ndarray:
    return values.to_numpy("datetime64[us]").astype("int64") / 1e6


def _second_of(value: object, temporal: Temporal) -> float:
    """Return the seconds of one value, NaN where it is none."""
    try:
        if temporal == "time":
            moment = time.fromisoformat(value.strip()) if isinstance(value, str) else value
            if not isinstance(moment, time):
                return float("nan")
            return moment.hour * 3600.0 + moment.minute * 60.0 + moment.second + moment.microsecond / 1e6
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        if isinstance(value, datetime):
            value = value.replace(tzinfo=None) - (value.utcoffset() or pd.Timedelta(0))
        if isinstance(value, date):
            return float(np.datetime64(value, "us").astype("int64")) / 1e6
    except (ValueError, OverflowError):
        pass
    return float("nan")
