"""Read the source into microdata, from one consistent copy, without its identifiers."""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.names import appearance, format_look_alikes
from tasks.common.errors import Refused, cut, named, odd, visible
from tasks.common.home import Home
from tasks.common.keys import keyed_digest
from tasks.common.run import Run
from tasks.common.secrets import check_name, secret
from tasks.common.sections import Section
from tasks.common.workspace import StoredMicrodata, StoredTable
from tasks.connectors.copies import check_file, fetch, fetch_folder
from tasks.connectors.csv import WIDE, check_header, check_names, read_codes, read_csv
from tasks.connectors.fingerprint import content_digest, record_digests, records_digest
from tasks.connectors.limits import UNSUPPORTED, check_size
from tasks.connectors.parquet import columns_of, columns_of_folder, read_folder, read_table, to_frame
from tasks.connectors.storage import (
    PASSWORD,
    Location,
    check_address,
    is_address,
    local_location,
    open_location,
    source_errors,
)
from tasks.record.dossier import SourceSummary

Format = Literal["csv", "parquet", "stata"]
SUFFIXES: dict[str, Format] = {".csv": "csv", ".txt": "csv", ".parquet": "parquet", ".dta": "stata"}
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)*|[.,]\d+)(e[+-]?\d+)?\s?%?", re.IGNORECASE)
BLANK = "".join(c for c in map(chr, range(256)) if c.isspace() or not c.isprintable()) + "\u2028\u2029"
# Their products and sums must stay finite.
TOO_LARGE = 1e100
PLAIN = (str, int, float, bool, np.integer, np.floating, np.bool_, Decimal)
NESTED = (list, tuple, dict, set, np.ndarray)


class SourceSection(Section):
    """Where the table is: a file, a folder of Parquet files, a file inside an installed package, or a database query.

    Parameters
    ----------
    path : The file or folder, relative to the plan's folder, or absolute, or an address such as
        ``s3://bucket/people.parquet``. With ``package``: relative to the package.
    package : An installed Python package that contains the file.
    sql : A query instead of a file. It needs ``database``, ``url`` or ``url_from``.
    url : Address of the database, ``dialect://user@host/database``. An address with a password is refused.
    url_from : The environment variable that holds the address, password included.
    database : The secret that holds the database's address, password included.
    storage : For a ``path`` that is an address: the secret that holds the storage's options as JSON.
    format : Determined by the suffix (.csv, .txt, .parquet, .dta) when not stated.
    delimiter : The field separator of a CSV file, one character; a tab in double quotes.
    encoding : Of a CSV file. ``utf-8-sig`` reads UTF-8 with or without a byte order mark; others are ``latin-1``,
        ``cp1252``, ``utf-16``.
    """

    path: str | None = None
    package: str | None = None
    sql: str | None = None
    url: str | None = None
    url_from: str | None = None
    database: str | None = None
    storage: str | None = None
    format: Format | None = None
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    encoding: str = "utf-8-sig"

    @model_validator(mode="after")
    def _one_source(self) -> SourceSection:
        if self.sql is None and self.path is None:
            raise ValueError("name a source: path, package with path, or sql with url or url_from")
        if self.sql is not None:
            if self.path is not None or self.package is not None:
                raise ValueError("a source is a file or a query, not both")
            if sum(given is not None for given in (self.url, self.url_from, self.database)) != 1:
                raise ValueError("a query needs one of database, url and url_from")
        elif self.url is not None or self.url_from is not None or self.database is not None:
            raise ValueError("database and url belong to a query; add sql or remove them")
        if self.remote and self.path is not None:
            check_address(self.path, "path")
        elif self.storage is not None:
            raise ValueError("storage belongs to an address such as s3://bucket/table.parquet; remove it")
        check_name(self.database, "database")
        check_name(self.storage, "storage")
        if self.delimiter in '"\r\n\0':
            raise ValueError("delimiter cannot be a quote, a line end or NUL; give what separates fields")
        if self.url is not None and PASSWORD.search(unquote(self.url)):
            raise ValueError("url holds a password; name a secret that holds the address: database, or url_from")
        return self

    @property
    def remote(self) -> bool:
        """Whether it is a file or folder at an address, and not a path on this machine."""
        return self.path is not None and self.package is None and is_address(self.path)

    def place(self, base: Path, home: Home) -> Location:
        """Return where a file or folder is."""
        if self.remote:
            return open_location(str(self.path), self.storage, home)
        return local_location(self.file(base))

    def folder_at(self, place: Location) -> bool:
        """Return whether a folder of Parquet files stands there; a folder called x.csv is none."""
        kind = self.format or SUFFIXES.get(Path(place.path).suffix.lower(), "parquet")
        if kind != "parquet":
            return False
        return place.local.is_dir() if place.local is not None else place.is_folder()

    def file(self, base: Path) -> Path:
        """Return the path of a file source."""
        assert self.path is not None
        if self.package is None:
            return base / self.path
        try:
            root = Path(str(resources.files(self.package)))
        except (ImportError, TypeError, ValueError):
            root = None
        if root is None:
            raise Refused(f"source: the package {cut(visible(self.package))} is not installed, or carries no files")
        found = root / self.path
        if not Path(os.path.normpath(found)).is_relative_to(root):
            raise Refused(f"source: {cut(visible(found.name))} is not inside the package; path must not leave it")
        return found

    def kind(self, path: Path | str) -> Format:
        """Return the format, by statement or by the file's suffix."""
        found = self.format or SUFFIXES.get(Path(path).suffix.lower())
        if found is None:
            shown = visible(Path(path).name)
            raise Refused(f"source: {shown} does not tell its format; add format: csv, parquet or stata")
        return found


