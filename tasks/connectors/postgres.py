"""The only room that knows SQLAlchemy and psycopg2: read a query, keep a table, in one transaction each.

Of a database's error only its class is passed on, SQLSTATE and name: its text may quote data, and an address
may hold a password.
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import pandas as pd

from tasks.common.errors import InputOutputFault, Refused, visible
from tasks.connectors.fingerprint import Content

IfExists = Literal["refuse", "replace", "append-version"]

ROWS = 20_000
PORTAL = "anonflow_rows"
OURS = "anonflow "
NAME_BYTES = 63
CONNECTION = {"connect_timeout": 10, "application_name": "anonflow", "client_encoding": "utf8"}
# Lost connections, a server that stops or is full, and transactions that met another.
AGAIN = ("08", "40", "53", "57P0", "55P03")
NO_QUERY = "42P11"
DEPENDED_ON = "2BP01"
WHOLE = (20, 21, 23, 26)
REAL = (700, 701)
BOOLEAN = 16
NUMERIC = 1700
TEXT = (18, 19, 25, 1042, 1043, 2950)
EXACT_DIGITS = 18

# The server itself says whether the text is one query: as a cursor it opens nothing else.
OPEN = f"""
DO $anonflow$
DECLARE found CONSTANT refcursor := '{PORTAL}';
BEGIN
  OPEN found FOR EXECUTE current_setting('anonflow.statement');
END
$anonflow$
"""
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
        """The name as it may stand in a statement."""
        from psycopg2 import sql

        return sql.Identifier(self.schema, self.name)


def read_query(address: str, statement: str, base: Path, *, verbatim: Collection[str] = ()) -> pd.DataFrame:
    """Return what a query finds.

    PostgreSQL is read in one read-only, repeatable-read transaction, in pieces, so that no more of it than
    the result's columns is in memory. Whole numbers, also those with gaps, are ``Int64``, truth values
    ``boolean``, text is text, other numbers are float64; what is none of these comes as it is.

    Parameters
    ----------
    address : database address, with a password where one is needed
    statement : one query
    base : folder to which the path of an SQLite database is relative
    verbatim : columns whose decimals are kept to the last digit; other decimals become float64

    Raises
    ------
    Refused
        When the address or the statement is not acceptable, or the database refuses it.
    InputOutputFault
        When the database cannot be reached, or the connection is lost.
    """
    url = _parsed(address)
    if _is_postgres(url):
        with _session(url, "the query", readonly=True) as connection:
            return _all_rows(connection, statement, set(verbatim))
    return _read_other(url, statement, base)


def keep_table(address: str, table: Table, parquet: Path, mark: str, if_exists: IfExists) -> bool:
    """Make a release's data a table in PostgreSQL, in one transaction; return False when it stood there.

    Readers see what stood there before, or the whole of the new table: it is filled beside, read back and
    compared with the file, and then put in place. A table of the same columns is filled anew instead, so
    that rights on it, its views and its indexes are kept. A table that somebody else made is never touched.

    Parameters
    ----------
    table : where; its schema must exist
    parquet : the data
    mark : what the table's comment will say, by which it is known again
    if_exists : ``replace`` replaces an earlier release; otherwise one that stands there is an error

    Raises
    ------
    Refused, InputOutputFault
        As `read_query`; nothing has changed then.
    """
    url = _parsed(address)
    if not _is_postgres(url):
        raise Refused("tables are delivered to PostgreSQL alone; write the address as postgresql://user@host/db")
    columns = _columns(parquet)
    with _session(url, f"table {table}", readonly=False) as connection, connection.cursor() as cursor:
        _lock(cursor, table)
        standing = _standing(cursor, table)
        if standing is not None:
            if standing[1] == mark and _same(connection, table, columns, parquet):
                return False
            _may_replace(table, standing, if_exists)
        _put_in_place(connection, cursor, table, columns, parquet, standing)
        _execute(cursor, "COMMENT ON TABLE {} IS %s", table.identifier, parameters=(mark,))
    return True


def remove_table(address: str, table: Table, mark: str, left: str) -> bool:
    """Remove a table whose comment begins with ``mark``; return False when no such table stands there.

    Where views depend on it, it is emptied instead and its comment says ``left``.
    """
    import psycopg2

    url = _parsed(address)
    with _session(url, f"table {table}", readonly=False) as connection, connection.cursor() as cursor:
        _lock(cursor, table)
        standing = _standing(cursor, table)
        if standing is None or not standing[1].startswith(mark):
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


# Addresses, sessions, errors


def _parsed(address: str) -> Any:
    import sqlalchemy

    if address.startswith("postgres://"):
        address = address.replace("postgres", "postgresql", 1)
    try:
        return sqlalchemy.engine.make_url(address)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        unreadable = "the database address cannot be read; write it as dialect://user@host/database"
    raise Refused(unreadable)


def _is_postgres(url: Any) -> bool:
    return url.drivername in ("postgresql", "postgresql+psycopg2")


@contextmanager
def _session(url: Any, shown: str, *, readonly: bool) -> Iterator[Any]:
    """Give a connection in a transaction of its own, committed at the end or not at all."""
    import psycopg2

    connection = None
    try:
        arguments, options = url.get_dialect()().create_connect_args(url)
        connection = psycopg2.connect(*arguments, **CONNECTION | options)
        level = "REPEATABLE READ" if readonly else "READ COMMITTED"
        connection.set_session(isolation_level=level, readonly=readonly, autocommit=False)
        yield connection
        connection.commit()
        return
    except psycopg2.Error as error:
        problem = _problem(error, connected=connection is not None)
    finally:
        if connection is not None:
            connection.close()
    raise type(problem)(f"{shown}: {problem}")


def _problem(error: Any, *, connected: bool) -> Refused | InputOutputFault:
    kind = f"{error.pgcode} {type(error).__name__}" if error.pgcode else type(error).__name__
    if not connected:
        return InputOutputFault(f"the database cannot be reached, or does not let this user in ({kind})")
    if error.pgcode is None or error.pgcode.startswith(AGAIN):
        return InputOutputFault(f"the connection to the database failed ({kind})")
    if error.pgcode == NO_QUERY:
        return Refused("the statement returns no table; write one query that only reads")
    if error.pgcode == DEPENDED_ON:
        return Refused("views depend on it and its columns are others now; remove them first")
    return Refused(f"the database refused ({kind}); try it there, and check names and rights")


# To read


def _all_rows(connection: Any, statement: str, verbatim: set[str]) -> pd.DataFrame:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('anonflow.statement', %s, true)", (statement,))
        cursor.execute(OPEN)
    with connection.cursor(PORTAL) as cursor:
        pieces = list(_pieces(cursor, verbatim))
    whole = pd.concat([frame for _, frame in pieces], ignore_index=True) if len(pieces) > 1 else pieces[0][1]
    whole.columns = pd.Index(pieces[0][0])
    return whole


def _pieces(cursor: Any, verbatim: Collection[str] = ()) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """Yield the names and some rows at a time, at least once; the frames' own columns are numbered."""
    first = True
    while rows := cursor.fetchmany(ROWS) or first:
        columns = list(zip(*rows, strict=True)) if rows is not True else [()] * len(cursor.description)
        facts = cursor.description
        yield (
            [c.name for c in facts],
            pd.DataFrame(
                {
                    i: _typed(list(v), c, exact=c.name in verbatim)
                    for i, (v, c) in enumerate(zip(columns, facts, strict=True))
                }
            ),
        )
        first = False
        if rows is True:
            return


