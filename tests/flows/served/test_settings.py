"""Settings of the stack's processes, and their logs."""

from __future__ import annotations

import json
import logging
import os
import stat
from logging.config import DictConfigurator
from pathlib import Path

import pytest

from flows.orchestration import retries
from flows.served import logs, settings
from flows.servers.environment import RUN_HEADER, RUN_HEADER_VARIABLE
from flows.servers.layout import Layout, prefect_auth
from tasks.common.errors import Refused
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
        # It would print before what `anonflow run --json` prints.
        assert variables["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] == "true"
        assert "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED" not in variables
    secret = home.path / "secrets" / "prefect"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert prefect_auth(home) == f"anonflow:{secret.read_text()}"


def test_runs_show_prefect_that_they_are_ours(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_CLIENT_CUSTOM_HEADERS", '{"x-proxy": "office"}')
    layout, databases = Layout(str(home.path), "http://127.0.0.1:1", "http://127.0.0.1:2"), {"prefect": "postgresql://"}
    prefect, worker = (settings.variables(part, home, layout, databases) for part in ("prefect", "worker"))
    headers = json.loads(worker["PREFECT_CLIENT_CUSTOM_HEADERS"])
    shown = headers[RUN_HEADER]
    assert headers["x-proxy"] == "office"
    assert shown == prefect[RUN_HEADER_VARIABLE] == (home.path / "secrets" / "runs").read_text()
    assert shown not in prefect_auth(home)


@pytest.mark.parametrize("stated", ["{", "[1]", "secret"])
def test_headers_that_are_no_object_are_refused(home: Home, monkeypatch: pytest.MonkeyPatch, stated: str) -> None:
    monkeypatch.setenv("PREFECT_CLIENT_CUSTOM_HEADERS", stated)
    layout = Layout(str(home.path), "http://127.0.0.1:1", "http://127.0.0.1:2")
    with pytest.raises(Refused, match=r"^PREFECT_CLIENT_CUSTOM_HEADERS must be a JSON object$"):
        settings.variables("worker", home, layout, {"prefect": "postgresql://"})


def test_servers_elsewhere_are_named_by_the_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect:4200/api")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    layout = Layout(str(home.path), "http://127.0.0.1:1", "http://127.0.0.1:2")
    assert settings.variables("worker", home, layout, {})["PREFECT_API_URL"] == "http://127.0.0.1:1/api"
    apart = settings.variables("worker", home, layout, {}, ("worker",))
    assert apart["PREFECT_API_URL"] == "http://prefect:4200/api"
    assert apart["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:2"


def test_lines_of_json_say_what_they_are_about(home: Home, tracking: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(logs.FORMAT, "json")
    for name, value in logs.settings("worker").items():
        monkeypatch.setenv(name, value)
    # Late: the frameworks read where their state is when they are imported.
    from prefect.logging.configuration import DEFAULT_LOGGING_SETTINGS_PATH, load_logging_config

    config = load_logging_config(DEFAULT_LOGGING_SETTINGS_PATH)
    assert config["handlers"]["console"]["formatter"] == "json"
    formatter = DictConfigurator(config).configure_formatter(config["formatters"]["json"])
    monkeypatch.setattr(logs, "ABOUT", logs.About("census", "census-1"))
    record = logging.LogRecord("prefect", logging.INFO, "x.py", 1, "read %d", (3,), None)
    record.task_run_name = "Read the source"
    said = json.loads(formatter.format(record))
    time = said.pop("time")
    assert time.endswith("Z")
    about = {"plan": "census", "release": "census-1", "step": "Read the source"}
    assert said == {"level": "INFO", "part": "worker", "message": "read 3"} | about
    monkeypatch.setenv(logs.FORMAT, "xml")
    with pytest.raises(Refused, match="text or json"):
        logs.as_json()


def test_a_log_is_cut_while_its_process_writes_on_and_the_beginning_of_an_outage_is_kept(home: Home) -> None:
    logs.note(home, "PostgreSQL ended")
    path = logs.logs(home) / "serve.log"
    parts = [path, path.with_suffix(".log.1"), path.with_suffix(".log.2")]
    with path.open("a") as log:
        for word in ("first", "second", "third"):
            log.write(word + "x" * 1_000_000)
            log.flush()
            logs.trim_logs(home)
    logs.note(home, "PostgreSQL answers")
    last, first, latest = (part.read_text() for part in parts)
    assert "PostgreSQL ended\nfirst" in first
    assert latest.startswith("third")
    assert last.endswith("PostgreSQL answers\n")
    assert {stat.S_IMODE(part.stat().st_mode) for part in parts} == {0o600}
    # Once it is over, the next older part takes its place.
    for part in parts[1:]:
        os.utime(part, (0, 0))
    path.write_text("later" + "x" * 1_000_000)
    logs.trim_logs(home)
    assert parts[1].read_text().startswith("later")
    assert not parts[2].exists()


def test_attempts_go_on_for_the_hours_that_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert retries.pauses() == [1, 5]
    monkeypatch.setenv(retries.HOURS, "6")
    found = retries.pauses()
    assert (found[:4], max(found), sum(found)) == ([1, 5, 25, 125], 3600, 6 * 3600)
    monkeypatch.setenv(retries.HOURS, "24")
    # Prefect takes no more.
    assert len(retries.pauses()) <= 50
    for wrong in ("six", "-1", "25", "nan"):
        monkeypatch.setenv(retries.HOURS, wrong)
        with pytest.raises(Refused, match="hours from 0 to 24"):
            retries.pauses()