@dataclass(frozen=True)
class Ingested:
    """The source as microdata and its identifiers as text, by reference, with what was read."""

    data: StoredMicrodata
    identifiers: StoredTable | None
    summary: SourceSummary


def ingest(run: Run, source: SourceSection, variables: tuple[Variable, ...], base: Path) -> Ingested:
    """Read the source, check it against the declarations, and store it.

    Raises
    ------
    Refused
        With everything that is wrong with the columns at once; the message holds no value.
    """
    frame, digest = read(run, source, variables, base)
    data, notes = to_microdata(frame, variables)
    notes += _check_levels(data, variables)
    names = tuple(v.name for v in variables if v.role == "identifier")
    digest_of_records = keyed_digest(run.home, f"records {records_digest(record_digests(frame, names))}")
    return Ingested(
        run.workspace.store("source", data),
        run.workspace.store_table("identifiers", identities(frame, names)) if names else None,
        SourceSummary(len(data), len(data.schema), names, digest, digest_of_records, tuple(notes)),
    )


def read(run: Run, source: SourceSection, variables: Iterable[Variable], base: Path) -> tuple[pd.DataFrame, str]:
    """Return the source's table and the SHA-256 of its content."""
    declared = list(variables)
    if source.sql is not None:
        with source_errors():
            frame = _read_query(run, source, declared, base)
            check_size(*frame.shape, "the query's result")
        _check_types(frame, "the query", declared)
        return frame, content_digest(frame)
    with source_errors():
        frame, digest, shown = _read_place(run, source, declared, base)
        check_size(*frame.shape, shown)
    if frame.empty:
        raise Refused(f"source: {shown} holds no records")
    _check_types(frame, shown, declared)
    return frame, digest or content_digest(frame)


def read_file(
    path: Path, kind: Format, source: SourceSection, variables: Iterable[Variable], *, shown: str
) -> pd.DataFrame:
    """Parse one file; ``shown`` is how messages call it."""
    if kind == "csv":
        return read_csv(path, source, list(variables), shown)
    try:
        with warnings.catch_warnings():
            # Text that is not of the file's encoding would be read as another, with a warning.
            warnings.simplefilter("error", UnicodeWarning)
            frame = _read_parquet(path, shown) if kind == "parquet" else _read_stata(path)
    except Refused:
        raise
    except Exception:
        unreadable = f"source: {shown} is not a readable {kind} file"
    else:
        return frame
    raise Refused(unreadable)


def to_microdata(frame: pd.DataFrame, variables: tuple[Variable, ...]) -> tuple[Microdata, list[str]]:
    """Return microdata without identifiers, and sentences on what a reader should know."""
    whole = Schema(variables)
    names = [str(c) for c in frame.columns]
    there = set(names)
    absent = [n for n in whole.names if n not in there]
    surplus = [n for n in names if n not in whole]
    problems = []
    if len(absent) == len(whole):
        # Without a header the first record would stand here, so what was found is not shown.
        raise Refused(
            f"none of the {len(whole)} declared variables is among the {len(names)} column(s) of the data; "
            "check that it is the right table, that its first line holds the names, and its delimiter"
        )
    if absent:
        problems.append(f"declared variables are not in the data: {named(absent)}")
    if surplus:
        problems.append(
            f"columns without a declaration: {named_surplus(surplus, len(whole) - len(absent), len(whole))}; "
            "declare them, as identifier to drop them"
        )
    if pairs := nearly(absent, surplus):
        problems.append(f"names that look alike and are not the same: {format_look_alikes(pairs)}; mend the plan's")
    kept = [v for v in variables if v.role != "identifier"]
    if not kept:
        problems.append("every variable is an identifier; nothing would be released")
    if problems:
        raise Refused("\n".join(problems))
    try:
        data = Microdata(frame[[v.name for v in kept]].reset_index(drop=True), Schema(kept))
    except OverflowError:
        problem = f"variables hold whole numbers that are too large: {named(_too_large(frame, kept))}"
    else:
        vast = _vast(data)
        if not vast:
            return data, _notes(frame, variables, data)
        problem = f"variables hold numbers beyond 1e100, with which nothing can be computed: {named(vast)}"
    raise Refused(f"{problem}; correct them or declare a missing code")


