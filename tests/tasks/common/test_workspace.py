"""The private workspace: what it stores comes back, no one else may read it, and it is wiped in the end."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata
from tasks.common.errors import Fault
from tasks.common.home import Home, make_private, write_private
from tasks.common.workspace import Workspace, wipe_abandoned


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def created(home: Home, name: str = "mine") -> Workspace:
    return Workspace.create(home, name)


# A process of its own, without the seconds that its imports would take.
FORK = multiprocessing.get_context("fork")


def test_the_umask_of_the_caller_is_given_back(tmp_path: Path, home: Home) -> None:
    before = os.umask(0o022)
    try:
        created(home).store_arrays("x", x=np.zeros(2))
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


# What is stored comes back


def test_microdata_come_back_as_they_were(home: Home, mixed: Microdata) -> None:
    workspace = created(home)
    rows = np.random.default_rng(0).permutation(len(mixed))[:100]
    part = mixed.take(rows)
    again = workspace.store("part", part).load()
    assert again.schema == part.schema
    assert again.frame.index.tolist() == part.frame.index.tolist()
    assert (again.frame.dtypes == part.frame.dtypes).all()
    assert again.frame.equals(part.frame)


def test_tables_and_arrays_come_back(home: Home) -> None:
    workspace = created(home)
    frame = pd.DataFrame({"id": ["a", None]}, index=[3, 1])
    pd.testing.assert_frame_equal(workspace.store_table("ids", frame).load(), frame, check_dtype=False)
    assert workspace.store_arrays("y", z=np.arange(3.0)).load()["z"].tolist() == [0.0, 1.0, 2.0]


def test_every_artifact_is_stored_once(home: Home, mixed: Microdata) -> None:
    """A step that is tried again stores the same once more; nothing ever replaces an artifact."""
    workspace = created(home)
    first = workspace.store("source", mixed)
    assert workspace.store("source", mixed) == first
    with pytest.raises(Fault, match=r"source\.parquet is in the workspace already"):
        workspace.store("source", mixed.take(np.arange(10)))
    with pytest.raises(Fault, match="stored once"):
        workspace.store_table("source", pd.DataFrame({"x": [1]}))
    assert len(first.load()) == len(mixed)
    assert sorted(p.name for p in workspace.folder.iterdir()) == ["owner", "source.parquet"]


def test_an_artifact_that_was_changed_is_not_read(home: Home, mixed: Microdata) -> None:
    workspace = created(home)
    stored = [
        workspace.store("x", mixed),
        workspace.store_table("y", mixed.frame),
        workspace.store_arrays("z", a=np.ones(2)),
    ]
    for one in stored:
        one.path.write_bytes(one.path.read_bytes() + b"\0")
        with pytest.raises(Fault, match="is not what was stored"):
            one.load()


def test_a_reference_shows_no_value(home: Home, mixed: Microdata) -> None:
    stored = created(home).store("source", mixed)
    assert repr(stored) == f"StoredMicrodata(path={stored.path!r}, sha256={stored.sha256!r})"


def test_a_branch_is_a_workspace_inside_and_is_wiped_with_it(home: Home, mixed: Microdata) -> None:
    workspace = created(home)
    branch = workspace.branch("setting-1")
    assert branch.store("source", mixed).path.parent.parent == workspace.folder
    workspace.wipe()
    assert not branch.folder.exists()


# How long a workspace stands


def test_a_wiped_workspace_is_gone_and_wiping_again_is_harmless(home: Home, mixed: Microdata) -> None:
    workspace = created(home)
    workspace.store("source", mixed)
    workspace.wipe()
    workspace.wipe()
    assert list(home.workspaces.iterdir()) == []


def left_behind(home: Home, name: str, *, age: float = 0.0) -> Path:
    folder = make_private(home.workspaces / name)
    write_private(folder / "owner", b"")
    write_private(folder / "source.parquet", b"CANARY")
    os.utime(folder, (time.time() - age,) * 2)
    return folder


def test_workspaces_of_dead_processes_are_wiped_and_those_of_living_ones_stay(home: Home) -> None:
    mine = created(home)
    said = FORK.SimpleQueue()

    def run_and_stay() -> None:
        said.put(created(home, "other").folder)
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


def test_a_workspace_is_left_alone_only_while_it_is_being_opened(home: Home) -> None:
    opening, forgotten = left_behind(home, ".a"), left_behind(home, ".b", age=3600)
    elsewhere = left_behind(home, "of-another-host")
    assert wipe_abandoned(home) == 2
    assert opening.exists()
    assert not forgotten.exists()
    assert not elsewhere.exists()


def test_wiping_follows_no_link(home: Home, tmp_path: Path) -> None:
    outside = make_private(tmp_path / "outside")
    write_private(outside / "kept", b"x")
    make_private(home.workspaces)
    (home.workspaces / "link").symlink_to(outside)
    os.utime(outside, (0, 0))
    wipe_abandoned(home)
    assert (outside / "kept").exists()


def test_nothing_to_wipe_is_nothing(home: Home) -> None:
    assert wipe_abandoned(home) == 0
