"""Queries: a result is read as one table, from PostgreSQL in one transaction, from others with SQLAlchemy."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from tasks.common.errors import Refused, visible
from tasks.connectors.postgres.session import UNREADABLE_ADDRESS, is_postgres, parse_address, session

ROWS = 20_000
PORTAL = "anonflow_rows"
WHOLE = (20, 21, 23, 26)
REAL = (700, 701)
BOOLEAN = 16
NUMERIC = 1700
TEXT = (18, 19, 25, 1042, 1043, 2950)
EXACT_DIGITS = 18

# The server itself says whether the text is one query: as a cursor it opens nothing else.
OPEN = f"""
DO $anonflow$
DECLARE result CONSTANT refcursor := '{PORTAL}';
BEGIN
  OPEN result FOR EXECUTE current_setting('anonflow.statement');
END
$anonflow$
"""


def read_query(address: str, statement: str, base: Path, *, verbatim: Collection[str] = ()) -> pd.DataFrame:
    """Return what a query finds.

    PostgreSQL is read in one read-only, repeatable-read transaction, in pieces, so that no more of it than
    the result's columns is in memory. Whole numbers, also with missing ones among them, are ``Int64``, truth values
    ``boolean``, text is text, other numbers are float64; what is none of these comes as it is.

    Parameters
    ----------
    address : database address, with a password where one is needed
    statement : one query
    base : folder to which the path of a database file (SQLite, DuckDB) is relative
    verbatim : columns whose decimals are read to the last digit; other decimals become float64

    Raises
    ------
    Refused
        When the address or the statement is not acceptable, or the database refuses it.
    InputOutputFault
        When the database cannot be reached, or the connection is lost.
    """
    url = parse_address(address)
    if is_postgres(url):
        with session(url, "the query", readonly=True) as connection:
            return _all_rows(connection, statement, set(verbatim))
    return _read_other(url, statement, base)


def query_batches(address: str, statement: str, rows: int, *, verbatim: Collection[str] = ()) -> Iterator[pd.DataFrame]:
    """Yield what a query of PostgreSQL finds in frames of exactly so many rows, but for the last.

    The frames together are what `read_query` returns, of one moment of the database; no more than one of them is in
    memory.

    Raises
    ------
    Refused, InputOutputFault
        As `read_query`; and for other databases.
    """
    with session(partitioned_address(address), "the query", readonly=True) as connection:
        waiting: list[pd.DataFrame] = []
        held = 0
        for piece in _pieces(connection, statement, set(verbatim)):
            while held + len(piece) >= rows:
                yield pd.concat([*waiting, piece[: rows - held]], ignore_index=True)
                piece, waiting, held = piece[rows - held :], [], 0
            waiting, held = [*waiting, piece], held + len(piece)
        if held:
            yield pd.concat(waiting, ignore_index=True)


def partitioned_address(address: str) -> Any:
    """Return the address of a database from which tables beyond memory are read; refuse others."""
    url = parse_address(address)
    if not is_postgres(url):
        raise Refused(
            "tables beyond memory are read from PostgreSQL, and not from other databases; choose engine: memory"
        )
    return url


def _all_rows(connection: Any, statement: str, verbatim: set[str]) -> pd.DataFrame:
    pieces = list(_pieces(connection, statement, verbatim))
    return pd.concat(pieces, ignore_index=True) if len(pieces) > 1 else pieces[0]


def _pieces(connection: Any, statement: str, verbatim: set[str]) -> Iterator[pd.DataFrame]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('anonflow.statement', %s, true)", (statement,))
        cursor.execute(OPEN)
    with connection.cursor(PORTAL) as cursor:
        for names, frame in rows_in_pieces(cursor, verbatim):
            frame.columns = pd.Index(names)
            yield frame


def rows_in_pieces(cursor: Any, verbatim: Collection[str] = ()) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """Yield the names and some rows at a time, at least once; the frames' own columns are numbered."""
    rows = cursor.fetchmany(ROWS)
    first = True
    while rows or first:
        facts, first = cursor.description, False
        columns = zip(*rows, strict=True) if rows else [()] * len(facts)
        typed = [_typed(list(v), c, exact=c.name in verbatim) for v, c in zip(columns, facts, strict=True)]
        yield [c.name for c in facts], pd.DataFrame(dict(enumerate(typed)))
        rows = cursor.fetchmany(ROWS) if rows else []


