"""Releases handed over to tables and folders: whole, once, recorded, and taken back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import psycopg2
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pydantic import ValidationError

from tasks.common.digests import sha256_of
from tasks.common.errors import Fault, InputOutputFault, Refused, sanitise_errors
from tasks.common.home import Home, make_private, write_private
from tasks.connectors.postgres.table import Table
from tasks.connectors.storage import Location
from tasks.publication import deliver as module
from tasks.publication.candidate import Candidate, PublicationSection
from tasks.publication.deliver import cut_short, deliver, pending, recall, targets_of
from tasks.publication.manifest import verify_release
from tasks.publication.publish import publish
from tasks.publication.targets import Target
from tasks.record import ledger
from tasks.record.dossier import PlanIdentity, ReleaseIdentity
from tasks.record.entry import DeliveryFacts
from tests.tasks.dossiers import small_dossier
from tests.tasks.facts import enter

CANARY = "CANARY4711"
PASSWORD = "hunter2-CANARY4711"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


@pytest.fixture
def memory() -> str:
    return f"memory://d{uuid.uuid4().hex[:8]}/releases"


@pytest.fixture
def office(postgres_url: str, home: Home) -> Iterator[str]:
    """A schema of the test's own, in a database whose address is the secret OFFICE of the home."""
    schema = f"t{uuid.uuid4().hex[:12]}"
    write_private(make_private(home.path / "secrets") / "OFFICE", postgres_url.encode())
    ask(postgres_url, f"CREATE SCHEMA {schema}")
    yield schema
    ask(postgres_url, f"DROP SCHEMA {schema} CASCADE")


def ask(url: str, statement: str) -> list[tuple[Any, ...]]:
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def make_release(home: Home, seed: int = 0, to: tuple[Target, ...] = (), *, parquet: int = 1) -> str:
    """Publish a small release as a run would, with its entries in the ledger."""
    folder = make_private(home.path / "staged" / str(seed))
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 40), "land": rng.choice(["a", ""], 40)})
    for number in range(parquet):
        name = "data.parquet" if parquet == 1 else f"data-{number:05}.parquet"
        frame[number::parquet].to_parquet(folder / name, index=False)
    frame.to_csv(folder / "data.csv", index=False)
    release = f"people-{seed:012x}"
    dossier = small_dossier(
        plan=PlanIdentity("people", "0" * 64),
        release=ReleaseIdentity(release, "people", 40, targets=tuple(t.facts for t in to)),
        files={p.name: sha256_of(p) for p in folder.iterdir()},
    )
    write_private(make_private(home.assessment(release)) / "dossier.json", dossier.to_json())
    publish(home, Candidate(folder, dossier))
    enter(home, release=release, name="people", dossier=dossier.digest)
    return release


def table(schema: str, **more: Any) -> Target:
    return Target(table=f"{schema}.people", database="OFFICE", **more)


def events(home: Home) -> list[str]:
    return [e.event for e in ledger.find(home, DeliveryFacts)]


def refusal(function: Any, *arguments: Any, kind: type[Exception] = Refused) -> str:
    with pytest.raises(kind) as raised:
        sanitise_errors(function)(*arguments)
    assert raised.value.__context__ is None
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


def stored(address: str) -> set[str]:
    system, path = fsspec.core.url_to_fs(address)
    return {f.rpartition("/")[2] for f in system.ls(path, detail=False)} if system.exists(path) else set()


def fetched(address: str, to: Path) -> Path:
    system, path = fsspec.core.url_to_fs(address)
    to.mkdir()
    for name in stored(address):
        system.get_file(f"{path}/{name}", str(to / name))
    return to


