"""What a killed process has left beside its workspace is removed, and nothing that is in use."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tasks.common.home import Home, make_private, write_private
from tasks.decision.cleanup import leftovers, remove_leftovers
from tests.tasks.facts import enter


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def half(path: Path, age: float) -> Path:
    make_private(path.parent)
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_half_written_files_are_removed_once_nobody_can_be_writing_them(home: Home) -> None:
    old = [
        half(home.path / name, 120)
        for name in (
            ".ledger.head.0a1b2c3d",
            "keys/.ed25519.pem.0a1b2c3d",
            "assessments/a-1/.report.html.0a1b2c3d",
        )
    ]
    young = half(home.path / ".approvers.json.0a1b2c3d", 1)
    own = [half(home.path / name, 120) for name in (".gitignore", ".env.local", "notes.0a1b2c3d")]
    assert sorted(leftovers(home)) == sorted(old)
    assert remove_leftovers(home) == 3
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in [young, *own])
    assert remove_leftovers(home) == 0


def test_staged_releases_and_candidates_nobody_was_asked_about_are_removed(home: Home) -> None:
    staged = make_private(home.releases / "office" / ".office-0123456789ab")
    stands = make_private(home.releases / "office" / "office-0123456789ab")
    waits = make_private(home.candidates / "office-aaaaaaaaaaaa")
    unasked = make_private(home.candidates / "office-bbbbbbbbbbbb")
    write_private(unasked / "data.csv", b"x")
    enter(home, "awaiting", release="office-aaaaaaaaaaaa")
    assert remove_leftovers(home) == 2
    assert not staged.exists()
    assert not unasked.exists()
    assert stands.exists()
    assert waits.exists()


def test_a_new_home_has_none(home: Home) -> None:
    assert leftovers(home) == []
