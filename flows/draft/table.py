"""A table file as the draft reads it: format, encoding, delimiter and column names are detected."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pandas as pd

from anoncore.microdata import Variable
from flows.draft.sample import files_of, sample
from tasks.common.errors import Refused, named, visible
from tasks.connectors.compressed import open_bytes
from tasks.connectors.copies import check_file
from tasks.connectors.csv import records_of
from tasks.connectors.formats import FORMATS as FILES
from tasks.connectors.formats import SUFFIXES
from tasks.connectors.limits import LineCheck, check_table
from tasks.connectors.parquet import nested_of
from tasks.connectors.parsing import FileNotes
from tasks.connectors.storage import BLOCK, local_location, source_errors
from tasks.intake.read import header_of, read_file
from tasks.intake.source import Format, SourceSection

DELIMITERS = (",", ";", "\t", "|")
FORMATS = SUFFIXES | {".tsv": "csv"}
# A number, a date or an e-mail address: no name of a column.
VALUE = re.compile(r"[-+]?\d+([.,]\d+)?|\d+[-/.]\d+[-/.]\d+.*|\S+@\S+\.\w+")
# The names are not shown, since they may be values of a person.
NO_HEADER = "source: the first line of {} looks like a record; it must hold the column names"
NESTED_COLUMNS = "source: columns of {} hold lists or structures: {}; convert them"
COMMA, POINT = re.compile(r"[-+]?\d+,\d+"), re.compile(r"[-+]?\d+\.\d+")
SHEETS = "confirm: the first of {} sheets"
DECIMALS = "confirm: numbers seem to be written with a decimal comma"
NO_NOTES = FileNotes(())
MAX_COLUMNS = 1000  # among which rules are found in reasonable time


@dataclass(frozen=True)
class Table:
    """A file, how it is read, and a remark where that is a guess.

    Parameters
    ----------
    remarks : on guesses of how it is read, by the key of the source that states them
    notes : what the file states of its columns
    sampled : the records of a folder that are looked at; None of a file, which is read whole
    records : how many the folder holds
    """

    path: Path
    source: SourceSection
    kind: Format
    names: tuple[str, ...]
    remarks: Mapping[str, str] = field(default_factory=dict)
    notes: FileNotes = NO_NOTES
    sampled: pd.DataFrame | None = field(default=None, repr=False)
    records: int = 0

    @classmethod
    def open(cls, data: Path, base: Path) -> Table:
        """Detect how to read the file, and its column names."""
        kind = FORMATS.get(data.suffix.lower())
        if data.is_dir():
            return cls._of_folder(data, base)
        if kind is None:
            raise Refused(
                f"source: the format of {visible(data.name)} is not known by its name; "
                f"a draft needs a file that ends in {', '.join(FORMATS)}"
            )
        head, notes = _head(data), NO_NOTES
        stated: dict[str, str] = {}
        remarks: dict[str, str] = {}
        if kind == "csv":
            stated, remarks = _dialect(data, head)
        elif (describe := FILES[kind].notes) is not None:
            with source_errors():
                notes = describe(data, visible(data.name))
            if len(notes.sheets) > 1:
                stated, remarks = {"sheet": notes.sheets[0]}, {"sheet": SHEETS.format(len(notes.sheets))}
        elif kind == "parquet" and (nested := nested_of(data, f"source: {visible(data.name)}")):
            raise Refused(NESTED_COLUMNS.format(visible(data.name), named(nested)))
        where = _relative(data, base)
        source = SourceSection.model_validate({"path": where, "format": kind, **stated})
        table = cls(data, source, kind, (), remarks, notes)
        header = list(notes.columns) or header_of(source, base.resolve())
        if header is None:
            header = [str(c) for c in table.read(()).columns]
        return replace(table, names=_names(data, header))

    @classmethod
    def _of_folder(cls, data: Path, base: Path) -> Table:
        """Take records of all Parquet files of a folder."""
        shown = visible(data.name)
        with source_errors():
            frame, records = sample(files_of(local_location(data)), shown)
            check_table(frame, shown)
        source = SourceSection(path=_relative(data, base), format="parquet")
        return cls(data, source, "parquet", _names(data, list(map(str, frame.columns))), sampled=frame, records=records)

    def read(self, variables: Iterable[Variable]) -> pd.DataFrame:
        """Read the file as the ingest step would with these declarations."""
        if self.sampled is not None:
            return self.sampled.copy()
        return read_file(self.path, self.kind, self.source, variables, shown=visible(self.path.name))

    def natural(self) -> pd.DataFrame:
        """Read the file with nothing declared, to guess what its columns are."""
        if len(self.names) > MAX_COLUMNS:
            raise Refused(
                f"source: {visible(self.path.name)} has {len(self.names)} columns, and a draft takes at most "
                f"{MAX_COLUMNS}; draft parts of the table and put their variables together"
            )
        frame = self.read([Variable(n, "nominal") for n in self.names])
        if list(frame.columns) != list(self.names):
            raise Refused(f"source: the column names of {visible(self.path.name)} cannot be read; simplify them")
        if frame.empty:
            raise Refused(f"source: {visible(self.path.name)} holds no records")
        if self.kind == "csv" and _first_record_as_names(frame):
            raise Refused(NO_HEADER.format(visible(self.path.name)))
        return frame


def _head(data: Path) -> bytes:
    problem = ""
    try:
        check_file(data)
        with data.open("rb") as file:
            head = file.read(4)
        if head:
            return head
        problem = f"{visible(data.name)} is empty"
    except PermissionError:
        problem = f"{visible(data.name)} may not be read by this user"
    except Refused as error:
        problem = str(error)
    raise Refused(f"source: {problem}")


def _encoding(data: Path, head: bytes) -> tuple[str, str]:
    """Return the encoding, and a remark where it is a guess."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", ""
    decoder = codecs.getincrementaldecoder("utf-8")()
    unicode, lines = True, LineCheck(f"source: {visible(data.name)}")
    with open_bytes(data, visible(data.name)) as file:
        while block := file.read(BLOCK):
            lines.add(block)
            try:
                unicode = unicode and decoder.decode(block) is not None
            except UnicodeDecodeError:
                unicode = False
    if unicode:
        return "utf-8-sig", ""
    return "latin-1", "confirm: the file is not UTF-8, and latin-1 reads anything; look at accented letters"


