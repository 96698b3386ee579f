"""What the served stack is made of, without starting it: clocks, records, doors, settings."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
import subprocess
import sys
from collections.abc import MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows import embedded
from flows.plan.schedule import ScheduleSection, is_cron
from flows.served import settings, waiting
from flows.served.health import problems
from flows.served.plans import read_folder, stamp
from flows.served.settings import Layout
from flows.served.stack import only_one
from flows.servers.middleware import Door
from flows.servers.pages import Page
from tasks.common.errors import Refused
from tasks.common.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


# --- clocks


@pytest.mark.parametrize(
    "line", ["* * * * *", "0 3 * * *", "*/5 0-6,22 1,15 jan-mar MON-FRI", "0 0 31 12 7", "10-50/20 * * * *"]
)
def test_clocks_that_can_be_read(line: str) -> None:
    assert is_cron(line)


WRONG = """@daily | * * * * | * * * * * * | 60 * * * * | * 24 * * * | * * 0 * * | * * * 13 * | * * * * 8
| 5-1 * * * * | */0 * * * * | *-3 * * * * | a * * * * | 1,,2 * * * * | * * * foo * | """


@pytest.mark.parametrize("line", [line.strip() for line in WRONG.split("|")])
def test_clocks_that_cannot(line: str) -> None:
    assert not is_cron(line)


def test_a_schedule_names_a_time_zone_and_a_clock() -> None:
    assert ScheduleSection(cron="0 3 * * *", timezone="Europe/Paris").active
    for wrong in ({"cron": "@daily"}, {"timezone": "Paris"}, {"crom": "* * * * *"}):
        with pytest.raises(ValueError, match=r"cron|timezone|crom"):
            ScheduleSection.model_validate(wrong)


# --- records of waits and runs


def entry(**facts: Any) -> waiting.Waiting:
    known = {"release": "r-1", "dossier": "d", "plan": "p", "run": "a", "name": "p · 1", "until": 0.0}
    return waiting.Waiting(**known | facts)


def test_a_wait_is_found_by_its_run_and_by_its_release_until_it_is_settled(home: Home) -> None:
    waiting.wait(home, entry())
    waiting.wait(home, entry(release="r-2", run="b"))
    found = waiting.waiting_of(home, run="a")
    assert found == entry() == waiting.waiting_of(home, release="r-1")
    waiting.settled(home, entry())
    assert waiting.waiting_of(home, run="a") is None
    assert [w.run for w in waiting.waiting(home)] == ["b"]
    assert stat.S_IMODE((home.path / "waiting" / "r-2.json").stat().st_mode) == 0o600


def test_a_run_lives_as_long_as_its_process(home: Home) -> None:
    waiting.begin(home, "a", "p · 1", "p")
    (found,) = waiting.working(home)
    assert found.lives
    assert found.pid == os.getpid()
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    assert not waiting.Working("a", "n", "p", int(gone.stdout), "1", found.host).lives
    assert waiting.Working("a", "n", "p", int(gone.stdout), "1", "elsewhere").lives


def test_how_often_a_run_was_taken_up_is_kept_when_it_begins_again(home: Home) -> None:
    waiting.begin(home, "a", "p · 1", "p")
    waiting.tried(home, waiting.working(home)[0])
    waiting.begin(home, "a", "p · 1", "p")
    assert waiting.working(home)[0].attempts == 1
    waiting.end(home, "a")
    waiting.end(home, "a")
    assert waiting.working(home) == []


def test_what_cannot_be_read_is_passed_over(home: Home) -> None:
    waiting.wait(home, entry())
    (home.path / "waiting" / "r-0.json").write_text("{")
    assert [w.release for w in waiting.waiting(home)] == ["r-1"]


# --- plans


def test_a_plan_that_cannot_be_read_keeps_nobody_from_the_others(tmp_path: Path, office: Any) -> None:
    good = office()
    (tmp_path / "bad.yaml").write_text("anonflow: 1\n")
    (tmp_path / "double.yml").write_text(good.read_text())
    before = stamp(tmp_path)
    folder = read_folder(tmp_path)
    assert set(folder.problems) == {"bad.yaml", "double.yml", "office.yaml"}
    assert "double.yml and office.yaml have one name, office" in folder.problems["office.yaml"]
    assert folder.plans == {}
    (tmp_path / "double.yml").unlink()
    assert set(read_folder(tmp_path).plans) == {"office"}
    (tmp_path / "bad.yaml").unlink()
    assert stamp(tmp_path) != before


# --- settings


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
    assert settings.prefect_auth(home) == f"anonflow:{secret.read_text()}"


def test_servers_elsewhere_are_named_by_the_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect:4200/api")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    layout = Layout(str(home.path), "http://127.0.0.1:1", "http://127.0.0.1:2")
    assert settings.variables("worker", home, layout, {})["PREFECT_API_URL"] == "http://127.0.0.1:1/api"
    apart = settings.variables("worker", home, layout, {}, ("worker",))
    assert apart["PREFECT_API_URL"] == "http://prefect:4200/api"
    assert apart["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:2"


def test_two_stacks_of_one_home_are_refused(home: Home) -> None:
    with only_one(home, ("worker",)):
        with (
            pytest.raises(Refused, match=f"already \\(process {os.getpid()}\\), with Worker"),
            only_one(home, ("prefect", "worker")),
        ):
            pass
        with only_one(home, ("prefect",)):
            pass


# --- the door


def ask(door: Door, path: str = "/", **headers: str) -> tuple[int, dict[bytes, bytes]]:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {}

    given = [(k.replace("_", "-").encode(), v.encode()) for k, v in ({"host": "127.0.0.1:4200"} | headers).items()]
    asyncio.run(door({"type": "http", "method": "GET", "path": path, "headers": given}, receive, send))
    told = dict(sent[0]["headers"]) | {b"body": b"".join(message.get("body", b"") for message in sent)}
    return sent[0]["status"], told


async def page(scope: Any, receive: Any, send: Any) -> None:
    kind = [(b"content-type", b"text/html"), (b"etag", b"1")]
    await send({"type": "http.response.start", "status": 200, "headers": kind})
    await send({"type": "http.response.body", "body": b"<html><head>", "more_body": True})
    await send({"type": "http.response.body", "body": b"</head></html>"})


def test_a_door_knows_its_names() -> None:
    door = Door(page, ["prefect"], "/health")
    assert ask(door)[0] == 200
    assert ask(door, host="localhost:9")[0] == 200
    assert ask(door, host="prefect:4200")[0] == 200
    assert ask(door, host="evil.example")[0] == 403
    assert ask(door, host="evil.example", path="/health")[0] == 200
    assert ask(door, origin="http://127.0.0.1:4200")[0] == 200
    assert ask(door, origin="http://evil.example")[0] == 403
    assert ask(door, origin="null")[0] == 403


def test_a_door_asks_for_the_password_and_lets_pages_call_nobody_else() -> None:
    door = Door(Page(page, "mlflow"), [], "/health", "anonflow:word")
    assert ask(door)[0] == 401
    good = "Basic " + base64.b64encode(b"anonflow:word").decode()
    status, headers = ask(door, authorization=good)
    assert status == 200
    assert headers[b"content-security-policy"].startswith(b"default-src 'self'")
    assert ask(door, authorization="Basic " + base64.b64encode(b"anonflow:wort").decode())[0] == 401
    assert ask(door, authorization=good, path="/gateway/x")[0] == 404
    models = ask(door, authorization=good, path="/ajax-api/2.0/mlflow/gateway-proxy")
    assert (models[0], models[1][b"body"]) == (200, b'{"endpoints": []}')
    # Nobody is let in by a path that is answered early.
    assert ask(door, path="/ajax-api/2.0/mlflow/gateway-proxy")[0] == 401


@pytest.mark.parametrize(
    ("role", "path", "ours"),
    [
        ("mlflow", "/", True),
        ("mlflow", "/get-artifact", False),
        ("prefect", "/runs/flow-run/1", True),
        ("prefect", "/assets/index.js", False),
        ("prefect", "/api/flow_runs/1", False),
    ],
)
def test_the_document_alone_carries_lines_of_ours(role: str, path: str, ours: bool) -> None:
    status, headers = ask(Door(Page(page, role, login=role == "prefect"), [], "/health"), path)
    assert status == 200
    assert headers[b"content-security-policy"].startswith(b"default-src 'self'")
    assert (b"localStorage" in headers[b"body"]) is ours
    assert (headers.get(b"etag") is None) is ours
    if ours:
        assert int(headers[b"content-length"]) == len(headers[b"body"])
        assert headers[b"body"].startswith(b"<html><head><script>")
        assert headers[b"body"].endswith(b"</head></html>")
        assert (b"/login?redirect=" in headers[b"body"]) is (role == "prefect")


# --- logs, health, layout


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


def test_parts_keep_what_others_have_said(home: Home) -> None:
    settings.write_layout(home, lambda known: Layout("p", mlflow="http://127.0.0.1:2"))
    settings.write_layout(home, lambda known: replace(known or Layout(), prefect="http://127.0.0.1:1"))
    assert settings.read_layout(home) == Layout("p", "http://127.0.0.1:1", "http://127.0.0.1:2")


def test_what_does_not_run_is_not_healthy(home: Home) -> None:
    assert problems(home) == ["anonflow serve does not run in this home"]
    with embedded.listen() as sock, only_one(home, ("mlflow", "worker")):
        port = sock.getsockname()[1]
        sock.close()
        settings.write_layout(home, lambda known: Layout(mlflow=f"http://127.0.0.1:{port}"))
        assert [p.split(";")[0] for p in problems(home)] == [
            "MLflow does not answer",
            "Worker does not answer",
        ]
        assert problems(home, ("prefect",)) == ["Prefect does not run in this home"]


def test_the_passwords_are_found_in_the_home_and_go_nowhere_else(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = "http://127.0.0.1:2", "http://elsewhere.example"
    settings.write_layout(home, lambda known: Layout("p", "http://127.0.0.1:1", here))
    word, prefect = settings.secret(home, "mlflow"), settings.prefect_auth(home)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    assert "MLFLOW_TRACKING_PASSWORD" not in embedded.environment(home.path)
    with only_one(home, ("worker",)):
        found = embedded.environment(home.path)
        assert (found["MLFLOW_TRACKING_URI"], found["MLFLOW_TRACKING_PASSWORD"]) == (here, word)
        assert found["PREFECT_API_AUTH_STRING"] == prefect
        monkeypatch.setenv("MLFLOW_TRACKING_URI", there)
        monkeypatch.setenv("PREFECT_API_URL", f"{there}/api")
        found = embedded.environment(home.path)
    assert found["MLFLOW_TRACKING_URI"] == there
    assert not {word, prefect} & set(found.values())
