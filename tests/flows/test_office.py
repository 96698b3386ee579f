"""An office's release: a query of a real PostgreSQL in, a table and a folder out."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import psycopg2
import pytest
import yaml

from flows.commands import deliver
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.errors import Fault, Refused
from tasks.common.home import Home
from tasks.connectors.postgres import table as table_module
from tasks.decision.approval import decide
from tasks.record import ledger
from tasks.record.decision import Decision
from tasks.record.entry import DeliveryFacts, ReleaseFacts
from tests.limits import ANY_LOSS

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]

CANARIES = (b"Qx7-Canary-Zw", b"hunter2-canary")
RECORDS = 1200


class Office:
    """A schema with a table of people, the secrets of a home, and plans on it."""

    def __init__(self, url: str, folder: Path, people: Any) -> None:
        self.url, self.folder, self.people = url, folder, people
        self.schema = f"o{uuid.uuid4().hex[:12]}"
        self.bucket = f"memory://{self.schema}"
        self.home = Home.locate(folder / "home")
        self.seen: list[str] = []

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        connection = psycopg2.connect(self.url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def fill(self, seed: int = 1, others: str = "") -> None:
        """Write the people, or others, as decimals, whole numbers with gaps and text."""
        frame = self.people(RECORDS, seed).assign(person=lambda frame: frame["person"] + others)
        rows = ",".join(
            "(" + ",".join("NULL" if pd.isna(v) else f"'{v}'" for v in row) + ")"
            for row in frame.astype({"births": "Int64"}).itertuples(index=False)
        )
        self.ask(
            f"DROP TABLE IF EXISTS {self.schema}.persons; CREATE TABLE {self.schema}.persons "
            "(person text, gross numeric, tax numeric, net numeric, age int, sex char(1), children int, "
            "region text, births int);"
            f"INSERT INTO {self.schema}.persons VALUES {rows}"
        )

    def plan(self, *, to: str | None = None, approval: str = "automatic", order: str = "") -> Path:
        """Write the example plan for this schema."""
        text = (resources.files("deploy") / "plans" / "office.yaml").read_text(encoding="utf-8")
        stated = yaml.safe_load(text)
        stated["source"]["sql"] = f"{stated['source']['sql'].replace('registers.', f'{self.schema}.')} {order}"
        stated["policy"] |= {"approval": approval, "utility": ANY_LOSS}
        stated["assessment"] = {"margin": 0.2}
        table = f"{{table: {self.schema}.released, database: OFFICE_PUBLIC, if_exists: replace}}"
        wanted = f"[{table}, {{folder: '{self.bucket}'}}]" if to is None else to
        stated["publication"]["to"] = yaml.safe_load(wanted)
        path = self.folder / "plan.yaml"
        path.write_text(yaml.safe_dump(stated))
        return path

    def run(self, plan: Path | None = None) -> Any:
        self.seen = []
        told = Direct(lambda label, seconds, *_, **more: self.seen.append(label) if seconds is None else None)
        return carry_out(load_plan(plan or self.plan()), self.home, told)

    def released(self) -> list[tuple[Any, ...]]:
        return sorted(self.ask(f"SELECT * FROM {self.schema}.released"), key=str)

    def published(self, outcome: Any) -> list[tuple[Any, ...]]:
        frame = pd.read_parquet(outcome.folder / "data.parquet").astype(object)
        rows = (tuple(None if pd.isna(v) else v for v in r) for r in frame.itertuples(index=False))
        return sorted(rows, key=str)

    def stored(self, release: str) -> list[str]:
        path = f"/{self.schema}/{release}"
        system = fsspec.filesystem("memory")
        return [f.rpartition("/")[2] for f in system.ls(path, detail=False)] if system.exists(path) else []


@pytest.fixture
def office_(postgres_url: str, tmp_path: Path, people: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    found = Office(postgres_url, tmp_path, people)
    found.ask(f"CREATE SCHEMA {found.schema}")
    found.fill()
    # The server trusts its socket; the password is here to be looked for.
    address = postgres_url.replace("postgres@", "postgres:hunter2-canary@")
    monkeypatch.setenv("OFFICE_DATABASE", address)
    monkeypatch.setenv("OFFICE_PUBLIC", address)
    yield found
    found.ask(f"DROP SCHEMA {found.schema} CASCADE")


def test_the_example_plan_holds_no_secret_and_loads() -> None:
    path = Path(str(resources.files("deploy") / "plans" / "office.yaml"))
    plan = load_plan(path).plan
    assert [t.shown for t in plan.publication.to] == [
        "table public_use.persons",
        "folder s3://public-use/persons",
    ]
    public = yaml.safe_load(plan.public_text())
    assert public["source"] == {"kind": "query"}
    assert public["publication"]["to"] == [{"kind": "table"}, {"kind": "folder"}]


def test_from_a_query_to_a_table_and_a_folder_and_nothing_twice(office_: Office) -> None:
    outcome = office_.run()
    assert outcome.status == "published", outcome.reason
    assert office_.seen[-2:] == [
        f"Deliver to table {office_.schema}.released",
        f"Deliver to folder {office_.bucket}",
    ]
    assert office_.released() == office_.published(outcome)
    assert set(office_.stored(outcome.release)) == {p.name for p in outcome.folder.iterdir()}
    dossier = json.loads((office_.home.assessment(outcome.release) / "dossier.json").read_text())
    assert dossier["release"]["targets"] == [
        {"table": f"{office_.schema}.released", "database": "OFFICE_PUBLIC", "if_exists": "replace"},
        {"folder": office_.bucket},
    ]
    assert not any(b"OFFICE_PUBLIC" in file.read_bytes() for file in outcome.folder.iterdir())
    # Neither the same data nor their records in another order are another release, or are delivered again.
    again = office_.run()
    assert (again.status, again.release) == ("unchanged", outcome.release)
    assert office_.seen == ["Read the source", "Mirror the outcome in MLflow"]
    office_.ask(f"CREATE TABLE {office_.schema}.shuffled AS SELECT * FROM {office_.schema}.persons ORDER BY random()")
    office_.ask(f"DROP TABLE {office_.schema}.persons")
    office_.ask(f"ALTER TABLE {office_.schema}.shuffled RENAME TO persons")
    assert office_.run().status == "unchanged"
    assert len(ledger.find(office_.home, DeliveryFacts)) == 4
    assert ledger.problems(office_.home) == []
    for path in office_.home.path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(c in content for c in CANARIES), path


def test_a_target_that_is_added_gets_the_release_that_stands(office_: Office) -> None:
    first = office_.run(office_.plan(to="[]"))
    assert first.status == "published"
    second = office_.run()
    assert (second.status, second.release) == ("unchanged", first.release)
    assert office_.released() == office_.published(first)


def test_a_crash_in_the_middle_of_the_copy_leaves_the_old_table_and_is_mended(
    office_: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = office_.run()
    office_.fill(seed=2, others="-2")
    read = table_module._Lines.read

    def dies(self: Any, size: int = -1) -> bytes:
        read(self, 100)
        raise SystemExit(143)

    monkeypatch.setattr(table_module._Lines, "read", dies)
    with pytest.raises((SystemExit, Fault)):
        office_.run()
    monkeypatch.setattr(table_module._Lines, "read", read)
    assert office_.released() == office_.published(first)
    second = ledger.find(office_.home, ReleaseFacts, "published")[-1].facts.release
    assert second != first.release
    outcome = office_.run()
    assert outcome.status == "unchanged"
    assert office_.released() == office_.published(outcome)
    comment = office_.ask(f"SELECT obj_description('{office_.schema}.released'::regclass)")[0][0]
    assert comment.startswith(f"anonflow release {second} ")
    assert "manifest.json" in office_.stored(second)


def test_a_target_that_does_not_take_it_keeps_no_other_from_it(
    office_: Office, capsys: pytest.CaptureFixture[str]
) -> None:
    office_.ask(f"CREATE TABLE {office_.schema}.released (mine int)")
    with pytest.raises(Fault, match="was not delivered everywhere") as raised:
        office_.run()
    assert "was not delivered by anonflow" in str(raised.value)
    release = ledger.find(office_.home, ReleaseFacts, "published")[0].facts.release
    assert "manifest.json" in office_.stored(release)
    office_.ask(f"DROP TABLE {office_.schema}.released")
    capsys.readouterr()
    deliver.deliver(release, office_.home.path, json_=True)
    done = json.loads(capsys.readouterr().out)
    assert (done["release"], done["withdrawn"], len(done["places"])) == (release, False, 2)
    assert len(office_.released()) == RECORDS // 2
    with pytest.raises(Refused, match="has no targets"):
        deliver.deliver("office-000000000000", office_.home.path)


def test_what_a_person_approves_is_delivered(office_: Office) -> None:
    waits = office_.run(office_.plan(approval="person"))
    assert waits.status == "awaiting", waits.reason
    assert office_.ask(f"SELECT to_regclass('{office_.schema}.released')") == [(None,)]
    outcome = decide(office_.home, Decision(act="approve", release=waits.release, by="A. Smith", reason="read it"))
    deliver.after_decision(office_.home, outcome)
    assert office_.released() == office_.published(outcome)
    ledger.append(office_.home, "withdrawn", outcome.entry.facts)
    deliver.deliver(outcome.release, office_.home.path)
    assert office_.ask(f"SELECT to_regclass('{office_.schema}.released')") == [(None,)]
    assert "manifest.json" not in office_.stored(outcome.release)


def test_a_source_that_is_away_is_tried_again_and_says_no_password(
    office_: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.common.errors import InputOutputFault

    monkeypatch.setenv("OFFICE_DATABASE", "postgresql://me:hunter2-canary@127.0.0.1:9/x")
    with pytest.raises(InputOutputFault) as raised:
        office_.run()
    assert "hunter2" not in str(raised.value)
    assert ledger.entries(office_.home) == []
    monkeypatch.delenv("OFFICE_PUBLIC")
    with pytest.raises(Refused, match="the secret OFFICE_PUBLIC is not there"):
        office_.run()
    assert office_.seen == []
    monkeypatch.setenv("OFFICE_PUBLIC", "x")
    monkeypatch.delenv("OFFICE_DATABASE")
    with pytest.raises(Refused, match="the secret OFFICE_DATABASE is not there"):
        office_.run()
