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


def test_errors_of_the_database_do_not_hold_what_was_written() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.count("INSERT INTO nowhere") == 2
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
