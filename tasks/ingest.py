"""Read the source into microdata, from one consistent copy, without its identifiers."""

from __future__ import annotations

import csv
import errno
import hashlib
import os
import re
import stat
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from anoncore.microdata import Microdata, Schema, Variable
from tasks.faults import Refused, visible
from tasks.home import private_umask
from tasks.workspace import Run, Section

Format = Literal["csv", "parquet", "stata"]
SUFFIXES: dict[str, Format] = {".csv": "csv", ".txt": "csv", ".parquet": "parquet", ".dta": "stata"}
BLOCK = 1 << 20
MISSING = ["", "NA", "N/A", "NaN", "nan", "NULL", "null", "."]
PASSWORD = re.compile(r"://[^:@/]*:[^@]*@|[?&;=](password|passwd|pwd|token|secret)=", re.IGNORECASE)
PLAIN = (str, int, float, bool, np.integer, np.floating, np.bool_, Decimal)
NESTED = (list, tuple, dict, set, np.ndarray)
# Paths that cannot be a file, as opposed to disks that fail.
NO_PATH = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


class SourceSection(Section):
    """Where the table is: a file, a file inside an installed package, or a database query.

    A path is relative to the plan's own folder. A database address that holds a password belongs
    into an environment variable, which ``url_from`` names.
    """

    path: str | None = None
    package: str | None = None
    sql: str | None = None
    url: str | None = None
    url_from: str | None = None
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
            if (self.url is None) == (self.url_from is None):
                raise ValueError("a query needs either url or url_from")
        elif self.url is not None or self.url_from is not None:
            raise ValueError("url belongs to a query; add sql or remove it")
        if self.delimiter in '"\r\n\0':
            raise ValueError("delimiter cannot be a quote, a line end or NUL; give what separates fields")
        if self.url is not None and PASSWORD.search(unquote(self.url)):
            raise ValueError("url holds a password; put the address into an environment variable: url_from")
        return self

    def file(self, base: Path) -> Path:
        """Return the path of a file source."""
        assert self.path is not None
        if self.package is None:
            return base / self.path
        try:
            return Path(str(resources.files(self.package) / self.path))
        except (ImportError, TypeError, ValueError):
            problem = f"source: the package {visible(self.package)} is not installed, or carries no files"
        raise Refused(problem)

    def kind(self, path: Path) -> Format:
        """Return the format, by statement or by the file's suffix."""
        found = self.format or SUFFIXES.get(path.suffix.lower())
        if found is None:
            shown = visible(path.name)
            raise Refused(f"source: {shown} does not tell its format; add format: csv, parquet or stata")
        return found


@dataclass(frozen=True)
class Ingested:
    """What was read: counts and digests, no values."""

    records: int
    variables: int
    dropped: tuple[str, ...]
    digest: str
    notes: tuple[str, ...] = field(default=())


def ingest(run: Run, source: SourceSection, variables: tuple[Variable, ...], base: Path) -> Ingested:
    """Read the source, check it against the declarations, and keep it in the workspace.

    Raises
    ------
    Refused
        With everything that is wrong with the columns at once; the message holds no value.
    """
    frame, digest = read(run, source, variables, base)
    run.bind(digest)
    data, notes = to_microdata(frame, variables)
    identifiers = [v.name for v in variables if v.role == "identifier"]
    if identifiers:
        with private_umask():
            identities(frame, identifiers).to_parquet(run.folder / "identifiers.parquet")
    run.save("source", data)
    done = Ingested(len(data), len(data.schema), tuple(identifiers), digest, tuple(notes))
    run.write_json("ingested", asdict(done))
    return done


def read(
    run: Run, source: SourceSection, variables: Iterable[Variable], base: Path
) -> tuple[pd.DataFrame, str]:
    """Return the source's table and the SHA-256 of its content."""
    declared = list(variables)
    if source.sql is not None:
        frame = _read_query(source, base)
        _check_types(frame, "the query", declared)
        return frame, content_digest(frame)
    path = source.file(base)
    kind = source.kind(path)
    copy = run.folder / f"copy-{os.urandom(4).hex()}"
    try:
        wide = re.search("16|32", source.encoding)
        digest = _copy(path, copy, text=kind == "csv" and not wide)
        frame = read_file(copy, kind, source, declared, shown=visible(path.name))
    finally:
        copy.unlink(missing_ok=True)
    if frame.empty:
        raise Refused(f"source: {visible(path.name)} holds no records")
    _check_types(frame, visible(path.name), declared)
    return frame, digest


