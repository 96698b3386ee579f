"""A home of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.common.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")
