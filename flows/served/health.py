"""Whether the parts of a home answer: for people, containers and service managers."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from flows.served.logs import logs
from flows.servers.environment import HEALTH, NAMES, PARTS
from flows.servers.layout import Layout, read_layout, runs
from flows.servers.process import answers
from tasks.common.home import Home

PATIENCE = 8.0


def problems(home: Home, parts: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with these parts, by default with those that run in this home.

    A server is healthy when it answers; the worker, when it has reached Prefect within the last minute.
    """
    running = [part for part in PARTS if runs(home, part)]
    layout = read_layout(home)
    if not running or layout is None:
        return ["anonflow serve does not run in this home"]
    messages = []
    for part in parts or running:
        if part not in running:
            messages.append(f"{NAMES[part]} does not run in this home")
        elif not _is_healthy(part, home, layout):
            messages.append(f"{NAMES[part]} does not answer; its log is {logs(home) / part}.log")
    return messages


def _is_healthy(part: str, home: Home, layout: Layout) -> bool:
    if part != "postgres":
        return answers(urlsplit(getattr(layout, part)).netloc, HEALTH[part], PATIENCE)
    import psycopg2

    from flows.served.postgres import Postgres

    try:
        psycopg2.connect(Postgres(home).url("postgres"), connect_timeout=int(PATIENCE)).close()
    except psycopg2.Error:
        return False
    return True