def nearly(absent: Iterable[str], surplus: Iterable[str]) -> list[tuple[str, str]]:
    """Return declared names beside those of the source that only look like them."""
    like = {appearance(name): name for name in absent}
    return [(like[drawn], name) for name in surplus if (drawn := appearance(name)) in like]


def named_surplus(surplus: Sequence[str], found: int, declared: int) -> str:
    """Return columns that are not declared as a message may show them: by name, or as their number.

    Where a header is missing they are values of the first record, of which one or another may be a declared
    name by chance.
    """
    return named(surplus) if 2 * found >= declared else f"{len(surplus)} (names are shown when most agree)"


def like_a_formula(text: str) -> bool:
    """Return whether a spreadsheet that opens a CSV file may take a cell for something to carry out.

    Numbers are none, nor are signs and ranges of numbers: what calls or fetches something needs a letter.

    Examples
    --------
    >>> [like_a_formula(t) for t in ("=1+1", "-2.5", "+", "-10-20", "+cmd|' /C calc'!A0", "@SUM(A1)")]
    [True, False, False, False, True, True]
    """
    drawn = appearance(text).lstrip(BLANK)
    if drawn[:1] in ("=", "@"):
        return len(drawn) > 1
    return drawn[:1] in ("+", "-") and not NUMBER.fullmatch(drawn) and any(c.isalpha() for c in drawn)


def _check_levels(data: Microdata, variables: Iterable[Variable]) -> list[str]:
    """Refuse text that must not be released unseen, and return a sentence where a person has stated it."""
    stated = {v.name for v in variables if v.levels}
    broken, unseen, notes = [], [], []
    for variable in data.schema:
        levels = [v for v in variable.levels or () if isinstance(v, str)]
        if any(map(odd, levels)):
            broken.append(variable.name)
        formulas = sum(map(like_a_formula, levels))
        if formulas and variable.name in stated:
            notes.append(
                f"{formulas} level(s) of {visible(variable.name)} begin like a formula; a spreadsheet must "
                "open the CSV file as text alone"
            )
        elif formulas:
            unseen.append(f"{visible(variable.name)} ({formulas})")
    if broken:
        raise Refused(
            f"text with NUL or other control characters, tabs, line ends or half a character in "
            f"{named(broken)}; repair it"
        )
    if unseen:
        raise Refused(
            f"values that begin like a formula (= + - @), which a spreadsheet would carry out: "
            f"{named(unseen)}; correct them, or state the variable's levels if they are meant"
        )
    return notes


