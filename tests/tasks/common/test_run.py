"""A run: everything it writes is private, and only one run of a plan is under way."""

from __future__ import annotations

import multiprocessing
import os
import resource
import stat
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anoncore import Variable
from tasks.common.errors import Busy, Refused
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run, exclusive_run
from tasks.intake.ingest import ingest
from tasks.intake.source import SourceSection
from tasks.intake.split import ReferenceSection, split
from tasks.intake.units import Declared
from tasks.intake.validate import EditsSection, validate_raw
from tasks.publication.candidate import PublicationSection, prepare_data
from tasks.record import ledger

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def test_an_opened_run_takes_temporary_files_and_leaves_nothing(home: Home) -> None:
    def interrupted() -> None:
        with Run.opened(home, SeedSection()) as run:
            assert Path(tempfile.mkstemp()[1]).is_relative_to(run.workspace.folder)
            raise KeyError("mine")

    before = tempfile.gettempdir()
    with pytest.raises(KeyError, match="mine"):
        interrupted()
    assert tempfile.gettempdir() == before
    assert list(home.workspaces.iterdir()) == []


def modes(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): oct(stat.S_IMODE(p.stat().st_mode)) for p in (folder, *folder.rglob("*"))}


def everything(base: Path) -> None:
    """Write all that a run, the ledger and the keys leave behind, where files are open unless they are closed."""
    os.umask(0)
    home = Home.locate(base / "a" / "home")
    run = Run.start(home, SeedSection())
    pd.DataFrame({"id": list("abcdef"), "x": range(6)}).to_csv(base / "people.csv", index=False)
    variables = (Variable("id", "nominal", role="identifier"), Variable("x", "continuous"))
    ingested = ingest(run, SourceSection(path="people.csv"), variables, base)
    sides = split(run, validate_raw(run, ingested, EditsSection()), ReferenceSection(), Declared(variables), base)
    run.workspace.store_arrays("scores", scores=np.zeros(3))
    run.branch("setting-1", "a").workspace.store("released", sides.original.load())
    prepare_data(run, sides.original, "{}", "people", PublicationSection(), "0")
    ledger.resume(home, by="x", reason="y")
    with exclusive_run(home, "people"):
        pass


def test_everything_is_the_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    writer = FORK.Process(target=everything, args=(tmp_path,))
    writer.start()
    writer.join(120)
    assert writer.exitcode == 0
    folder = tmp_path / "a"
    found = modes(folder)
    assert len(found) > 20
    wrong = {p: m for p, m in found.items() if m != ("0o700" if (folder / p).is_dir() else "0o600")}
    assert wrong == {}


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


def test_a_crash_of_a_run_leaves_no_copy_of_the_memory(tmp_path):
    with Run.opened(Home.locate(tmp_path), SeedSection()):
        assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
