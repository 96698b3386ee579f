"""From data in PostgreSQL to a published table: schedule, wait, approval, publication, and nothing twice."""

from __future__ import annotations

import contextlib
import io
import re
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from flows.served.state import pending_of_run
from flows.servers.layout import read_layout, secret
from tasks.common.home import write_private
from tasks.publication.manifest import verify_release
from tasks.record import approvers, ledger
from tasks.record.decision import Decision, sign

pytestmark = pytest.mark.platform

OFFICE = {
    "source": "{sql: select * from people, database: office_db}",
    "to": ", to: [{table: public.released, database: office_db}]",
}
SCHEDULE = 'cron: "* * * * *", timezone: Europe/Paris'


def status(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture(scope="module")
def released(served: Any) -> dict[str, Any]:
    """A plan's first run, fired by its schedule, approved by a person; and what was seen on the way."""
    address = served.database("office_db")
    connection = psycopg2.connect(address)
    frame = served.people(seed=1)
    with connection, connection.cursor() as cursor:
        columns = "person text, gross float8, tax float8, net float8, age int, region text"
        cursor.execute(f"CREATE TABLE people ({columns})")
        cursor.copy_expert("COPY people FROM STDIN CSV", io.StringIO(frame.to_csv(index=False, header=False)))
    served.plan("office", **OFFICE, schedule=SCHEDULE)
    served.deployed("office")
    served.until(
        lambda: any(r["state_type"] == "PAUSED" for r in served.runs("office")),
        100,
        lambda: f"{served.runs('office')}\n{served.logs()}",
    )
    run = next(r for r in served.runs("office") if r["state_type"] == "PAUSED")
    seen = {"run": run, "form": served.form(run["id"]), "candidate": served.candidate(run["id"])}
    served.decide(run["id"], dossier_sha256="0" * 64)
    served.until(lambda: served.candidate(run["id"]).asked == 1, 120, served.logs)
    served.paused(run["id"])
    seen["refused"] = served.form(run["id"])
    seen["approved"] = time.time()
    served.decide(run["id"], dossier_sha256=seen["candidate"].dossier)
    seen["state"] = served.ended(run["id"])
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT gross, tax, net FROM released")
        seen["table"] = cursor.fetchall()
    connection.close()
    return seen


def test_the_stack_was_up_in_time(served: Any) -> None:
    said = served.said()
    sys.stderr.write(f"ready after {served.seconds:.1f} s\n")
    assert re.search(r"Prefect +http://127\.0\.0\.1:\d+\n", said)
    assert re.search(r"MLflow +http://127\.0\.0\.1:\d+\n", said)


def test_people_see_what_they_decide_on(released: dict[str, Any]) -> None:
    text, fields = released["form"]["description"], released["form"]["schema"]["properties"]
    assert released["candidate"].dossier in text
    assert "every gate passed" in text.lower() or "a person must decide" in text.lower()
    assert re.search(r"\(http://127\.0\.0\.1:\d+/#/experiments/\d+/runs/[0-9a-f]{32}/artifacts/", text)
    assert {"decision", "approver", "reason", "dossier_sha256", "signature"} <= set(fields)
    assert fields["decision"]["enum"] == ["approve", "reject"]


def test_a_run_reads_well(released: dict[str, Any]) -> None:
    assert re.fullmatch(r"office · 20\d\d-\d\d-\d\d \d\d:\d\d UTC", released["run"]["name"])
    assert {"anonflow", "plan:office"} <= set(released["run"]["tags"])


def test_a_wrong_digest_is_refused_and_people_see_why(released: dict[str, Any]) -> None:
    assert "was not accepted" in released["refused"]["description"]
    assert "not the one that was assessed" in released["refused"]["description"]


def test_an_approved_release_is_published_in_files_and_in_the_table(served: Any, released: dict[str, Any]) -> None:
    assert (released["state"]["type"], released["state"]["name"]) == ("COMPLETED", "Published")
    folder = served.home.releases / "office" / released["candidate"].release
    assert verify_release(folder) == []
    # Half of the people are the reference.
    assert len(released["table"]) == 150
    assert all(abs(net + tax - gross) <= 1 for gross, tax, net in released["table"])
    assert ledger.problems(served.home) == []
    assert served.events("office")[:4] == ["awaiting", "approved", "publishing", "published"]


def test_the_second_tick_publishes_nothing_and_says_so(served: Any, released: dict[str, Any]) -> None:
    def unchanged() -> bool:
        return any(r["state_name"] == "Unchanged" for r in served.runs("office"))

    served.until(unchanged, 120, lambda: f"{served.runs('office')}\n{served.logs()}")
    (run, *_) = [r for r in served.runs("office") if r["state_name"] == "Unchanged"]
    assert "plan and data are unchanged" in run["state"]["message"]
    assert served.events("office").count("published") == 1


def test_a_plan_that_changes_is_taken_up_and_one_that_is_gone_is_removed(served: Any, released: dict[str, Any]) -> None:
    def clocks() -> list[bool]:
        return [s["active"] for s in served.api("/deployments/name/Release/office")["schedules"]]

    assert clocks() == [True]
    served.plan("office", **OFFICE, schedule=f"{SCHEDULE}, active: false")
    served.plan("passing", seed=9)
    served.until(lambda: clocks() == [False], 120, served.logs)
    served.deployed("passing")
    (served.plans / "passing.yaml").unlink()

    def gone() -> bool:
        return "passing" not in {d["name"] for d in served.api("/deployments/filter", {})}

    served.until(gone, 120, served.logs)


def test_events_and_artifacts_tell_of_the_release(served: Any, released: dict[str, Any]) -> None:
    def told() -> set[str]:
        asked = {"filter": {"event": {"prefix": ["release."]}}, "limit": 50}
        return {e["event"] for e in served.api("/events/filter", asked)["events"]}

    wanted = {"release.assessed", "release.awaiting", "release.approved", "release.published"}
    served.until(lambda: wanted | {"release.decision-refused"} <= told(), 30, lambda: str(told()))
    keys = {a["key"] for a in served.api("/artifacts/filter", {})}
    assert {"office-risk", "office-utility", "office-verdict", "office-decision"} <= keys
    names = {a["name"] for a in served.api("/automations/filter", {})}
    assert "anonflow: a run is late" in names


def test_mlflow_mirrors_what_the_ledger_says(served: Any, released: dict[str, Any]) -> None:
    version = served.mlflow("registered-models/alias?name=office&alias=published")["model_version"]
    run = served.mlflow(f"runs/get?run_id={version['run_id']}")["run"]["data"]
    tags = {tag["key"]: tag["value"] for tag in run["tags"]}
    assert version["description"] == tags["release.id"] == released["candidate"].release
    assert (tags["release.status"], tags["release.decided_by"]) == ("published", "Ada Lovelace")
    with pytest.raises(urllib.error.HTTPError, match="HTTP Error 4"):
        served.mlflow("registered-models/alias?name=office&alias=candidate")


def test_what_was_decided_at_the_terminal_ends_the_run(served: Any) -> None:
    served.plan("desk", seed=2)
    served.deployed("desk")
    begun = time.time()
    run = served.run("desk")
    served.paused(run)
    first = served.api("/task_runs/filter", {"flow_runs": {"id": {"any_": [run]}}, "sort": "EXPECTED_START_TIME_ASC"})
    started = first[0]["start_time"]
    sys.stderr.write(f"trigger to first step {_seconds(started) - begun:.1f} s\n")
    program = Path(sys.executable).parent / "anonflow"
    words = ["approve", served.candidate(run).release, "--by", "Grace", "--reason", "read it"]
    done = subprocess.run([program, *words, "--home", served.home.path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    state = served.ended(run)
    assert (state["name"], served.events("desk").count("published")) == ("Published", 1)


def test_runs_of_one_plan_never_overlap(served: Any) -> None:
    runs = [served.run("desk") for _ in range(2)]
    assert {served.ended(run)["name"] for run in runs} == {"Unchanged"}
    first, second = sorted((served.api(f"/flow_runs/{run}") for run in runs), key=lambda r: r["start_time"])
    assert first["end_time"] <= second["start_time"]


def test_what_the_server_is_told_of_commands_and_code_is_not_followed(served: Any, tmp_path: Path) -> None:
    """Prefect's password lets its holder start runs, and is no way to a shell on the worker's machine."""
    deployment = served.api("/deployments/name/Release/desk")
    touched = {name: tmp_path / name for name in ("command", "pool", "steps", "code", "variable")}
    wanted = {name: f"touch {path}" for name, path in touched.items()}
    (tmp_path / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(touched['code'])!r}).touch()\ndef release(plan): return 1\n"
    )
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(f"open({str(touched['variable'])!r}, 'w')\n")
    pool = served.api("/work_pools/anonflow")
    template = pool["base_job_template"]
    evil = {"job_configuration": {**template["job_configuration"], "command": f"sh -c '{wanted['pool']}'"}}
    steps = [{"prefect.deployments.steps.run_shell_script": {"script": wanted["steps"]}}]
    code = {"pull_steps": steps, "entrypoint": f"{tmp_path / 'evil.py'}:release"}
    before = {name: deployment[name] for name in ("pull_steps", "entrypoint")}
    try:
        served.api("/work_pools/anonflow", {"base_job_template": template | evil}, "PATCH")
        served.api(f"/deployments/{deployment['id']}", code, "PATCH")
        for variables in (
            {},
            {"command": f"sh -c '{wanted['command']}'"},
            {"env": {"PYTHONPATH": str(hook)}, "working_dir": str(tmp_path)},
        ):
            made = served.api(
                f"/deployments/{deployment['id']}/create_flow_run",
                {"state": {"type": "SCHEDULED"}, "job_variables": variables},
            )
            assert served.ended(str(made["id"]))["name"] == "Unchanged"
        crashed = served.run("desk")
        served.api(f"/flow_runs/{crashed}/set_state", {"state": {"type": "CANCELLING"}, "force": True})
        assert served.ended(crashed)["type"] in ("CANCELLED", "COMPLETED")
    finally:
        served.api("/work_pools/anonflow", {"base_job_template": template}, "PATCH")
        served.api(f"/deployments/{deployment['id']}", before, "PATCH")
    assert [name for name, path in touched.items() if path.exists()] == []


def test_a_rejection_ends_the_run_as_such(served: Any) -> None:
    served.plan("other", seed=3)
    served.deployed("other")
    run = served.run("other")
    served.paused(run)
    dossier = served.candidate(run).dossier
    served.decide(run, decision="reject", reason="too close", dossier_sha256=dossier)
    state = served.ended(run)
    assert (state["name"], served.events("other")) == ("Rejected", ["awaiting", "rejected"])
    assert "too close" in state["message"]


def test_an_answer_at_the_very_moment_of_the_question_counts(served: Any) -> None:
    served.plan("prompt", seed=60)
    served.deployed("prompt")
    run = served.run("prompt")
    served.until(lambda: pending_of_run(served.home, run) is not None, 120, served.logs)
    dossier = served.candidate(run).dossier
    while (said := served.answer(run, decision="reject", dossier_sha256=dossier))["status"] == "ABORT":
        assert said["details"]["reason"] == "Cannot resume a flow run that is not paused."
    assert said["status"] == "ACCEPT", said["details"]
    assert served.ended(run)["name"] == "Rejected"


def test_nobody_but_the_run_states_what_its_form_asks_or_what_was_answered(served: Any) -> None:
    served.plan("forged", seed=61)
    served.deployed("forged")
    run = served.run("forged")
    served.paused(run)
    asked, keys = served.form(run), served.state(run)["state_details"]["run_input_keyset"]
    for key in keys.values():
        for path, body, method in ((f"/{key}", None, "DELETE"), ("", {"key": key, "value": "forged"}, "POST")):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                served.api(f"/flow_runs/{run}/input{path}", body, method)
    state = {**served.state(run), "state_details": {"run_input_keyset": keys | {"description": "../../x/input/y"}}}
    with pytest.raises(urllib.error.HTTPError, match="403"):
        served.api(f"/flow_runs/{run}/set_state", {"state": state, "force": True})
    assert served.form(run) == asked
    # Resumed without an answer, it asks again.
    served.api(f"/flow_runs/{run}/set_state", {"state": {"type": "SCHEDULED"}, "force": True})
    served.until(lambda: served.candidate(run).asked == 1, 120, served.logs)
    served.paused(run)
    assert "no answer that can be read came with the form" in served.form(run)["description"]
    served.decide(run, decision="reject", dossier_sha256=served.candidate(run).dossier)
    assert served.ended(run)["name"] == "Rejected"


def test_a_candidate_that_was_changed_is_not_published(served: Any) -> None:
    served.plan("changed", seed=4)
    served.deployed("changed")
    run = served.run("changed")
    served.paused(run)
    entry = served.candidate(run)
    with (served.home.candidates / entry.release / "data.csv").open("a") as file:
        file.write("1,2,3\n")
    served.decide(run, dossier_sha256=entry.dossier)
    served.until(lambda: served.candidate(run).asked == 1, 120, served.logs)
    served.paused(run)
    assert "differ(s) from what was assessed" in served.form(run)["description"]
    assert "published" not in served.events("changed")


def test_a_wait_ends_when_its_time_is_over(served: Any) -> None:
    served.plan("late", seed=5, policy=", decide_within_days: 0.0002")
    served.deployed("late")
    state = served.ended(served.run("late"))
    assert (state["type"], state["name"]) == ("CANCELLED", "Expired")
    assert "the time to decide is over" in state["message"]
    assert served.events("late") == ["awaiting", "expired"]


@pytest.fixture
def keys(served: Any, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Where the keys are of people on the list; the list is empty again when the test has ended."""
    keys = {name: _person(served, tmp_path, name) for name in ("Ada Lovelace", "Grace Hopper")}
    yield keys
    for name in keys:
        approvers.remove(served.home, name)


def test_people_with_keys_decide_and_nobody_else(served: Any, keys: dict[str, Path]) -> None:
    served.plan("signed", seed=6, policy=", approvers: 2")
    served.deployed("signed")
    run = served.run("signed")
    served.paused(run)
    entry = served.candidate(run)

    def answered(asked: int, by: str, signature: str) -> str:
        served.decide(run, approver=by, dossier_sha256=entry.dossier, signature=signature)
        served.until(lambda: served.candidate(run).asked == asked, 90, served.logs)
        served.paused(run)
        return str(served.form(run)["description"])

    def signature(by: str) -> str:
        said = {"release": entry.release, "dossier": entry.dossier, "by": by, "reason": "read it"}
        return sign(keys[by], Decision(act="approve", **said))

    assert "is not on the list of people" in answered(1, "Mallory", signature("Ada Lovelace"))
    assert "not Grace Hopper's signature" in answered(2, "Grace Hopper", signature("Ada Lovelace"))
    assert "Approved so far by Ada Lovelace; 2 must approve" in answered(3, "Ada Lovelace", signature("Ada Lovelace"))
    served.decide(run, approver="Grace Hopper", dossier_sha256=entry.dossier, signature=signature("Grace Hopper"))
    assert served.ended(run)["name"] == "Published"
    assert served.events("signed") == ["awaiting", "approved", "approved", "publishing", "published"]


def test_the_pages_ask_for_a_password_and_know_their_name(served: Any) -> None:
    layout = read_layout(served.home)
    assert layout is not None
    assert status(f"{layout.api}/flow_runs/filter") in (401, 405)
    assert status(f"{layout.mlflow}/") == 401
    assert status(f"{layout.prefect}/", Host="evil.example") == 403
    assert status(f"{layout.mlflow}/", Host="evil.example") == 403
    assert status(f"{layout.prefect}/v2/") != 200


def test_a_second_serve_of_the_home_says_that_one_runs(served: Any) -> None:
    command = [Path(sys.executable).parent / "anonflow", "serve", served.plans, "--home", served.home.path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 2
    assert "runs for this home already" in done.stderr


def test_everything_is_private_and_no_password_is_in_a_command_line(served: Any) -> None:
    folder = served.home.path
    # Prefect's own page is public, and stands in a folder that is not.
    ours = [p for p in folder.rglob("*") if not (p.is_symlink() or p.is_relative_to(folder / "prefect" / "ui"))]
    assert len(ours) > 100
    for path in ours:
        with contextlib.suppress(FileNotFoundError):  # PostgreSQL removes files of its own meanwhile
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    words = [secret(served.home, name).encode() for name in ("postgres", "prefect", "runs", "mlflow")]
    lines = b"".join(p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists())
    assert not any(word in lines for word in words)


def test_no_record_is_in_logs_or_in_the_frameworks_databases(served: Any) -> None:
    canary = served.canary.encode()
    outside = [served.home.path / name for name in ("logs", "mlflow", "prefect", "releases", "assessments")]
    found = [p for folder in outside for p in folder.rglob("*") if p.is_file() and canary in p.read_bytes()]
    assert not found


def _person(served: Any, folder: Path, name: str) -> Path:
    """Put somebody on the list, and return where their key is."""
    key = Ed25519PrivateKey.generate()
    path = folder / f"{name.split()[0]}.pem"
    form, encoding = serialization.PrivateFormat.PKCS8, serialization.Encoding.PEM
    write_private(path, key.private_bytes(encoding, form, serialization.NoEncryption()))
    approvers.add(served.home, name, key.public_key())
    return path


def _seconds(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
