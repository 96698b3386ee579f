"""The home: private, of one format, found where it is said to be."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tasks.common.errors import Refused
from tasks.common.home import FORMAT, Home


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
