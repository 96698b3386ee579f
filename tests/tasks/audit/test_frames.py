"""An auditor's notebook: frames of what is on record, and nothing is written or created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anonflow
import pytest

from tasks.common.errors import Refused
from tasks.record import ledger


def state(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(folder.rglob("*"))}


def test_releases_figures_and_approvals_are_frames_and_nothing_is_changed(office: Any) -> None:
    office.person("Ann")
    out = office.published("out")
    office.settle("withdraw", out.release, out.entry.facts.dossier, "Ann", reason="an error")
    waiting, dossier = office.waiting("no", data="4" * 64)
    office.settle("reject", waiting, dossier, "Ann", reason="too close")
    before = state(office.home.path)
    records = anonflow.open(office.home.path)
    releases, approvals, entries = records.releases(), records.approvals(), records.entries()
    assert releases["release"].tolist() == [out.release]
    assert (releases["withdrawn"] >= releases["published"]).all()
    assert approvals[["event", "by", "reason", "signed"]].to_numpy().tolist() == [
        ["withdrawn", "Ann", "an error", True],
        ["rejected", "Ann", "too close", True],
    ]
    assert len(entries) == len(ledger.entries(office.home))
    assert set(records.figures()["release"]) <= {out.release, waiting}
    assert state(office.home.path) == before


def test_a_folder_that_is_no_home_is_refused_and_not_made_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="holds no ledger"):
        anonflow.open(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
