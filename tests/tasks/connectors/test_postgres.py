"""PostgreSQL in and out: right values, one transaction, and no word of what a database says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anoncore.microdata import Variable
from anoncore.partitions.store import Serial
from tasks.common.errors import InputOutputFault, Refused, sanitise_errors
from tasks.common.home import Home
from tasks.common.partitions import StoredPartitions
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.connectors.fingerprint import content_digest
from tasks.connectors.postgres import query
from tasks.connectors.postgres import table as table_module
from tasks.connectors.postgres.query import query_batches, read_query
from tasks.connectors.postgres.table import Table, keep_table, remove_table
from tasks.intake.ingest import ingest
from tasks.intake.partitions import ingest_partitions
from tasks.intake.source import SourceSection

CANARY = "CANARY4711"
PASSWORD = "hunter2-CANARY4711"
HERE = Path("/")


@pytest.fixture
def schema(postgres_url: str) -> Iterator[str]:
    """A schema of the test's own."""
    name = f"t{uuid.uuid4().hex[:12]}"
    run_sql(postgres_url, f"CREATE SCHEMA {name}")
    yield name
    run_sql(postgres_url, f"DROP SCHEMA {name} CASCADE")


def run_sql(url: str, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def refusal(function: Any, *arguments: Any, kind: type[Exception] = Refused, **more: Any) -> str:
    with pytest.raises(kind) as raised:
        sanitise_errors(function)(*arguments, **more)
    error = raised.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert CANARY not in str(error)
    assert PASSWORD not in str(error)
    return str(error)


# Queries


def test_every_type_comes_as_it_is(postgres_url: str) -> None:
    frame = read_query(
        postgres_url,
        """SELECT * FROM (VALUES
             (1::int, 4611686018427387905::bigint, 12345678901234567890::numeric, 1.10::numeric,
              0.1::float4, 1e300::float8, true, 'größe', 'ab'::char(4), NULL::text),
             (NULL, NULL, 7, NULL, NULL, NULL, NULL, '', NULL, NULL)
           ) AS t(i, big, key, part, r, d, b, t, c, none)""",
        HERE,
        verbatim=["key"],
    )
    kinds = {n: str(frame[n].dtype) for n in frame}
    assert kinds == {
        "i": "Int64", "big": "Int64", "key": "object", "part": "float64", "r": "float64",
        "d": "float64", "b": "boolean", "t": "str", "c": "str", "none": "str",
    }  # fmt: skip
    first = frame.iloc[0].tolist()
    assert first[1] == 2**62 + 1
    assert [str(v) for v in first[2:6]] == ["12345678901234567890", "1.1", "0.1", "1e+300"]
    assert first[6:9] == [True, "größe", "ab  "]
    assert frame.iloc[1].isna().tolist() == [True] * 2 + [False] + [True] * 4 + [False] + [True] * 2


def test_decimals_that_are_declared_whole_are_whole_numbers(postgres_url: str, schema: str) -> None:
    run_sql(postgres_url, f"CREATE TABLE {schema}.t (a numeric(18, 0), b numeric(19, 0), c numeric(5, 2))")
    run_sql(postgres_url, f"INSERT INTO {schema}.t VALUES (999999999999999999, 7, 7), (NULL, NULL, NULL)")
    frame = read_query(postgres_url, f"SELECT * FROM {schema}.t", HERE)
    assert [str(d) for d in frame.dtypes] == ["Int64", "float64", "float64"]
    assert frame["a"].iloc[0] == 10**18 - 1


def test_a_column_without_values_has_the_type_of_one_with_values(postgres_url: str) -> None:
    empty, full = (
        read_query(postgres_url, f"SELECT {v}::int AS i, {v}::numeric AS n, {v}::bool AS b", HERE)
        for v in ("NULL", "'1'")
    )
    assert empty.dtypes.equals(full.dtypes)


def test_percent_signs_colons_quotes_and_comments_mean_themselves(postgres_url: str) -> None:
    frame = read_query(
        postgres_url, """-- it's
        SELECT '%s;12:30' AS a, $$;"'$$ AS b /* ; */ ;""", HERE
    )  # fmt: skip
    assert frame.iloc[0].tolist() == ["%s;12:30", ";\"'"]


def test_many_pieces_make_one_table(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = """SELECT i, i % 7 = 0 AS b, nullif(i % 5, 0)::numeric AS n, 'x' || i AS t
             FROM generate_series(1, 1001) i"""
    whole = read_query(postgres_url, sql, HERE)
    monkeypatch.setattr(query, "ROWS", 100)
    pieces = read_query(postgres_url, sql, HERE)
    pd.testing.assert_frame_equal(whole, pieces)
    assert content_digest(whole) == content_digest(pieces)
    assert content_digest(read_query(postgres_url, f"{sql} ORDER BY random()", HERE)) == content_digest(whole)
    parts = list(query_batches(postgres_url, sql, 333))
    assert [len(part) for part in parts] == [333, 333, 333, 2]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), whole)
    assert list(query_batches(postgres_url, f"{sql} LIMIT 0", 333)) == []
    assert "from PostgreSQL, and not from other databases" in refusal(list, query_batches("sqlite:///a.db", sql, 333))


