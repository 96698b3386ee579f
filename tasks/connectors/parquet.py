"""Parquet files and folders of them, read as their own schema states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd

from anoncore.microdata import Variable
from tasks.common.errors import Refused, cut, named, visible
from tasks.connectors.arrow import is_text, nested, plain, to_frame
from tasks.connectors.copies import parquet_names
from tasks.connectors.csv import check_names
from tasks.connectors.file_format import Dialect, FileFormat, readable
from tasks.connectors.limits import LONG_FIELD, MAX_FIELD, MAX_TEXT, UNSUPPORTED, check_size
from tasks.connectors.storage import Location

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
BATCH = 65_536


def read_table(path: Path, shown: str) -> Any:
    """Return a file's table; what pandas calls an index is a column here.

    Its size in memory is determined before it is read, since a small file can hold any number of records.

    Raises
    ------
    Refused
        When it would be larger than a table may be, or holds lists or structures.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        _check_whole(file, shown)
        if unsupported := nested(file.schema_arrow):
            raise Refused(UNSUPPORTED.format(shown, named(unsupported)))
        _check_text(path, [c.name for c in file.schema_arrow if is_text(c.type)], shown)
        table = file.read()
    # Text that is not UTF-8 would fail later, wherever it is first looked at.
    table.validate(full=True)
    return table


def nested_of(path: Path, shown: str) -> list[str]:
    """Return a file's columns of lists and structures, without reading its data."""
    import pyarrow.parquet as pq

    return readable("parquet", shown, lambda: nested(pq.read_schema(path)))


def _check_whole(file: Any, shown: str) -> None:
    # The sum is what would be read; what is said of a single column cannot be asked for without danger:
    # of a spoiled file, pyarrow ends the process.
    about = file.metadata
    counted = sum(about.row_group(i).num_rows for i in range(about.num_row_groups))
    check_size(max(about.num_rows, counted), about.num_columns, shown)


def _check_text(path: Path, columns: Sequence[str], shown: str) -> None:
    """Refuse text that grows beyond measure when every record holds what the file holds once.

    It is read with each text once and which record holds which, some records at a time, and counted.
    """
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not columns:
        return
    grown = 0.0
    with pq.ParquetFile(path, read_dictionary=list(columns)) as file:
        for piece in file.iter_batches(BATCH, columns=list(columns)):
            for name, column in zip(piece.schema.names, piece.columns, strict=True):
                text = getattr(column, "dictionary", column)
                lengths = pc.fill_null(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)
                if lengths.max(initial=0) > MAX_FIELD and _longest(text) > MAX_FIELD:
                    raise Refused(LONG_FIELD.format(shown, named([name])))
                if text is column:
                    grown += float(lengths.sum())
                else:
                    held = column.indices.drop_null().to_numpy(zero_copy_only=False)
                    grown += float(np.bincount(held, minlength=len(lengths)).astype("float64") @ lengths)
            if grown > MAX_TEXT:
                raise Refused(f"{shown} holds more than {MAX_TEXT // 10**9} GB of text; divide it")


def _longest(text: Any) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    of_letters = pa.types.is_string(text.type) or pa.types.is_large_string(text.type)
    return int(pc.max(pc.utf8_length(text) if of_letters else pc.binary_length(text)).as_py())


def read(path: Path, dialect: Dialect, variables: list[Variable], shown: str) -> pd.DataFrame:
    """Return a file's table as a frame; names that are double or look alike are refused."""
    table = readable("parquet", shown, lambda: read_table(path, shown))
    check_names(table.column_names, shown, table.column_names)
    return readable("parquet", shown, lambda: to_frame(table))


def header(path: Path, dialect: Dialect, shown: str, declared: Sequence[str]) -> list[str]:
    """Return a file's column names; those that are double or look alike are refused."""
    names = columns_of(path, shown)
    check_names(names, shown, declared)
    return names


def columns_of(path: Path, shown: str) -> list[str]:
    """Return a file's column names, without reading its data."""
    import pyarrow.parquet as pq

    def names() -> list[str]:
        with pq.ParquetFile(path) as file:
            _check_whole(file, shown)
            return list(file.schema_arrow.names)

    return readable("parquet", shown, names)


def cells_of(place: Path) -> int:
    """Return how many cells a Parquet file, or the Parquet files of a folder, hold by what they state; 0 for others."""
    import pyarrow.parquet as pq

    cells = 0
    for path in sorted(place.rglob("*.parquet")) if place.is_dir() else [place]:
        if path.suffix.lower() == ".parquet" and path.is_file():
            about = readable("parquet", cut(visible(path.name)), partial(pq.read_metadata, path))
            cells += about.num_rows * about.num_columns
    return cells


def count_records(path: Path, name: str) -> int:
    """Return how many records a file holds by what it states."""
    import pyarrow.parquet as pq

    return int(readable("parquet", cut(visible(Path(name).name)), partial(pq.read_metadata, path)).num_rows)


def columns_of_folder(folder: Location) -> list[str]:
    """Return the columns of a folder on this machine, those of its partitions last."""
    assert folder.local is not None
    first = parquet_names(folder)[0]
    return columns_of(folder.local / first, visible(Path(first).name)) + list(partition(first, folder.shown))


