"""CSV files: read so that no value is lost or invented, and refused where they are not regular.

Why pandas reads them and not pyarrow: docs/explanation/decisions/0016-libraries-instead-of-our-own.md.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

import pandas as pd

from anoncore.microdata import Variable
from anoncore.names import format_look_alikes, look_alikes
from tasks.common.errors import Refused, cut, named, visible
from tasks.connectors.compressed import open_bytes, packed_in
from tasks.connectors.file_format import Dialect, FileFormat
from tasks.connectors.fingerprint import MISSING
from tasks.connectors.limits import LONG_LINE, MAX_FIELD, MAX_LINE, LineCheck, check_size
from tasks.connectors.storage import BLOCK, source_errors

# Encodings in which a byte of a line's end may be half of a letter.
WIDE = re.compile("16|32")
UNREADABLE = "holds a field that cannot be read; check quotes and very long numbers"
TOO_LONG = f"holds a field of more than {MAX_FIELD} characters; check quotes and line ends"
T = TypeVar("T")


def read_csv(path: Path, dialect: Dialect, variables: list[Variable], shown: str) -> pd.DataFrame:
    """Parse a CSV file; codes are read as text, and become numbers only where nothing is lost by it."""
    layout = _Layout.of(path, dialect, variables, shown)

    def parse() -> pd.DataFrame:
        _check_fields(path, dialect, shown)
        frame = next(_frames(path, dialect, layout, shown), pd.DataFrame(columns=layout.header))
        if layout.may_end_early(frame):
            _check_lengths(path, dialect, len(layout.header), shown)
        return frame

    frame = _refusing(dialect, shown, parse)
    return pd.DataFrame(
        {n: read_codes(frame[n], dialect.decimal) if n in layout.as_numbers else frame[n] for n in frame.columns}
    )


def csv_batches(
    path: Path, dialect: Dialect, variables: list[Variable], rows: int, shown: str
) -> Iterator[pd.DataFrame]:
    """Yield the table of a CSV file in frames of exactly so many rows, but for the last.

    The file is read three times, since whether the codes of a column are numbers depends on all of them. The frames
    together are what `read_csv` returns.

    Raises
    ------
    Refused
        As `read_csv`; and where some records of a column of numbers hold truth values.
    """
    layout = _Layout.of(path, dialect, variables, shown)

    def survey() -> dict[str, Codes]:
        _check_fields(path, dialect, shown, copied=False)
        seen = {name: Codes() for name in layout.as_numbers}
        kinds: dict[str, set[bool]] = {name: set() for name in layout.numbers}
        for frame in _frames(path, dialect, layout, shown, rows):
            seen = {name: codes.and_those_of(frame[name], dialect.decimal) for name, codes in seen.items()}
            for name in layout.numbers:
                if (present := frame[name].dropna()).size:
                    kinds[name].add(pd.api.types.infer_dtype(present) == "boolean")
            if layout.may_end_early(frame) and not layout.lengths_checked:
                _check_lengths(path, dialect, len(layout.header), shown)
                layout.lengths_checked = True
        if mixed := sorted(name for name, found in kinds.items() if len(found) > 1):
            raise Refused(f"source: {shown} holds numbers and truth values in {named(mixed)}")
        return seen

    seen = _refusing(dialect, shown, survey)
    frames = _frames(path, dialect, layout, shown, rows)
    while (frame := _refusing(dialect, shown, lambda: next(frames, None))) is not None:
        for name, codes in seen.items():
            frame[name] = codes.read(frame[name], dialect.decimal)
        if len(frame):
            yield frame


@dataclass
class _Layout:
    """The columns of a CSV file: those of numbers, those of codes, and the codes that may be numbers."""

    header: list[str]
    numbers: set[str]
    codes: set[str]
    as_numbers: set[str]
    lengths_checked: bool = False

    @classmethod
    def of(cls, path: Path, dialect: Dialect, variables: list[Variable], shown: str) -> _Layout:
        header = check_header(path, dialect, shown, [v.name for v in variables])
        numbers = {v.name for v in variables if v.kind == "continuous" and not v.is_dropped}
        texts = {v.name for v in variables if v.is_dropped or (v.levels and isinstance(v.levels[0], str))}
        codes = {v.name for v in variables} - numbers
        return cls(header, numbers & set(header), codes, (codes - texts) & set(header))

    def may_end_early(self, frame: pd.DataFrame) -> bool:
        """Return whether a record may have fewer fields than the header: pandas fills the rest with missing values."""
        return len(self.header) > 1 and bool(frame[frame.columns[-1]].isna().any())


def _frames(
    path: Path, dialect: Dialect, layout: _Layout, shown: str, rows: int | None = None
) -> Iterator[pd.DataFrame]:
    """Yield the table as pandas reads it, at most so many rows at a time, or at once."""
    missing = dict.fromkeys(layout.numbers, MISSING) | {name: [""] for name in layout.codes}
    with open_bytes(path, shown) as file:
        read = _strictly(
            lambda: pd.read_csv(
                file,
                sep=dialect.delimiter,
                decimal=dialect.decimal,
                encoding=dialect.encoding,
                dtype=dict.fromkeys(layout.codes, "str"),
                keep_default_na=False,
                na_values=missing,
                index_col=False,
                low_memory=False,
                engine="c",
                chunksize=rows,
            )
        )
        frames = iter([read] if isinstance(read, pd.DataFrame) else read)
        while (frame := _strictly(lambda: next(frames, None))) is not None:
            yield frame


def _strictly(parse: Callable[[], T]) -> T:
    """Return what is parsed; that records are longer than the header is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        warnings.simplefilter("ignore", pd.errors.DtypeWarning)
        return parse()