BAD = {
    "two": "SELECT 1 AS a; DROP TABLE {s}.people",
    "two, the first ended": "SELECT 1 AS a; COMMIT; DROP TABLE {s}.people",
    "delete": "DELETE FROM {s}.people",
    "returning": "DELETE FROM {s}.people RETURNING name",
    "inside with": "WITH gone AS (DELETE FROM {s}.people RETURNING name) SELECT * FROM gone",
    "into": "SELECT * INTO {s}.other FROM {s}.people",
    "drop": "DROP TABLE {s}.people",
    "commit": "COMMIT",
    "copy": "COPY {s}.people TO STDOUT",
    "do": "DO $$ BEGIN DELETE FROM {s}.people; END $$",
    "write mode": "SELECT set_config('transaction_read_only', 'off', false)",
    "sequence": "SELECT nextval('{s}.people_seq')",
    "syntax": "SELEC 'CANARY4711'",
    "value in the error": "SELECT name::int FROM {s}.people",
    "no table": "SELECT * FROM {s}.nobody",
    "empty": "",
    "comment": "-- nothing",
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_one_reading_query_is_refused_and_changes_nothing(
    postgres_url: str, schema: str, name: str
) -> None:
    run_sql(postgres_url, f"CREATE TABLE {schema}.people (name text); CREATE SEQUENCE {schema}.people_seq")
    run_sql(postgres_url, f"INSERT INTO {schema}.people VALUES (%s)", CANARY)
    refusal(read_query, postgres_url, BAD[name].format(s=schema), HERE)
    assert run_sql(postgres_url, f"SELECT name FROM {schema}.people") == [(CANARY,)]
    assert run_sql(postgres_url, f"SELECT to_regclass('{schema}.other'), last_value FROM {schema}.people_seq") == [
        (None, 1)
    ]


def test_a_query_sees_one_moment(postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_sql(postgres_url, f"CREATE TABLE {schema}.t AS SELECT i FROM generate_series(1, 500) i")
    monkeypatch.setattr(query, "ROWS", 100)
    typed = query._typed

    def meanwhile(*given: Any, **more: Any) -> Any:
        run_sql(postgres_url, f"DELETE FROM {schema}.t")
        return typed(*given, **more)

    monkeypatch.setattr(query, "_typed", meanwhile)
    assert len(read_query(postgres_url, f"SELECT i FROM {schema}.t", HERE)) == 500


def test_a_database_that_is_away_may_be_tried_again(postgres_url: str) -> None:
    for url in (
        f"postgresql://me:{PASSWORD}@127.0.0.1:9/none",
        postgres_url.replace("postgres@", f"nobody:{PASSWORD}@"),
        postgres_url.replace("/postgres?", "/CANARY4711?"),
    ):
        told = refusal(read_query, url, "SELECT 1", HERE, kind=InputOutputFault)
        assert told.startswith("the query: the database cannot be reached")


def test_a_connection_lost_in_the_middle_may_be_tried_again(postgres_url: str) -> None:
    sql = "SELECT pg_terminate_backend(pg_backend_pid())"
    told = refusal(read_query, postgres_url, sql, HERE, kind=InputOutputFault)
    assert "57P01 AdminShutdown" in told or "OperationalError" in told


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("now()", "dates"),
        ("current_date", "dates"),
        ("interval '1 day'", "dates"),
        ("'x'::bytea", "bytes"),
        ("ARRAY[1,2]", "lists"),
        ("""'{"a": 1}'::jsonb""", "lists"),
    ],
)
def test_dates_bytes_and_lists_are_refused_by_column(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expression: str, problem: str
) -> None:
    monkeypatch.setenv("OFFICE", postgres_url)
    run = Run.start(Home.locate(tmp_path / "home"), SeedSection())
    source = SourceSection(sql=f"SELECT 1 AS age, {expression} AS odd", database="OFFICE")
    variables = (Variable("age", "continuous"), Variable("odd", "nominal"))
    told = refusal(ingest, run, source, variables, tmp_path)
    assert problem in told
    assert told.endswith(": odd; convert them")