def read_folder(files: Sequence[tuple[str, Path]], shown: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the table that a folder's files make together, and which columns its partitions are.

    Parameters
    ----------
    files : names within the folder, such as ``year=2024/a.parquet``, and where each can be read
    shown : the folder as messages name it

    Raises
    ------
    Refused
        When the files do not have the same columns, of the same types, or the same partitions.
    """
    import pyarrow as pa

    tables, records = [], 0
    for name, path in files:
        tables.append(_part(name, path, shown))
        records += len(tables[-1])
        check_size(records, tables[-1].num_columns, shown)
    partitions = {tuple(partition(name, shown)) for name, _ in files}
    if len(partitions) > 1:
        raise Refused(f"{shown} is partitioned in different ways (name=value); make them the same")
    schema = _joint([t.schema for t in tables], shown)
    whole = pa.concat_tables([t.select(schema.names).cast(schema) for t in tables])
    return to_frame(whole), list(partitions.pop())


def schema_of(files: Sequence[tuple[str, Path]], folder: str) -> Any:
    """Return the Arrow schema of the table that some files make together, without reading their records.

    Each column has the type of the first file in which it is not empty; text is of one type however it is stored.

    Parameters
    ----------
    files, folder : as of `batches`

    Raises
    ------
    Refused
        When the files do not have the same columns, of the same types, or hold lists or structures.
    """
    return _joint([_stored_schema(name, path) for name, path in files], folder)


def batches(files: Sequence[tuple[str, Path]], rows: int, folder: str) -> Iterator[pd.DataFrame]:
    """Yield the tables of some files in frames of exactly so many rows, but for the last.

    Parameters
    ----------
    files : names as messages show them, and where each can be read
    folder : what they are in, as messages name it

    Raises
    ------
    Refused
        As `schema_of`, before records are read; and when a file cannot be read.
    """
    import pyarrow as pa

    waiting: list[Any] = []
    held = 0
    schema = schema_of(files, folder)
    for name, path in files:
        for table in _pieces(name, path, rows, schema):
            while held + len(table) >= rows:
                yield to_frame(pa.concat_tables([*waiting, table.slice(0, rows - held)]))
                table, waiting, held = table.slice(rows - held), [], 0
            waiting, held = [*waiting, table], held + len(table)
    if held:
        yield to_frame(pa.concat_tables(waiting))


def _pieces(name: str, path: Path, rows: int, schema: Any) -> Iterator[Any]:
    """Yield one file's table, at most so many rows at a time, with the columns in the order and of the types given."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shown = cut(visible(Path(name).name))
    with pq.ParquetFile(path) as file:
        texts = [c.name for c in file.schema_arrow if is_text(c.type)]
        readable("parquet", shown, lambda: _check_text(path, texts, shown))
        pieces = file.iter_batches(rows)

        def piece() -> Any:
            if (batch := next(pieces, None)) is None:
                return None
            table = plain(pa.Table.from_batches([batch]))
            table.validate(full=True)
            return table.select(schema.names).cast(schema)

        while (table := readable("parquet", shown, piece)) is not None:
            yield table


def _stored_schema(name: str, path: Path) -> Any:
    """Return the schema of one file, after checking its columns."""
    import pyarrow.parquet as pq

    shown = cut(visible(Path(name).name))

    def stored() -> Any:
        with pq.ParquetFile(path) as file:
            _check_whole(file, shown)
            return file.schema_arrow

    schema = readable("parquet", shown, stored)
    check_names(schema.names, shown, schema.names)
    if unsupported := nested(schema):
        raise Refused(UNSUPPORTED.format(shown, named(unsupported)))
    return readable("parquet", shown, lambda: plain(schema.empty_table()).schema)


def _joint(schemas: Sequence[Any], folder: str) -> Any:
    """Return the schema of a folder's files, in the order of the first; refuse files that differ."""
    import pyarrow as pa

    names = schemas[0].names
    if any(set(one.names) != set(names) for one in schemas):
        raise Refused(f"the files in {folder} do not have the same columns; make them the same")
    types = {n: [s.field(n).type for s in schemas if not pa.types.is_null(s.field(n).type)] for n in names}
    if different := [n for n, own in types.items() if any(one != own[0] for one in own)]:
        raise Refused(f"the files in {folder} hold columns of different types: {named(different)}")
    return pa.schema([(n, own[0] if own else pa.null()) for n, own in types.items()])


def _part(name: str, path: Path, folder: str) -> Any:
    """Return the table of one file of a folder, with the values of its partition as columns of text."""
    import pyarrow as pa

    file = cut(visible(Path(name).name))
    shown, values = f"{file} in {folder}", partition(name, folder)
    table = readable("parquet", shown, lambda: read_table(path, shown))
    duplicates = sorted({*values} & {*table.column_names})
    if duplicates or len(set(table.column_names)) < table.num_columns:
        raise Refused(f"{shown} holds columns twice: {named(duplicates) or 'a name occurs twice'}")
    for key, value in values.items():
        table = table.append_column(key, pa.array([value] * len(table), pa.large_string()))
    return plain(table)


def partition(name: str, shown: str) -> dict[str, str | None]:
    """Return what the folders of a file's name say: year=2024/sex=f/a.parquet; values are text, or none."""
    values: dict[str, str | None] = {}
    for part in name.split("/")[:-1]:
        key, equals, value = part.partition("=")
        if not equals or not key or key in values:
            # What a folder is called may be a value of the data.
            raise Refused(f"{shown} holds folders that are not called name=value, once each; rename or remove them")
        values[unquote(key)] = None if value == NO_VALUE else unquote(value)
    return values


FORMAT = FileFormat(suffixes=(".parquet",), read=read, header=header)
