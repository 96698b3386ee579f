"""Files of SPSS, Stata and SAS: read with the values that they declare missing, written with labels and dates."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from anoncore.microdata import Variable
from tasks.common.errors import Refused, named
from tasks.connectors.csv import check_names
from tasks.connectors.file_format import Dialect, FileFormat
from tasks.connectors.parsing import FileNotes, notes, parse

# Characters of names that every one of these programs takes, and how many.
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
LONGEST = {"spss": 64, "stata": 32, "sas-transport": 32}
# When a file was written would make the same content another release.
MOMENTS = (
    re.compile(rb"\d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d"),
    re.compile(rb"\d\d [A-Z][a-z]{2} \d\d\d\d:\d\d:\d\d"),
    re.compile(rb"\d\d[A-Z]{3}\d\d:\d\d:\d\d:\d\d"),
)
CLOCKS = (b"01 Jan 1970 00:00", b"01 Jan 7000:00:00", b"01JAN70:00:00:00")
HEADER = 1024


def unsuitable_names(kind: str, names: Sequence[str]) -> list[str]:
    """Return the names that a file of this format cannot hold: letters, digits and _, and not too long."""
    return [name for name in names if not NAME.fullmatch(name) or len(name) > LONGEST[kind]]


def _format(kind: str, *suffixes: str) -> FileFormat:
    def read(path: Path, dialect: Dialect, variables: list[Variable], shown: str) -> pd.DataFrame:
        """Return a file's table."""
        stated, frame = parse(kind, path, shown)
        if frame is None:
            raise Refused(f"{shown} is not a readable {kind} file")
        return _as_labels(frame, stated, shown) if dialect.values == "labels" else frame

    def header(path: Path, dialect: Dialect, shown: str, declared: Sequence[str]) -> list[str]:
        """Return a file's column names; those that are double or look alike are refused."""
        names = list(notes(kind, path, shown).columns)
        check_names(names, shown, declared)
        return names

    def about(path: Path, shown: str) -> FileNotes:
        """Return what a file states beside its records."""
        return notes(kind, path, shown)

    return FileFormat(suffixes=suffixes, read=read, header=header, notes=about, write=WRITERS.get(kind))


def _as_labels(frame: pd.DataFrame, stated: FileNotes, shown: str) -> pd.DataFrame:
    """Return a table with labels in place of the values that have one."""
    labels = {name: dict(pairs) for name, pairs in stated.values.items() if pairs and name in frame}
    if double := [name for name, texts in labels.items() if len(set(texts.values())) < len(texts)]:
        raise Refused(f"{shown} labels different values alike: {named(double)}; read values: codes")
    read = {name: frame[name].map(lambda v, of=texts: of.get(v, str(v)), na_action="ignore").astype("str")
            for name, texts in labels.items()}  # fmt: skip
    return frame.assign(**read)


def _write(kind: str) -> Callable[[Path, pd.DataFrame, Sequence[Variable]], None]:
    def write(path: Path, frame: pd.DataFrame, variables: Sequence[Variable]) -> None:
        """Write a table with descriptions, labels of values, and dates.

        Codes that mean missing are not declared: a masked value that equals one is a value in every format.
        """
        import pyreadstat

        if unsuitable := unsuitable_names(kind, [v.name for v in variables]):
            raise Refused(f"{kind} files cannot hold columns called {named(unsuitable)}; rename them")
        about: dict[str, Any] = {"column_labels": {v.name: v.description for v in variables if v.description}}
        labels = {v.name: v.label_of for v in variables if _labelled(kind, v)}
        if kind == "spss":
            about |= {"variable_value_labels": labels}
        elif kind == "stata":
            about |= {"variable_value_labels": labels, "version": 15}
        else:
            about |= {"file_format_version": 8}
        writers = {
            "spss": pyreadstat.write_sav,
            "stata": pyreadstat.write_dta,
            "sas-transport": pyreadstat.write_xport,
        }
        writers[kind](pd.DataFrame({v.name: _plain(frame[v.name]) for v in variables}), path, **about)
        _without_moment(path)

    return write


def _labelled(kind: str, variable: Variable) -> bool:
    """Return whether the format can hold a variable's labels: Stata has them of whole numbers alone."""
    levels = [level for level, _ in variable.labels]
    return bool(levels) and (kind != "stata" or all(isinstance(level, int) for level in levels))


def _plain(column: pd.Series) -> pd.Series:
    """Return a column of the types that the writers know."""
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return column.astype("float64")
    if pd.api.types.is_datetime64_any_dtype(column):
        return column.astype("datetime64[us]")
    if isinstance(column.dtype, pd.StringDtype):
        return column.astype("str").fillna("")
    return column


def _without_moment(path: Path) -> None:
    """Set the moment in a file's header to 1970, in place."""
    with path.open("r+b") as file:
        head = file.read(HEADER)
        for moment, clock in zip(MOMENTS, CLOCKS, strict=True):
            head = moment.sub(clock, head)
        file.seek(0)
        file.write(head)


WRITERS = {kind: _write(kind) for kind in LONGEST}
SPSS = _format("spss", ".sav", ".zsav")
SPSS_PORTABLE = _format("spss-portable", ".por")
STATA = _format("stata", ".dta")
SAS = _format("sas", ".sas7bdat")
SAS_TRANSPORT = _format("sas-transport", ".xpt")