# What a plan may say


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "either a table or a folder"),
        ({"table": "a.b", "folder": "/x", "database": "A"}, "either a table or a folder"),
        ({"table": "a.b"}, "needs database"),
        ({"table": "people", "database": "A"}, "schema.name"),
        ({"table": "a.b.c", "database": "A"}, "schema.name"),
        ({"table": 'a."b"', "database": "A"}, "schema.name"),
        ({"table": "a.b; DROP TABLE c", "database": "A"}, "schema.name"),
        ({"table": "a.b\n", "database": "A"}, "schema.name"),
        ({"table": "a.1b", "database": "A"}, "schema.name"),
        ({"table": "a.größe", "database": "A"}, "schema.name"),
        ({"table": "a." + "x" * 64, "database": "A"}, "schema.name"),
        ({"table": "pg_catalog.b", "database": "A"}, "system schema"),
        ({"table": "Information_Schema.b", "database": "A"}, "system schema"),
        ({"table": "a.b", "database": f"postgresql://me:{PASSWORD}@h/d"}, "must name a secret"),
        ({"table": "a." + "x" * 60, "database": "A", "if_exists": "append-version"}, "at most 55"),
        ({"table": "a.b", "database": "A", "if_exists": "append"}, "if_exists|Input should be"),
        ({"folder": "relative/path"}, "absolute path"),
        ({"folder": "/srv/../etc"}, "absolute path"),
        ({"folder": "/srv", "storage": "A"}, "absolute path"),
        ({"folder": "/srv", "if_exists": "replace"}, "belong to a table"),
        ({"folder": f"s3://me:{PASSWORD}@bucket"}, "holds a password"),
        ({"folder": "s3://bucket/../x"}, "must not climb"),
        ({"folder": "https://host/x"}, "nothing can be written"),
        ({"folder": "simplecache::s3://b/x"}, "one of these kinds"),
    ],
)
def test_a_target_that_is_none_is_refused_with_the_plan(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Target(**given)
    told = [e["msg"] + str(e["loc"]) for e in raised.value.errors(include_input=False, include_url=False)]
    assert pd.Series(told).str.contains(problem).all()
    assert PASSWORD not in str(told)


def test_a_table_needs_parquet_and_no_target_occurs_twice() -> None:
    with pytest.raises(ValidationError, match="add parquet"):
        PublicationSection(formats=("csv",), to=(table("a"),))
    with pytest.raises(ValidationError, match="occurs twice"):
        PublicationSection(to=(table("a"), table("a")))


# Tables


@pytest.mark.parametrize("parts", [1, 3])
def test_a_release_becomes_a_table_that_names_it(home: Home, office: str, postgres_url: str, parts: int) -> None:
    release = make_release(home, parquet=parts)
    assert deliver(home, release, table(office)) == f"{office}.people"
    found = pd.DataFrame(ask(postgres_url, f"SELECT * FROM {office}.people"), columns=["age", "land"])
    published = pd.concat(map(pd.read_parquet, (home.releases / "people" / release).glob("*.parquet")))
    assert sorted(found.to_numpy().tolist()) == sorted(published.to_numpy().tolist())
    comment = ask(postgres_url, f"SELECT obj_description('{office}.people'::regclass)")[0][0]
    digest = sha256_of(home.releases / "people" / release / "manifest.json")
    assert comment == f"anonflow release {release} manifest {digest}"
    assert events(home) == ["delivering", "delivered"]
    assert ledger.problems(home) == []
    assert postgres_url.partition("host=")[2] not in home.ledger.read_text()


def test_versions_stand_beside_each_other(home: Home, office: str, postgres_url: str) -> None:
    target = table(office, if_exists="append-version")
    releases = [make_release(home, seed) for seed in (1, 2)]
    assert [deliver(home, r, target) for r in releases] == [f"{office}.people_v1", f"{office}.people_v2"]
    assert [deliver(home, r, target) for r in releases] == [f"{office}.people_v1", f"{office}.people_v2"]
    assert pending(home, releases[0], [target]) == pending(home, releases[1], [target]) == []
    assert recall(home, releases[0]) == []
    assert ask(postgres_url, f"SELECT to_regclass('{office}.people_v1'), count(*) FROM {office}.people_v2") == [
        (None, 40)
    ]


def test_a_failure_is_recorded_and_the_next_attempt_completes_it(home: Home, office: str, postgres_url: str) -> None:
    release = make_release(home)
    other = Target(table=f"{office}.people", database="GONE")
    assert "the secret GONE is not there" in refusal(deliver, home, release, other)
    away = make_private(home.path / "secrets") / "AWAY"
    write_private(away, f"postgresql://me:{PASSWORD}@127.0.0.1:9/x".encode())
    target = Target(table=f"{office}.people", database="AWAY")
    refusal(deliver, home, release, target, kind=InputOutputFault)
    assert events(home) == ["delivering", "delivery failed"] * 2
    assert PASSWORD not in home.ledger.read_text()
    assert pending(home, release, [target]) == [target]
    write_private(away, postgres_url.encode())
    deliver(home, release, target)
    assert pending(home, release, [target]) == []


def test_a_release_without_parquet_cannot_become_a_table(home: Home, office: str) -> None:
    release = make_release(home, parquet=0)
    assert "does not have" in refusal(deliver, home, release, table(office))


# Folders


@pytest.mark.parametrize("where", ["memory", "file", "path"])
def test_a_folder_holds_the_whole_release(home: Home, memory: str, tmp_path: Path, where: str) -> None:
    address = {"memory": memory, "file": f"file://{tmp_path}/out", "path": str(tmp_path / "out")}[where]
    release = make_release(home)
    assert deliver(home, release, Target(folder=address)) == f"{address}/{release}"
    assert verify_release(fetched(f"{address}/{release}", tmp_path / "copy")) == []
    assert deliver(home, release, Target(folder=address))
    second = make_release(home, 1)
    deliver(home, second, Target(folder=f"{address}/"))
    assert {"manifest.json"} <= stored(f"{address}/{second}")


def test_the_manifest_comes_last_and_what_a_crash_left_is_completed(
    home: Home, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, target = make_release(home), Target(folder=memory)
    put, order = Location.put, []

    def dies(self: Location, source: Path) -> None:
        order.append(source.name)
        if len(order) == 3:
            fsspec.filesystem("memory").pipe_file(self.path, b"half")
            raise KeyboardInterrupt
        put(self, source)

    monkeypatch.setattr(Location, "put", dies)
    with pytest.raises(KeyboardInterrupt):
        deliver(home, release, target)
    assert "manifest.json" not in stored(f"{memory}/{release}")
    assert len(stored(f"{memory}/{release}")) == 3
    assert events(home) == ["delivering"]
    assert cut_short(home, "people") == [(release, target)]
    assert cut_short(home, "others") == []
    monkeypatch.setattr(Location, "put", put)
    deliver(home, release, target)
    assert verify_release(fetched(f"{memory}/{release}", tmp_path / "copy")) == []
    assert cut_short(home, "people") == []


def test_what_is_read_back_otherwise_gets_no_manifest(home: Home, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    release = make_release(home)
    put_file = MemoryFileSystem.put_file

    def bends(self: Any, local: str, remote: str, **more: Any) -> None:
        put_file(self, local, remote, **more)
        if remote.endswith("data.csv"):
            self.pipe_file(remote, b"bent")

    monkeypatch.setattr(MemoryFileSystem, "put_file", bends)
    assert "is not what was written" in refusal(deliver, home, release, Target(folder=memory), kind=Fault)
    assert "manifest.json" not in stored(f"{memory}/{release}")
    monkeypatch.undo()
    deliver(home, release, Target(folder=memory))
    assert "manifest.json" in stored(f"{memory}/{release}")


def test_what_stands_is_mended_and_another_manifest_is_never_overwritten(
    home: Home, memory: str, tmp_path: Path
) -> None:
    release, system = make_release(home), fsspec.filesystem("memory")
    place = deliver(home, release, Target(folder=memory)).removeprefix("memory://")
    system.pipe_file(f"{place}/data.csv", b"bent")
    deliver(home, release, Target(folder=memory))
    assert verify_release(fetched(f"{memory}/{release}", tmp_path / "copy")) == []
    system.pipe_file(f"{place}/manifest.json", b"{}")
    assert "another release" in refusal(deliver, home, release, Target(folder=memory))
    assert system.cat_file(f"{place}/manifest.json") == b"{}"


# What may be delivered, and where it belongs


def test_only_what_is_published_and_whole_is_delivered(home: Home, memory: str) -> None:
    release = make_release(home)
    for name in ("people-00000000ffff", "../people", "x", CANARY):
        assert "is published" in refusal(deliver, home, name, Target(folder=memory))
    data = home.releases / "people" / release / "data.csv"
    data.write_text(data.read_text() + "1,x\n")
    assert "no longer what was published" in refusal(deliver, home, release, Target(folder=memory), kind=Fault)
    assert events(home) == []


def test_where_a_release_belongs_is_what_the_dossier_and_the_ledger_say(
    home: Home, memory: str, tmp_path: Path
) -> None:
    stated, later = Target(folder=memory), Target(folder=str(tmp_path / "later"))
    release = make_release(home, to=(stated,))
    assert targets_of(home, release) == [stated]
    deliver(home, release, later)
    deliver(home, release, stated)
    assert targets_of(home, release) == [stated, later]
    assert targets_of(home, "../x") == []
    path = home.assessment(release) / "dossier.json"
    path.write_text(path.read_text().replace(memory, "memory://elsewhere"))
    assert targets_of(home, release) == [later, stated]


def test_a_target_that_holds_another_release_by_now_is_pending(home: Home, office: str) -> None:
    target = table(office, if_exists="replace")
    one, two = make_release(home, 1), make_release(home, 2)
    deliver(home, one, target)
    assert pending(home, two, [target]) == [target]
    deliver(home, two, target)
    assert pending(home, two, [target]) == []
    assert pending(home, one, [target]) == [target]


# Withdrawal


def test_a_withdrawn_release_is_taken_back_from_everywhere(
    home: Home, office: str, postgres_url: str, memory: str, tmp_path: Path
) -> None:
    targets = [table(office), Target(folder=memory), Target(folder=str(tmp_path / "out"))]
    release = make_release(home)
    for target in targets:
        deliver(home, release, target)
    enter(home, "withdrawing", release=release, name="people")
    assert recall(home, release) == []
    assert ask(postgres_url, f"SELECT to_regclass('{office}.people')") == [(None,)]
    for address in (memory, f"file://{tmp_path}/out"):
        found = stored(f"{address}/{release}")
        assert "WITHDRAWN.json" in found
        assert not found & {"manifest.json", "data.csv", "data.parquet"}
    assert events(home)[-3:] == ["recalled"] * 3
    assert recall(home, release) == []
    assert len(events(home)) == 9
    assert "is withdrawn" in refusal(deliver, home, release, targets[0])
    assert ledger.problems(home) == []


def test_what_holds_another_release_is_left_alone(home: Home, office: str, postgres_url: str) -> None:
    one, two = make_release(home, 1), make_release(home, 2)
    for release in (one, two):
        deliver(home, release, table(office, if_exists="replace"))
    assert recall(home, one) == []
    assert ask(postgres_url, f"SELECT count(*) FROM {office}.people") == [(40,)]


def test_a_target_that_is_away_is_named_and_taken_back_later(
    home: Home, office: str, postgres_url: str, memory: str
) -> None:
    release = make_release(home)
    deliver(home, release, table(office))
    deliver(home, release, Target(folder=memory))
    write_private(home.path / "secrets" / "OFFICE", f"postgresql://me:{PASSWORD}@127.0.0.1:9/x".encode())
    (problem,) = recall(home, release)
    assert problem.startswith(f"table {office}.people: ")
    assert PASSWORD not in problem
    assert sorted(events(home)[-2:]) == ["recall failed", "recalled"]
    write_private(home.path / "secrets" / "OFFICE", postgres_url.encode())
    assert recall(home, release) == []
    assert ask(postgres_url, f"SELECT to_regclass('{office}.people')") == [(None,)]


def test_names_of_targets_become_names_of_tables() -> None:
    assert module.table_of("a.b_v12") == Table("a", "b_v12")
