"""Places and secrets: what may be read and written where, and that nothing secret is told."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from anoncore.microdata import Variable
from tasks.common.digests import sha256_of
from tasks.common.errors import InputOutputFault, Refused, sanitise_errors
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.common.secrets import secret
from tasks.connectors import copies
from tasks.connectors.copies import parquet_names
from tasks.connectors.storage import local_location, open_location
from tasks.intake.ingest import ingest
from tasks.intake.read import header_of
from tasks.intake.source import SourceSection

CANARY = "CANARY4711"
PASSWORD = "hunter2-CANARY4711"
VARIABLES = (
    Variable("age", "continuous"),
    Variable("land", "nominal"),
    Variable("year", "ordinal"),
)
COLUMNS = {"age": [30.0, 40.0, None], "land": ["NA", CANARY, None]}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


@pytest.fixture
def memory() -> str:
    """An address in fsspec's memory that no other test uses."""
    return f"memory://t{uuid.uuid4().hex[:8]}"


def refusal(function: Any, *arguments: Any, kind: type[Exception] = Refused) -> str:
    with pytest.raises(kind) as raised:
        sanitise_errors(function)(*arguments)
    error = raised.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert CANARY not in str(error)
    assert PASSWORD not in str(error)
    return str(error)


def table(**more: Any) -> pa.Table:
    return pa.Table.from_pandas(pd.DataFrame(COLUMNS | more), preserve_index=False)


def write(folder: str, name: str, content: pa.Table | bytes) -> None:
    """Write a file to a local folder or an address."""
    system, path = fsspec.core.url_to_fs(f"{folder}/{name}")
    system.makedirs(path.rpartition("/")[0], exist_ok=True)
    with system.open(path, "wb") as file:
        pq.write_table(content, file) if isinstance(content, pa.Table) else file.write(content)


def read(home: Home, variables: tuple[Variable, ...] = VARIABLES, base: Path = Path("/"), **source: Any) -> Any:
    run = Run.start(home, SeedSection())
    done = ingest(run, SourceSection(**source), variables, base)
    frame = done.data.load().frame
    assert not [p for p in run.workspace.folder.iterdir() if p.name.startswith("copy-")]
    return done, {n: [None if pd.isna(v) else v for v in frame[n].tolist()] for n in frame}


def read_refused(home: Home, base: Path = Path("/"), kind: type[Exception] = Refused, **source: Any) -> str:
    run = Run.start(home, SeedSection())
    told = refusal(ingest, run, SourceSection(**source), VARIABLES, base, kind=kind)
    assert not [p for p in run.workspace.folder.iterdir() if p.name.startswith("copy-")]
    return told


# Secrets


def put_secret(home: Home, name: str, content: str, mode: int = 0o600) -> Path:
    folder = home.path / "secrets"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / name
    path.write_text(content)
    path.chmod(mode)
    return path


def test_a_secret_is_found_in_the_environment_then_as_a_credential_then_at_home(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_secret(home, "OFFICE", "of the home\n")
    assert secret("OFFICE", home) == "of the home"
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "OFFICE").write_text("of systemd")
    (credentials / "OFFICE").chmod(0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    assert secret("OFFICE", home) == "of systemd"
    monkeypatch.setenv("OFFICE", " of the environment ")
    assert secret("OFFICE", home) == "of the environment"


def test_a_secret_that_others_may_read_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in (0o640, 0o604, 0o660, 0o602, 0o777):
        put_secret(home, "OFFICE", PASSWORD, mode)
        assert "chmod 600" in refusal(secret, "OFFICE", home)
    put_secret(home, "OFFICE", PASSWORD, 0o644)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(home.path / "secrets"))
    assert "chmod 600" in refusal(secret, "OFFICE", home)