def read_file(
    path: Path, kind: Format, source: SourceSection, variables: Iterable[Variable], *, shown: str
) -> pd.DataFrame:
    """Parse one file; ``shown`` is how messages call it."""
    if kind == "csv":
        return _read_csv(path, source, list(variables), shown)
    try:
        frame = _read_parquet(path, shown) if kind == "parquet" else pd.read_stata(path, convert_dates=False)
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
    absent = [n for n in whole.names if n not in names]
    surplus = [n for n in names if n not in whole]
    problems = []
    if len(absent) == len(whole):
        # Without a header the first record would stand here, so what was found is not shown.
        raise Refused(
            f"none of the {len(whole)} declared variables is among the {len(names)} column(s) of the data; "
            "check that it is the right table, that its first line holds the names, and its delimiter"
        )
    if absent:
        problems.append(f"declared variables are not in the data: {_listed(absent)}")
    if surplus:
        problems.append(
            f"columns without a declaration: {_listed(surplus)}; declare them, as identifier to drop them"
        )
    kept = [v for v in variables if v.role != "identifier"]
    if not kept:
        problems.append("every variable is an identifier; nothing would be released")
    if problems:
        raise Refused("\n".join(problems))
    try:
        data = Microdata(frame[[v.name for v in kept]].reset_index(drop=True), Schema(kept))
    except OverflowError:
        problem = f"variables hold whole numbers that are too large: {_listed(_too_large(frame, kept))}"
    else:
        return data, _notes(frame, variables, data)
    raise Refused(f"{problem}; correct them or declare a missing code")


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


def _listed(names: Iterable[object]) -> str:
    return ", ".join(visible(name) or "(no name)" for name in names)


def _too_large(frame: pd.DataFrame, variables: Iterable[Variable]) -> list[str]:
    digits = {v.name: frame[v.name].astype("string").str.fullmatch(r"\s*[+-]?\d{300,}\s*") for v in variables}
    return [name for name, found in digits.items() if bool(found.any())]


def _check_types(frame: pd.DataFrame, shown: str, variables: Iterable[Variable]) -> None:
    """Refuse what is neither a number nor text, and bring decimals to numbers."""
    dropped = {v.name for v in variables if v.role == "identifier"}
    odd = []
    for name in frame.columns:
        types = _types(frame[name])
        if any(issubclass(t, NESTED) if name in dropped else not _plain(t) for t in types):
            odd.append(name)
        elif Decimal in types:
            frame[name] = frame[name].astype("float64")
    if odd:
        raise Refused(
            f"source: {shown} has columns that hold neither numbers nor text, but dates, bytes or lists: "
            f"{_listed(odd)}; convert them"
        )


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


def _check_place(path: Path) -> None:
    """Refuse a path at which no ordinary file stands; opening a pipe would wait for ever."""
    problem = ""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            problem = f"{visible(path.name)} is a folder, not a file"
        elif not stat.S_ISREG(mode):
            problem = f"{visible(path.name)} is not an ordinary file"
    except PermissionError:
        problem = f"{visible(path.name)} may not be read by this user"
    except ValueError:
        problem = f"there is no file {visible(path.name)}"
    except OSError as error:
        if error.errno not in NO_PATH:
            raise
        problem = f"there is no file {visible(path.name)}"
    if problem:
        raise Refused(f"source: {problem}")


