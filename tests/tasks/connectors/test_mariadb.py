"""MariaDB in a real server: right values, one read-only session, and no word of what the database says."""

from __future__ import annotations

import datetime as d
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pymysql
import pytest

from anoncore.microdata import Variable
from tasks.common.errors import Refused
from tasks.connectors.postgres.query import read_query
from tasks.intake.columns import identities, to_microdata

CANARY = "CANARY4711"
PASSWORD = "hunter2-CANARY4711"
PEOPLE = f"""
CREATE DATABASE office CHARACTER SET utf8mb4;
USE office;
CREATE TABLE people (id bigint, age double, land varchar(20), sex tinyint, born date, seen datetime, slept time,
  pay decimal(12, 2));
INSERT INTO people VALUES (9007199254740993, 98765.4321, 'ä{CANARY}', 0, '1990-02-28', '2020-01-01 12:30:00',
  '03:04:05', 12.34), (9007199254740992, NULL, ':x', 1, NULL, NULL, NULL, NULL),
  (NULL, 3, '50%', NULL, '1871-03-04', '1970-01-01 00:00:00', '23:59:59', 0.1);
CREATE USER reader IDENTIFIED BY '{PASSWORD}';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP ON office.* TO reader;
"""
HERE = Path("/")

pytestmark = pytest.mark.skipif(not shutil.which("mariadbd"), reason="there is no mariadbd (Debian: mariadb-server)")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A database in a server of the tests' own, for a user who could change it."""
    # The path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="my") as name:
        where = ["--no-defaults", f"--datadir={name}/data", "--user=root"]
        quick = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        subprocess.run(["mariadb-install-db", *where, *quick], check=True, capture_output=True)
        socket = f"{name}/s"
        server = subprocess.Popen(
            ["mariadbd", *where, f"--socket={socket}", "--skip-networking"], stderr=subprocess.DEVNULL
        )
        try:
            for _ in range(300):
                if Path(socket).exists():
                    break
                time.sleep(0.1)
            with pymysql.connect(unix_socket=socket, user="root", autocommit=True) as admin, admin.cursor() as cursor:
                for statement in filter(str.strip, PEOPLE.split(";")):
                    cursor.execute(statement)
            yield f"mysql+pymysql://reader:{PASSWORD}@localhost/office?unix_socket={socket}"
        finally:
            server.terminate()
            server.wait(60)


def test_values_and_dates_are_right_and_identifiers_keep_every_digit(address: str) -> None:
    frame = read_query(address, "SELECT * FROM people WHERE land LIKE '%' AND land <> ':y'", HERE)
    assert identities(frame, ["id"])["id"].tolist()[:2] == ["9007199254740993", "9007199254740992"]
    assert frame["land"].tolist() == [f"ä{CANARY}", ":x", "50%"]
    assert frame["sex"].tolist()[:2] == [0, 1]
    np.testing.assert_array_equal(frame["age"].to_numpy(), [98765.4321, np.nan, 3.0])
    dated = (
        Variable("born", "continuous", temporal="date"),
        Variable("seen", "continuous", temporal="datetime"),
        Variable("slept", "continuous", temporal="time"),
    )
    plain = to_microdata(frame[["born", "seen", "slept"]], dated)[0].plain()
    assert plain["born"].tolist() == [d.date(1990, 2, 28), None, d.date(1871, 3, 4)]
    assert plain["slept"].tolist() == [d.time(3, 4, 5), None, d.time(23, 59, 59)]
    assert plain["seen"][2] == d.datetime(1970, 1, 1)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE people",
        "DELETE FROM people",
        "UPDATE people SET age = 1",
        "INSERT INTO people (id) VALUES (1)",
        "SELECT 1; DROP TABLE people",
        "SELECT * FROM people FOR UPDATE",
        "SET SESSION TRANSACTION READ WRITE",
        "SELECT * FROM people INTO OUTFILE '/tmp/out.csv'",
        "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE people",
        f"SELECT extractvalue(1, concat(0x7e, '{CANARY}'))",
        "SELECT nothing FROM people",
    ],
)
def test_a_statement_changes_nothing_and_the_server_is_not_quoted(address: str, statement: str) -> None:
    with pytest.raises(Refused, match=r"failed in the database|returns no table") as error:
        read_query(address, statement, HERE)
    assert CANARY not in str(error.value)
    assert len(read_query(address, "SELECT * FROM people", HERE)) == 3


def test_a_wrong_password_is_not_quoted(address: str) -> None:
    with pytest.raises(Refused, match="OperationalError") as error:
        read_query(address.replace("hunter2", "wrong"), "SELECT 1", HERE)
    assert "wrong" not in str(error.value)
