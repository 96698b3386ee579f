"""Spreadsheets: one sheet is a table, its first row the names; of formulas their stored results are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from anoncore.microdata import Variable
from tasks.common.errors import Refused, cut, named, visible
from tasks.connectors.csv import check_names
from tasks.connectors.file_format import Dialect, FileFormat
from tasks.connectors.parsing import FileNotes, notes, parse


def read(path: Path, dialect: Dialect, variables: list[Variable], shown: str) -> pd.DataFrame:
    """Return the table of the sheet that the plan names, or of the only one."""
    about, frame = parse("excel", path, shown, sheet=dialect.sheet)
    if frame is None:
        asked = f"has no sheet {cut(visible(dialect.sheet))}" if dialect.sheet else "has several sheets"
        raise Refused(f"{shown} {asked}; name one in source: sheet ({named(map(visible, about.sheets))})")
    if any(not name.strip() for name in about.columns):
        raise Refused(f"{shown} has a column without a name; the first row must hold the names")
    check_names(about.columns, shown, [v.name for v in variables])
    return frame


def header(path: Path, dialect: Dialect, shown: str, declared: Sequence[str]) -> list[str]:
    """Return the column names; a sheet is read for them."""
    return list(read(path, dialect, [Variable(name, "nominal") for name in declared], shown).columns)


def about_file(path: Path, shown: str) -> FileNotes:
    """Return the names of the sheets."""
    return notes("excel", path, shown)


FORMAT = FileFormat(suffixes=(".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), read=read, header=header, notes=about_file)