def test_what_is_read_is_what_a_file_of_the_same_table_gives(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFICE", postgres_url)
    sql = """SELECT * FROM (VALUES ('p1', 30.5::numeric, 1::int, true, 'no'), ('p2', NULL, NULL, false, 'NA'))
             AS t(person, age, children, ill, land)"""
    (tmp_path / "t.csv").write_text("person,age,children,ill,land\np1,30.5,1,true,no\np2,,,false,NA\n")
    variables = (
        Variable("person", "nominal", role="identifier"),
        Variable("age", "continuous"),
        Variable("children", "ordinal", levels=(0, 1, 2)),
        Variable("ill", "binary"),
        Variable("land", "nominal"),
    )
    frames = []
    for source in (SourceSection(sql=sql, database="OFFICE"), SourceSection(path="t.csv")):
        run = Run.start(Home.locate(tmp_path / "home"), SeedSection())
        frames.append(ingest(run, source, variables, tmp_path).data.load())
    run = replace(Run.start(Home.locate(tmp_path / "home"), SeedSection()), executor=Serial())
    stored = ingest_partitions(run, SourceSection(sql=sql, database="OFFICE"), variables, tmp_path).data
    assert isinstance(stored, StoredPartitions)
    pd.testing.assert_frame_equal(next(stored.parts()).frame, frames[0].frame)
    twice = SourceSection(sql="SELECT 1 AS age, 2 AS age", database="OFFICE")
    assert "holds columns twice" in refusal(ingest_partitions, run, twice, variables, tmp_path)
    assert stored.schema == frames[0].schema
    assert frames[0].schema == frames[1].schema
    pd.testing.assert_frame_equal(frames[0].frame, frames[1].frame)


# Tables


def data(folder: Path, records: int = 50, seed: int = 0, name: str = "data.parquet", **more: Any) -> Path:
    rng = np.random.default_rng(seed)
    texts = [
        "",
        "NA",
        "a,b",
        'say "x"',
        "two\nlines",
        "größe",
        "\\.",
        "\\N",
        " padded ",
        None,
        "x\n\\.\ny",
        "nan",
    ]
    columns = {
        "age": pd.array(rng.integers(18, 90, records), dtype="Int64"),
        "in come": rng.normal(size=records),
        'o"dd': [texts[i % len(texts)] for i in range(records)],
        "flag": pd.array(rng.random(records) < 0.5, dtype="boolean"),
    }
    frame = pd.DataFrame(columns | more)
    frame.loc[0, ["age", "flag"]] = pd.NA
    frame.loc[1, "in come"] = np.nan
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), folder / name)
    return folder / name


