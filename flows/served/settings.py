"""Where the served stack keeps its things, its secrets, and the settings of each of its processes."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from flows import embedded
from flows.embedded import settings as embedded_settings
from flows.embedded.settings import UNUSED_SERVICES, USER
from flows.servers.process import LOG_LIMIT
from tasks.common.home import Home, make_private, write_first, write_private
from tasks.common.locks import is_held, locked

POOL = "anonflow"
PARTS = ("postgres", "prefect", "mlflow", "worker")
DATABASES = ("prefect", "mlflow")
# What names a server that runs elsewhere, and lets us in.
ELSEWHERE = {
    "prefect": ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING"),
    "mlflow": ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
}
# How long a run may be due before people are told; the operator may say otherwise.
LATE = "PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS"
NAMES = {"postgres": "PostgreSQL"} | embedded_settings.NAMES | {"worker": "Worker"}
HEALTH = embedded_settings.HEALTH | {"worker": "/"}


@dataclass(frozen=True)
class Layout:
    """What `anonflow serve` was asked for; kept in the home without any secret.

    Attributes
    ----------
    plans : folder of plans
    prefect, mlflow : addresses of the servers; empty while nobody has said where one is
    worker : address at which the worker says how it is
    hosts : further names of the pages
    """

    plans: str = ""
    prefect: str = ""
    mlflow: str = ""
    worker: str = ""
    hosts: tuple[str, ...] = ()

    @property
    def api(self) -> str:
        """Address of the Prefect API."""
        return f"{self.prefect}/api"


def served(home: Home) -> Path:
    """Return the folder of the stack's own state."""
    return make_private(home.path / "served")


def logs(home: Home) -> Path:
    """Return the folder of the stack's logs."""
    return make_private(home.path / "logs")


def write_layout(home: Home, laid_out: Callable[[Layout | None], Layout]) -> Layout:
    """Keep what the stack was asked for, given what was known, for the processes and commands beside it.

    Claim: parts of one home that start at the same time do not overwrite what the others have said.
    """
    with locked(served(home) / "layout.lock"):
        layout = laid_out(read_layout(home))
        write_private(served(home) / "layout.json", json.dumps(asdict(layout), indent=1).encode())
    return layout


def asleep(home: Home) -> bool:
    """Return whether `anonflow serve` keeps this home's MLflow, and does not run."""
    layout = read_layout(home)
    if layout is None or not layout.mlflow or os.environ.get("MLFLOW_TRACKING_URI") not in (None, "", layout.mlflow):
        return False
    return not any(is_held(home.path / "served" / f"{part}.lock") for part in ("mlflow", "worker"))


def read_layout(home: Home) -> Layout | None:
    """Return what the stack was last asked for; None when it never ran here."""
    try:
        stored: dict[str, Any] = json.loads((home.path / "served" / "layout.json").read_text())
        return Layout(**stored | {"hosts": tuple(stored["hosts"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def trim_logs(home: Home) -> None:
    """Keep of each log that has grown too long one older part, and go on with an empty one.

    Processes append to their logs, so that they need not be told.
    """
    for log in logs(home).glob("*.log"):
        with contextlib.suppress(OSError):
            if log.stat().st_size > LOG_LIMIT:
                older = log.with_suffix(".log.1")
                older.touch(mode=0o600)
                shutil.copyfile(log, older)
                os.truncate(log, 0)


def holds(home: Home, part: str) -> bool:
    """Return whether a process runs this part of the home."""
    return is_held(home.path / "served" / f"{part}.lock")


def secret(home: Home, name: str) -> str:
    """Return a secret of this home, drawn on first use; it stands in a file for the owner alone."""
    path = make_private(home.path / "secrets") / name
    if not path.exists():
        write_first(path, secrets.token_urlsafe(24).encode())
    return path.read_text(encoding="ascii").strip()


def prefect_auth(home: Home) -> str:
    """Return user and password of the Prefect API, which its page asks for as one text."""
    return f"{USER}:{secret(home, 'prefect')}"


def variables(
    part: str, home: Home, layout: Layout, databases: Mapping[str, str], own: Collection[str] = PARTS
) -> dict[str, str]:
    """Return the environment of one process of the stack; what is not our ``own`` the environment names.

    Claim: the addresses of the databases, which hold their password, go to the two servers alone; flows know
    the servers' addresses only. No framework calls anybody outside.
    """
    found = embedded.environment(home.path)
    for name in UNUSED_SERVICES:
        del found[f"PREFECT_SERVER_SERVICES_{name}_ENABLED"]
    # What a flow stores in MLflow goes through the server.
    found.pop("_MLFLOW_SERVER_ARTIFACT_ROOT", None)
    found |= {
        "ANONFLOW_HOME": str(home.path),
        "ANONFLOW_PLANS": layout.plans,
        "PREFECT_API_URL": layout.api,
        "PREFECT_API_AUTH_STRING": prefect_auth(home),
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P90D",
        "PREFECT_SERVER_EVENTS_STREAM_OUT_ENABLED": "true",
        "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "true",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "INFO",
        "PREFECT_LOGGING_COLORS": "false",
        # A database or server that is being restarted answers again within seconds.
        "PREFECT_CLIENT_MAX_RETRIES": "8",
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",
        "PREFECT_WORKER_QUERY_SECONDS": "0.5",
        "PREFECT_WORKER_HEARTBEAT_SECONDS": "10",
        "MLFLOW_TRACKING_URI": layout.mlflow,
        "MLFLOW_TRACKING_USERNAME": USER,
        "MLFLOW_TRACKING_PASSWORD": secret(home, "mlflow"),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "5",
        "ANONFLOW_HOSTS": ",".join(layout.hosts),
    }
    for server, names in ELSEWHERE.items():
        if server not in own:
            found |= {name: os.environ[name] for name in names if os.environ.get(name)}
    if part == "prefect":
        found |= _of_prefect(home, databases["prefect"])
    if part == "mlflow":
        found |= {"ANONFLOW_MLFLOW_STORE": databases["mlflow"], "ANONFLOW_PASSWORD": secret(home, "mlflow")}
    return found


def _of_prefect(home: Home, database: str) -> dict[str, str]:
    return {
        "PREFECT_SERVER_API_AUTH_STRING": prefect_auth(home),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database.replace("postgresql://", "postgresql+asyncpg://"),
        "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "true",
        "PREFECT_SERVER_UI_API_URL": "/api",
        # Without them nobody can make the block that alarms are sent with.
        "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "true",
        # Its runs are few: only the next ones of each plan are listed, and a resumed one starts at once.
        "PREFECT_SERVER_SERVICES_SCHEDULER_MAX_RUNS": "3",
        "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_RUNS": "1",
        "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "2",
        "PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS": os.environ.get(LATE, "60"),
        "PREFECT_SERVER_DEPLOYMENT_CONCURRENCY_SLOT_WAIT_SECONDS": "5",
    }


def with_database(url: str, database: str) -> str:
    """Return the address of another database of the same server."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"/{quote(database)}"))
