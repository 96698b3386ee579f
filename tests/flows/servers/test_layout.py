"""Addresses and passwords of a served home."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flows import embedded
from flows.servers.layout import Layout, lock_of, prefect_auth, read_layout, secret, write_layout
from tasks.common.home import Home
from tasks.common.locks import locked


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def test_parts_keep_the_addresses_of_others(home: Home) -> None:
    write_layout(home, lambda known: Layout("p", mlflow="http://127.0.0.1:2"))
    write_layout(home, lambda known: replace(known, prefect="http://127.0.0.1:1"))
    assert read_layout(home) == Layout("p", "http://127.0.0.1:1", "http://127.0.0.1:2")


def test_the_passwords_are_found_in_the_home_and_go_nowhere_else(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = "http://127.0.0.1:2", "http://elsewhere.example"
    write_layout(home, lambda known: Layout("p", "http://127.0.0.1:1", here))
    word, prefect = secret(home, "mlflow"), prefect_auth(home)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    assert "MLFLOW_TRACKING_PASSWORD" not in embedded.environment(home.path)
    with locked(lock_of(home, "worker")):
        found = embedded.environment(home.path)
        assert (found["MLFLOW_TRACKING_URI"], found["MLFLOW_TRACKING_PASSWORD"]) == (here, word)
        assert found["PREFECT_API_AUTH_STRING"] == prefect
        monkeypatch.setenv("MLFLOW_TRACKING_URI", there)
        monkeypatch.setenv("PREFECT_API_URL", f"{there}/api")
        found = embedded.environment(home.path)
    assert found["MLFLOW_TRACKING_URI"] == there
    assert not {word, prefect} & set(found.values())