def rows(url: str, table: str) -> list[tuple[Any, ...]]:
    return sorted(run_sql(url, f"SELECT * FROM {table}"), key=str)


def expected(parquet: Path) -> list[tuple[Any, ...]]:
    frame = pd.read_parquet(parquet).astype(object)
    return sorted((tuple(None if pd.isna(v) else v for v in r) for r in frame.itertuples(index=False)), key=str)


def comment(url: str, table: str) -> str:
    return run_sql(url, f"SELECT obj_description('{table}'::regclass)")[0][0]


def test_a_table_holds_exactly_the_file(postgres_url: str, schema: str, tmp_path: Path) -> None:
    parquet, table = data(tmp_path), Table(schema, "people")
    assert keep_table(postgres_url, table, [parquet], "anonflow a", "refuse")
    assert rows(postgres_url, str(table)) == expected(parquet)
    assert comment(postgres_url, str(table)) == "anonflow a"
    kinds = """SELECT column_name, data_type FROM information_schema.columns
               WHERE table_schema = %s ORDER BY ordinal_position"""
    assert run_sql(postgres_url, kinds, schema) == [
        ("age", "bigint"), ("in come", "double precision"), ('o"dd', "text"), ("flag", "boolean"),
    ]  # fmt: skip


def test_a_table_is_filled_from_all_parts(postgres_url: str, schema: str, tmp_path: Path) -> None:
    parts, table = [tmp_path / f"data-{number:05}.parquet" for number in range(3)], Table(schema, "people")
    columns = {"n": ([1, 2], [0.5, None], [3, 4]), "t": (["a", None], [None, None], ["", "b"])}
    for number, path in enumerate(parts):
        pd.DataFrame({name: values[number] for name, values in columns.items()}).to_parquet(path, index=False)
    assert keep_table(postgres_url, table, parts, "anonflow a", "refuse")
    assert rows(postgres_url, str(table)) == sorted(
        [(1.0, "a"), (2.0, None), (0.5, None), (None, None), (3.0, ""), (4.0, "b")], key=str
    )
    assert not keep_table(postgres_url, table, parts, "anonflow a", "refuse")
    parts.append(data(tmp_path, name="data-00003.parquet", n=["x"] * 50))
    told = refusal(keep_table, postgres_url, table, parts, "anonflow b", "replace")
    assert "column n holds bigint and double precision and text in parts" in told


def test_the_same_release_again_changes_nothing(postgres_url: str, schema: str, tmp_path: Path) -> None:
    parquet, table = data(tmp_path), Table(schema, "people")
    keep_table(postgres_url, table, [parquet], "anonflow a", "refuse")
    where = f"SELECT min(xmin::text), max(xmin::text), '{table}'::regclass::oid FROM {table}"
    before = run_sql(postgres_url, where)
    assert not keep_table(postgres_url, table, [parquet], "anonflow a", "refuse")
    assert not keep_table(postgres_url, table, [parquet], "anonflow a", "replace")
    assert run_sql(postgres_url, where) == before


def test_a_table_that_was_tampered_with_is_made_good(postgres_url: str, schema: str, tmp_path: Path) -> None:
    parquet, table = data(tmp_path), Table(schema, "people")
    keep_table(postgres_url, table, [parquet], "anonflow a", "refuse")
    run_sql(postgres_url, f"UPDATE {table} SET age = 1 WHERE age > 40")
    assert "was changed since" in refusal(keep_table, postgres_url, table, [parquet], "anonflow a", "refuse")
    assert keep_table(postgres_url, table, [parquet], "anonflow a", "replace")
    assert rows(postgres_url, str(table)) == expected(parquet)


