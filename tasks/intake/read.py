"""Read a file, a folder or a query into one table, and refuse values that are neither numbers nor text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from datetime import date, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd

from anoncore.microdata import Variable
from tasks.common.errors import Refused, named, visible
from tasks.common.run import Run
from tasks.common.secrets import secret
from tasks.connectors.arrow import example_of
from tasks.connectors.copies import check_file, fetch, fetch_folder, parquet_names
from tasks.connectors.csv import WIDE, check_names, read_codes
from tasks.connectors.fingerprint import content_digest
from tasks.connectors.formats import FORMATS
from tasks.connectors.limits import UNSUPPORTED, check_table
from tasks.connectors.parquet import columns_of_folder, read_folder, schema_of
from tasks.connectors.storage import local_location, source_errors
from tasks.intake.source import Format, SourceSection

PLAIN = (str, int, float, bool, np.integer, np.floating, np.bool_, Decimal)
TEMPORAL = (date, time, np.datetime64, np.timedelta64)
NESTED = (list, tuple, dict, set, np.ndarray)


def read(run: Run, source: SourceSection, variables: Iterable[Variable], base: Path) -> tuple[pd.DataFrame, str]:
    """Return the source's table and the SHA-256 of its content."""
    declared = list(variables)
    if source.sql is not None:
        with source_errors():
            frame = _read_query(run, source, declared, base)
            check_table(frame, "the query's result")
        check_types(frame, "the query", declared)
        return frame, content_digest(frame)
    with source_errors():
        frame, digest, shown = _read_place(run, source, declared, base)
    if frame.empty:
        raise Refused(f"source: {shown} holds no records")
    check_types(frame, shown, declared)
    return frame, digest or content_digest(frame)


def read_file(
    path: Path, kind: Format, source: SourceSection, variables: Iterable[Variable], *, shown: str
) -> pd.DataFrame:
    """Parse one file; ``shown`` is how messages call it."""
    with source_errors():
        frame = FORMATS[kind].read(path, source, list(variables), shown)
        check_table(frame, shown)
    check_names(list(frame.columns), shown, list(frame.columns))
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
        header = FORMATS[source.kind(path)].header
        return None if header is None else header(path, source, visible(path.name), known)


def check_stated_types(source: SourceSection, variables: Iterable[Variable], base: Path) -> list[str]:
    """Check the types that Parquet files on this machine state, without reading records.

    Returns
    -------
    Sentences on columns that hold text where numbers are declared, or numbers where text is: values decide.

    Raises
    ------
    Refused
        As reading the files would: when they differ, or hold what is neither a number nor text.
    """
    if source.sql is not None or source.remote:
        return []
    place, declared = local_location(source.file(base)), list(variables)
    assert place.local is not None
    with source_errors():
        if source.folder_at(place):
            files = [(name, place.local / name) for name in parquet_names(place)]
        elif source.kind(place.shown) == "parquet":
            check_file(place.local)
            files = [(place.shown, place.local)]
        else:
            return []
        frame = example_of(schema_of(files, place.shown))
    check_types(frame, place.shown, declared)
    unlike = [v.name for v in declared if v.name in frame and _unlike(frame[v.name], v)]
    return [
        f"variables: {named(unlike)} state numbers where the column is text, or text where it is numbers; a run is "
        "refused at the first value that cannot be read so"
    ] * bool(unlike)


def _unlike(column: pd.Series, variable: Variable) -> bool:
    """Return whether a column is text where its variable states numbers, or the other way round."""
    if variable.is_dropped or variable.temporal is not None:
        return False
    if variable.kind == "continuous" or (variable.levels and not isinstance(variable.levels[0], str)):
        return isinstance(column.dtype, pd.StringDtype)
    return bool(variable.levels) and pd.api.types.is_numeric_dtype(column)


def check_types(frame: pd.DataFrame, shown: str, variables: Iterable[Variable]) -> None:
    """Refuse what is neither a number nor text, and bring decimals to numbers."""
    known = {v.name: v for v in variables}
    dropped = {name for name, v in known.items() if v.is_dropped}
    odd = []
    for name in frame.columns:
        types = _types(frame[name])
        if name in known and known[name].temporal is not None:
            types = {t for t in types if not issubclass(t, TEMPORAL)}
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


def database_of(run: Run, source: SourceSection) -> str:
    """Return the address of a query's database, with the password that a secret or a variable holds."""
    address = source.url
    if source.database is not None:
        address = secret(source.database, run.home)
    elif source.url_from is not None:
        address = os.environ.get(source.url_from)
    if not address:
        raise Refused(f"the environment variable {source.url_from} holds no database address")
    return address


def _read_query(run: Run, source: SourceSection, variables: Iterable[Variable], base: Path) -> pd.DataFrame:
    from tasks.connectors.postgres.query import read_query

    address = database_of(run, source)
    dropped = [v.name for v in variables if v.is_dropped]
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
            check_table(frame, place.shown)
            return _with_partitions(frame, partitions, variables), None, place.shown
        kind = source.kind(place.shown)
        digest = fetch(place, copy, text=FORMATS[kind].text and not WIDE.search(source.encoding))
        return read_file(copy, kind, source, variables, shown=place.shown), digest, place.shown
    finally:
        copy.unlink(missing_ok=True) if copy.is_file() else shutil.rmtree(copy, ignore_errors=True)


def _with_partitions(frame: pd.DataFrame, partitions: Iterable[str], variables: Iterable[Variable]) -> pd.DataFrame:
    """Read the values in folders' names as the same text in a CSV file would be read."""
    known = {v.name: v for v in variables}
    for name in partitions:
        variable, text = known.get(name), frame[name].astype("str")
        as_text = variable is not None and (
            variable.is_dropped or bool(variable.levels and isinstance(variable.levels[0], str))
        )
        frame[name] = text if as_text else read_codes(text)
    return frame