def _copy(path: Path, target: Path, *, text: bool) -> str:
    """Copy the file while hashing it; refuse when it changes meanwhile."""
    _check_place(path)
    shown, problem = visible(path.name), ""
    try:
        with path.open("rb") as file, private_umask(), target.open("xb") as out:
            before = os.fstat(file.fileno())
            digest = hashlib.sha256()
            while block := file.read(BLOCK):
                if text and b"\0" in block:
                    raise Refused(f"source: {shown} holds NUL bytes; state its encoding or repair it")
                digest.update(block)
                out.write(block)
            after = path.stat()
    except FileNotFoundError:
        problem = f"{shown} vanished while it was read"
    except PermissionError:
        problem = f"{shown} may not be read by this user"
    if problem:
        raise Refused(f"source: {problem}")
    fields = ("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
    if any(getattr(before, f) != getattr(after, f) for f in fields) or target.stat().st_size != after.st_size:
        raise Refused(f"source: {shown} changed while it was read; run again when it is complete")
    if after.st_size == 0:
        raise Refused(f"source: {shown} is empty")
    return digest.hexdigest()


def _read_parquet(path: Path, shown: str) -> pd.DataFrame:
    """Read a Parquet file as its own schema has it: what pandas calls an index is a column here."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        table = file.read()
    _check_names(table.column_names, shown, table.column_names)
    # Long codes with gaps would lose their last digits as floats.
    whole = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, types_mapper=whole.get)
    return frame


def _read_csv(path: Path, source: SourceSection, variables: list[Variable], shown: str) -> pd.DataFrame:
    """Parse a CSV file; codes are read as text, and become numbers only where nothing is lost by it."""
    header = _check_header(path, source, shown, [v.name for v in variables])
    number = [v.name for v in variables if v.kind == "continuous" and v.role != "identifier"]
    text = [v.name for v in variables if v.name not in number]
    problem = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)
            frame = pd.read_csv(
                path,
                sep=source.delimiter,
                encoding=source.encoding,
                dtype=dict.fromkeys(text, "str"),
                keep_default_na=False,
                na_values=dict.fromkeys(number, MISSING) | {name: [""] for name in text},
                index_col=False,
                low_memory=False,
                engine="c",
            )
        if len(header) > 1 and frame[frame.columns[-1]].isna().any():
            problem = _short_record(path, source, len(header))
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
    for v in variables:
        as_text = v.role == "identifier" or (v.levels and isinstance(v.levels[0], str))
        if v.name in text and v.name in frame and not as_text:
            frame[v.name] = _codes(frame[v.name])
    return frame


def _codes(column: pd.Series) -> pd.Series:
    """Return numbers, or 0 and 1 for truth values, where every text is one; 01 is another code than 1."""
    texts = column.drop_duplicates().dropna()
    if texts.empty:
        return column
    if texts.str.lower().isin(["true", "false"]).all():
        return column.str.lower().map({"true": 1, "false": 0})
    if texts.str.fullmatch(r"-?(0|[1-9]\d{0,14})(\.\d{1,9})?").all():
        return pd.to_numeric(column)
    return column


def _short_record(path: Path, source: SourceSection, columns: int) -> str:
    """Return where a record ends early, else nothing; pandas fills it with missing values."""
    with path.open(encoding=source.encoding, newline="") as file:
        reader = csv.reader(file, delimiter=source.delimiter)
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


def _check_header(path: Path, source: SourceSection, shown: str, declared: Sequence[str] = ()) -> list[str]:
    """Return the column names; pandas would rename a doubled column, so they are looked at first."""
    problem = ""
    header: list[str] = []
    try:
        with path.open(encoding=source.encoding, newline="") as file:
            header = next(csv.reader(file, delimiter=source.delimiter), [])
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
    if any(not name.strip() for name in header):
        raise Refused(f"source: {shown} has a column without a name")
    _check_names(header, shown, declared)
    return header


def _check_names(names: Sequence[str], shown: str, known: Sequence[str]) -> None:
    """Refuse doubled names. Where a header is missing they are values, so only ``known`` ones are shown."""
    places: dict[str, list[str]] = {}
    for number, name in enumerate(names, start=1):
        places.setdefault(name, []).append(str(number))
    twice = [
        f"{visible(name) + ' ' if name in known else ''}({' and '.join(at)})"
        for name, at in places.items()
        if len(at) > 1
    ]
    if twice:
        raise Refused(f"source: {shown} holds columns twice: {', '.join(twice)}; rename or remove one")


def _read_query(source: SourceSection, base: Path) -> pd.DataFrame:
    address = source.url if source.url is not None else os.environ.get(source.url_from or "")
    if not address:
        raise Refused(f"source: the environment variable {source.url_from} holds no database address")
    frame = _query(address, str(source.sql), base)
    names = [str(name) for name in frame.columns]
    _check_names(names, "the query's result", names)
    if frame.empty:
        raise Refused("source: the query returns no records")
    return frame


def _query(address: str, sql: str, base: Path) -> pd.DataFrame:
    """Run one query; of a database error only the kind is passed on, since its text may quote data."""
    import sqlalchemy

    try:
        engine = sqlalchemy.create_engine(_database(address, base), hide_parameters=True)
        try:
            # The statement goes to the driver as it stands: a colon or a percent sign in it means itself.
            with engine.connect().execution_options(no_parameters=True) as connection:
                return pd.read_sql_query(sql, connection)
        finally:
            engine.dispose()
    except Refused:
        raise
    except sqlalchemy.exc.NoSuchModuleError:
        problem = "the database address names a kind of database for which no driver is installed"
    except ImportError as error:
        problem = f"the database driver {error.name} is not installed"
    except (sqlalchemy.exc.ArgumentError, ValueError):
        problem = "the database address cannot be read; write it as dialect://user@host/database"
    except sqlalchemy.exc.ResourceClosedError:
        problem = "the statement returns no table; write a query that only reads"
    except Exception as error:
        cause = error.__cause__ if isinstance(error, pd.errors.DatabaseError) and error.__cause__ else error
        kind = type(getattr(cause, "orig", None) or cause).__name__
        problem = f"the query failed in the database ({kind}); try it there, and check names and rights"
    raise Refused(f"source: {problem}")


def _database(address: str, base: Path) -> Any:
    """Return the address; SQLite is opened to read, so that a mistyped path or statement changes nothing."""
    import sqlalchemy

    url = sqlalchemy.engine.make_url(address)
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return url
    where = (base / str(url.database)).absolute()
    if not where.is_file():
        raise Refused(f"source: there is no database file {visible(where.name)}")
    return url.set(database=f"file:{quote(str(where))}", query={"mode": "ro", "uri": "true"})


def content_digest(frame: pd.DataFrame) -> str:
    """Return a SHA-256 of a table's content that does not depend on the order of its records."""
    rows = np.sort(pd.util.hash_pandas_object(frame.astype("string"), index=False).to_numpy())
    header = "\x1f".join(map(str, frame.columns)).encode()
    return hashlib.sha256(header + rows.tobytes()).hexdigest()


def header_of(source: SourceSection, base: Path) -> list[str] | None:
    """Return the source's column names where they can be had without reading the data, else None."""
    if source.sql is not None:
        return None
    path = source.file(base)
    _check_place(path)
    kind: Any = source.kind(path)
    if kind == "csv":
        return _check_header(path, source, visible(path.name))
    if kind == "parquet":
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except Exception:
            unreadable = f"source: {visible(path.name)} is not a readable parquet file"
        raise Refused(unreadable)
    return None
