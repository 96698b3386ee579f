"""Whether the parts of a home answer: for people, containers and service managers."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from urllib.parse import urlsplit

from flows.served import settings
from flows.served.settings import HEALTH, NAMES, PARTS
from tasks.common.home import Home

PATIENCE = 8.0


def problems(home: Home, parts: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with these parts, by default with those that run in this home.

    A server is well when it answers; the worker, when it has looked after Prefect within the last minute.
    """
    running = [part for part in PARTS if settings.holds(home, part)]
    layout = settings.read_layout(home)
    if not running or layout is None:
        return ["anonflow serve does not run in this home"]
    found = []
    for part in parts or running:
        if part not in running:
            found.append(f"{NAMES[part]} does not run in this home")
        elif not (_postgres(home) if part == "postgres" else _answers(getattr(layout, part), HEALTH[part])):
            found.append(f"{NAMES[part]} does not answer; its log is {settings.logs(home) / part}.log")
    return found


def _answers(address: str, path: str) -> bool:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _postgres(home: Home) -> bool:
    import psycopg2

    from flows.served.postgres import Postgres

    try:
        psycopg2.connect(Postgres(home).url("postgres"), connect_timeout=int(PATIENCE)).close()
    except psycopg2.Error:
        return False
    return True
