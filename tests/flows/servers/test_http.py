"""What a server of ours logs."""

from __future__ import annotations

import subprocess
import sys

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