def test_what_is_no_secret_is_refused(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "secrets/OFFICE in the home" in refusal(secret, "OFFICE", home)
    put_secret(home, "EMPTY", " \n")
    assert "is empty" in refusal(secret, "EMPTY", home)
    monkeypatch.setenv("OFFICE", "")
    assert "is empty" in refusal(secret, "OFFICE", home)
    real = tmp_path / "elsewhere"
    real.write_text(PASSWORD)
    real.chmod(0o600)
    (home.path / "secrets" / "LINK").symlink_to(real)
    assert "links are not followed" in refusal(secret, "LINK", home)
    (home.path / "secrets" / "FOLDER").mkdir()
    os.mkfifo(home.path / "secrets" / "PIPE", 0o600)
    for name in ("FOLDER", "PIPE"):
        told = refusal(secret, name, home)
        assert "not an ordinary file" in told or "cannot be opened as a file" in told
    put_secret(home, "BYTES", "").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refusal(secret, "BYTES", home)
    put_secret(home, "LARGE", "x" * 70_000)
    assert "larger than" in refusal(secret, "LARGE", home)
    for name in ("../keys/ed25519.pem", "/etc/passwd", ".", ""):
        assert "is not there" in refusal(secret, name, home)


@pytest.mark.parametrize(
    "given",
    [
        {"sql": "select 1", "database": "postgresql://me:hunter2-CANARY4711@host/db"},
        {"sql": "select 1", "database": "../x"},
        {"sql": "select 1", "database": "A", "url": "sqlite://"},
        {"sql": "select 1", "database": "A", "storage": "B"},
        {"path": "x.csv", "database": "A"},
        {"path": "x.csv", "storage": "A"},
        {"path": "s3://bucket/x.csv", "storage": '{"key": "hunter2-CANARY4711"}'},
        {"path": "s3://me:hunter2-CANARY4711@bucket/x.csv"},
        {"path": "https://host/x.csv?sig=hunter2-CANARY4711"},
        {"path": "simplecache::s3://bucket/x.csv"},
        {"path": "filecache://bucket/x.csv"},
        {"path": "zip://x.csv::s3://bucket/x.zip"},
        {"path": "http://host/x.csv"},
        {"path": "nope://x.csv"},
        {"path": "file://x.csv"},
        {"path": "file:///srv/../etc/x.csv"},
        {"path": "file:///srv/%2e%2e/etc/x.csv"},
    ],
    ids=str,
)
def test_a_source_that_holds_a_secret_or_leads_astray_is_refused_with_the_plan(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        SourceSection(**given)
    told = str(raised.value.errors(include_input=False, include_url=False))
    assert PASSWORD not in told.replace("'ctx'", "").partition("'ctx'")[0]


# Files at addresses


@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_file_at_an_address_is_read_like_any_other(home: Home, memory: str, tmp_path: Path, where: str) -> None:
    folder = memory if where == "memory" else f"file://{tmp_path}/in"
    write(folder, "x.parquet", table(year=[1, 2, 1]))
    write(folder, "x.csv", f"age,land,year\n30,NA,1\n40,{CANARY},2\n,,1\n".encode())
    pq.write_table(table(year=[1, 2, 1]), tmp_path / "x.parquet")
    local, values = read(home, base=tmp_path, path="x.parquet")
    remote, same = read(home, path=f"{folder}/x.parquet")
    assert same == values == {"age": [30, 40, None], "land": ["NA", CANARY, None], "year": [1, 2, 1]}
    assert remote.summary.digest == local.summary.digest == sha256_of(tmp_path / "x.parquet")
    assert read(home, path=f"{folder}/x.csv")[1] == values


def test_an_address_is_not_asked_when_a_plan_is_checked() -> None:
    assert header_of(SourceSection(path="s3://bucket/x.parquet", storage="NOWHERE"), Path("/")) is None


def test_options_come_from_a_secret_and_reach_the_storage(
    home: Home, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    write(memory, "x.parquet", table(year=[1, 2, 1]))
    given: dict[str, Any] = {}
    known = fsspec.core.url_to_fs

    def spied(url: str, **options: Any) -> Any:
        given.update(options)
        return known(url)

    monkeypatch.setattr(fsspec.core, "url_to_fs", spied)
    put_secret(home, "BUCKET", json.dumps({"key": "me", "secret": PASSWORD}))
    read(home, path=f"{memory}/x.parquet", storage="BUCKET")
    assert given == {
        "key": "me", "secret": PASSWORD, "skip_instance_cache": True, "use_listings_cache": False,
    }  # fmt: skip
    for content in (PASSWORD, "[]", "1"):
        put_secret(home, "BUCKET", content)
        assert "JSON object" in read_refused(home, path=f"{memory}/x.parquet", storage="BUCKET")
    assert "is not there" in read_refused(home, path=f"{memory}/x.parquet", storage="NOBODY")


def test_what_a_storage_says_stays_inside(home: Home, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    assert "there is no file" in read_refused(home, path=f"{memory}/gone.parquet")
    write(memory, "empty.csv", b"")
    assert read_refused(home, path=f"{memory}/empty.csv") == "source: empty.csv is empty"
    write(memory, "x.csv", f"age\0{CANARY}".encode())
    assert "NUL bytes" in read_refused(home, path=f"{memory}/x.csv")
    assert "driver for this kind" in read_refused(home, path="s3://bucket/x.parquet")
    for error, kind in (
        (PermissionError(PASSWORD), Refused),
        (TypeError(PASSWORD), Refused),
        (TimeoutError(PASSWORD), InputOutputFault),
        (RuntimeError(PASSWORD), InputOutputFault),
    ):

        def fails(*_: Any, error: Exception = error, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(MemoryFileSystem, "_open", fails)
        read_refused(home, kind=kind, path=f"{memory}/x.csv")


def test_a_file_that_changes_while_it_is_read_is_refused(
    home: Home, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(memory, "x.parquet", table(year=[1, 2, 1]))
    copy = copies._copy

    def meanwhile(*given: Any, **more: Any) -> str:
        done = copy(*given, **more)
        write(memory, "x.parquet", table(year=[1, 2, 2]))
        return done

    monkeypatch.setattr(copies, "_copy", meanwhile)
    assert "changed while it was read" in read_refused(home, path=f"{memory}/x.parquet")


# Folders of Parquet files


@pytest.fixture(params=["path", "file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, memory: str) -> tuple[str, str]:
    """Where files are written, and what a plan says of it."""
    if request.param == "memory":
        return memory, memory
    return f"file://{tmp_path}/in", str(tmp_path / "in") if request.param == "path" else f"file://{tmp_path}/in"


def test_a_folder_is_one_table_with_its_partitions(home: Home, folder: tuple[str, str]) -> None:
    where, path = folder
    write(where, "year=2024/b.parquet", table())
    write(where, "year=2023/a.parquet", table())
    write(where, "year=__HIVE_DEFAULT_PARTITION__/a.parquet", table())
    for passed_over in ("_SUCCESS", "_metadata", "year=2023/.a.parquet.crc"):
        write(where, passed_over, b"x")
    done, values = read(home, path=path)
    assert done.summary.records == 9
    assert values["year"] == [2023] * 3 + [2024] * 3 + [None] * 3
    assert values["land"] == ["NA", CANARY, None] * 3


def test_the_same_records_in_other_files_have_the_same_digest(home: Home, folder: tuple[str, str], memory: str) -> None:
    where, path = folder
    write(where, "year=2024/b.parquet", table())
    write(where, "year=2023/a.parquet", table())
    frame = pd.DataFrame(COLUMNS)
    for year in (2023, 2024):
        for i in (2, 0, 1):
            part = pa.Table.from_pandas(frame.iloc[[i]], preserve_index=False)
            write(f"{memory}-other", f"year={year}/part-{uuid.uuid4()}.parquet", part)
    one, other = read(home, path=path)[0].summary.digest, read(home, path=f"{memory}-other")[0].summary.digest
    assert one == other
    write(where, "year=2025/c.parquet", table())
    assert read(home, path=path)[0].summary.digest != one


def test_partitions_are_read_as_a_csv_file_would_be(home: Home, memory: str) -> None:
    write(memory, "land=01/sex=f%20%2Fm/a.parquet", pa.table({"age": [1.0]}))
    write(memory, "land=1/sex=x/a.parquet", pa.table({"age": [1.0]}))
    variables = (Variable("age", "continuous"), Variable("land", "nominal"), Variable("sex", "nominal"))
    assert read(home, variables, path=memory)[1] == {"age": [1, 1], "land": ["01", "1"], "sex": ["f /m", "x"]}


def test_text_is_text_however_a_file_stores_it_and_gaps_have_no_type(home: Home, memory: str) -> None:
    for name, kind in {
        "a": pa.string(),
        "b": pa.large_string(),
        "c": pa.dictionary(pa.int32(), pa.string()),
    }.items():
        write(memory, f"{name}.parquet", pa.table({"age": [1.0], "land": pa.array(["x"], kind), "year": [1]}))
    write(memory, "d.parquet", pa.table({"year": [2**62 + 1], "age": pa.nulls(1), "land": pa.nulls(1)}))
    _, values = read(home, path=memory)
    assert values == {"age": [1, 1, 1, None], "land": ["x", "x", "x", None], "year": [1, 1, 1, 2**62 + 1]}


BAD_FOLDERS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"_SUCCESS": b""}, "without Parquet files"),
    "something else": ({"a.parquet": table(), "b.csv": b"x"}, "not Parquet: b.csv; remove"),
    "no partition": ({f"{CANARY}/a.parquet": table()}, "not called name=value"),
    "partition twice": ({f"a=1/a={CANARY}/a.parquet": table()}, "not called name=value"),
    "partitions differ": ({f"a={CANARY}/a.parquet": table(), "b=1/a.parquet": table()}, "different ways"),
    "partition is a column": ({f"land={CANARY}/a.parquet": table()}, "holds columns twice: land"),
    "columns differ": ({"a.parquet": table(), "b.parquet": table(x=1)}, "do not have the same columns"),
    "types differ": ({"a.parquet": table(), "b.parquet": table(age=["x", "y", CANARY])}, "types: age"),
    "garbage": ({"a.parquet": CANARY.encode() * 9}, "a.parquet in .* is not a readable parquet file"),
    "an empty file": ({"a.parquet": b""}, "a.parquet is empty"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_a_bad_folder_is_refused_without_a_value(home: Home, folder: tuple[str, str], name: str) -> None:
    files, message = BAD_FOLDERS[name]
    for file, content in files.items():
        write(folder[0], file, content)
    assert pd.Series([read_refused(home, path=folder[1])]).str.contains(message).all()


def test_links_out_of_a_folder_are_refused(home: Home, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for place in (inside, outside):
        write(f"file://{place}", "a.parquet", table(year=[1, 2, 1]))
    (inside / "b.parquet").symlink_to(inside / "a.parquet")
    assert read(home, path=str(inside))[0].summary.records == 6
    (inside / "c.parquet").symlink_to(outside / "a.parquet")
    for path in (str(inside), f"file://{inside}"):
        assert "links out of it" in read_refused(home, path=path)
    (inside / "c.parquet").unlink()
    (inside / "year=1").symlink_to(outside, target_is_directory=True)
    assert "links to folders" in read_refused(home, path=str(inside))


def test_a_folder_that_changes_while_it_is_read_is_refused(
    home: Home, folder: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder[0], "a.parquet", table(year=[1, 2, 1]))
    copy = copies._copy

    def meanwhile(*given: Any, **more: Any) -> str:
        write(folder[0], "b.parquet", table(year=[1, 2, 1]))
        return copy(*given, **more)

    monkeypatch.setattr(copies, "_copy", meanwhile)
    assert "changed while it was read" in read_refused(home, path=folder[1])


def test_the_columns_of_a_local_folder_are_had_without_its_data(tmp_path: Path) -> None:
    write(f"file://{tmp_path}/in", "year=1/a.parquet", table())
    assert header_of(SourceSection(path="in"), tmp_path) == ["age", "land", "year"]
    shutil.rmtree(tmp_path / "in" / "year=1")
    assert "without Parquet" in refusal(header_of, SourceSection(path="in"), tmp_path)


def test_files_stand_in_the_order_of_their_names(tmp_path: Path) -> None:
    names = [f"{i}.parquet" for i in np.random.default_rng(0).permutation(20)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert parquet_names(local_location(tmp_path)) == sorted(names)


# Places to write to


def test_a_small_file_is_seen_whole_or_not_at_all(home: Home, tmp_path: Path, memory: str) -> None:
    for place in (open_location(memory, None, home), local_location(tmp_path / "out")):
        place.make_folder()
        assert (place / "m.json").read() is None
        assert (place / "m.json").digest() is None
        (place / "m.json").put_whole(b"{}")
        assert (place / "m.json").read() == b"{}"
        assert place.names() == ["m.json"]
        (place / "m.json").remove()
        (place / "m.json").remove()
        assert place.names() == []
        assert (place / "none").names() == []
