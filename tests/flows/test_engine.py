"""What a check foresees of source and cluster is what a run refuses, in the same words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.engine import foresee
from flows.plan.model import PlanFile, load_plan
from flows.release import Direct, carry_out
from tasks.common.errors import ReleaseError
from tasks.common.home import Home

CANARY = "CANARY4711"
PLAN = """
anonflow: 1
name: people
engine: {engine}
source: {source}
variables:
  - {{name: age, kind: continuous}}
  - {{name: sex, kind: binary, levels: [f, m]}}
  - {{name: day, kind: {day}}}
steps: [{{method: spectral-swap}}]
{more}
"""


def written(
    folder: Path,
    *parts: pd.DataFrame | pa.Table,
    engine: str = "local",
    source: str = "{path: people}",
    day: str = "continuous, temporal: date",
    more: str = "",
) -> PlanFile:
    (folder / "people").mkdir()
    for number, part in enumerate(parts or (people(), people())):
        table = part if isinstance(part, pa.Table) else pa.Table.from_pandas(part, preserve_index=False)
        pq.write_table(table, folder / "people" / f"{number}.parquet")
    path = folder / "people.yaml"
    path.write_text(PLAN.format(engine=engine, source=source, day=day, more=more))
    return load_plan(path)


def people() -> pd.DataFrame:
    return pd.DataFrame({"age": [31, 64], "sex": ["f", "m"], "day": [date(2024, 1, 1)] * 2})


def as_type(name: str, kind: pa.DataType, value: object) -> pa.Table:
    table = pa.Table.from_pandas(people(), preserve_index=False)
    return table.set_column(table.column_names.index(name), name, pa.array([value, value], kind))


PARTS: dict[str, tuple[Callable[[], pd.DataFrame | pa.Table], str]] = {
    "another column": (lambda: people().rename(columns={"age": CANARY}), "do not have the same columns"),
    "another type": (lambda: people().assign(age=CANARY), "hold columns of different types: age"),
    "a column of lists": (lambda: as_type("age", pa.list_(pa.string()), [CANARY]), "age"),
}


@pytest.mark.parametrize("engine", ["local", "memory"])
@pytest.mark.parametrize(("part", "expected"), PARTS.values(), ids=PARTS)
def test_files_that_differ_are_foreseen(tmp_path, tracking, part, expected, engine):
    file = written(tmp_path, people(), people(), part(), engine=engine)
    (problem,), _ = foresee(file, Home.named(tmp_path / "none"))
    assert expected in problem
    assert CANARY not in problem
    if engine == "local":
        assert problem == refusal(file, tmp_path)


@pytest.mark.parametrize(
    ("name", "kind", "value", "day"),
    [
        ("day", pa.date32(), date(2024, 1, 1), "continuous"),
        ("day", pa.timestamp("us"), 0, "nominal"),
        ("day", pa.time64("us"), 0, "continuous"),
        ("day", pa.duration("s"), 0, "continuous"),
        ("sex", pa.binary(), CANARY.encode(), "continuous, temporal: date"),
        ("sex", pa.binary(10), CANARY.encode(), "continuous, temporal: date"),
    ],
    ids=str,
)
def test_types_that_are_neither_numbers_nor_text_are_foreseen(tmp_path, tracking, name, kind, value, day):
    file = written(tmp_path, as_type(name, kind, value), day=day)
    (problem,), _ = foresee(file, Home.named(tmp_path / "none"))
    assert name in problem
    assert problem == refusal(file, tmp_path)


def test_text_where_numbers_are_stated_is_warned_of(tmp_path):
    table = as_type("age", pa.string(), CANARY)
    table = table.set_column(1, "sex", pa.array([1, 2]))
    problems, (warning,) = foresee(written(tmp_path, table), Home.named(tmp_path / "none"))
    assert problems == []
    assert warning.startswith("variables: age, sex state numbers where the column is text")


@pytest.mark.parametrize("kind", [pa.decimal128(5, 2), pa.bool_(), pa.float16(), pa.null(), pa.int8()], ids=str)
def test_nothing_is_foreseen_of_what_a_run_reads(tmp_path, kind):
    file = written(tmp_path, as_type("age", kind, None), people().astype({"sex": "category"}).assign(age=None))
    assert foresee(file, Home.named(tmp_path / "none")) == ([], [])
    assert not (tmp_path / "none").exists()


def test_folders_called_name_value_are_foreseen(tmp_path, tracking):
    file, place = written(tmp_path), tmp_path / "people"
    for path in list(place.iterdir()):
        (place / f"sex={path.stem}").mkdir()
        people().drop(columns="sex").to_parquet(place / f"sex={path.stem}" / "a.parquet", index=False)
        path.unlink()
    (problem,), _ = foresee(file, Home.named(tmp_path / "none"))
    assert "partitioned by folders called name=value" in problem
    assert problem == refusal(file, tmp_path)


def test_another_database_is_foreseen(tmp_path):
    file = written(tmp_path, source='{sql: SELECT 1, url: "sqlite:///people.db"}')
    (problem,), _ = foresee(file, Home.named(tmp_path / "none"))
    assert problem.startswith("source: tables beyond memory are read from PostgreSQL")


def test_secret_and_folder_of_a_cluster_are_foreseen_together(tmp_path, monkeypatch):
    more = f"cluster: {{secret: OFFICE_CLUSTER, folder: {tmp_path}/shared}}"
    file, home = written(tmp_path, engine="dask", more=more), Home.named(tmp_path / "none")
    (secret, folder), _ = foresee(file, home)
    assert "the secret OFFICE_CLUSTER is not there" in secret
    assert "shared is no folder on this machine" in folder
    (tmp_path / "shared").mkdir()
    monkeypatch.setenv("OFFICE_CLUSTER", "address: tcp://scheduler:8786")
    (problem,), _ = foresee(file, home)
    assert "must be YAML with the keys address, ca, certificate, key" in problem


def refusal(file: PlanFile, folder: Path) -> str:
    """Return what a run says."""
    with pytest.raises(ReleaseError) as refused:
        carry_out(file, Home.locate(folder / "home"), Direct())
    return str(refused.value)
