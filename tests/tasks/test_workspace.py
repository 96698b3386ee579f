"""The private workspace: who may read it, how long it stands, and where randomness comes from."""

from __future__ import annotations

import multiprocessing
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from anoncore.microdata import Microdata
from tasks.common.errors import Busy, Refused
from tasks.common.home import Home, make_private, write_private
from tasks.common.workspace import Run, SeedSection, digest_of, exclusive_run, wipe_abandoned

ROOT = Path(__file__).resolve().parents[2]
SECRET = "730274627364518273645182736451827364518273"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


# A process of its own, without the seconds that its imports would take.
FORK = multiprocessing.get_context("fork")


def python(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def modes(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): oct(stat.S_IMODE(p.stat().st_mode)) for p in (folder, *folder.rglob("*"))}


EVERYTHING = """
import os, sys
from pathlib import Path
import numpy as np, pandas as pd
os.umask(0)
from anoncore import Variable
from tasks.record import ledger
from tasks.intake.ingest import SourceSection, ingest
from tasks.publication.publish import PublicationSection, prepare_data
from tasks.intake.split import ReferenceSection, split
from tasks.common.home import Home, make_private
from tasks.common.workspace import Run, SeedSection, exclusive_run
base = Path(sys.argv[1])
home = Home.locate(base / "a" / "home")
run = Run.start(home, SeedSection())
pd.DataFrame({"id": list("abcdef"), "x": range(6)}).to_csv(base / "people.csv", index=False)
variables = (Variable("id", "nominal", role="identifier"), Variable("x", "continuous"))
ingest(run, SourceSection(path="people.csv"), variables, base)
split(run, ReferenceSection(), variables, base)
run.save("released", run.load("original"))
run.save_arrays("scores", scores=np.zeros(3))
run.write_json("suite", {"json": "{}"})
prepare_data(run, "people", PublicationSection(), "0")
ledger.append(home, "awaiting", release="x")
with exclusive_run(home, "people"):
    pass
"""


def test_everything_is_the_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    python(EVERYTHING, tmp_path)
    folder = tmp_path / "a"
    found = modes(folder)
    assert len(found) > 20
    wrong = {p: m for p, m in found.items() if m != ("0o700" if (folder / p).is_dir() else "0o600")}
    assert wrong == {}


def test_the_umask_of_the_caller_is_given_back(tmp_path: Path, home: Home) -> None:
    before = os.umask(0o022)
    try:
        Run.start(home, SeedSection()).save_arrays("x", x=np.zeros(2))
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_home_is_argument_then_environment_then_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANONFLOW_HOME", raising=False)
    assert Home.locate().path == tmp_path / ".anonflow"
    monkeypatch.setenv("ANONFLOW_HOME", str(tmp_path / "elsewhere"))
    assert Home.locate().path == tmp_path / "elsewhere"
    assert Home.locate(tmp_path / "given").path == tmp_path / "given"


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("x")
    with pytest.raises(Refused, match="home should be a folder"):
        Home.locate(tmp_path / "home")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused):
        make_private(tmp_path / "link")


def test_private_files_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_private(tmp_path / "x", b"before")

    def broken(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="space"):
        write_private(tmp_path / "x", b"after")
    assert (tmp_path / "x").read_bytes() == b"before"


# Randomness


def draws(run: Run, stream: str = "a") -> list[float]:
    return run.rng(stream).random(4).tolist()


def test_streams_draw_the_same_again_and_apart_from_each_other(home: Home) -> None:
    run = Run.start(home, SeedSection())
    assert draws(run) == draws(run)
    assert draws(run, "a") != draws(run, "b")
    many = np.array([run.rng(f"s{i}").standard_normal(2000) for i in range(20)])
    between = np.corrcoef(many)[np.triu_indices(20, 1)]
    assert np.abs(between).max() < 5 / np.sqrt(2000)


def test_runs_draw_apart_and_another_process_draws_the_same(home: Home) -> None:
    first, second = Run.start(home, SeedSection()), Run.start(home, SeedSection())
    assert draws(first) != draws(second)
    said = FORK.SimpleQueue()
    other = FORK.Process(target=lambda: said.put(draws(Run("x", first.folder, home))))
    other.start()
    assert said.get() == draws(first)
    other.join(60)


