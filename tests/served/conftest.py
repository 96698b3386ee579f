"""The stack as an operator starts it: `anonflow serve`, a subprocess on a home of its own."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.served.logs import logs
from flows.served.mail import MAIL_TO, SMTP
from flows.served.postgres import Postgres
from flows.served.settings import LATE
from flows.served.state import PendingDecision, active_runs, pending_of_run
from flows.servers.layout import mlflow_auth, prefect_auth, read_layout
from tasks.common.home import Home, write_private
from tasks.common.locks import locked
from tasks.publication.manifest import verify_release
from tasks.record import ledger
from tasks.record.entry import ReleaseFacts
from tests.flows.served.mail import MailServer
from tests.limits import UTILITY

PROGRAM = Path(sys.executable).parent / "anonflow"
CANARY = "Qx7-Canary-Zw"

# Waits are stated in seconds of a quiet machine; what does not come in so many times as long does not come.
PATIENCE = 4.0

# Few records and wide limits: what is tested is the stack, and no release may fail its policy by chance.
PLAN = """
anonflow: 1
name: {name}
source: {source}
variables:
  - {{name: person, kind: nominal, role: identifier}}
  - {{name: gross, kind: continuous, role: sensitive, precision: 1}}
  - {{name: tax, kind: continuous, role: sensitive, precision: 1}}
  - {{name: net, kind: continuous, role: sensitive, precision: 1}}
  - {{name: age, kind: continuous, role: quasi-identifier, precision: 1}}
  - {{name: region, kind: nominal, role: quasi-identifier}}
edits:
  rules:
    - {{edit: linear, name: sum, terms: {{net: 1, tax: 1, gross: -1}}, dependent: gross}}
assessment: {{margin: 0.9}}
steps:
  - {{method: spectral-swap}}
policy: {{approval: {approval}, untested: [membership], membership_auc: 0.9, tail_p: 0.000001, {utility}{policy}}}
publication: {{title: Incomes of the office, description: Made up for a test.{to}}}
schedule: {{{schedule}}}
"""


def people(seed: int, records: int = 300) -> pd.DataFrame:
    """Return a small table with a sum and canaries."""
    rng = np.random.default_rng(seed)
    net = np.exp(rng.normal(7.5, 0.6, records)).round()
    tax = (net * rng.uniform(0.1, 0.4, records)).round()
    return pd.DataFrame(
        {
            "person": [f"{CANARY}-{i}" for i in range(records)],
            "gross": net + tax,
            "tax": tax,
            "net": net,
            "age": rng.integers(18, 90, records),
            "region": rng.choice(["north", "east", "south"], records),
        }
    )


def until(there: Callable[[], bool], seconds: float, told: Callable[[], str] = lambda: "") -> None:
    """Wait for something; fail with what is told when it does not come."""
    end = time.monotonic() + PATIENCE * seconds
    while not there():
        assert time.monotonic() < end, f"not within {PATIENCE * seconds:g} s\n{told()}"
        time.sleep(0.25)


def clean_environment() -> dict[str, str]:
    """Return our environment without what says where servers are."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "ANONFLOW_"))}


