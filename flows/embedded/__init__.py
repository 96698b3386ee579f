"""Prefect and MLflow inside the user's own command: private, quiet, with no service to start first.

Call in this order; the reasons and the seconds are in the documentation of start-up time::

    embedded.apply(home)                      # before prefect or mlflow is imported
    with embedded.server(home) as server:     # returns at once, the server starts beside us
        with embedded.imports():              # import what the release needs meanwhile
            from prefect import flow
        with server.session():                # waits until the server answers
            release(...)                      # leaving it sends what is still queued

Only the standard library is imported at module level. What the server's own process runs
(``python -m flows.embedded.child ROLE FD``) is not imported here.
"""

from __future__ import annotations

from flows.embedded.servers import Server, server, start
from flows.embedded.settings import OVERRIDES, apply, environment
from flows.embedded.stores import migrated, prepare_templates, tracking_ready
from flows.servers.environment import imports, private_directories
from flows.servers.process import ServerError, listen

__all__ = [
    "OVERRIDES",
    "Server",
    "ServerError",
    "apply",
    "environment",
    "imports",
    "listen",
    "migrated",
    "prepare_templates",
    "private_directories",
    "server",
    "start",
    "tracking_ready",
]