def test_another_release_replaces_only_when_the_plan_says_so(postgres_url: str, schema: str, tmp_path: Path) -> None:
    one, two, table = data(tmp_path), data(tmp_path, seed=1, name="two.parquet"), Table(schema, "people")
    keep_table(postgres_url, table, [one], "anonflow a", "refuse")
    for mode in ("refuse", "append-version"):
        assert "another release" in refusal(keep_table, postgres_url, table, [two], "anonflow b", mode)
    assert rows(postgres_url, str(table)) == expected(one)
    assert keep_table(postgres_url, table, [two], "anonflow b", "replace")
    assert rows(postgres_url, str(table)) == expected(two)
    assert comment(postgres_url, str(table)) == "anonflow b"


def test_rights_and_views_outlast_a_replacement_of_the_same_columns(
    postgres_url: str, schema: str, tmp_path: Path
) -> None:
    table = Table(schema, "people")
    keep_table(postgres_url, table, [data(tmp_path)], "anonflow a", "refuse")
    run_sql(
        postgres_url,
        f"GRANT SELECT ON {table} TO PUBLIC; CREATE VIEW {schema}.old AS SELECT age FROM {table}",
    )
    other = data(tmp_path, records=9, seed=1)
    keep_table(postgres_url, table, [other], "anonflow b", "replace")
    assert len(rows(postgres_url, f"{schema}.old")) == 9
    granted = """SELECT count(*) FROM information_schema.role_table_grants
                 WHERE grantee = 'PUBLIC' AND table_schema = %s"""
    assert run_sql(postgres_url, granted, schema) == [(1,)]
    more = data(tmp_path, more=np.arange(50))
    assert "views depend on it" in refusal(keep_table, postgres_url, table, [more], "anonflow c", "replace")
    assert rows(postgres_url, str(table))
    run_sql(postgres_url, f"DROP VIEW {schema}.old")
    assert keep_table(postgres_url, table, [more], "anonflow c", "replace")
    assert rows(postgres_url, str(table)) == expected(more)


@pytest.mark.parametrize("made", ["TABLE {} (age int)", "VIEW {} AS SELECT 1 AS age", "SEQUENCE {}"])
def test_what_somebody_else_made_is_never_touched(postgres_url: str, schema: str, tmp_path: Path, made: str) -> None:
    table = Table(schema, "people")
    run_sql(postgres_url, f"CREATE {made.format(table)}")
    for mode in ("refuse", "replace"):
        told = refusal(keep_table, postgres_url, table, [data(tmp_path)], "anonflow a", mode)
        assert "was not delivered by anonflow" in told
    assert run_sql(postgres_url, f"SELECT to_regclass('{table}')") != [(None,)]


def test_names_are_quoted_and_columns_that_do_not_fit_refused(postgres_url: str, schema: str, tmp_path: Path) -> None:
    table = Table(schema, 'x"; DROP SCHEMA public CASCADE; --')
    parquet = data(tmp_path, **{'a"; DROP TABLE b; --': 1, "100%": 2, "%s": 3, "{}": 4})
    assert keep_table(postgres_url, table, [parquet], "anonflow %s {}", "refuse")
    assert run_sql(postgres_url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'public'") == [(1,)]
    long = data(tmp_path, **{"ä" * 32: 1})
    assert "63 bytes" in refusal(keep_table, postgres_url, Table(schema, "y"), [long], "anonflow a", "refuse")
    system = data(tmp_path, ctid=1)
    told = refusal(keep_table, postgres_url, Table(schema, "y"), [system], "anonflow a", "refuse")
    assert "42701 DuplicateColumn" in told
    told = refusal(keep_table, postgres_url, Table("nowhere", "y"), [data(tmp_path)], "anonflow a", "refuse")
    assert "3F000 InvalidSchemaName" in told
    nul = data(tmp_path, records=1, t=[f"{CANARY}\0"])
    told = refusal(keep_table, postgres_url, Table(schema, "y"), [nul], "anonflow a", "refuse")
    assert "22021" in told
    assert run_sql(postgres_url, f"SELECT to_regclass('{schema}.y')") == [(None,)]


KILLED = """
import os, sys
from pathlib import Path
from tasks.connectors.postgres import table
table.ROWS = 10
read, count = table._Lines.read, 0
def dies(self, size=-1):
    global count
    count += 1
    if count == 5:
        os.kill(os.getpid(), 9)
    return read(self, 10)
table._Lines.read = dies
url, schema, parquet = sys.argv[1:]
table.keep_table(url, table.Table(schema, "people"), [Path(parquet)], "anonflow b", "replace")
"""


@pytest.mark.parametrize("same_columns", [True, False])
def test_killed_in_the_middle_of_the_copy_the_old_table_stands_whole(
    postgres_url: str, schema: str, tmp_path: Path, same_columns: bool
) -> None:
    table, one = Table(schema, "people"), data(tmp_path)
    keep_table(postgres_url, table, [one], "anonflow a", "refuse")
    two = data(tmp_path, seed=1, name="two.parquet", **({} if same_columns else {"more": 1}))
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, postgres_url, schema, str(two)],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"PYTHONPATH": "."},
        check=False,
    )
    assert ended.returncode == -9
    assert rows(postgres_url, str(table)) == expected(one)
    assert comment(postgres_url, str(table)) == "anonflow a"
    assert keep_table(postgres_url, table, [two], "anonflow b", "replace")
    assert rows(postgres_url, str(table)) == expected(two)
    assert run_sql(postgres_url, "SELECT count(*) FROM pg_class WHERE relname LIKE 'anonflow\\_%'") == [(0,)]


