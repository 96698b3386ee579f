"""What a server of ours logs."""

from __future__ import annotations

import subprocess
import sys
import traceback

from sqlalchemy.exc import IntegrityError

from flows.servers.http import without_details

PROGRAM = """
import asyncio
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine
from flows.servers.http import hide_values_of_statements
hide_values_of_statements()
asked = text("INSERT INTO nowhere VALUES (:answer)"), {"answer": "what a person wrote"}

async def other():
    async with create_async_engine("sqlite+aiosqlite://").connect() as connection:
        await connection.execute(*asked)

for ask in (lambda: create_engine("sqlite://").connect().execute(*asked), lambda: asyncio.run(other())):
    try:
        ask()
    except Exception as error:
        print(error)
"""

# A key that is there already, and a row that lacks a value: PostgreSQL repeats both.
REFUSED = """
import asyncio, sys, traceback
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine
from flows.servers.http import hide_values_of_statements
hide_values_of_statements()
table = text("CREATE TEMPORARY TABLE answers (reason TEXT PRIMARY KEY, person TEXT NOT NULL)")
rows = [("INSERT INTO answers VALUES (:a, :a), (:a, :a)"), ("INSERT INTO answers VALUES (:a, NULL)")]
answer = {"a": "what a person wrote"}

def asked(row):
    with create_engine(sys.argv[1]).connect() as connection:
        connection.execute(table)
        connection.execute(text(row), answer)

async def asked_at_once(row):
    async with create_async_engine(sys.argv[1].replace("://", "+asyncpg://")).connect() as connection:
        await connection.execute(table)
        await connection.execute(text(row.replace(":a", "CAST(:a AS TEXT)")), answer)

for row in rows:
    for ask in (lambda: asked(row), lambda: asyncio.run(asked_at_once(row))):
        try:
            ask()
        except Exception:
            traceback.print_exc(file=sys.stdout)
"""


def test_errors_of_the_database_do_not_hold_what_was_written() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.count("INSERT INTO nowhere") == 2
    assert "what a person wrote" not in done.stdout + done.stderr


def test_what_postgresql_repeats_is_cut_off(postgres_url: str) -> None:
    command = [sys.executable, "-c", REFUSED, postgres_url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (
        done.stdout.count("sqlalchemy.exc.IntegrityError: ") == done.stdout.count("[SQL: INSERT INTO answers") == 4
    ), done.stdout
    assert "what a person wrote" not in done.stdout + done.stderr


def test_what_postgresql_adds_is_cut_off() -> None:
    refused = RuntimeError("duplicate key\nDETAIL:  Key (reason)=(what a person wrote) already exists.")
    refused.__cause__ = first = RuntimeError("not null")
    first.detail = "Failing row contains (what a person wrote)."  # type: ignore[attr-defined]
    error = IntegrityError("INSERT INTO nowhere", {"a": 1}, refused, hide_parameters=True)
    error.__cause__ = refused
    without_details(error)
    assert "duplicate key" in str(error)
    assert "what a person wrote" not in "".join(traceback.format_exception(error)) + str(vars(first))
