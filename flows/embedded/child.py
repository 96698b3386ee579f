"""The processes that an embedded run starts: ``python -m flows.embedded.child ROLE FD``, as ``Child`` starts them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from flows.embedded.stores import mark_migrated, migrated, migration_lock, prepared, tracking_ready
from flows.orchestration import compat
from flows.orchestration.application import PrefectApplication
from flows.servers.environment import HEALTH, imports
from flows.servers.http import Parent, hide_values_of_statements, inherited, run_app
from tasks.common.home import Home

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def _prefect(parent: Parent, *, pages_only: bool) -> PrefectApplication:
    """Return the Prefect application on the home's database, which is migrated only if it must be.

    Two servers that start on a fresh home take turns.
    """
    database = Path(os.environ["PREFECT_HOME"]) / "prefect.db"
    turn = contextlib.ExitStack()
    fits = migrated(database, "prefect")
    if not fits:
        turn.enter_context(migration_lock(database))
        fits = prepared(database, "prefect")
        if fits:
            turn.close()
        else:
            parent.finish_first()
    os.environ["PREFECT_SERVER_DATABASE_MIGRATE_ON_START"] = str(not fits).lower()
    with imports():
        from prefect.server.api.server import create_app

        app = create_app(ephemeral=not pages_only, webserver_only=pages_only)

    def ready() -> None:
        if not fits:
            mark_migrated(database, "prefect")
        turn.close()

    return PrefectApplication(app, ready, Home(_home()).plans_under_way)


def _mlflow_pages(parent: Parent) -> ASGIApp:
    parent.finish_first()
    os.environ[compat.MLFLOW_BACKEND_STORE] = tracking_ready(_home())
    with imports():
        from mlflow.server.fastapi_app import app
    served: ASGIApp = app
    return served


def _pages(part: str, parent: Parent, port: int) -> ASGIApp:
    """Return the pages of Prefect or MLflow, behind the token of this start."""
    token = os.environ.pop("ANONFLOW_UI_TOKEN")
    if part == "prefect":
        compat.serve_first_interface_only()
        app: ASGIApp = _prefect(parent, pages_only=True)
    else:
        app = _mlflow_pages(parent)
    from flows.servers.middleware import TokenAuth, guard
    from flows.servers.pages import Page

    return guard(Page(app, part), TokenAuth(token, port, HEALTH[part]))


def _home() -> Path:
    return Path(os.environ["PREFECT_HOME"]).parent


def main(arguments: Iterable[str]) -> int:
    """Be the server or do the migration that the parent asks for.

    Parameters
    ----------
    arguments
        The role (``prefect``, ``ui-prefect``, ``ui-mlflow``, ``migrate-prefect`` or ``migrate-mlflow``) and
        the listening socket's descriptor.

    Returns
    -------
    int
        Exit code: 0, or 3 if the server did not start.
    """
    role, descriptor = arguments
    with inherited(descriptor) as (sock, parent):
        hide_values_of_statements()
        if role == "prefect":
            app = _prefect(parent, pages_only=False)
            return run_app(app, sock, parent, app.mark_unfinished_as_crashed)
        if role.startswith("ui-"):
            return run_app(_pages(role.removeprefix("ui-"), parent, sock.getsockname()[1]), sock, parent)
        if role == "migrate-mlflow":
            tracking_ready(_home())
        else:
            from prefect.server.database import provide_database_interface

            asyncio.run(provide_database_interface().create_db())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
