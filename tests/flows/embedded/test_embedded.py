import base64
import http.client
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from flows import embedded
from flows.embedded import stores
from tasks.common.home import Home
from tasks.common.locks import locked

pytestmark = pytest.mark.platform

RUN = """
    import sys, time
    from pathlib import Path
    from flows import embedded
    home = Path(sys.argv[1])
    embedded.apply(home)
    with embedded.server(home) as server:
        with embedded.imports():
            from prefect import flow, get_run_logger, task
            from prefect.artifacts import create_markdown_artifact

        @task(task_run_name="step-{i}")
        def step(i):
            get_run_logger().info("working on %d", i)
            time.sleep(0.05)
            return "a value that must not be kept"

        @flow(name="eight")
        def eight():
            for i in range(8):
                step(i)
            create_markdown_artifact("# counts only", key="summary")
            HOOK

        with server.session():
            print("pid", server.pid, flush=True)
            eight()
    print("stopped", time.time(), flush=True)
"""

# Writes down every address but our own that any process of the run looks up or connects to.
WITNESS = """
    import os, sys
    def hook(event, args):
        if event == "socket.getaddrinfo":
            host = args[0]
        elif event == "socket.connect" and isinstance(args[1], tuple):
            host = args[1][0]
        else:
            return
        host = host.decode() if isinstance(host, bytes) else host
        if host not in (None, "127.0.0.1", "localhost", "::1"):
            with open(os.environ["WITNESS"], "a") as file:
                file.write(f"{event} {host}\\n")
    sys.addaudithook(hook)
"""


