"""Settings of the stack's processes, and their logs."""

from __future__ import annotations

import stat

import pytest

from flows.served import settings
from flows.servers.layout import Layout, prefect_auth
from tasks.common.home import Home


def test_passwords_go_to_the_servers_alone(home: Home) -> None:
    layout = Layout(str(home.path), "http://127.0.0.1:1", "http://127.0.0.1:2")
    addresses = {"prefect": "postgresql://u:word-p@/prefect", "mlflow": "postgresql://u:word-m@/mlflow"}
    found = {part: settings.variables(part, home, layout, addresses) for part in ("prefect", "mlflow", "worker")}
    assert "word-p" in found["prefect"]["PREFECT_SERVER_DATABASE_CONNECTION_URL"]
    assert not any("word-" in value for value in found["worker"].values())
    assert not any("word-m" in value for value in found["prefect"].values())
    for variables in found.values():
        assert variables["DO_NOT_TRACK"] == "true"
        assert variables["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
        assert variables["PREFECT_SERVER_UI_V2_ENABLED"] == "false"
        assert variables["MLFLOW_DISABLE_TELEMETRY"] == "true"
        assert "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED" not in variables
    secret = home.path / "secrets" / "prefect"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert prefect_auth(home) == f"anonflow:{secret.read_text()}"


def test_servers_elsewhere_are_named_by_the_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect:4200/api")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    layout = Layout(str(home.path), "http://127.0.0.1:1", "http://127.0.0.1:2")
    assert settings.variables("worker", home, layout, {})["PREFECT_API_URL"] == "http://127.0.0.1:1/api"
    apart = settings.variables("worker", home, layout, {}, ("worker",))
    assert apart["PREFECT_API_URL"] == "http://prefect:4200/api"
    assert apart["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:2"


def test_a_log_is_cut_while_its_process_writes_on(home: Home) -> None:
    path = settings.logs(home) / "worker.log"
    with path.open("a") as log:
        log.write("early\n" + "x" * 1_000_000)
        log.flush()
        settings.trim_logs(home)
        log.write("late\n")
        log.flush()
        settings.trim_logs(home)
    assert path.read_text() == "late\n"
    older = path.with_suffix(".log.1")
    assert older.read_text().startswith("early")
    assert stat.S_IMODE(older.stat().st_mode) == 0o600
