"""The folder of plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flows.served.plans import read_folder, stamp


def test_a_plan_that_cannot_be_read_leaves_the_others_in_place(tmp_path: Path, office: Any) -> None:
    good = office()
    (tmp_path / "bad.yaml").write_text("anonflow: 1\n")
    (tmp_path / "double.yml").write_text(good.read_text())
    before = stamp(tmp_path)
    folder = read_folder(tmp_path)
    assert set(folder.problems) == {"bad.yaml", "double.yml", "office.yaml"}
    assert "double.yml and office.yaml have the same name, office" in folder.problems["office.yaml"]
    assert folder.plans == {}
    (tmp_path / "double.yml").unlink()
    assert set(read_folder(tmp_path).plans) == {"office"}
    (tmp_path / "bad.yaml").unlink()
    assert stamp(tmp_path) != before
