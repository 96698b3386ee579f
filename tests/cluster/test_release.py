"""The same plan with engine: local and dask, also in a shared folder: the same released records, and nothing left."""

import hashlib
from pathlib import Path

import pytest
import yaml

from flows.engine import shared_folder
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.decision.approval import decide
from tasks.intake import partitions, split
from tasks.masking import partitions as masking
from tasks.record.decision import Decision
from tests.flows.test_partitioned_release import _plan

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]


def test_a_cluster_releases_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "ROWS", 500)
    monkeypatch.setattr(masking, "BLOCK_ROWS", 450)
    monkeypatch.setattr(split, "SUB_TABLE", 300)
    path = _plan(tmp_path)
    plan = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**plan, "seed": {"public": 7, "data_are_public": True}}))
    released = {}
    for engine in ("local", "dask"):
        home = Home.locate(tmp_path / engine)
        outcome = carry_out(load_plan(path).with_engine(engine), home, Direct())
        assert outcome.status == "awaiting", outcome.reason
        outcome = decide(home, Decision(act="approve", release=outcome.release, by="A. Smith", reason="read it"))
        parts = sorted(outcome.folder.glob("data-*.parquet"))
        released[engine] = [hashlib.sha256(part.read_bytes()).hexdigest() for part in parts]
        assert not list(home.workspaces.iterdir())
    assert released["local"] == released["dask"]
    assert len(released["local"]) > 1


def test_a_shared_folder_is_cleared_of_runs_that_are_gone(tmp_path: Path) -> None:
    home, shared = Home.locate(tmp_path / "home"), tmp_path / "shared"
    shared.mkdir()
    with Run.opened(home, SeedSection()) as other, Run.opened(home, SeedSection()) as gone:
        live, dead = shared_folder(other, shared), shared_folder(gone, shared)
        foreign = shared / "anonflow-0000000000000000-run"
        for folder in (live, dead, foreign):
            folder.mkdir()
        gone.workspace.wipe()
        shared_folder(other, shared)
        assert sorted(shared.iterdir()) == sorted([live, foreign])
