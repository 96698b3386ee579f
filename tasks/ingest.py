"""Read the source into microdata, from one consistent copy, without its identifiers."""

from __future__ import annotations

import csv
import hashlib
import os
import re
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from anoncore.microdata import Microdata, Schema, Variable
from tasks.faults import Refused
from tasks.workspace import Run, Section, private_umask

Format = Literal["csv", "parquet", "stata"]
SUFFIXES: dict[str, Format] = {".csv": "csv", ".txt": "csv", ".parquet": "parquet", ".dta": "stata"}
BLOCK = 1 << 20


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
        if self.url is not None and re.search(r"://[^/@]*:[^/@]*@", self.url):
            raise ValueError("url holds a password; put the address into an environment variable: url_from")
        return self

    def file(self, base: Path) -> Path:
        """Return the path of a file source."""
        assert self.path is not None
        if self.package is None:
            return (base / self.path).resolve()
        try:
            return Path(str(resources.files(self.package) / self.path))
        except ModuleNotFoundError:
            raise Refused(f"source: the package {self.package} is not installed") from None

    def kind(self, path: Path) -> Format:
        """Return the format, by statement or by the file's suffix."""
        found = self.format or SUFFIXES.get(path.suffix.lower())
        if found is None:
            raise Refused(f"source: {path.name} does not tell its format; add format: csv, parquet or stata")
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
            frame[identifiers].to_parquet(run.folder / "identifiers.parquet")
    run.save("source", data)
    done = Ingested(len(data), len(data.schema), tuple(identifiers), digest, tuple(notes))
    run.write_json("ingested", asdict(done))
    return done


def read(
    run: Run, source: SourceSection, variables: Iterable[Variable], base: Path
) -> tuple[pd.DataFrame, str]:
    """Return the source's table and the SHA-256 of its content."""
    if source.sql is not None:
        return _read_query(source, base)
    path = source.file(base)
    kind = source.kind(path)
    copy = run.folder / f"copy-{os.urandom(4).hex()}"
    try:
        digest = _copy(path, copy, text=kind == "csv" and "16" not in source.encoding)
        frame = read_file(copy, kind, source, variables, shown=path.name)
    finally:
        copy.unlink(missing_ok=True)
    if frame.empty:
        raise Refused(f"source: {path.name} holds no records")
    return frame, digest


def read_file(
    path: Path, kind: Format, source: SourceSection, variables: Iterable[Variable], *, shown: str
) -> pd.DataFrame:
    """Parse one file; ``shown`` is how messages call it."""
    try:
        if kind == "parquet":
            return pd.read_parquet(path)
        if kind == "stata":
            return pd.read_stata(path, convert_dates=False)
    except Exception:
        unreadable = f"source: {shown} is not a readable {kind} file"
    else:
        return _read_csv(path, source, list(variables), shown)
    raise Refused(unreadable) from None


def to_microdata(frame: pd.DataFrame, variables: tuple[Variable, ...]) -> tuple[Microdata, list[str]]:
    """Return microdata without identifiers, and sentences on what a reader should know."""
    whole = Schema(variables)
    names = [str(c) for c in frame.columns]
    absent = [n for n in whole.names if n not in names]
    surplus = [n for n in names if n not in whole]
    problems = []
    if absent:
        problems.append(f"declared variables are not in the data: {', '.join(absent)}")
    if surplus:
        problems.append(
            f"columns without a declaration: {', '.join(surplus)}; declare them, as identifier to drop them"
        )
    kept = [v for v in variables if v.role != "identifier"]
    if not kept:
        problems.append("every variable is an identifier; nothing would be released")
    if problems:
        raise Refused("\n".join(problems))
    data = Microdata(frame[[v.name for v in kept]].reset_index(drop=True), Schema(kept))
    return data, _notes(frame, variables, data)


def _notes(frame: pd.DataFrame, variables: tuple[Variable, ...], data: Microdata) -> list[str]:
    notes = []
    for variable in variables:
        if variable.role == "identifier":
            again = int(frame[variable.name].dropna().duplicated().sum())
            if again:
                notes.append(
                    f"identifier {variable.name} repeats in {again} record(s); "
                    "the risk measures treat every record as a person of its own"
                )
            continue
        known = data.frame[variable.name].dropna()
        if known.empty:
            notes.append(f"{variable.name} is missing in every record and is released so")
        elif bool((known == known.iloc[0]).all()):
            notes.append(f"{variable.name} holds one value only, which is released as it is")
    return notes


def _copy(path: Path, target: Path, *, text: bool) -> str:
    """Copy the file while hashing it; refuse when it changes meanwhile."""
    try:
        with path.open("rb") as file, private_umask(), target.open("xb") as out:
            before = os.fstat(file.fileno())
            digest = hashlib.sha256()
            while block := file.read(BLOCK):
                if text and b"\0" in block:
                    raise Refused(f"source: {path.name} holds NUL bytes; state its encoding or repair it")
                digest.update(block)
                out.write(block)
            after = path.stat()
    except FileNotFoundError:
        raise Refused(f"source: there is no file {path.name}") from None
    except IsADirectoryError:
        raise Refused(f"source: {path.name} is a folder, not a file") from None
    except PermissionError:
        raise Refused(f"source: {path.name} may not be read by this user") from None
    fields = ("st_ino", "st_size", "st_mtime_ns")
    if any(getattr(before, f) != getattr(after, f) for f in fields) or target.stat().st_size != after.st_size:
        raise Refused(f"source: {path.name} changed while it was read; run again when it is complete")
    if after.st_size == 0:
        raise Refused(f"source: {path.name} is empty")
    return digest.hexdigest()


