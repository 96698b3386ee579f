"""Parse one file of statistical software or a spreadsheet, as a process of its own.

The parsers are written in C and Rust, and a malformed file can end the process that runs them. This file is run as a
script, imports nothing of ours, and writes one line of JSON to its standard output, and the table as an Arrow stream
unless only the line was asked for. The exit code alone says what went wrong.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import zipfile
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(kw_only=True)
class Stated:
    """What a file states, as it goes to the process that asked.

    Parameters
    ----------
    records, text : how many, and the bytes of text that they may have
    columns, labels, values, missing, sheets : as in `FileNotes`
    """

    columns: list[str] = field(default_factory=list)
    records: int = 0
    text: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)
    missing: dict[str, list[Any]] = field(default_factory=dict)
    sheets: list[str] = field(default_factory=list)


# What a spreadsheet's parts may have of bytes, unpacked: the share of the most text of a table.
MARKUP = 4
# Bytes of address space, of which the libraries take a part, and seconds of processor time: some, and more for each
# million bytes, since two of 1000 mutations of a small Stata file are parsed without end.
LEAST_MEMORY, MOST_MEMORY = 2 * 2**30, 16 * 2**30
LEAST_SECONDS, SECONDS_PER_MILLION, MOST_SECONDS = 20, 10, 1800
MIDNIGHT = time(0)


def main() -> None:
    """Parse the file that the arguments name: format, path, sheet, the most cells and bytes of text, what to write."""
    kind, path, sheet, cells, text, wanted = sys.argv[1:]
    # No copy of the memory, which holds records, is left behind when the process crashes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A small file can ask for more memory than there is, or for endless work.
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    most = max(LEAST_MEMORY, min(half, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    seconds = min(LEAST_SECONDS + SECONDS_PER_MILLION * os.path.getsize(path) // 10**6, MOST_SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    if kind == "excel":
        about, frame = read_sheet(path, sheet, int(cells), int(text))
    else:
        about, frame = read_statistical(kind, path, int(cells), int(text), data=wanted == "table")
    out = sys.stdout.buffer
    out.write(json.dumps(asdict(about)).encode() + b"\n")
    if wanted == "table" and frame is not None:
        import pyarrow as pa

        table = pa.Table.from_pandas(frame, preserve_index=False)
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
    out.flush()


def read_statistical(kind: str, path: str, cells: int, text: int, *, data: bool) -> tuple[Stated, pd.DataFrame | None]:
    """Return the notes of a file of SPSS, Stata or SAS, and its table where it is asked for and not too large."""
    # It imports pandas, most of the time that this takes, where it returns a table.
    import pyreadstat

    readers = {
        "spss": pyreadstat.read_sav,
        "spss-portable": pyreadstat.read_por,
        "stata": pyreadstat.read_dta,
        "sas": pyreadstat.read_sas7bdat,
        "sas-transport": pyreadstat.read_xport,
    }
    read = readers[kind]
    # The codes that SPSS calls missing are stated only where they are asked for.
    asked = {"user_missing": True} if kind == "spss" else {}
    _, meta = read(path, metadataonly=True, output_format="dict", **asked)
    names = list(meta.column_names)
    texts = [meta.variable_storage_width.get(n) or 0 for n in names if meta.readstat_variable_types[n] == "string"]
    about = Stated(
        columns=names,
        records=meta.number_rows or 0,
        text=sum(texts) * (meta.number_rows or 0),
        labels={name: label for name, label in meta.column_names_to_labels.items() if label},
        values={name: list(pairs.items()) for name, pairs in meta.variable_value_labels.items()},
        missing={name: [list(ends.values()) for ends in ranges] for name, ranges in meta.missing_ranges.items()},
    )
    if not data or about.records * len(names) > cells or about.text > text:
        return about, None
    # Values that the file itself declares missing come back missing; one record more than a table may have is noticed.
    frame, _ = read(path, row_limit=cells // max(1, len(names)) + 1, dates_as_pandas_datetime=True)
    return replace(about, records=len(frame)), frame


def read_sheet(path: str, sheet: str, cells: int, text: int) -> tuple[Stated, pd.DataFrame | None]:
    """Return the names of a workbook's sheets, and the table of the one that is named, or of the only one."""
    import pandas as pd
    from python_calamine import CalamineWorkbook

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as parts:
            if sum(part.file_size for part in parts.infolist()) > text // MARKUP:
                return Stated(text=text + 1), None
    book = CalamineWorkbook.from_path(path)
    names = list(book.sheet_names)
    about = Stated(sheets=names)
    if (sheet not in names) if sheet else len(names) != 1:
        return about, None
    table = book.get_sheet_by_name(sheet or names[0])
    if table.total_height * table.total_width > cells:
        return replace(about, columns=[""] * table.total_width, records=table.total_height), None
    rows = table.to_python(skip_empty_area=False)
    while rows and all(value == "" for value in rows[-1]):
        rows.pop()
    header = [_name(value) for value in rows[0]] if rows else []
    about = replace(about, columns=header, records=max(0, len(rows) - 1))
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else [()] * len(header)
    # Columns are numbered, since names that occur twice are refused by who asked.
    return about, pd.DataFrame({str(at): _column(values) for at, values in enumerate(columns)})


def _name(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _column(cells: Any) -> pd.Series:
    """Return cells of one type as it is, and of several as text."""
    import pandas as pd

    values = [None if cell == "" else cell for cell in cells]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {float, int}:
        return pd.Series(values, dtype="float64")
    if kinds <= {date, datetime}:
        return pd.Series(pd.to_datetime(pd.Series(values, dtype=object)))
    if kinds <= {time, timedelta}:
        return pd.Series([_time(value) for value in values], dtype=object)
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean")
    return pd.Series([None if value is None else _name(value) for value in values], dtype="str")


def _time(value: Any) -> time | None:
    """Return a time of day; spreadsheets hold it as a part of a day."""
    if isinstance(value, timedelta):
        return (datetime.combine(date.min, MIDNIGHT) + value % timedelta(days=1)).time()
    return None if value is None else value


if __name__ == "__main__":
    main()
