"""The home: private, of one format, found where it is said to be."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tasks.common.errors import Refused
from tasks.common.home import FORMAT, Home, make_private, write_private


def test_a_new_home_is_private_and_has_the_format_of_this_version(tmp_path: Path) -> None:
    home = Home.locate(tmp_path / "a" / "home")
    assert home.format.read_text() == FORMAT
    assert stat.S_IMODE(home.format.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert Home.locate(home.path) == home


@pytest.mark.parametrize("content", [b"2", b"", b"\xff\n\x1b[2J", b"9" * 1000])
def test_a_home_of_another_format_is_refused(tmp_path: Path, content: bytes) -> None:
    home = Home.locate(tmp_path / "home")
    home.format.write_bytes(content)
    with pytest.raises(Refused, match=r"has format .*, and this version of anonflow uses format 1; use the version"):
        Home.locate(home.path)


def test_a_ledger_without_a_format_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    home = Home.locate(tmp_path / "home")
    home.format.unlink()
    home.ledger.write_text("{}\n")
    with pytest.raises(Refused, match="has format none"):
        Home.locate(home.path)
    assert not home.format.exists()


def test_a_folder_of_other_things_can_be_a_home(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert Home.locate(tmp_path).format.exists()


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
