"""Tables of releases in PostgreSQL: put in place, replaced or removed, each in one transaction."""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from tasks.common.errors import InputOutputFault, Refused, visible
from tasks.connectors.fingerprint import ContentDigest
from tasks.connectors.postgres.query import ROWS, rows_in_pieces
from tasks.connectors.postgres.session import DEPENDED_ON, is_postgres, parse_address, session

IfExists = Literal["refuse", "replace", "append-version"]

OURS = "anonflow "
NAME_BYTES = 63
STANDING = """
SELECT c.relkind::text, coalesce(obj_description(c.oid, 'pg_class'), ''),
       ARRAY(SELECT a.attname::text || ' ' || format_type(a.atttypid, a.atttypmod)
             FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             ORDER BY a.attnum)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
"""


@dataclass(frozen=True)
class Table:
    """A table's name, in its schema."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def identifier(self) -> Any:
        """The name, quoted for a statement."""
        from psycopg2 import sql

        return sql.Identifier(self.schema, self.name)


@dataclass(frozen=True)
class _Data:
    """A release's Parquet files, and the type of each of its columns in PostgreSQL."""

    files: Sequence[Path]
    types: dict[str, str]

    @classmethod
    def of(cls, files: Sequence[Path]) -> _Data:
        """Return files of one table with its types; refuse columns and names that a table cannot hold."""
        import pyarrow.parquet as pq

        schemas = [pq.read_schema(file) for file in files]
        types = {name: _common_type([schema.field(name) for schema in schemas]) for name in schemas[0].names}
        long = [visible(name) for name in types if len(name.encode()) > NAME_BYTES or "\0" in name]
        if long:
            raise Refused(f"PostgreSQL cuts names of more than {NAME_BYTES} bytes: {', '.join(long)}; use shorter ones")
        return cls(files, types)

    @property
    def names(self) -> Any:
        """The columns' names, quoted for a statement."""
        from psycopg2 import sql

        return sql.SQL(", ").join(map(sql.Identifier, self.types))

    @property
    def declared(self) -> list[str]:
        """The columns with their types, as a table's are read from the catalogue."""
        return [f"{name} {kind}" for name, kind in self.types.items()]

    def batches(self) -> Iterator[Any]:
        """Yield the records some at a time, in the types that PostgreSQL has; first none."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        kinds = {
            "bigint": pa.int64(),
            "double precision": pa.float64(),
            "boolean": pa.bool_(),
            "text": pa.large_string(),
            "date": pa.date32(),
            "time without time zone": pa.time64("us"),
            "timestamp without time zone": pa.timestamp("us"),
        }
        schema = pa.schema([(name, kinds[kind]) for name, kind in self.types.items()])
        yield schema.empty_table()
        for path in self.files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(ROWS):
                    yield pa.Table.from_batches([batch]).replace_schema_metadata(None).cast(schema)


def _common_type(columns: Sequence[Any]) -> str:
    """Return the type of a column that is written in parts, which may hold whole numbers in some of them."""
    import pyarrow as pa

    types = {_postgres_type(column) for column in columns if not pa.types.is_null(column.type)} or {"text"}
    if types == {"bigint", "double precision"}:
        return "double precision"
    if len(types) > 1:
        raise Refused(f"column {visible(columns[0].name)} holds {' and '.join(sorted(types))} in parts of the release")
    return types.pop()


def _postgres_type(column: Any) -> str:
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return "bigint"
    if pa.types.is_floating(kind):
        return "double precision"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_time(kind):
        return "time without time zone"
    if pa.types.is_timestamp(kind):
        return "timestamp without time zone"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    raise Refused(f"column {visible(column.name)} is neither a number, text nor a date, which a table cannot hold")


class _Standing(NamedTuple):
    """An existing table: its kind, its comment, its columns with their types."""

    kind: str
    comment: str
    columns: list[str]

    @classmethod
    def read(cls, cursor: Any, table: Table) -> _Standing | None:
        """Return the existing table; None where there is none."""
        cursor.execute(STANDING, (table.schema, table.name))
        row = cursor.fetchone()
        return None if row is None else cls(*row)

    def check_replaceable(self, table: Table, if_exists: IfExists) -> None:
        """Refuse to replace what anonflow did not deliver, or what the plan does not let it replace."""
        if self.kind != "r" or not self.comment.startswith(OURS):
            raise Refused(f"{table} exists already and was not delivered by anonflow; it is not changed")
        if if_exists != "replace":
            raise Refused(
                f"{table} holds another release, or was changed since; choose another name, or state "
                "if_exists: replace or append-version"
            )


def keep_table(address: str, table: Table, files: Sequence[Path], mark: str, if_exists: IfExists) -> bool:
    """Make a release's data a table in PostgreSQL, in one transaction; return False when it stood there.

    Readers see what stood there before, or the whole of the new table: it is filled beside, read back and
    compared with the files, and then put in place. A table of the same columns is filled anew instead, so
    that rights on it, its views and its indexes are kept. A table that anonflow did not deliver is never
    touched.

    Parameters
    ----------
    table : where; its schema must exist
    files : the data, one Parquet file or those of its parts
    mark : what the table's comment will say, by which it is recognised
    if_exists : ``replace`` replaces an earlier release; otherwise one that stands there is an error

    Raises
    ------
    Refused, InputOutputFault
        As `read_query`; nothing has changed then.
    """
    url = parse_address(address)
    if not is_postgres(url):
        raise Refused("tables are delivered to PostgreSQL alone; write the address as postgresql://user@host/db")
    data = _Data.of(files)
    with session(url, f"table {table}", readonly=False) as connection, connection.cursor() as cursor:
        _lock(cursor, table)
        standing = _Standing.read(cursor, table)
        if standing is not None:
            if standing.comment == mark and _same(connection, table, data):
                return False
            standing.check_replaceable(table, if_exists)
        _put_in_place(connection, table, data, standing)
        _execute(cursor, "COMMENT ON TABLE {} IS %s", table.identifier, parameters=(mark,))
    return True


def remove_table(address: str, table: Table, mark: str, left: str) -> bool:
    """Remove a table whose comment begins with ``mark``; return False when there is no such table.

    Where views depend on it, it is emptied instead and its comment says ``left``.
    """
    import psycopg2

    url = parse_address(address)
    with session(url, f"table {table}", readonly=False) as connection, connection.cursor() as cursor:
        _lock(cursor, table)
        standing = _Standing.read(cursor, table)
        if standing is None or not standing.comment.startswith(mark):
            return False
        cursor.execute("SAVEPOINT before")
        try:
            _execute(cursor, "DROP TABLE {}", table.identifier)
        except psycopg2.Error as error:
            if error.pgcode != DEPENDED_ON:
                raise
            cursor.execute("ROLLBACK TO SAVEPOINT before")
            _execute(cursor, "DELETE FROM {}", table.identifier)
            _execute(cursor, "COMMENT ON TABLE {} IS %s", table.identifier, parameters=(left,))
    return True


def _execute(cursor: Any, statement: str, *names: Any, parameters: tuple[Any, ...] | None = None) -> None:
    """Carry a statement out, its names quoted by the driver."""
    from psycopg2 import sql

    cursor.execute(sql.SQL(statement).format(*names), parameters)


def _lock(cursor: Any, table: Table) -> None:
    """Keep other deliveries of this table out until the transaction ends; wait half a minute for readers."""
    cursor.execute("SET LOCAL lock_timeout = '30s'")
    cursor.execute("SELECT pg_advisory_xact_lock(hashtext('anonflow'), hashtext(%s))", (str(table),))


def _put_in_place(connection: Any, table: Table, data: _Data, standing: _Standing | None) -> None:
    """Fill the table anew where its columns are the same, else a new one that takes its place."""
    from psycopg2 import sql

    same_columns = standing is not None and standing.columns == data.declared
    filled = table if same_columns else Table(table.schema, f"anonflow_{secrets.token_hex(8)}")
    with connection.cursor() as cursor:
        if same_columns:
            _execute(cursor, "DELETE FROM {}", table.identifier)
        else:
            columns = [sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(kind)) for n, kind in data.types.items()]
            _execute(cursor, "CREATE TABLE {} ({})", filled.identifier, sql.SQL(", ").join(columns))
        copy = sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT csv, ENCODING 'UTF8')")
        cursor.copy_expert(copy.format(filled.identifier, data.names), _Lines(data))
        if not _same(connection, filled, data):
            raise InputOutputFault(f"table {table} read back is not what was written; nothing was changed there")
        if not same_columns:
            if standing is not None:
                _execute(cursor, "DROP TABLE {}", table.identifier)
            _execute(cursor, "ALTER TABLE {} RENAME TO {}", filled.identifier, sql.Identifier(table.name))


def _same(connection: Any, table: Table, data: _Data) -> bool:
    """Return whether a table holds the files' records, each as often."""
    import pyarrow as pa

    delivered, released = ContentDigest(), ContentDigest()
    with connection.cursor(f"anonflow_{secrets.token_hex(8)}") as cursor:
        _execute(cursor, "SELECT {} FROM {}", data.names, table.identifier)
        for names, piece in rows_in_pieces(cursor):
            delivered.add(piece.set_axis(names, axis=1))
    # As the driver's types are read back.
    kinds = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    for batch in data.batches():
        released.add(batch.to_pandas(ignore_metadata=True, types_mapper=kinds.get, timestamp_as_object=True))
    return (delivered.records, delivered.digest) == (released.records, released.digest)


class _Lines:
    """The files' records as the CSV that COPY reads; text is quoted, so that empty text is not missing."""

    def __init__(self, data: _Data) -> None:
        self._batches = data.batches()
        self._rest = io.BytesIO()

    def read(self, size: int = -1) -> bytes:
        """Return some more bytes; none at the end."""
        import pyarrow as pa
        from pyarrow import csv

        while not (part := self._rest.read(size)):
            batch = next(self._batches, None)
            if batch is None:
                return b""
            lines = pa.BufferOutputStream()
            csv.write_csv(batch, lines, csv.WriteOptions(include_header=False, quoting_style="needed"))
            self._rest = io.BytesIO(lines.getvalue().to_pybytes())
        return part