def test_readers_see_the_old_table_until_the_new_one_is_whole(
    postgres_url: str, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, one = Table(schema, "people"), data(tmp_path)
    two = data(tmp_path, seed=1, name="two.parquet")
    keep_table(postgres_url, table, [one], "anonflow a", "refuse")
    seen: list[Any] = []
    same = table_module._same

    def looked(*given: Any) -> bool:
        other = threading.Thread(target=lambda: seen.append(rows(postgres_url, str(table))))
        other.start()
        other.join(10)
        return same(*given)

    monkeypatch.setattr(table_module, "_same", looked)
    keep_table(postgres_url, table, [two], "anonflow b", "replace")
    assert seen == [expected(one)]


def test_what_is_read_back_otherwise_is_not_kept(
    postgres_url: str, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(schema, "people")
    read = table_module._Lines.read
    monkeypatch.setattr(table_module._Lines, "read", lambda self, size=-1: read(self, size).replace(b"NA", b"NB"))
    told = refusal(keep_table, postgres_url, table, [data(tmp_path)], "anonflow a", "refuse", kind=InputOutputFault)
    assert "is not what was written" in told
    assert run_sql(postgres_url, f"SELECT to_regclass('{table}')") == [(None,)]


def test_a_table_is_removed_by_its_mark_alone(postgres_url: str, schema: str, tmp_path: Path) -> None:
    table = Table(schema, "people")
    keep_table(postgres_url, table, [data(tmp_path)], "anonflow release a manifest 1", "refuse")
    assert not remove_table(postgres_url, table, "anonflow release b ", "left")
    assert rows(postgres_url, str(table))
    run_sql(postgres_url, f"CREATE VIEW {schema}.v AS SELECT age FROM {table}")
    assert remove_table(postgres_url, table, "anonflow release a ", "anonflow withdrawn a")
    assert rows(postgres_url, str(table)) == []
    assert comment(postgres_url, str(table)) == "anonflow withdrawn a"
    run_sql(postgres_url, f"DROP VIEW {schema}.v")
    keep_table(postgres_url, table, [data(tmp_path)], "anonflow release b manifest 1", "replace")
    assert remove_table(postgres_url, table, "anonflow release b ", "left")
    assert run_sql(postgres_url, f"SELECT to_regclass('{table}')") == [(None,)]
    assert not remove_table(postgres_url, table, "anonflow release b ", "left")


def test_tables_go_to_postgresql_alone(tmp_path: Path) -> None:
    told = refusal(keep_table, "sqlite:///x.db", Table("main", "t"), [data(tmp_path)], "anonflow a", "refuse")
    assert "PostgreSQL alone" in told