def _typed(values: list[Any], column: Any, *, exact: bool) -> Any:
    """Return a column of the type that its kind in the database has, whatever values this piece holds."""
    kind = column.type_code
    # Whole by declaration; scales below 0 come as large numbers.
    whole = column.scale == 0 and (column.precision or EXACT_DIGITS + 1) <= EXACT_DIGITS
    if kind in WHOLE or (kind == NUMERIC and whole and not exact):
        missing = np.array([v is None for v in values], dtype=bool)
        known = np.array([0 if v is None else int(v) for v in values], dtype="int64")
        return pd.arrays.IntegerArray(known, missing)
    if kind in REAL or (kind == NUMERIC and not exact):
        return np.array([np.nan if v is None else float(v) for v in values], dtype="float64")
    if kind == BOOLEAN:
        return pd.array(values, dtype="boolean")
    if kind in TEXT:
        return pd.array(values, dtype="str")
    return pd.Series(values, dtype=object)


def _read_other(url: Any, statement: str, base: Path) -> pd.DataFrame:
    """Run one query where SQLAlchemy and pandas know how."""
    import sqlalchemy

    try:
        engine = sqlalchemy.create_engine(_to_read(url, base), hide_parameters=True)
        if engine.dialect.name == "sqlite":
            sqlalchemy.event.listen(engine, "connect", _attach_nothing)
        try:
            # The statement goes to the driver as it stands: a colon or a percent sign in it means itself.
            with engine.connect().execution_options(no_parameters=True) as connection:
                return pd.read_sql_query(statement, connection)
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
    raise Refused(problem)


def _attach_nothing(connection: Any, record: Any) -> None:
    """Let a SQLite statement read the database that is named, and neither open nor create another."""
    import sqlite3

    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
    )


