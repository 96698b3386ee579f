"""Where a ledger's lines and its head are: files of the home, or tables of a PostgreSQL that several machines reach."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tasks.common.errors import Fault, Refused
from tasks.common.home import PRIVATE_FILE, Home, write_private
from tasks.common.secrets import secret
from tasks.common.values import from_json
from tasks.record.entry import parse_entry

TABLES = """
CREATE TABLE IF NOT EXISTS anonflow_ledger
  (ledger text NOT NULL, number integer NOT NULL, line text NOT NULL, PRIMARY KEY (ledger, number));
CREATE TABLE IF NOT EXISTS anonflow_ledger_head (ledger text PRIMARY KEY, line text NOT NULL)
"""
HEAD = "INSERT INTO anonflow_ledger_head VALUES (%s, %s) ON CONFLICT (ledger) DO UPDATE SET line = EXCLUDED.line"
SHOWN = "the database of the ledger"
MOVED = ".moved"


class LedgerStore(Protocol):
    """Lines in their order, and the head that names the last of them; what they say is not its concern."""

    def lock(self) -> AbstractContextManager[object]:
        """Let one process at a time append, on whichever machine."""

    def content(self) -> bytes:
        """Return all lines, each with its end."""

    def head(self) -> bytes | None:
        """Return the head; None where there is none."""

    def put_head(self, head: bytes) -> None:
        """Put a head in the place of the one before."""

    def append(self, number: int, line: bytes, head: bytes) -> None:
        """Add a line, the one of this number, and then the head that names it."""


@dataclass(frozen=True)
class Files:
    """The files of the home. A crash leaves part of a line, or a line and a head that does not name it yet."""

    home: Home

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the home's lock; who waited for it while the ledger was moved must not append here."""
        with self.home.lock("ledger"):
            if self.home.ledger_place.exists():
                raise Refused("the ledger was moved to PostgreSQL meanwhile; run the command again")
            yield

    def content(self) -> bytes:
        """Read the ledger."""
        return self.home.ledger.read_bytes() if self.home.ledger.exists() else b""

    def head(self) -> bytes | None:
        """Read the head."""
        return self.home.head.read_bytes() if self.home.head.exists() else None

    def put_head(self, head: bytes) -> None:
        """Write the head, whole or not at all."""
        write_private(self.home.head, head + b"\n")

    def append(self, number: int, line: bytes, head: bytes) -> None:
        """Add a line on the disk; before it end the last one, or put aside what is none."""
        descriptor = os.open(self.home.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
        with os.fdopen(descriptor, "ab") as file:
            rest = self.content().rpartition(b"\n")[2]
            if rest and parse_entry(rest):
                file.write(b"\n")
            elif rest:
                write_private(self.home.ledger.with_suffix(f".unfinished-{secrets.token_hex(4)}"), rest)
                file.truncate(self.home.ledger.stat().st_size - len(rest))
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.put_head(head)


@dataclass(frozen=True)
class Database:
    """The rows of one ledger. A line and the head that names it are there together or not at all.

    Parameters
    ----------
    address : of PostgreSQL
    ledger : which of its ledgers
    """

    address: str
    ledger: str

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold an advisory lock, which ends with this process's connection.

        Where the connection is lost meanwhile, of two lines of one number the second is refused.
        """
        with self.session() as cursor:
            # The lock of a machine that died would be held for the two hours after which systems look.
            cursor.execute("SET LOCAL tcp_keepalives_idle = 30; SET LOCAL tcp_keepalives_interval = 10")
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"anonflow {self.ledger}",))
            yield

    def content(self) -> bytes:
        """Read all rows."""
        with self.session() as cursor:
            cursor.execute("SELECT line FROM anonflow_ledger WHERE ledger = %s ORDER BY number", (self.ledger,))
            return b"".join(line.encode() + b"\n" for (line,) in cursor.fetchall())

    def head(self) -> bytes | None:
        """Read the row of the head."""
        with self.session() as cursor:
            cursor.execute("SELECT line FROM anonflow_ledger_head WHERE ledger = %s", (self.ledger,))
            row = cursor.fetchone()
        return row[0].encode() if row else None

    def put_head(self, head: bytes) -> None:
        """Insert or replace the row of the head."""
        with self.session() as cursor:
            cursor.execute(HEAD, (self.ledger, head.decode()))

    def append(self, number: int, line: bytes, head: bytes) -> None:
        """Insert the row and replace the head in one transaction."""
        with self.session() as cursor:
            cursor.execute("INSERT INTO anonflow_ledger VALUES (%s, %s, %s)", (self.ledger, number, line.decode()))
            cursor.execute(HEAD, (self.ledger, head.decode()))

    @contextmanager
    def session(self) -> Iterator[Any]:
        """Give a cursor in a transaction of its own, committed at the end or not at all."""
        from tasks.connectors.postgres.session import is_postgres, parse_address, session

        url = parse_address(self.address)
        if not is_postgres(url):
            raise Refused("the ledger can be moved to PostgreSQL alone")
        with session(url, SHOWN, readonly=False) as connection, connection.cursor() as cursor:
            yield cursor


@dataclass(frozen=True)
class _Place:
    """Which ledger of which database is a home's, as the home says; the secret holds the address."""

    secret: str
    ledger: str


def store_of(home: Home) -> LedgerStore:
    """Return where the ledger of a home is.

    Raises
    ------
    Refused
        When it is in a database whose secret is not there: nothing may be entered anywhere else.
    """
    try:
        place = from_json(_Place, json.loads(home.ledger_place.read_bytes()))
    except FileNotFoundError:
        return Files(home)
    except (ValueError, RecursionError):
        place = None
    if place is None:
        raise Fault(
            f"{home.ledger_place.name}, which says where the ledger is, cannot be read; restore it from a backup"
        )
    return Database(secret(place.secret, home), place.ledger)


def move(home: Home, name: str) -> None:
    """Move the ledger of a home into the PostgreSQL whose address a secret holds; its files stay under other names.

    Where it is, is what the home says in the end: a move that a crash cut short before is begun anew.

    Raises
    ------
    Refused
        When it was moved before, or the secret is not there.
    """
    with home.lock("ledger"):
        if home.ledger_place.exists():
            raise Refused("the ledger of this home is in PostgreSQL already")
        files, place = Files(home), _Place(name, secrets.token_hex(16))
        database = Database(secret(name, home), place.ledger)
        with database.session() as cursor:
            cursor.execute(TABLES)
            *lines, rest = files.content().split(b"\n")
            # Part of a line, which an append left that did not end, is no entry and stays in the file.
            for number, line in enumerate([*lines, *([rest] if parse_entry(rest) else [])], start=1):
                row = (place.ledger, number, line.decode())
                cursor.execute("INSERT INTO anonflow_ledger VALUES (%s, %s, %s)", row)
            if (head := files.head()) is not None:
                cursor.execute(HEAD, (place.ledger, head.strip().decode()))
        write_private(home.ledger_place, json.dumps(asdict(place)).encode())
        for path in (home.ledger, home.head):
            if path.exists():
                path.rename(path.with_name(path.name + MOVED))