class Served:
    """A running stack, and what a person or a script does with it."""

    canary, program, environment = CANARY, PROGRAM, staticmethod(clean_environment)
    people = staticmethod(people)
    until = staticmethod(until)

    def __init__(self, folder: Path) -> None:
        self.home = Home.locate(folder / "home")
        self.plans = folder / "plans"
        self.plans.mkdir()
        self.out = folder / "serve.out"
        self.process: subprocess.Popen[bytes] | None = None
        self.mail = MailServer()
        threading.Thread(target=self.mail.serve_forever, daemon=True).start()
        self.seconds = 0.0
        # What the stack finds in its environment beside our own settings.
        self.variables: dict[str, str] = {}

    # --- the stack

    def start(self, host: str = "") -> None:
        """Start the stack, on a host of another name where one is given."""
        clean = clean_environment() | {LATE: "8", SMTP: self.mail.address, MAIL_TO: "ann@example.org"}
        clean |= self.variables
        command = [PROGRAM, "serve", self.plans, "--home", self.home.path]
        if host:
            command = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh", *command]
        begun = time.monotonic()
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "--prefect-port", "0", "--mlflow-port", "0"],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=clean,
                cwd=Path(__file__).resolve().parents[2],
            )
        until(lambda: "Ready after" in self.said() or self.process.poll() is not None, 300)
        assert "Ready after" in self.said(), self.said() + self.logs()
        self.seconds = time.monotonic() - begun

    def stop(self) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(60 * PATIENCE)

    def said(self) -> str:
        return self.out.read_text()

    def logs(self) -> str:
        return "\n".join(f"== {p.name}\n{p.read_text()[-3000:]}" for p in logs(self.home).glob("*.log"))

    def pid(self, part: str) -> int:
        """Return the process of a part, however often it was restarted."""
        if part == "postgres":
            return int((self.home.path / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
        assert self.process is not None
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid and part.encode() in words and b"flows.served.child" in words:
                    return int(entry.name)
        return 0

    def kill(self, part: str) -> None:
        """End a part without a word, and wait until another process has its place."""
        before = self.pid(part)
        os.kill(before, signal.SIGKILL)
        until(lambda: self.pid(part) not in (0, before), 120)

    def mailed(self, *words: str) -> int:
        """Return how many mails hold all these words."""
        texts = [f"{mail['Subject']}\n{mail.get_content()}" for mail in list(self.mail.mails)]
        return sum(all(word in text for word in words) for text in texts)

    # --- Prefect

    def api(self, path: str, body: Any = None, method: str | None = None, attempts: int = 20) -> Any:
        layout = read_layout(self.home)
        assert layout is not None
        token = base64.b64encode(prefect_auth(self.home).encode()).decode()
        request = urllib.request.Request(
            layout.api + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method or ("GET" if body is None else "POST"),
            headers={"Content-Type": "application/json", "Authorization": f"Basic {token}"},
        )
        for attempt in range(attempts):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    content = answer.read()
                return json.loads(content) if content else None
            except urllib.error.HTTPError as error:
                if error.code < 500 or attempt == attempts - 1:
                    raise
            except OSError:
                if attempt == attempts - 1:
                    raise
            time.sleep(1)

    def mlflow(self, path: str) -> Any:
        layout = read_layout(self.home)
        assert layout is not None
        token = base64.b64encode(":".join(mlflow_auth(self.home).values()).encode()).decode()
        request = urllib.request.Request(
            f"{layout.mlflow}/api/2.0/mlflow/{path}", headers={"Authorization": f"Basic {token}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def runs(self, plan: str) -> list[dict[str, Any]]:
        """Return the runs of a plan, oldest first."""
        found = self.api("/flow_runs/filter", {"sort": "EXPECTED_START_TIME_ASC", "limit": 100})
        return [run for run in found if run["parameters"].get("plan") == plan]

    def run(self, plan: str) -> str:
        """Start a plan as a person does in the page; return the run."""
        deployment = self.api(f"/deployments/name/Release/{plan}")
        made = self.api(f"/deployments/{deployment['id']}/create_flow_run", {"state": {"type": "SCHEDULED"}})
        return str(made["id"])

    def state(self, run: str) -> dict[str, Any]:
        return self.api(f"/flow_runs/{run}")["state"]

    def paused(self, run: str, timeout: float = 300) -> dict[str, Any]:
        return self.reaches(run, {"PAUSED"}, timeout)

    def ended(self, run: str, timeout: float = 300) -> dict[str, Any]:
        return self.reaches(run, {"COMPLETED", "FAILED", "CANCELLED"}, timeout)

    def reaches(self, run: str, kinds: set[str], timeout: float = 300) -> dict[str, Any]:
        """Wait until the run is in a state of these kinds."""
        found: dict[str, Any] = {}

        def there() -> bool:
            found.update(self.state(run))
            return found["type"] in kinds

        until(there, timeout, lambda: f"{found}\n{pending_of_run(self.home, run)}\n{self.ledger()}\n{self.logs()}")
        return found

    def form(self, run: str) -> dict[str, Any]:
        """Return the form that the page shows: its fields, and the text above them."""
        keyset = self.state(run)["state_details"]["run_input_keyset"]
        read = {k: self.api(f"/flow_runs/{run}/input/{v}") for k, v in keyset.items() if k != "response"}
        return {k: json.loads(v) if isinstance(v, str) and v[:1] in "{[" else v for k, v in read.items()}

    def answer(self, run: str, **answer: str) -> dict[str, Any]:
        """Fill the form in; return what Prefect says of it."""
        given = {"decision": "approve", "approver": "Ada Lovelace", "reason": "read it", **answer}
        return self.api(f"/flow_runs/{run}/resume", {"run_input": given})

    def decide(self, run: str, **answer: str) -> None:
        """Fill the form in of a run that waits; Prefect must take the answer."""
        said = self.answer(run, **answer)
        assert said["status"] == "ACCEPT", said["details"]

    def approve(self, run: str) -> None:
        """Approve what the run waits with, by its form."""
        self.decide(run, dossier_sha256=self.candidate(run).dossier)

    # --- the home

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Hold a lock of the home, so that whoever needs it waits at that very place."""
        with locked(self.home.path / name):
            yield

    def check_whole(self, plan: str) -> None:
        """Check that the plan's release stands, once and whole, and that the ledger can be trusted."""
        folder = self.home.releases / plan
        (release,) = [p for p in folder.iterdir() if not p.name.startswith(".")]
        assert verify_release(release) == []
        assert self.events(plan).count("published") == 1
        assert ledger.problems(self.home) == []

    def killed_while_publishing(self, part: str, seed: int) -> None:
        """End a part, or the run's own process, at the very moment of publication; check how it ends."""
        plan = f"publishing-{part}"
        self.plan(plan, seed=seed)
        self.deployed(plan)
        run = self.run(plan)
        self.paused(run)
        with self.held("publish.lock"):
            self.approve(run)
            until(lambda: "publishing" in self.events(plan), 90, self.logs)
            folder = self.home.releases / plan
            assert not folder.exists() or not list(folder.iterdir())
            if part == "run":
                working = active_runs(self.home).get(run)
                assert working is not None
                os.kill(working.pid, signal.SIGKILL)
            else:
                self.kill(part)
        ended = self.ended(run, 180)
        assert ended["name"] == "Published", ended["message"]
        self.check_whole(plan)

    def ledger(self) -> list[tuple[str, str]]:
        return [(e.event, e.facts.subject) for e in ledger.entries(self.home)]

    def events(self, plan: str) -> list[str]:
        """Return what the ledger says of a plan's releases, in order."""
        return [e.event for e in ledger.find(self.home, ReleaseFacts) if e.facts.name == plan]

    def candidate(self, run: str) -> PendingDecision:
        """Return what the waiting run waits with."""
        entry = pending_of_run(self.home, run)
        assert entry is not None, f"{run} waits with nothing"
        return entry

    def database(self, name: str) -> str:
        """Make a database on the stack's PostgreSQL, and a secret of that name with its address."""
        import psycopg2

        postgres = Postgres(self.home)
        connection = psycopg2.connect(postgres.url("postgres"))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{name}"')
        connection.close()
        write_private(self.home.path / "secrets" / name, postgres.url(name).encode())
        return postgres.url(name)

    def plan(self, name: str, *, seed: int = 1, **parts: str) -> None:
        """Write a plan, with a table of its own unless the source is given."""
        if "source" not in parts:
            people(seed).to_csv(self.plans / f"{name}.csv", index=False)
            parts["source"] = f"{{path: {name}.csv}}"
        blank = dict.fromkeys(("policy", "to", "schedule"), "")
        filled = {"name": name, "approval": "person", "utility": UTILITY, **blank, **parts}
        beside = self.plans / f".{name}"
        beside.write_text(PLAN.format(**filled))
        beside.replace(self.plans / f"{name}.yaml")

    def deployed(self, plan: str) -> None:
        """Wait until the worker has taken the plan up."""

        def there() -> bool:
            try:
                self.api(f"/deployments/name/Release/{plan}")
            except urllib.error.HTTPError:
                return False
            return True

        until(there, 120, self.logs)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A stack, up and healthy; one for all modules of a process."""
    stack = Served(tmp_path_factory.mktemp("served"))
    stack.start()
    try:
        yield stack
    finally:
        stack.stop()
