"""What a command needs before it can begin: the home, the frameworks' settings, the embedded server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows import embedded
from tasks.common.errors import Refused
from tasks.common.home import Home


def home_ready(given: Path | None) -> Home:
    """Return the home with the frameworks' settings applied, before any of them is imported.

    Raises
    ------
    Refused
        When its path cannot be used.
    """
    home = Home.locate(given)
    try:
        embedded.apply(home.path)
    except ValueError as error:
        unusable = str(error)
    else:
        return home
    raise Refused(unusable) from None


def tracking_ready(given: Path | None) -> Home:
    """Return the home with MLflow's store in order too."""
    home = home_ready(given)
    embedded.tracking_ready(home.path)
    return home


@contextmanager
def platform(home: Home, *, inline: bool) -> Iterator[Any]:
    """Give the embedded Prefect server, or None without Prefect; what a run needs is imported meanwhile."""
    if inline:
        with embedded.imports():
            import flows.release
        embedded.tracking_ready(home.path)
        yield None
        return
    with embedded.server(home.path) as server:
        # The server needs seconds to start; what the run will need is imported meanwhile.
        with embedded.imports():
            import great_expectations  # noqa: F401
            import matplotlib.figure  # noqa: F401
            import mlflow.store.tracking.sqlalchemy_store  # noqa: F401

            import flows.orchestration.prefect  # noqa: F401
        yield server