def read_codes(column: pd.Series, decimal: str = ".") -> pd.Series:
    """Return numbers, or 0 and 1 for truth values, where every text is one; 01 is another code than 1."""
    return Codes().and_those_of(column, decimal).read(column, decimal)


@dataclass(frozen=True)
class Codes:
    """What the codes of a column are, by those seen so far: whether there is one, all are truth values, or numbers."""

    present: bool = False
    truths: bool = True
    numbers: bool = True

    def and_those_of(self, column: pd.Series, decimal: str) -> Codes:
        """Return what they are with some more."""
        texts = pd.Series(column.dropna().unique())
        if texts.empty or not (self.truths or self.numbers):
            return self
        number = rf"-?(0|[1-9]\d{{0,14}})(\{decimal}\d{{1,9}})?"
        return Codes(
            True,
            self.truths and bool(texts.str.lower().isin(["true", "false"]).all()),
            self.numbers and bool(texts.str.fullmatch(number).all()),
        )

    def read(self, column: pd.Series, decimal: str) -> pd.Series:
        """Return some of them as numbers where all are."""
        if self.present and self.truths:
            return column.str.lower().map({"true": 1, "false": 0})
        if self.present and self.numbers:
            return pd.to_numeric(column if decimal == "." else column.str.replace(decimal, ".", regex=False))
        return column


def check_header(path: Path, dialect: Dialect, shown: str, declared: Sequence[str] = ()) -> list[str]:
    """Return the column names; pandas would rename a duplicate column, so they are checked first."""
    header = _refusing(dialect, shown, lambda: next(_records(path, dialect, shown), (0, []))[1])
    with source_errors():
        check_size(0, len(header), shown)
    if any(not name.strip() for name in header):
        raise Refused(f"source: {shown} has a column without a name")
    check_names(header, shown, declared)
    return header


def check_names(names: Sequence[str], shown: str, declared: Sequence[str]) -> None:
    """Refuse duplicate names. Where a header is missing they are values, so only declared ones are shown."""
    columns: dict[str, list[str]] = {}
    showable = set(declared)
    for number, name in enumerate(names, start=1):
        columns.setdefault(name, []).append(str(number))
    duplicates = [
        f"{cut(visible(name)) + ' ' if name in showable else ''}({named(numbers).replace(', ', ' and ')})"
        for name, numbers in columns.items()
        if len(numbers) > 1
    ]
    if duplicates:
        raise Refused(f"source: {shown} holds columns twice: {named(duplicates)}; rename or remove one")
    if pairs := look_alikes(names):
        known = format_look_alikes(pair for pair in pairs if showable & set(pair))
        numbers = ", ".join(f"({' and '.join(columns[name][0] for name in pair)})" for pair in pairs[:5])
        raise Refused(
            f"source: {shown} holds columns with names that look alike: {known}{' ' if known else ''}{numbers}; "
            "rename one of each"
        )


