"""Addresses of databases, sessions in PostgreSQL, and what is raised of a database's error.

Of an error only its class is passed on, SQLSTATE and name: its text may quote data, and an address may hold a
password.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tasks.common.errors import InputOutputFault, Refused, lacks_space

UNREADABLE_ADDRESS = "the database address cannot be read; write it as dialect://user@host/database"
CONNECTION = {"connect_timeout": 10, "application_name": "anonflow", "client_encoding": "utf8"}
# Lost connections, a server that stops or is full, and transactions that met another.
AGAIN = ("08", "40", "53", "57P0", "55P03")
NO_QUERY = "42P11"
DEPENDED_ON = "2BP01"


def parse_address(address: str) -> Any:
    """Return an address as SQLAlchemy has it; refuse text that is none."""
    import sqlalchemy

    if address.startswith("postgres://"):
        address = address.replace("postgres", "postgresql", 1)
    try:
        return sqlalchemy.engine.make_url(address)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        pass
    raise Refused(UNREADABLE_ADDRESS)


def is_postgres(url: Any) -> bool:
    """Return whether an address is PostgreSQL's, which is read and written without SQLAlchemy."""
    return url.drivername in ("postgresql", "postgresql+psycopg2")


@contextmanager
def session(url: Any, shown: str, *, readonly: bool) -> Iterator[Any]:
    """Yield a connection in a transaction of its own, committed at the end or not at all."""
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
    if lacks_space(error):
        return InputOutputFault("the disk of the database server is full; make room there, then run the command again")
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
