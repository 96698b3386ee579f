"""Tables of Arrow, in which several formats are read: their types, their size, and the frame that they become."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from tasks.common.errors import Refused, named
from tasks.connectors.limits import MAX_TEXT, UNSUPPORTED, check_size


def table_of(schema: Any, pieces: Iterable[Any], shown: str) -> Any:
    """Return the table that a file's record batches make together, each checked before the next is read.

    A small file can hold any number of records, and text that is not UTF-8 fails wherever it is first looked at.

    Parameters
    ----------
    schema : of the file
    pieces : its record batches, each read when it is asked for
    shown : the file as messages name it

    Raises
    ------
    Refused
        When the table has lists or structures, or is larger than a table may be.
    """
    import pyarrow as pa

    if unsupported := nested(schema):
        raise Refused(UNSUPPORTED.format(shown, named(unsupported)))
    read: list[Any] = []
    records = text = 0
    for piece in pieces:
        piece.validate(full=True)
        records += len(piece)
        text += sum(column.nbytes for column in piece.columns if is_text(column.type))
        check_size(records, len(schema), shown)
        if text > MAX_TEXT:
            raise Refused(f"{shown} holds more than {MAX_TEXT // 10**9} GB of text; divide it")
        read.append(piece)
    return pa.Table.from_batches(read, schema)


def nested(schema: Any) -> list[str]:
    """Return the columns of lists and structures, which may hold any number of values in one record."""
    import pyarrow as pa

    return [c.name for c in schema if pa.types.is_nested(c.type)]


def is_text(kind: Any) -> bool:
    """Return whether values are of any length."""
    import pyarrow as pa

    if kind is None:
        return False
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    texts = ("string", "large_string", "binary", "large_binary", "string_view", "binary_view")
    return any(getattr(pa.types, f"is_{text}")(kind) for text in texts)


def to_frame(table: Any) -> pd.DataFrame:
    """Return a table as a frame; long codes with missing values would lose digits as floats.

    Numbers of half precision become ones of single precision, which pandas can count.
    """
    import pyarrow as pa

    whole = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, types_mapper=whole.get)
    return frame.astype(dict.fromkeys(frame.columns[frame.dtypes == np.float16], "float32"))


def example_of(schema: Any) -> pd.DataFrame:
    """Return a frame of one made-up record whose columns have the types that `to_frame` gives a table's."""
    import pyarrow as pa

    return to_frame(pa.table([pa.array([_example(kind)], kind) for kind in schema.types], names=schema.names))


def _example(kind: Any) -> Any:
    """Return a value of a type; None where the type of a frame's column does not depend on values."""
    import pyarrow.types as of

    if of.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    values = {of.is_date: date.min, of.is_time: time.min, of.is_decimal: Decimal(0), of.is_boolean: False}
    values |= dict.fromkeys((of.is_binary, of.is_large_binary, of.is_binary_view), b"")
    return next((value for is_one, value in values.items() if is_one(kind)), None)


def plain(table: Any) -> Any:
    """Return a table without its writer's metadata, with text of one type however it is stored."""
    import pyarrow as pa

    fields = []
    for column in table.schema:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        fields.append(pa.field(column.name, pa.large_string() if pa.types.is_string(kind) else kind))
    return table.replace_schema_metadata(None).cast(pa.schema(fields))
