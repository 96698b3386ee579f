"""CSV files: read so that nothing is lost or made up, and refused where they are not regular."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TextIO

import pandas as pd

from anoncore.microdata import Variable
from anoncore.names import format_look_alikes, look_alikes
from tasks.common.errors import Refused, cut, named, visible
from tasks.connectors.fingerprint import MISSING
from tasks.connectors.parquet import check_size
from tasks.connectors.storage import MAX_FIELD, MAX_LINE, of_the_source, too_long

# Encodings in which a byte of a line's end may be half of a letter.
WIDE = re.compile("16|32")


class Written(Protocol):
    """How a file is written: what separates its fields, and in which encoding."""

    @property
    def delimiter(self) -> str:
        """What separates fields."""

    @property
    def encoding(self) -> str:
        """The encoding, by its name in Python."""


def read_csv(path: Path, source: Written, variables: list[Variable], shown: str) -> pd.DataFrame:
    """Parse a CSV file; codes are read as text, and become numbers only where nothing is lost by it."""
    header = check_header(path, source, shown, [v.name for v in variables])
    number = {v.name for v in variables if v.kind == "continuous" and v.role != "identifier"}
    kept = {v.name for v in variables if v.role == "identifier" or (v.levels and isinstance(v.levels[0], str))}
    codes = {v.name for v in variables} - number
    problem = _long_field(path, source, shown)
    if problem:
        raise Refused(f"source: {shown} {problem}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)
            frame = pd.read_csv(
                path,
                sep=source.delimiter,
                encoding=source.encoding,
                dtype=dict.fromkeys(codes, "str"),
                keep_default_na=False,
                na_values=dict.fromkeys(number, MISSING) | {name: [""] for name in codes},
                index_col=False,
                low_memory=False,
                engine="c",
            )
        if len(header) > 1 and frame[frame.columns[-1]].isna().any():
            problem = _short_record(path, source, len(header), shown)
    except UnicodeError:
        problem = f"holds bytes that are not {source.encoding}; state its encoding"
    except pd.errors.EmptyDataError:
        problem = "holds no columns"
    except pd.errors.ParserWarning:
        problem = "has records with more fields than its header has names"
    except pd.errors.ParserError as error:
        problem = f"is not regular{_where(error)}"
    except (csv.Error, ValueError, OverflowError):
        problem = "holds a field that cannot be read; check quotes and very long numbers"
    if problem:
        raise Refused(f"source: {shown} {problem}")
    columns = {name: frame[name] for name in frame.columns}
    for name in (codes - kept) & columns.keys():
        columns[name] = read_codes(columns[name])
    return pd.DataFrame(columns)


def read_codes(column: pd.Series) -> pd.Series:
    """Return numbers, or 0 and 1 for truth values, where every text is one; 01 is another code than 1."""
    texts = column.drop_duplicates().dropna()
    if texts.empty:
        return column
    if texts.str.lower().isin(["true", "false"]).all():
        return column.str.lower().map({"true": 1, "false": 0})
    if texts.str.fullmatch(r"-?(0|[1-9]\d{0,14})(\.\d{1,9})?").all():
        return pd.to_numeric(column)
    return column


def lines_of(file: TextIO, shown: str) -> Iterator[str]:
    """Yield the lines of a text, none of which is longer than a table's can be."""
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise Refused(f"source: {too_long(shown)}")
        yield line


def _long_field(path: Path, source: Written, shown: str) -> str:
    """Return what is wrong with a field that is too long or holds NUL, else nothing.

    Only quotes hide where a field ends, and only some encodings where a line does: other files have been
    looked at while they were copied, and need no second look.
    """
    if not WIDE.search(source.encoding) and _plain_lines(path):
        return ""
    try:
        with path.open(encoding=source.encoding, newline="") as text:
            for fields in csv.reader(lines_of(text, shown), delimiter=source.delimiter):
                if any("\0" in field for field in fields):
                    return "holds NUL bytes; state its encoding or repair it"
    except UnicodeError:
        return f"holds bytes that are not {source.encoding}; state its encoding"
    except csv.Error as error:
        if "field larger" in str(error):
            return f"holds a field of more than {MAX_FIELD} characters; check quotes and line ends"
    return ""


def _plain_lines(path: Path) -> bool:
    """Return whether a file has no quotes and no line that could be longer than a field may be."""
    part = MAX_FIELD // 2
    with path.open("rb") as file:
        while block := file.read(part):
            if b'"' in block or (len(block) == part and b"\n" not in block and b"\r" not in block):
                return False
    return True


def _short_record(path: Path, source: Written, columns: int, shown: str) -> str:
    """Return where a record ends early, else nothing; pandas fills it with missing values."""
    with path.open(encoding=source.encoding, newline="") as file:
        reader = csv.reader(lines_of(file, shown), delimiter=source.delimiter)
        for fields in map(len, reader):
            if 0 < fields < columns:
                return f"is not regular: line {reader.line_num} has {fields} fields, the header {columns}"
    return ""


def _where(error: Exception) -> str:
    numbers = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if not numbers:
        return "; check its quotes and delimiter"
    expected, line, found = numbers.groups()
    return f": line {line} has {found} fields, the header {expected}"


def check_header(path: Path, source: Written, shown: str, declared: Sequence[str] = ()) -> list[str]:
    """Return the column names; pandas would rename a doubled column, so they are looked at first."""
    problem = ""
    header: list[str] = []
    try:
        with path.open(encoding=source.encoding, newline="") as file:
            header = next(csv.reader(lines_of(file, shown), delimiter=source.delimiter), [])
    except UnicodeError:
        problem = f"holds bytes that are not {source.encoding}; state its encoding"
    except (LookupError, ValueError):
        problem = f"cannot be read: there is no encoding called {visible(source.encoding)}"
    except csv.Error:
        problem = "has a header that cannot be read; check its quotes and delimiter"
    except PermissionError:
        problem = "may not be read by this user"
    if problem:
        raise Refused(f"source: {shown} {problem}")
    with of_the_source():
        check_size(0, len(header), shown)
    if any(not name.strip() for name in header):
        raise Refused(f"source: {shown} has a column without a name")
    check_names(header, shown, declared)
    return header


def check_names(names: Sequence[str], shown: str, known: Sequence[str]) -> None:
    """Refuse doubled names. Where a header is missing they are values, so only ``known`` ones are shown."""
    places: dict[str, list[str]] = {}
    shown_too = set(known)
    for number, name in enumerate(names, start=1):
        places.setdefault(name, []).append(str(number))
    twice = [
        f"{cut(visible(name)) + ' ' if name in shown_too else ''}({named(at).replace(', ', ' and ')})"
        for name, at in places.items()
        if len(at) > 1
    ]
    if twice:
        raise Refused(f"source: {shown} holds columns twice: {named(twice)}; rename or remove one")
    pairs = look_alikes(names)
    told = [pair for pair in pairs if shown_too & set(pair)]
    if pairs:
        at = ", ".join(f"({' and '.join(places[n][0] for n in pair)})" for pair in pairs[:5])
        raise Refused(
            f"source: {shown} holds columns with names that look alike: "
            f"{format_look_alikes(told)}{' ' if told else ''}{at}; rename one of each"
        )
