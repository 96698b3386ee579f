"""The ledger in PostgreSQL: the same entries and signatures, from several machines, and whole when one of them dies."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from flows.served.backup import back_up, restore
from tasks.common.errors import InputOutputFault, Refused
from tasks.common.home import Home
from tasks.record import ledger, ledger_store, signing
from tests.tasks.facts import enter

FORK = multiprocessing.get_context("fork")
SECRET = "LEDGER"


@pytest.fixture
def home(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home of three entries, whose ledger was moved."""
    monkeypatch.setenv(SECRET, postgres_url)
    home = Home.locate(tmp_path / "home")
    for number in range(3):
        enter(home, "published", release=f"r{number}")
    ledger_store.move(home, SECRET)
    return home


def elsewhere(home: Home, place: Path) -> Home:
    """Return the home as another machine has it that shares no lock with this one."""
    shutil.copytree(home.path, place)
    return Home(place)


def rows(home: Home, statement: str) -> list[tuple[Any, ...]]:
    connection = psycopg2.connect(os.environ[SECRET])
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, {"ledger": ledger_store.store_of(home).ledger})  # type: ignore[attr-defined]
        found = cursor.fetchall() if cursor.description else []
    connection.close()
    return found


def appending(home: Home, name: str, count: int) -> None:
    for number in range(count):
        enter(home, "published", release=f"{name}{number}")


def test_a_ledger_that_was_moved_goes_on_with_the_same_chain_and_signatures(home: Home) -> None:
    assert [entry.number for entry in ledger.entries(home)] == [1, 2, 3]
    assert ledger.problems(home) == []
    assert not home.ledger.exists()
    assert not home.head.exists()
    before = ledger.identity(home)
    ledger.rotate_key(home, by="Ann", reason="yearly")
    last = enter(home, "published", release="r3")
    assert (last.number, last.previous) == (5, ledger.entries(home)[3].digest)
    assert ledger.problems(home) == []
    assert ledger.identity(home) == before
    assert not home.ledger.exists()


def test_of_several_homes_in_one_database_each_has_its_own(home: Home, tmp_path: Path) -> None:
    other = Home.locate(tmp_path / "other")
    ledger_store.move(other, SECRET)
    enter(other, "published", release="mine")
    assert [entry.facts.subject for entry in ledger.entries(other)] == ["mine"]
    assert len(ledger.entries(home)) == 3
    assert ledger.problems(other) == []


def test_two_machines_append_to_one_ledger_without_a_common_lock(home: Home, tmp_path: Path) -> None:
    homes = {"a": home, "b": elsewhere(home, tmp_path / "b")}
    workers = [FORK.Process(target=appending, args=(there, name, 8)) for name, there in homes.items()]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    entered = [entry.facts.subject for entry in ledger.entries(home)]
    assert sorted(entered) == sorted([f"r{i}" for i in range(3)] + [f"{name}{i}" for name in "ab" for i in range(8)])
    assert ledger.problems(home) == []


def test_an_append_whose_process_dies_between_its_writes_left_nothing(home: Home) -> None:
    def dying() -> None:
        given = ledger_store.Database.session

        class Dying:
            def __init__(self, cursor: Any) -> None:
                self.cursor = cursor

            def execute(self, statement: str, values: Any = None) -> None:
                if statement == ledger_store.HEAD:
                    os.kill(os.getpid(), signal.SIGKILL)
                self.cursor.execute(statement, values)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.cursor, name)

        @contextmanager
        def session(self: ledger_store.Database) -> Iterator[Any]:
            with given(self) as cursor:
                yield Dying(cursor)

        ledger_store.Database.session = session  # type: ignore[method-assign]
        enter(home, "published", release="lost")

    process = FORK.Process(target=dying)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert enter(home, "published", release="next").number == 4
    assert ledger.settle(home) is False
    assert [entry.facts.subject for entry in ledger.entries(home)] == ["r0", "r1", "r2", "next"]
    assert ledger.problems(home) == []


