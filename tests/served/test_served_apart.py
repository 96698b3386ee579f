"""Parts on their own, on a PostgreSQL of somebody else: as containers and service managers start them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from flows.served.postgres import Postgres
from flows.servers.layout import read_layout
from tasks.common.home import Home

pytestmark = pytest.mark.platform


def free() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture(scope="module")
def theirs(served: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL that is not ours, and on which nothing of ours stands yet."""
    postgres = Postgres(Home.locate(tmp_path_factory.mktemp("theirs")))
    postgres.start()
    address = postgres.url("postgres")

    def answers() -> bool:
        try:
            psycopg2.connect(address).close()
        except psycopg2.OperationalError:
            return False
        return True

    try:
        served.until(answers, 60)
        yield address
    finally:
        postgres.stop()


class Apart:
    """One part after another, each a process of its own in one home."""

    def __init__(self, served: Any, folder: Path, stack: ExitStack) -> None:
        self.served, self.folder, self.stack = served, folder, stack
        self.home, self.ports = folder / "home", {"prefect": free(), "mlflow": free()}
        (folder / "plans").mkdir()
        (folder / "plans" / "bad.yaml").write_text("anonflow: 1\n")

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.served.program, "serve", *words, "--home", self.home],
            env=self.served.environment() | variables,
            capture_output=True,
            text=True,
            timeout=480,
        )

    def start(self, part: str, **variables: str) -> None:
        out = (self.folder / f"{part}.out").open("w+")
        ports = [word for name, port in self.ports.items() for word in (f"--{name}-port", str(port))]
        process = subprocess.Popen(
            [
                self.served.program,
                "serve",
                self.folder / "plans",
                "--only",
                part,
                *ports,
                "--home",
                self.home,
            ],
            env=self.served.environment() | variables,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        self.stack.callback(process.wait, 240)
        self.stack.callback(process.send_signal, signal.SIGTERM)

        def ready() -> bool:
            said = Path(out.name).read_text()
            assert process.poll() is None, said
            return "Ready after" in said

        self.served.until(ready, 120, lambda: Path(out.name).read_text())


def test_parts_on_their_own_find_each_other(served: Any, theirs: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        apart = Apart(served, tmp_path, stack)
        database = {"ANONFLOW_DATABASE_URL": theirs}
        none = apart.run(str(tmp_path / "plans"), "--only", "worker")
        assert none.returncode == 2
        assert "PREFECT_API_URL" in none.stderr
        assert apart.run("--healthy").returncode == 1
        apart.start("mlflow", **database)
        apart.start("prefect", **database)
        api = f"http://127.0.0.1:{apart.ports['prefect']}/api"
        # Nothing but the home says where MLflow is, and what the passwords are.
        apart.start("worker", PREFECT_API_URL=api)
        layout = read_layout(Home.locate(apart.home))
        assert layout is not None
        assert (layout.api, layout.mlflow) == (api, f"http://127.0.0.1:{apart.ports['mlflow']}")
        assert apart.run("--healthy").returncode == 0
        assert apart.run("--healthy", "--only", "worker").returncode == 0
        gone = apart.run("--healthy", "--only", "postgres")
        assert gone.returncode == 1
        assert "PostgreSQL does not run in this home" in gone.stdout
        assert not (apart.home / "postgres").exists()
        connection = psycopg2.connect(theirs)
        with connection.cursor() as cursor:
            cursor.execute("SELECT datname FROM pg_database")
            assert {"prefect", "mlflow"} <= {name for (name,) in cursor.fetchall()}
        connection.close()
        assert "bad.yaml" in (tmp_path / "worker.out").read_text()
        found = subprocess.run(
            [served.program, "list", "--home", apart.home], capture_output=True, text=True, check=True
        )
        assert "Traceback" not in found.stderr
    assert json.loads((apart.home / "served" / "layout.json").read_text())["prefect"] == layout.prefect


def test_a_part_whose_port_is_taken_says_so_and_ends(served: Any, theirs: str, tmp_path: Path) -> None:
    with socket.socket() as taken, ExitStack() as stack:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        apart = Apart(served, tmp_path, stack)
        words = (str(tmp_path / "plans"), "--only", "mlflow", "--mlflow-port", port)
        done = apart.run(*words, ANONFLOW_DATABASE_URL=theirs)
    assert done.returncode == 2
    assert f"port {port} is taken" in done.stderr


def test_a_database_that_is_not_there_is_named_without_its_password(served: Any, tmp_path: Path) -> None:
    with ExitStack() as stack:
        apart = Apart(served, tmp_path, stack)
        address = f"postgresql://somebody:sesame-77@127.0.0.1:{free()}/postgres"
        done = apart.run(
            str(tmp_path / "plans"), "--only", "prefect", "--prefect-port", "0", ANONFLOW_DATABASE_URL=address
        )
    assert done.returncode == 2
    assert "ANONFLOW_DATABASE_URL" in done.stderr
    assert "sesame-77" not in done.stdout + done.stderr