def lines_of(file: TextIO, shown: str) -> Iterator[str]:
    """Yield the lines of a text, none of which is longer than a table's can be."""
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise Refused(f"source: {LONG_LINE.format(shown)}")
        yield line


def records_of(file: TextIO, shown: str, delimiter: str) -> Any:
    """Return a reader of a file's records; the limit of a field, which is the whole process's, is set anew."""
    csv.field_size_limit(MAX_FIELD)
    return csv.reader(lines_of(file, shown), delimiter=delimiter)


def _records(path: Path, dialect: Dialect, shown: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each record, with the number of the line at which it ends."""
    with open_bytes(path, shown) as file, io.TextIOWrapper(file, encoding=dialect.encoding, newline="") as text:
        reader = records_of(text, shown, dialect.delimiter)
        for fields in reader:
            yield reader.line_num, fields


def _check_fields(path: Path, dialect: Dialect, shown: str, *, copied: bool = True) -> None:
    """Refuse fields that are too long or hold NUL.

    Only quotes hide where a field ends, and only some encodings where a line does: other files have been
    checked while they were copied, and need no second pass.
    """
    packed = packed_in(path)
    if not WIDE.search(dialect.encoding):
        if packed or not copied:
            _check_lines(path, shown)
        if not packed and _plain_lines(path):
            return
    for _, fields in _records(path, dialect, shown):
        if any("\0" in field for field in fields):
            raise Refused(f"source: {shown} holds NUL bytes; state its encoding or repair it")


def _check_lines(path: Path, shown: str) -> None:
    """Refuse what `LineCheck` refuses in a file that was not copied, or packed and so copied unseen."""
    lines = LineCheck(f"source: {shown}")
    with open_bytes(path, shown) as file:
        while block := file.read(BLOCK):
            lines.add(block)


def _plain_lines(path: Path) -> bool:
    """Return whether a file has no quotes and no line that could be longer than a field may be."""
    part = MAX_FIELD // 2
    with path.open("rb") as file:
        while block := file.read(part):
            if b'"' in block or (len(block) == part and b"\n" not in block and b"\r" not in block):
                return False
    return True


def _check_lengths(path: Path, dialect: Dialect, columns: int, shown: str) -> None:
    """Refuse a record that ends early; the delimiters of a plain file are counted first, which is far faster."""
    if not packed_in(path) and not WIDE.search(dialect.encoding) and _plain_lines(path):
        delimiter = dialect.delimiter.encode()
        with path.open("rb") as file:
            if all(line.count(delimiter) == columns - 1 or not line.strip(b"\r\n") for line in file):
                return
    for line, fields in _records(path, dialect, shown):
        if 0 < len(fields) < columns:
            problem = f"is not regular: line {line} has {len(fields)} fields, the header {columns}"
            raise Refused(f"source: {shown} {problem}")


def _refusing(dialect: Dialect, shown: str, read: Callable[[], T]) -> T:
    """Return what is read, or refuse the file without the text of an error, which may quote the data.

    It is refused after the error was handled, and not inside a context manager, where it would hold the error.
    """
    unknown = f"cannot be read: there is no encoding called {visible(dialect.encoding)}"
    problem = unknown if "\0" in dialect.encoding else ""
    try:
        if not problem:
            return read()
    except UnicodeError:
        problem = f"holds bytes that are not {dialect.encoding}; state its encoding"
    except LookupError:
        problem = unknown
    except PermissionError:
        problem = "may not be read by this user"
    except pd.errors.EmptyDataError:
        problem = "holds no columns"
    except pd.errors.ParserWarning:
        problem = "has records with more fields than its header has names"
    except pd.errors.ParserError as error:
        at = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        where = f": line {at[2]} has {at[3]} fields, the header {at[1]}" if at else "; check its quotes and delimiter"
        problem = f"is not regular{where}"
    except (csv.Error, ValueError, OverflowError) as error:
        problem = TOO_LONG if "field larger" in str(error) else UNREADABLE
    raise Refused(f"source: {shown} {problem}")


FORMAT = FileFormat(suffixes=(".csv", ".txt", ".gz", ".zip"), read=read_csv, header=check_header, text=True)