def run(script: str, *arguments: object, check: bool = True, **variables: str) -> subprocess.CompletedProcess:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "DO_NOT"))}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env=clean | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def ask(server, what, body=None, *, auth=None, path=None):
    port = int(server.url.split(":")[2].split("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    token = base64.b64encode((auth or server.auth or "").encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {token}"}
    connection.request("POST", path or f"/api/{what}/filter", json.dumps(body or {}), headers)
    answer = connection.getresponse()
    content = answer.read()
    return answer.status, json.loads(content) if answer.status == 200 else []


def gone(pid: int, seconds: float = 15.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("templates")
    # Those that `make setup` has made are as good as new ones, which take ten seconds of processor time.
    for name in ("prefect", "mlflow"):
        if embedded.migrated(stores.TEMPLATES / f"{name}.db", name):
            shutil.copyfile(stores.TEMPLATES / f"{name}.db", directory / f"{name}.db")
    files = embedded.prepare_templates(directory)
    assert [file.name for file in files] == ["prefect.db", "mlflow.db"]
    made = [file.stat().st_mtime_ns for file in files]
    embedded.prepare_templates(directory)
    assert [file.stat().st_mtime_ns for file in files] == made  # nothing is made twice
    return directory


@pytest.fixture(scope="module", autouse=True)
def surroundings(templates):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANONFLOW_TEMPLATES", str(templates))
        patch.setattr(stores, "TEMPLATES", templates)
        for name in embedded.OVERRIDES:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """A run that has ended, and what it left."""
    place = tmp_path_factory.mktemp("past")
    (place / "sitecustomize.py").write_text(textwrap.dedent(WITNESS))
    witness = place / "witness"
    variables = {"PYTHONPATH": str(place), "WITNESS": str(witness)}
    run("import socket; socket.getaddrinfo('192.0.2.1', 1)", **variables)
    assert witness.read_text() == "socket.getaddrinfo 192.0.2.1\n"
    witness.unlink()
    done = run(
        RUN.replace("HOOK", "pass"),
        place / "a home",
        **variables,
        HTTP_PROXY="http://192.0.2.1:9",
        http_proxy="http://192.0.2.1:9",
        PREFECT_PROFILE="of another life",
        PREFECT_LOGGING_EXTRA_LOGGERS="root",
    )
    done.ended = time.time()
    done.home, done.witness = place / "a home", witness
    return done


@pytest.fixture(scope="module")
def server(past):
    """Another server on the home of that run."""
    with embedded.server(past.home) as running:
        running.wait()
        yield running


# --- imports


def test_the_parents_side_imports_the_standard_library_only():
    script = """
        import sys
        before = set(sys.modules)
        import flows.embedded
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(sorted(new - sys.stdlib_module_names), "flows.embedded.child" in sys.modules)
    """
    assert run(script).stdout == "['flows', 'tasks'] False\n"


def test_the_child_runs_the_files_that_we_run(server):
    variables = Path(f"/proc/{server.pid}/environ").read_text().split("\0")
    (path,) = [value for name, _, value in (v.partition("=") for v in variables) if name == "PYTHONPATH"]
    assert Path(path.split(os.pathsep)[0]) / "flows" / "embedded" == Path(embedded.__file__).parent


# --- settings


def test_settings_lie_in_the_home_and_keep_what_the_user_chose(tmp_path, monkeypatch):
    for name in embedded.OVERRIDES:
        monkeypatch.delenv(name, raising=False)
    settings = embedded.environment(tmp_path)
    assert settings["DO_NOT_TRACK"] == "true"
    assert "PREFECT_API_URL" not in settings
    assert settings["MLFLOW_TRACKING_URI"] == f"sqlite:///{tmp_path}/mlflow/mlflow.db"
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example/api")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example")
    settings = embedded.environment(tmp_path)
    assert settings["PREFECT_API_URL"] == "http://prefect.example/api"
    assert settings["MLFLOW_TRACKING_URI"] == "http://mlflow.example"
    assert "_MLFLOW_SERVER_ARTIFACT_ROOT" not in settings


def test_settings_refuse_a_home_that_no_address_can_carry(tmp_path):
    with pytest.raises(ValueError, match="must not contain '\\?'"):
        embedded.environment(tmp_path / "what?")


def test_settings_must_come_before_the_frameworks(tmp_path):
    script = """
        import sys
        import prefect
        from flows import embedded
        embedded.apply(sys.argv[1])
    """
    done = run(script, tmp_path, check=False, PREFECT_HOME=str(tmp_path / "elsewhere"))
    assert "must come before the import of prefect" in done.stderr


def test_an_existing_home_keeps_its_mode_and_the_state_is_private(tmp_path):
    home = tmp_path / "shared"
    home.mkdir()
    home.chmod(0o755)
    (home / "mlflow").mkdir(mode=0o755)
    embedded.private_directories(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o755
    assert stat.S_IMODE((home / "mlflow").stat().st_mode) == 0o700


# --- the server


def test_a_run_is_quiet_private_and_ends_promptly(past):
    assert past.stderr == ""
    assert past.ended - float(past.stdout.split()[-1]) < 3, "it lingered after its server had stopped"
    assert not past.witness.exists(), past.witness.read_text()
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in past.home.rglob("*")}
    assert not [path for path, mode in modes.items() if mode & 0o077]
    assert not list((past.home / "prefect").glob("storage/*"))
    assert b"must not be kept" not in (past.home / "prefect" / "prefect.db").read_bytes()


def test_a_run_is_found_complete_afterwards(server):
    (flow,) = ask(server, "flow_runs")[1]
    assert flow["state_type"] == "COMPLETED"
    assert flow["total_run_time"] >= 0.4
    tasks = ask(server, "task_runs")[1]
    assert sorted(task["name"] for task in tasks) == [f"step-{i}" for i in range(8)]
    assert {task["state_type"] for task in tasks} == {"COMPLETED"}
    assert all(0.04 < task["total_run_time"] < 5 for task in tasks)
    logs = ask(server, "logs", {"limit": 100})[1]
    assert {f"working on {i}" for i in range(8)} <= {log["message"] for log in logs}
    (artifact,) = ask(server, "artifacts")[1]
    assert artifact["data"] == "# counts only"


def test_the_server_asks_for_a_secret_that_nobody_else_sees(server):
    assert ask(server, "flows")[0] == 200
    assert ask(server, "flows", auth="anonflow:guessed")[0] == 401
    assert server.auth.split(":")[1] not in Path(f"/proc/{server.pid}/cmdline").read_text()
    port = int(server.url.split(":")[2].split("/")[0])
    assert f"0100007F:{port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text()  # 127.0.0.1, listening


def test_a_forked_worker_does_not_end_its_parents_server(server):
    if (worker := os.fork()) == 0:
        server.stop()
        os._exit(0)
    os.waitpid(worker, 0)
    assert ask(server, "flows")[0] == 200


def test_the_users_own_server_is_used(tmp_path, past, server):
    script = RUN.replace("HOOK", "assert server.external").replace("eight", "theirs")
    run(script, tmp_path, PREFECT_API_URL=server.url, PREFECT_API_AUTH_STRING=server.auth)
    names = {flow["name"]: flow["id"] for flow in ask(server, "flows")[1]}
    runs = {run["flow_id"]: run["state_type"] for run in ask(server, "flow_runs")[1]}
    assert runs[names["theirs"]] == "COMPLETED"
    assert not (tmp_path / "prefect" / "prefect.db").exists()


def test_a_server_can_be_stopped_before_it_has_started(tmp_path):
    before = os.environ.get("PREFECT_API_URL")
    begin = time.monotonic()
    with embedded.server(tmp_path) as hasty:
        assert os.environ["PREFECT_API_URL"] == hasty.url != before
    assert time.monotonic() - begin < 3
    assert gone(hasty.pid)
    assert "PREFECT_API_URL" not in os.environ


def test_a_killed_process_leaves_no_server_and_no_running_run(tmp_path):
    script = RUN.replace("HOOK", "import os; time.sleep(0.5); os.kill(os.getpid(), 9)")
    done = run(script, tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert gone(int(done.stdout.split()[1]))
    with sqlite3.connect(tmp_path / "prefect" / "prefect.db") as database:
        assert database.execute("SELECT state_type FROM flow_run").fetchall() == [("CRASHED",)]
        tasks = database.execute("SELECT state_type FROM task_run").fetchall()
    assert tasks == [("COMPLETED",)] * 8


def test_a_run_killed_with_its_server_is_not_shown_as_running_by_the_next(tmp_path):
    kill = "import os; time.sleep(0.5); os.kill(server.pid, 9); os.kill(os.getpid(), 9)"
    in_a_task = RUN.replace("HOOK", "pass").replace("time.sleep(0.05)", f"time.sleep(0.05)\n            {kill}")

    def of_plan(script: str, plan: str) -> str:
        return script.replace('name="eight"', f'name="eight", flow_run_name="{plan}"')

    def states(of: str = "flow_run", name: str = "name") -> list[tuple[str, str]]:
        with sqlite3.connect(tmp_path / "prefect" / "prefect.db") as database:
            return database.execute(f"SELECT {name}, state_type FROM {of} ORDER BY created").fetchall()

    for script in (of_plan(in_a_task, "killed"), of_plan(RUN.replace("HOOK", kill), "living")):
        assert run(script, tmp_path, check=False).returncode == -signal.SIGKILL
    assert states() == [("killed", "RUNNING"), ("living", "RUNNING")]
    assert "RUNNING" in dict(states("task_run", "id")).values()
    living, again = (Home(tmp_path).lock_of_runs(name) for name in ("living", "killed"))
    living.parent.mkdir()
    # The next run of the plan begins as soon as the server is there.
    begin = f"lock = locked(Path({str(again)!r})); lock.__enter__(); time.sleep(14)"
    script = of_plan(RUN.replace("HOOK", begin), "killed").replace(
        "from flows import embedded", "from flows import embedded; from tasks.common.locks import locked", 1
    )
    with locked(living):
        run(script, tmp_path)
    assert states() == [("killed", "CRASHED"), ("living", "RUNNING"), ("killed", "COMPLETED")]
    assert "RUNNING" not in dict(states("task_run", "id")).values()


def test_two_servers_take_turns_on_a_fresh_home_without_template(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONFLOW_TEMPLATES", str(tmp_path / "none"))
    with embedded.server(tmp_path) as first, embedded.server(tmp_path) as second:
        first.wait()
        second.wait()
        for name, server in {"first": first, "second": second}.items():
            assert ask(server, "flows", {"name": name}, path="/api/flows/")[0] == 201
        for server in (first, second):
            assert {flow["name"] for flow in ask(server, "flows")[1]} == {"first", "second"}
    database = tmp_path / "prefect" / "prefect.db"
    assert embedded.migrated(database, "prefect")
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 7")
    assert not embedded.migrated(database, "prefect")


def test_a_server_that_cannot_start_says_where_to_look(tmp_path):
    (tmp_path / "prefect").mkdir()
    (tmp_path / "prefect" / "prefect.db").write_text("not a database at all, sadly")
    with (
        embedded.server(tmp_path) as server,
        pytest.raises(embedded.ServerError, match=r"server\.log"),
    ):
        server.wait()
    assert "not a database" in (tmp_path / "prefect" / "server.log").read_text()


# --- MLflow


def test_the_tracking_store_is_ready_without_a_server(tmp_path):
    begin = time.monotonic()
    uri = embedded.tracking_ready(tmp_path)
    assert time.monotonic() - begin < 1
    assert uri == f"sqlite:///{tmp_path}/mlflow/mlflow.db"
    script = """
        import sys
        from flows import embedded
        home = sys.argv[1]
        embedded.apply(home)
        from mlflow import MlflowClient
        client = MlflowClient(tracking_uri=embedded.tracking_ready(home))
        run = client.create_run(client.create_experiment("census"))
        client.log_text(run.info.run_id, "counts", "report.txt")
        client.set_terminated(run.info.run_id)
    """
    assert run(script, tmp_path).stderr == ""
    with sqlite3.connect(tmp_path / "mlflow" / "mlflow.db") as database:
        assert database.execute("SELECT status FROM runs").fetchall() == [("FINISHED",)]
    (report,) = (tmp_path / "mlflow" / "artifacts").rglob("report.txt")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600


def test_an_outdated_tracking_store_is_migrated_and_kept(tmp_path, templates):
    (tmp_path / "mlflow").mkdir()
    database = tmp_path / "mlflow" / "mlflow.db"
    database.write_bytes((templates / "mlflow.db").read_bytes())
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 0")
    script = "import sys; from flows import embedded as e; e.apply(sys.argv[1]); e.tracking_ready(sys.argv[1])"
    run(script, tmp_path, ANONFLOW_TEMPLATES=str(templates))
    assert embedded.migrated(database, "mlflow")
    assert list((tmp_path / "mlflow").glob("mlflow.before-*"))