def _to_read(url: Any, base: Path) -> Any:
    """Return the address; SQLite is opened to read, so that a mistyped path or statement changes nothing."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return url
    where = (base / str(url.database)).absolute()
    if not where.is_file():
        raise Refused(f"there is no database file {visible(where.name)}")
    return url.set(database=f"file:{quote(str(where))}", query={"mode": "ro", "uri": "true"})


# To write


def _columns(parquet: Path) -> dict[str, str]:
    """Return the file's columns and their types in PostgreSQL."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = {}
    for column in pq.read_schema(parquet):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_integer(kind) and kind != pa.uint64():
            found[column.name] = "bigint"
        elif pa.types.is_floating(kind):
            found[column.name] = "double precision"
        elif pa.types.is_boolean(kind):
            found[column.name] = "boolean"
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
            found[column.name] = "text"
        else:
            raise Refused(f"column {visible(column.name)} is neither a number nor text, which a table cannot hold")
    long = [visible(name) for name in found if len(name.encode()) > NAME_BYTES or "\0" in name]
    if long:
        raise Refused(f"PostgreSQL cuts names of more than {NAME_BYTES} bytes: {', '.join(long)}; use shorter ones")
    return found


def _execute(cursor: Any, statement: str, *names: Any, parameters: tuple[Any, ...] | None = None) -> None:
    """Carry a statement out, its names quoted by the driver."""
    from psycopg2 import sql

    cursor.execute(sql.SQL(statement).format(*names), parameters)


def _lock(cursor: Any, table: Table) -> None:
    """Keep other deliveries of this table out until the transaction ends; wait half a minute for readers."""
    cursor.execute("SET LOCAL lock_timeout = '30s'")
    cursor.execute("SELECT pg_advisory_xact_lock(hashtext('anonflow'), hashtext(%s))", (str(table),))


def _standing(cursor: Any, table: Table) -> tuple[str, str, list[str]] | None:
    """Return what stands under a name: its kind, its comment, its columns with their types."""
    cursor.execute(STANDING, (table.schema, table.name))
    found: tuple[str, str, list[str]] | None = cursor.fetchone()
    return found


def _may_replace(table: Table, standing: tuple[str, str, list[str]], if_exists: IfExists) -> None:
    kind, comment, _ = standing
    if kind != "r" or not comment.startswith(OURS):
        raise Refused(f"{table} stands already and was not delivered by anonflow; it is not touched")
    if if_exists != "replace":
        raise Refused(
            f"{table} holds another release, or was changed since; choose another name, or state "
            "if_exists: replace or append-version"
        )


def _put_in_place(
    connection: Any,
    cursor: Any,
    table: Table,
    columns: dict[str, str],
    parquet: Path,
    standing: tuple[str, str, list[str]] | None,
) -> None:
    from psycopg2 import sql

    again = standing is not None and standing[2] == [f"{n} {kind}" for n, kind in columns.items()]
    filled = table if again else Table(table.schema, f"anonflow_{secrets.token_hex(8)}")
    if again:
        _execute(cursor, "DELETE FROM {}", table.identifier)
    else:
        made = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(kind)) for n, kind in columns.items()
        )
        _execute(cursor, "CREATE TABLE {} ({})", filled.identifier, made)
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    copy = sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT csv, ENCODING 'UTF8')").format(filled.identifier, names)
    cursor.copy_expert(copy, _Lines(parquet))
    if not _same(connection, filled, columns, parquet):
        raise InputOutputFault(f"table {table} read back is not what was written; nothing was changed there")
    if not again:
        if standing is not None:
            _execute(cursor, "DROP TABLE {}", table.identifier)
        _execute(cursor, "ALTER TABLE {} RENAME TO {}", filled.identifier, sql.Identifier(table.name))


def _same(connection: Any, table: Table, columns: dict[str, str], parquet: Path) -> bool:
    """Return whether a table holds the file's records, each as often."""
    from psycopg2 import sql

    there, here = Content(), Content()
    statement = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(map(sql.Identifier, columns)), table.identifier)
    with connection.cursor(f"anonflow_{secrets.token_hex(8)}") as cursor:
        cursor.execute(statement)
        for names, piece in _pieces(cursor):
            there.add(piece.set_axis(names, axis=1))
    for batch in _batches(parquet):
        here.add(_as_read_back(batch))
    return (there.records, there.digest) == (here.records, here.digest)


def _as_read_back(batch: Any) -> pd.DataFrame:
    import pyarrow as pa

    kinds = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame: pd.DataFrame = batch.to_pandas(ignore_metadata=True, types_mapper=kinds.get)
    return frame


def _batches(parquet: Path) -> Iterator[Any]:
    """Yield the file's records some at a time, in the types that PostgreSQL has; first none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "bigint": pa.int64(),
        "double precision": pa.float64(),
        "boolean": pa.bool_(),
        "text": pa.large_string(),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in _columns(parquet).items()])
    yield schema.empty_table()
    with pq.ParquetFile(parquet) as file:
        for batch in file.iter_batches(ROWS):
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None).cast(schema)


class _Lines:
    """A file's records as the CSV that COPY reads; text is quoted, so that empty text is not missing."""

    def __init__(self, parquet: Path) -> None:
        self._batches = _batches(parquet)
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