def _typed(values: list[Any], column: Any, *, exact: bool) -> Any:
    """Return a column of the type that its kind in the database has, whatever values this piece holds."""
    kind = column.type_code
    # Whole by declaration; scales below 0 come as large numbers.
    whole = column.scale == 0 and (column.precision or EXACT_DIGITS + 1) <= EXACT_DIGITS
    if kind in WHOLE or (kind == NUMERIC and whole and not exact):
        missing = np.array([v is None for v in values], dtype=bool)
        numbers = np.array([0 if v is None else int(v) for v in values], dtype="int64")
        return pd.arrays.IntegerArray(numbers, missing)
    if kind in REAL or (kind == NUMERIC and not exact):
        return np.array([np.nan if v is None else float(v) for v in values], dtype="float64")
    if kind == BOOLEAN:
        return pd.array(values, dtype="boolean")
    if kind in TEXT:
        return pd.array(values, dtype="str")
    return pd.Series(values, dtype=object)


def _read_other(url: Any, statement: str, base: Path) -> pd.DataFrame:
    """Run one query where SQLAlchemy knows how."""
    import sqlalchemy

    try:
        where, arguments = _to_read(url, base)
        engine = sqlalchemy.create_engine(where, hide_parameters=True, connect_args=arguments)
        if (prepare := AT_CONNECTION.get(engine.dialect.name)) is not None:
            sqlalchemy.event.listen(engine, "connect", prepare)
        try:
            # The statement goes to the driver as it stands: a colon or a percent sign in it means itself.
            with engine.connect().execution_options(no_parameters=True) as connection:
                return _table_of(connection.exec_driver_sql(statement))
        finally:
            engine.dispose()
    except Refused:
        raise
    except sqlalchemy.exc.NoSuchModuleError:
        problem = "the database address names a kind of database for which no driver is installed"
    except ImportError as error:
        problem = f"the database driver {error.name} is not installed"
    except (sqlalchemy.exc.ArgumentError, ValueError):
        problem = UNREADABLE_ADDRESS
    except sqlalchemy.exc.ResourceClosedError:
        problem = "the statement returns no table; write a query that only reads"
    except Exception as error:
        kind = type(getattr(error, "orig", None) or error).__name__
        problem = f"the query failed in the database ({kind}); try it there, and check names and rights"
    raise Refused(problem)


def _table_of(result: Any) -> pd.DataFrame:
    """Return the rows of a result as a table, whose columns may have one name."""
    names, rows = list(result.keys()), result.fetchall()
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    table = pd.DataFrame(dict(enumerate(_column(list(values)) for values in columns)))
    table.columns = pd.Index(names)
    return table


def _column(values: list[Any]) -> Any:
    """Return values of a driver as a column; whole numbers keep all digits beside missing ones."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {int} and all(v is None or abs(v) < 2**63 for v in values):
        return pd.array(values, dtype="Int64")
    if kinds == {timedelta} and all(v is None or timedelta(0) <= v < timedelta(days=1) for v in values):
        # MySQL's type for times of a day holds durations, too.
        return pd.Series([None if v is None else (datetime.min + v).time() for v in values], dtype=object)
    return pd.Series(values, dtype="boolean" if kinds == {bool} else None)


def _attach_nothing(connection: Any, record: Any) -> None:
    """Let a SQLite statement read the database that is named, and neither open nor create another."""
    import sqlite3

    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
    )


def _only_read(connection: Any, record: Any) -> None:
    """Let a MySQL or MariaDB statement read one state of the database, and change nothing."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


AT_CONNECTION = {"sqlite": _attach_nothing, "mysql": _only_read, "mariadb": _only_read}
# A DuckDB statement could otherwise read and write any file and address.
DUCKDB = {
    "read_only": True,
    "config": {
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "lock_configuration": "true",
    },
}


def _to_read(url: Any, base: Path) -> tuple[Any, dict[str, Any]]:
    """Return the address and the driver's arguments; a file is opened to read: a mistyped statement changes nothing."""
    kind = url.get_backend_name()
    # Settings in the address would override ours.
    url = url.set(query={}) if kind == "duckdb" else url
    if kind not in ("sqlite", "duckdb") or url.database in (None, "", ":memory:"):
        return url, DUCKDB | {"read_only": False} if kind == "duckdb" else {}
    where = (base / str(url.database)).absolute()
    if not where.is_file():
        raise Refused(f"there is no database file {visible(where.name)}")
    if kind == "duckdb":
        return url.set(database=str(where)), DUCKDB
    return url.set(database=f"file:{quote(str(where))}", query={"mode": "ro", "uri": "true"}), {}