def test_the_second_line_of_one_number_is_refused(home: Home) -> None:
    store = ledger_store.store_of(home)
    head = store.head() or b""
    with pytest.raises(Refused, match=r"^the database of the ledger: the database refused \(23505 UniqueViolation\)"):
        store.append(3, b"{}", b"{}")
    assert store.head() == head
    assert ledger.problems(home) == []


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("DELETE FROM anonflow_ledger WHERE ledger = %(ledger)s AND number = 2", "removed"),
        ("DELETE FROM anonflow_ledger WHERE ledger = %(ledger)s AND number = 3", "truncated"),
        ("DELETE FROM anonflow_ledger_head WHERE ledger = %(ledger)s", "head"),
        ("UPDATE anonflow_ledger SET line = replace(line, 'r1', 'x1') WHERE ledger = %(ledger)s", "changed"),
        ("UPDATE anonflow_ledger SET number = 5 - number WHERE ledger = %(ledger)s AND number > 1", "reordered"),
    ],
)
def test_what_is_done_to_the_rows_is_found(home: Home, change: str, kind: str) -> None:
    if kind == "reordered":
        change = change.replace("5 - number", "15 - number")
    rows(home, change)
    assert kind in {finding.kind for finding in ledger.problems(home)}


def test_a_home_whose_database_is_not_named_or_not_there_enters_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "postgresql://somebody:hunter2@127.0.0.1:9/none")
    with pytest.raises(InputOutputFault, match="cannot be reached") as raised:
        enter(home, "published", release="r3")
    assert "hunter2" not in str(raised.value)
    monkeypatch.delenv(SECRET)
    with pytest.raises(Refused, match="the secret LEDGER is not there"):
        enter(home, "published", release="r3")
    assert not home.ledger.exists()


def test_a_ledger_is_moved_once_and_not_past_who_waits_to_append(home: Home, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="in PostgreSQL already"):
        ledger_store.move(home, SECRET)
    with pytest.raises(Refused, match="was moved to PostgreSQL meanwhile"), ledger_store.Files(home).lock():
        raise AssertionError
    assert signing.public_key(home)


def test_a_role_that_may_only_insert_suffices_and_can_remove_nothing(
    home: Home, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"ledger_{os.getpid()}"
    rows(
        home,
        f"CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT ON anonflow_ledger, anonflow_ledger_head TO {role};"
        f"GRANT UPDATE ON anonflow_ledger_head TO {role}",
    )
    try:
        monkeypatch.setenv(SECRET, postgres_url.replace("postgres@", f"{role}@"))
        assert enter(home, "published", release="r3").number == 4
        assert ledger.problems(home) == []
        for change in ("DELETE FROM anonflow_ledger", "UPDATE anonflow_ledger SET line = ''"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                rows(home, change)
    finally:
        monkeypatch.setenv(SECRET, postgres_url)
        rows(home, f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_backup_holds_the_ledger_as_files_and_a_restored_home_goes_on_with_them(home: Home, tmp_path: Path) -> None:
    back_up(home, tmp_path / "backup.tar")
    enter(home, "published", release="later")
    restore(tmp_path / "backup.tar", tmp_path / "restored")
    restored = Home.locate(tmp_path / "restored")
    assert [entry.facts.subject for entry in ledger.entries(restored)] == ["r0", "r1", "r2"]
    assert ledger.problems(restored) == []
    assert enter(restored, "published", release="other").number == 4
    assert len(ledger.entries(home)) == 4
    assert ledger.entries(home)[-1].facts.subject == "later"


def test_what_an_append_left_that_did_not_end_is_not_moved(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, postgres_url)
    home = Home.locate(tmp_path / "home")
    for number in range(2):
        enter(home, "published", release=f"r{number}")
    with home.ledger.open("ab") as file:
        file.write(b'{"digest":"0')
    ledger.trusted(home)
    ledger_store.move(home, SECRET)
    assert ledger.problems(home) == []
    assert enter(home, "published", release="next").number == 3
    assert ledger.problems(home) == []