def _read_csv(path: Path, source: SourceSection, variables: list[Variable], shown: str) -> pd.DataFrame:
    _check_header(path, source, shown)
    text = [
        v.name for v in variables if v.role == "identifier" or (v.levels and isinstance(v.levels[0], str))
    ]
    number = [v.name for v in variables if v.kind == "continuous"]
    usual = ["", "NA", "N/A", "NaN", "nan", "NULL", "null", "."]
    problem = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)
            return pd.read_csv(
                path,
                sep=source.delimiter,
                encoding=source.encoding,
                dtype=dict.fromkeys(text, "str"),
                keep_default_na=False,
                na_values=dict.fromkeys(number, usual)
                | {v.name: [""] for v in variables if v.name not in number},
                index_col=False,
                low_memory=False,
                engine="c",
            )
    except UnicodeDecodeError:
        problem = f"holds bytes that are not {source.encoding}; state its encoding"
    except LookupError:
        problem = f"cannot be read: there is no encoding called {source.encoding}"
    except pd.errors.EmptyDataError:
        problem = "holds no columns"
    except pd.errors.ParserWarning:
        problem = "has records with more fields than its header has names"
    except pd.errors.ParserError as error:
        problem = f"is not regular{_where(error)}"
    except (ValueError, OverflowError):
        problem = "holds a field that cannot be read; check quotes and very long numbers"
    raise Refused(f"source: {shown} {problem}") from None


def _where(error: Exception) -> str:
    numbers = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if not numbers:
        return "; check its quotes and delimiter"
    expected, line, found = numbers.groups()
    return f": line {line} has {found} fields, the header {expected}"


def _check_header(path: Path, source: SourceSection, shown: str) -> None:
    """Pandas would rename a doubled column, so the header is looked at first."""
    problem = ""
    try:
        with path.open(encoding=source.encoding, newline="") as file:
            header = next(csv.reader(file, delimiter=source.delimiter), [])
    except UnicodeDecodeError:
        problem = f"holds bytes that are not {source.encoding}; state its encoding"
    except LookupError:
        problem = f"cannot be read: there is no encoding called {source.encoding}"
    except csv.Error:
        problem = "has a header that cannot be read; check its quotes and delimiter"
    if problem:
        raise Refused(f"source: {shown} {problem}") from None
    twice = sorted({name for name in header if header.count(name) > 1})
    if any(not name.strip() for name in header):
        raise Refused(f"source: {shown} has a column without a name")
    if twice:
        raise Refused(f"source: {shown} holds columns twice: {', '.join(twice)}; rename or remove one")


def _read_query(source: SourceSection, base: Path) -> tuple[pd.DataFrame, str]:
    address = source.url if source.url is not None else os.environ.get(source.url_from or "")
    if not address:
        raise Refused(f"source: the environment variable {source.url_from} holds no database address")
    frame = _query(address, str(source.sql), base)
    names = list(frame.columns)
    twice = sorted({str(n) for n in names if names.count(n) > 1})
    if twice:
        raise Refused(f"source: the query returns columns twice: {', '.join(twice)}; name them apart")
    if frame.empty:
        raise Refused("source: the query returns no records")
    return frame, content_digest(frame)


def _query(address: str, sql: str, base: Path) -> pd.DataFrame:
    """Run one query; of a database error only the kind is passed on, since its text may quote data."""
    import sqlalchemy

    try:
        engine = sqlalchemy.create_engine(_database(address, base), hide_parameters=True)
        try:
            with engine.connect() as connection:
                return pd.read_sql_query(sqlalchemy.text(sql), connection)
        finally:
            engine.dispose()
    except sqlalchemy.exc.NoSuchModuleError:
        problem = "the database address names a kind of database for which no driver is installed"
    except ImportError as error:
        problem = f"the database driver {error.name} is not installed"
    except sqlalchemy.exc.ArgumentError:
        problem = "the database address cannot be read; write it as dialect://user@host/database"
    except sqlalchemy.exc.SQLAlchemyError as error:
        cause = type(getattr(error, "orig", None) or error).__name__
        problem = f"the query failed in the database ({cause}); try it there, and check names and rights"
    raise Refused(f"source: {problem}") from None


def _database(address: str, base: Path) -> Any:
    """Return the address; a mistyped SQLite path must be an error and not a new, empty database."""
    import sqlalchemy

    url = sqlalchemy.engine.make_url(address)
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return url
    where = (base / str(url.database)).resolve()
    if not where.is_file():
        raise Refused(f"source: there is no database file {where.name}")
    return url.set(database=str(where))


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
    if not path.is_file():
        raise Refused(f"source: there is no file {path.name}")
    kind: Any = source.kind(path)
    if kind == "csv":
        _check_header(path, source, path.name)
        with path.open(encoding=source.encoding, newline="") as file:
            return next(csv.reader(file, delimiter=source.delimiter), [])
    if kind == "parquet":
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except Exception:
            unreadable = f"source: {path.name} is not a readable parquet file"
        raise Refused(unreadable) from None
    return None
