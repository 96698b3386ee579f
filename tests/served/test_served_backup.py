"""A home is copied while it is served, and goes on elsewhere under another name: nothing is lost, nothing is red."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flows.servers.layout import read_layout
from tasks.common.home import Home

pytestmark = pytest.mark.platform


def said(served: Any, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [served.program, *map(str, arguments)], capture_output=True, text=True, env=served.environment(), check=False
    )


def test_a_candidate_is_approved_where_a_backup_was_restored(served: Any, tmp_path: Path) -> None:
    served.plan("copied", seed=91)
    served.deployed("copied")
    run = served.run("copied")
    served.paused(run)
    file = tmp_path / "home.tar"
    made = said(served, "backup", file, "--home", served.home.path, "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["databases"] == ["prefect", "mlflow"]
    served.stop()
    before, served.home = served.home, Home(tmp_path / "another place" / "home")
    try:
        restored = said(served, "restore", file, "--home", served.home.path)
        assert restored.returncode == 0, restored.stdout + restored.stderr
        served.start(host="another-host")
        layout = read_layout(served.home)
        assert layout is not None
        verified = said(served, "audit", "verify", "--home", served.home.path)
        assert verified.returncode == 0, verified.stdout + verified.stderr
        served.approve(run)
        assert served.ended(run, 180)["name"] == "Published"
        served.check_whole("copied")
        verified = said(served, "audit", "verify", "--home", served.home.path)
        assert verified.returncode == 0, verified.stdout + verified.stderr
        served.stop()
    finally:
        shutil.rmtree(served.home.path, ignore_errors=True)
        served.home = before
        served.start()