def test_the_same_secret_draws_the_same_on_the_same_data_only(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANONFLOW_TEST_SEED", SECRET)
    seed = SeedSection(secret="ANONFLOW_TEST_SEED")
    runs = [Run.start(home, seed) for _ in range(3)]
    runs[0].bind("a" * 64)
    runs[1].bind("a" * 64)
    runs[2].bind("b" * 64)
    assert draws(runs[0]) == draws(runs[1])
    assert draws(runs[0]) != draws(runs[2])


def test_a_step_that_is_tried_again_binds_to_the_same_effect(home: Home) -> None:
    run = Run.start(home, SeedSection(public=1, data_are_public=True))
    run.bind("a" * 64)
    once = draws(run)
    run.bind("a" * 64)
    assert draws(run) == once


def test_a_public_seed_is_used_as_stated(home: Home) -> None:
    assert draws(Run.start(home, SeedSection(public=5, data_are_public=True))) == draws(
        Run.start(home, SeedSection(public=5, data_are_public=True))
    )
    assert draws(Run.start(home, SeedSection(public=5, data_are_public=True))) != draws(
        Run.start(home, SeedSection(public=6, data_are_public=True))
    )


@pytest.mark.parametrize(
    "value", [None, "", "twelve-CANARY", "-5", "1e5", "0x12", "1 2", "²", "٣٤٥", "9" * 5000, "1.5"]
)
def test_a_secret_that_is_no_whole_number_is_refused_and_not_shown(
    home: Home, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("ANONFLOW_TEST_SEED", raising=False)
    if value is not None:
        monkeypatch.setenv("ANONFLOW_TEST_SEED", value)
    with pytest.raises(Refused) as raised:
        Run.start(home, SeedSection(secret="ANONFLOW_TEST_SEED"))
    assert "ANONFLOW_TEST_SEED must hold a whole number" in str(raised.value)
    assert not value or f" {value}" not in str(raised.value)
    assert raised.value.__context__ is None
    assert not home.workspaces.exists() or not list(home.workspaces.iterdir())


def test_the_entropy_stands_in_no_other_file(home: Home, monkeypatch: pytest.MonkeyPatch, mixed: Microdata) -> None:
    monkeypatch.setenv("ANONFLOW_TEST_SEED", SECRET)
    run = Run.start(home, SeedSection(secret="ANONFLOW_TEST_SEED"))
    run.bind("a" * 64)
    run.save("source", mixed)
    run.save_arrays("x", x=run.rng("x").random(5))
    secrets_ = [(run.folder / name).read_text() for name in ("entropy", "bound")]
    forms = [
        form
        for text in secrets_
        for form in (
            text.encode(),
            f"{int(text):x}".encode(),
            int(text).to_bytes(32),
            int(text).to_bytes(32, "little"),
        )
    ]
    for file in home.path.rglob("*"):
        if file.is_file() and file.name not in ("entropy", "bound"):
            assert not any(form in file.read_bytes() for form in forms)
    assert SECRET not in repr(run)


@pytest.mark.parametrize(
    "given",
    [
        {"public": 1},
        {"public": -1, "data_are_public": True},
        {"public": 1, "secret": "X", "data_are_public": True},
        {"public": "one", "data_are_public": True},
        {"seed": 1},
    ],
    ids=str,
)
def test_an_impossible_seed_is_refused_with_the_plan(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SeedSection(**given)


# What is stored comes back


def test_microdata_come_back_as_they_were(home: Home, mixed: Microdata) -> None:
    run = Run.start(home, SeedSection())
    rows = np.random.default_rng(0).permutation(len(mixed))[:100]
    part = mixed.take(rows)
    run.save("part", part)
    again = run.load("part")
    assert again.schema == part.schema
    assert again.frame.index.tolist() == part.frame.index.tolist()
    assert (again.frame.dtypes == part.frame.dtypes).all()
    assert again.frame.equals(part.frame)


def test_small_results_and_arrays_come_back(home: Home) -> None:
    run = Run.start(home, SeedSection())
    run.write_json("x", {"a": np.float64(0.5), "b": np.arange(2), "c": Path("p"), "d": (np.int64(3), None)})
    assert run.read_json("x") == {"a": 0.5, "b": [0, 1], "c": "p", "d": [3, None]}
    run.save_arrays("y", z=np.arange(3.0))
    assert run.load_arrays("y")["z"].tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(TypeError, match="set has no JSON form"):
        run.write_json("x", {1})


def test_the_digest_of_a_value_is_canonical() -> None:
    assert digest_of({"a": 1, "b": (1, 2)}) == digest_of({"b": [1, 2], "a": np.int64(1)})
    assert digest_of({"a": 1}) != digest_of({"a": 1.5})


# How long a workspace stands


def test_a_wiped_workspace_is_gone_and_wiping_again_is_harmless(home: Home, mixed: Microdata) -> None:
    run = Run.start(home, SeedSection())
    run.save("source", mixed)
    run.wipe()
    run.wipe()
    assert list(home.workspaces.iterdir()) == []


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def left_behind(home: Home, owner: str | bytes | None, age: float = 0.0) -> Path:
    folder = make_private(home.workspaces / f"left-{time.monotonic_ns()}")
    write_private(folder / "source.parquet", b"CANARY")
    if owner is not None:
        write_private(folder / "owner", owner if isinstance(owner, bytes) else owner.encode())
    if age:
        os.utime(folder, (time.time() - age,) * 2)
    return folder


def test_workspaces_of_dead_processes_are_wiped_and_those_of_living_ones_stay(home: Home) -> None:
    mine = Run.start(home, SeedSection())
    said = FORK.SimpleQueue()

    def run_and_stay() -> None:
        said.put(Run.start(home, SeedSection()).folder)
        time.sleep(600)

    other = FORK.Process(target=run_and_stay, daemon=True)
    other.start()
    theirs: Path = said.get()
    assert wipe_abandoned(home) == 0
    assert theirs.exists()
    other.kill()
    other.join(60)
    assert wipe_abandoned(home) == 1
    assert not theirs.exists()
    assert mine.folder.exists()


def test_a_number_that_a_later_process_was_given_keeps_nothing_alive(home: Home) -> None:
    folder = left_behind(home, f"{os.getpid()} 1")
    assert wipe_abandoned(home) == 1
    assert not folder.exists()


@pytest.mark.parametrize(
    "owner", ["", "garbage", "-1", "0", "9" * 30, "9" * 5000, "1 2 3", b"\xff\xfe", "{pid} "], ids=repr
)
def test_an_owner_that_names_no_living_process_keeps_nothing_alive(home: Home, owner: str | bytes) -> None:
    text = owner.replace("{pid}", str(dead_pid())) if isinstance(owner, str) else owner
    folder = left_behind(home, text)
    assert wipe_abandoned(home) == 1
    assert not folder.exists()


def test_a_workspace_that_is_just_being_opened_is_left_alone(home: Home) -> None:
    opening, forgotten = left_behind(home, None), left_behind(home, None, age=3600)
    assert wipe_abandoned(home) == 1
    assert opening.exists()
    assert not forgotten.exists()


def test_wiping_follows_no_link(home: Home, tmp_path: Path) -> None:
    outside = make_private(tmp_path / "outside")
    write_private(outside / "kept", b"x")
    make_private(home.workspaces)
    (home.workspaces / "link").symlink_to(outside)
    os.utime(outside, (0, 0))
    wipe_abandoned(home)
    assert (outside / "kept").exists()


def test_a_plan_runs_alone_in_its_home_and_others_beside_it(home: Home) -> None:
    said = FORK.SimpleQueue()

    def run_and_stay() -> None:
        with exclusive_run(home, "people"):
            said.put("begun")
            time.sleep(600)

    other = FORK.Process(target=run_and_stay, daemon=True)
    other.start()
    assert said.get() == "begun"
    with pytest.raises(Busy, match="another run of the plan people is under way"), exclusive_run(home, "people"):
        pytest.fail("two runs of one plan at once")
    with exclusive_run(home, "animals"):
        pass
    other.kill()
    other.join(60)
    with exclusive_run(home, "people"), pytest.raises(Refused), exclusive_run(home, "people"):
        pytest.fail("two runs of one plan at once")


def test_what_goes_wrong_in_a_run_passes_and_frees_the_plan(home: Home) -> None:
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"), exclusive_run(home, "people"):
            raise KeyError("mine")


def test_nothing_to_wipe_is_nothing(home: Home) -> None:
    assert wipe_abandoned(home) == 0