def identities(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return identifiers as text that is the same however a file writes them: 7, 7.0, 007 and " 7 "."""
    return pd.DataFrame({name: _identity(frame[name]) for name in names}, index=frame.index)


def _identity(column: pd.Series) -> pd.Series:
    known = column.dropna()
    if pd.api.types.is_float_dtype(column) and bool(((known % 1 == 0) & (known.abs() < 2**53)).all()):
        column = column.astype("Int64")
    if column.dtype == object:
        column = column.map(str, na_action="ignore")
    text = column.astype("string").str.strip()
    text = text.str.replace(r"^([+-]?\d+)\.0+$", r"\1", regex=True)
    text = text.str.replace(r"^0+(?=\d+$)", "", regex=True)
    return text.mask(text == "")


def _too_large(frame: pd.DataFrame, variables: Iterable[Variable]) -> list[str]:
    digits = {v.name: frame[v.name].astype("string").str.fullmatch(r"\s*[+-]?\d{300,}\s*") for v in variables}
    return [name for name, found in digits.items() if bool(found.any())]


def _vast(data: Microdata) -> list[str]:
    """Return the variables with numbers so large that their squares and sums would overflow."""
    found = []
    for variable in data.schema:
        column = data.frame[variable.name]
        vast = any(abs(v) > TOO_LARGE for v in variable.levels or () if not isinstance(v, str))
        if pd.api.types.is_numeric_dtype(column):
            vast = bool((column.abs() > TOO_LARGE).any())
        if vast:
            found.append(variable.name)
    return found


def _check_types(frame: pd.DataFrame, shown: str, variables: Iterable[Variable]) -> None:
    """Refuse what is neither a number nor text, and bring decimals to numbers."""
    dropped = {v.name for v in variables if v.role == "identifier"}
    odd = []
    for name in frame.columns:
        types = _types(frame[name])
        if any(issubclass(t, NESTED) if name in dropped else not _plain(t) for t in types):
            odd.append(name)
        elif Decimal in types and name not in dropped:
            frame[name] = frame[name].astype("float64")
    if odd:
        raise Refused(f"source: {UNSUPPORTED.format(shown, named(odd))}")


def _plain(kind: type) -> bool:
    """Return whether values are numbers or text; numpy counts durations among the whole numbers."""
    return issubclass(kind, PLAIN) and not issubclass(kind, np.timedelta64)


def _types(column: pd.Series) -> set[type]:
    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    return set(map(type, values.dropna())) if values.dtype == object else {values.dtype.type}


def _notes(frame: pd.DataFrame, variables: tuple[Variable, ...], data: Microdata) -> list[str]:
    notes = []
    for variable in variables:
        if variable.role == "identifier":
            again = int(_identity(frame[variable.name]).dropna().duplicated().sum())
            if again:
                notes.append(
                    f"identifier {visible(variable.name)} repeats in {again} record(s); "
                    "the risk measures treat every record as a person of its own"
                )
            continue
        known = data.frame[variable.name].dropna()
        if known.empty:
            notes.append(f"{visible(variable.name)} is missing in every record and is released so")
        elif bool((known == known.iloc[0]).all()):
            notes.append(f"{visible(variable.name)} holds one value only, which is released as it is")
    return notes


def _read_stata(path: Path) -> pd.DataFrame:
    return pd.read_stata(path, convert_dates=False)


def _read_parquet(path: Path, shown: str) -> pd.DataFrame:
    table = read_table(path, shown)
    check_names(table.column_names, shown, table.column_names)
    return to_frame(table)


def _read_query(run: Run, source: SourceSection, variables: Iterable[Variable], base: Path) -> pd.DataFrame:
    from tasks.connectors.postgres.query import read_query

    address = source.url
    if source.database is not None:
        address = secret(source.database, run.home)
    elif source.url_from is not None:
        address = os.environ.get(source.url_from)
    if not address:
        raise Refused(f"the environment variable {source.url_from} holds no database address")
    dropped = [v.name for v in variables if v.role == "identifier"]
    frame = read_query(address, str(source.sql), base, verbatim=dropped)
    names = [str(name) for name in frame.columns]
    check_names(names, "the query's result", names)
    if frame.empty:
        raise Refused("the query returns no records")
    return frame


def _read_place(
    run: Run, source: SourceSection, variables: list[Variable], base: Path
) -> tuple[pd.DataFrame, str | None, str]:
    """Return the table of a file or a folder, the digest of a file's bytes, and how messages call it."""
    place = source.place(base, run.home)
    copy = run.workspace.folder / f"copy-{os.urandom(4).hex()}"
    try:
        if source.folder_at(place):
            frame, partitions = read_folder(fetch_folder(place, copy), place.shown)
            return _with_partitions(frame, partitions, variables), None, place.shown
        kind = source.kind(place.shown)
        wide = WIDE.search(source.encoding)
        digest = fetch(place, copy, text=kind == "csv" and not wide)
        return read_file(copy, kind, source, variables, shown=place.shown), digest, place.shown
    finally:
        copy.unlink(missing_ok=True) if copy.is_file() else shutil.rmtree(copy, ignore_errors=True)


def _with_partitions(frame: pd.DataFrame, partitions: Iterable[str], variables: Iterable[Variable]) -> pd.DataFrame:
    """Read what stands in folders' names as the same text in a CSV file would be read."""
    known = {v.name: v for v in variables}
    for name in partitions:
        variable, text = known.get(name), frame[name].astype("str")
        as_text = variable is not None and (
            variable.role == "identifier" or bool(variable.levels and isinstance(variable.levels[0], str))
        )
        frame[name] = text if as_text else read_codes(text)
    return frame


def header_of(source: SourceSection, base: Path, known: Sequence[str] = ()) -> list[str] | None:
    """Return the source's column names where they can be had without reading the data, else None.

    Neither a database nor a storage is asked: a plan can be checked where no secret is. Names that are
    ``known`` may be shown; where a header is missing, others are values.
    """
    if source.sql is not None or source.remote:
        return None
    path = source.file(base)
    with source_errors():
        if source.folder_at(local_location(path)):
            return columns_of_folder(local_location(path))
        check_file(path)
        if path.stat().st_size == 0:
            raise Refused(f"{visible(path.name)} is empty")
        kind: Any = source.kind(path)
        if kind == "parquet":
            names = columns_of(path, visible(path.name))
            check_names(names, visible(path.name), known)
            return names
    return check_header(path, source, visible(path.name), known) if kind == "csv" else None