def _dialect(data: Path, head: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """Return the keys of the source by which a text file is read, and remarks on those that are guesses."""
    with open_bytes(data, visible(data.name)) as file:
        encoding, remark = _encoding(data, file.read(len(head)))
    delimiter, rows = _delimiter(data, encoding)
    stated = {"delimiter": delimiter, "encoding": encoding}
    remarks = {"encoding": remark} if remark else {}
    fields = [cell.strip() for row in rows[1:] for cell in row]
    commas = sum(COMMA.fullmatch(cell) is not None for cell in fields)
    if delimiter != "," and commas and not any(POINT.fullmatch(cell) for cell in fields):
        return stated | {"decimal": ","}, remarks | {"decimal": DECIMALS}
    return stated, remarks


def _delimiter(data: Path, encoding: str) -> tuple[str, list[list[str]]]:
    """Return the delimiter that splits the header and most of the first records like it, and these records."""
    shown = visible(data.name)
    best, score, records = ",", (False, 1), list[list[str]]()
    for delimiter in DELIMITERS:
        try:
            with open_bytes(data, shown) as packed, io.TextIOWrapper(packed, encoding=encoding, newline="") as file:
                some = islice(records_of(file, shown, delimiter), 50)
                split = [r for r in some if r]
                rows = [len(r) for r in split]
        except (csv.Error, UnicodeError):
            continue
        if rows and rows[0] > 1:
            regular = sum(n == rows[0] for n in rows) >= 0.9 * len(rows)
            if (regular, rows[0]) > score:
                best, score, records = delimiter, (regular, rows[0]), split
    return best, records


def _relative(data: Path, base: Path) -> str:
    """Return the path as the plan states it."""
    # The folder is resolved, but not a link that the file itself may be: it may come to point elsewhere.
    target, folder = data.parent.resolve() / data.name, base.resolve()
    try:
        shared = Path(os.path.commonpath([target, folder]))
    except ValueError:
        return str(target)
    near = shared != Path(shared.anchor) or folder == shared
    return Path(os.path.relpath(target, folder)).as_posix() if near else str(target)


def _names(data: Path, header: list[str]) -> tuple[str, ...]:
    if FORMATS.get(data.suffix.lower()) == "csv" and _is_record(header):
        raise Refused(NO_HEADER.format(visible(data.name)))
    if any(not name.strip() for name in header):
        raise Refused(f"source: {visible(data.name)} has a column without a name")
    return tuple(header)


def _first_record_as_names(frame: pd.DataFrame) -> bool:
    """Whether at least half of the columns of texts that repeat, and more than one, hold their own name as a value."""
    texts = [n for n in frame if not pd.api.types.is_numeric_dtype(frame[n])]
    texts = [n for n in texts if frame[n].nunique() < len(frame) / 2] or texts
    named = sum(bool((frame[n] == n).any()) for n in texts)
    return named > 1 and 2 * named >= len(texts)


def _is_record(header: list[str]) -> bool:
    """Whether at least half of the names are numbers, dates or e-mail addresses, and no series of years."""
    odd = [n.strip() for n in header if VALUE.fullmatch(n.strip())]
    series = [int(n) for n in odd if n.isdecimal()]
    counted = 1 < len(odd) == len(series) and series in (sorted(set(series)), sorted(set(series))[::-1])
    return len(odd) >= 0.5 * len(header) and not counted
