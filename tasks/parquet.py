"""Parquet files and folders of them, as their own schema has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd

from tasks.faults import Refused, visible
from tasks.places import Place, parquet_names

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def read_table(path: Path) -> Any:
    """Return a file's table; what pandas calls an index is a column here."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return file.read()


def to_frame(table: Any) -> pd.DataFrame:
    """Return a table as a frame; long codes with gaps would lose their last digits as floats."""
    import pyarrow as pa

    whole = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, types_mapper=whole.get)
    return frame


def columns_of(path: Path, shown: str) -> list[str]:
    """Return a file's column names, without reading its data."""
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except Exception:
        unreadable = f"{shown} is not a readable parquet file"
    raise Refused(unreadable)


def columns_of_folder(place: Place) -> list[str]:
    """Return the columns of a folder on this machine, those of its partitions last."""
    assert place.local is not None
    first = parquet_names(place)[0]
    return columns_of(place.local / first, visible(Path(first).name)) + list(partition(first, place.shown))


def read_folder(files: Sequence[tuple[str, Path]], shown: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the table that a folder's files make together, and which columns its partitions are.

    Parameters
    ----------
    files : names within the folder, such as ``year=2024/a.parquet``, and where each can be read
    shown : how messages call the folder

    Raises
    ------
    Refused
        When the files do not have the same columns, of the same types, or the same partitions.
    """
    import pyarrow as pa

    tables, kept = [], []
    for name, path in files:
        file = visible(Path(name).name)
        values = partition(name, shown)
        try:
            table = read_table(path)
        except Exception:
            table = None
        if table is None:
            raise Refused(f"{file} in {shown} is not a readable parquet file")
        twice = sorted({*values} & {*table.column_names})
        if twice or len(set(table.column_names)) < table.num_columns:
            named = ", ".join(map(visible, twice)) or "a name stands twice"
            raise Refused(f"{file} in {shown} holds columns twice: {named}")
        for key, value in values.items():
            table = table.append_column(key, pa.array([value] * len(table), pa.large_string()))
        tables.append(_plain(table))
        kept.append(tuple(values))
    if len(set(kept)) > 1:
        raise Refused(f"{shown} is partitioned in different ways (name=value); make them the same")
    names = tables[0].column_names
    if any(set(t.column_names) != set(names) for t in tables):
        raise Refused(f"the files in {shown} do not have the same columns; make them the same")
    try:
        whole = pa.concat_tables([t.select(names) for t in tables], promote_options="default")
    except pa.ArrowException:
        whole = None
    if whole is None:
        odd = [n for n in names if len({str(t.schema.field(n).type) for t in tables} - {"null"}) > 1]
        raise Refused(f"the files in {shown} hold columns of different types: {', '.join(map(visible, odd))}")
    return to_frame(whole), list(kept[0])


def _plain(table: Any) -> Any:
    """Return a table without its writer's habits: text is text, however it is stored."""
    import pyarrow as pa

    fields = []
    for column in table.schema:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        fields.append(pa.field(column.name, pa.large_string() if pa.types.is_string(kind) else kind))
    return table.replace_schema_metadata(None).cast(pa.schema(fields))


def partition(name: str, shown: str) -> dict[str, str | None]:
    """Return what the folders of a file's name say: year=2024/sex=f/a.parquet; values are text, or none."""
    found: dict[str, str | None] = {}
    for part in name.split("/")[:-1]:
        key, equals, value = part.partition("=")
        if not equals or not key or key in found:
            # What a folder is called may be a value of the data.
            raise Refused(
                f"{shown} holds folders that are not called name=value, once each; rename or remove them"
            )
        found[unquote(key)] = None if value == NO_VALUE else unquote(value)
    return found
