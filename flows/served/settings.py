"""Folders of the served stack, and the settings of each of its processes."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from urllib.parse import quote, urlsplit, urlunsplit

import psutil

from flows.served import logs
from flows.servers.environment import PARTS, RUN_HEADER, RUN_HEADER_VARIABLE, common
from flows.servers.layout import Layout, mlflow_auth, prefect_auth, secret
from tasks.common.errors import Refused
from tasks.common.home import Home

POOL = "anonflow"
DATABASES = ("prefect", "mlflow")
# Variables that name a server that runs elsewhere, and give access to it.
ELSEWHERE = {
    "prefect": ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING"),
    "mlflow": ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
}
# Seconds after which a run that is due counts as late; the operator may set it.
LATE = "PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS"

_SERVED = {
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
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "5",
}
_PREFECT_SERVER = {
    "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "true",
    "PREFECT_SERVER_UI_API_URL": "/api",
    # The block with which alarms are sent is made of these.
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "true",
    # Its runs are few: only the next ones of each plan are listed, and a resumed one starts at once.
    "PREFECT_SERVER_SERVICES_SCHEDULER_MAX_RUNS": "3",
    "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_RUNS": "1",
    "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "2",
    # Logs and tables of runs that were removed go, too.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,orphans",
    "PREFECT_SERVER_DEPLOYMENT_CONCURRENCY_SLOT_WAIT_SECONDS": "5",
}

# How many runs may be under way at once; the operator may set it.
AT_ONCE = "ANONFLOW_RUNS_AT_ONCE"
HEADERS = "PREFECT_CLIENT_CUSTOM_HEADERS"
# Memory that a run of a hundred thousand records needs, in bytes.
RUN_MEMORY = 1e9


def runs_at_once() -> int:
    """Return how many runs may be under way at once: by default one for each processor, as far as memory allows.

    Raises
    ------
    Refused
        When the environment states no positive number.
    """
    stated = os.environ.get(AT_ONCE)
    if not stated:
        return max(1, min(os.cpu_count() or 1, int(psutil.virtual_memory().total / RUN_MEMORY)))
    if not stated.isdecimal() or not int(stated):
        raise Refused(f"{AT_ONCE} must be a number of runs, 1 or more")
    return int(stated)


def variables(
    part: str, home: Home, layout: Layout, databases: Mapping[str, str], own: Collection[str] = PARTS
) -> dict[str, str]:
    """Return the environment of one process of the stack.

    Servers that are not among our ``own`` parts are those that the environment names.

    Claim: the addresses of the databases, which hold their password, go to the two servers alone; flows have
    the servers' addresses only. What Prefect's server knows our runs by goes to it and to them. No framework
    calls any server outside.
    """
    settings = common(home.path) | _SERVED | logs.settings(part)
    settings |= {
        "ANONFLOW_HOME": str(home.path),
        "ANONFLOW_PLANS": layout.plans,
        "ANONFLOW_HOSTS": ",".join(layout.hosts),
        "PREFECT_API_URL": layout.api,
        "PREFECT_API_AUTH_STRING": prefect_auth(home),
        "MLFLOW_TRACKING_URI": layout.mlflow,
    }
    settings |= mlflow_auth(home)
    for server, names in ELSEWHERE.items():
        if server not in own:
            settings |= {name: os.environ[name] for name in names if os.environ.get(name)}
    if part == "worker":
        settings[HEADERS] = json.dumps(_stated_headers() | {RUN_HEADER: secret(home, "runs")})
    if part == "prefect":
        settings[RUN_HEADER_VARIABLE] = secret(home, "runs")
        database = databases["prefect"].replace("postgresql://", "postgresql+asyncpg://")
        settings |= _PREFECT_SERVER | {
            "PREFECT_SERVER_API_AUTH_STRING": prefect_auth(home),
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
            LATE: os.environ.get(LATE, "60"),
        }
    if part == "mlflow":
        settings |= {"ANONFLOW_MLFLOW_STORE": databases["mlflow"], "ANONFLOW_PASSWORD": secret(home, "mlflow")}
    return settings


def _stated_headers() -> dict[str, str]:
    """Return the headers that an operator states for Prefect's client, but for ours.

    Raises
    ------
    Refused
        Where they are no object of JSON; the message does not repeat them.
    """
    stated = None
    with suppress(ValueError):
        stated = json.loads(os.environ.get(HEADERS) or "{}")
    if not isinstance(stated, dict):
        raise Refused(f"{HEADERS} must be a JSON object")
    return {name: value for name, value in stated.items() if name.lower() != RUN_HEADER}


def with_database(url: str, database: str) -> str:
    """Return the address of another database of the same server."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"/{quote(database)}"))
