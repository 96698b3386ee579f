"""What a command needs before it can begin: the home, the frameworks' settings, the embedded server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from flows import embedded
from flows.servers.layout import is_stopped
from tasks.common.errors import Refused
from tasks.common.home import Home

if TYPE_CHECKING:
    from flows.plan.model import PlanFile
    from flows.release import OnStep

T = TypeVar("T")
# What is shown before the steps of a plan.
START = "Start"


class RunPlan(Protocol):
    """Carries a body out, directly or as a Prefect flow; see `flows.orchestration.prefect.run_as_flow`."""

    def __call__(
        self,
        name: str,
        description: str,
        file: PlanFile,
        body: Callable[[Any], tuple[T, str, str]],
    ) -> T:
        """Return the result of ``body``, which takes what carries out the steps."""


def home_ready(given: Path | None) -> Home:
    """Return the home with the frameworks' settings applied, before any of them is imported.

    Raises `Refused` when its path cannot be used.
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
    """Return a home that is there, with MLflow's store in order too."""
    home = home_ready(Home.existing(given).path)
    embedded.tracking_ready(home.path)
    return home


def recording_ready(given: Path | None) -> Home:
    """Return the home, as `home_ready` does, for a command that logs runs; refused where they would be lost."""
    require_mlflow(Home.locate(given))
    return home_ready(given)


def require_mlflow(home: Home) -> None:
    """Refuse what writes runs while `anonflow serve` does not run, whose MLflow has the others of this home.

    Runs in a store of their own would be missing in that one, and an audit would say that they were deleted.
    """
    if is_stopped(home):
        raise Refused(
            "this home's MLflow belongs to anonflow serve, which is not running: start it, or try again once it has "
            "started"
        )


@contextmanager
def platform(home: Home, on_progress: OnStep, *, inline: bool) -> Iterator[RunPlan]:
    """Give what carries out a plan, with Prefect unless ``inline``; what a run needs is imported meanwhile.

    That is reported as a step of its own, which takes seconds.
    """
    begun = time.perf_counter()
    on_progress(START, None, 0)

    def started(body: Callable[[Any], T], runner: Any) -> T:
        on_progress(START, time.perf_counter() - begun, 0)
        return body(runner)

    if inline:
        _import_frameworks()
        from flows.release import Direct

        embedded.tracking_ready(home.path)
        yield lambda name, description, file, body: started(body, Direct(on_progress))[0]
        return
    with embedded.server(home.path) as server:
        # The server needs seconds to start; what the run will need is imported meanwhile.
        _import_frameworks()
        with embedded.imports():
            from flows.orchestration.prefect import run_as_flow
        embedded.tracking_ready(home.path)

        def run(name: str, description: str, file: PlanFile, body: Callable[[Any], tuple[T, str, str]]) -> T:
            with server.session():
                return run_as_flow(name, description, file, on_progress, partial(started, body))

        yield run


def _import_frameworks() -> None:
    """Import what every release needs, which takes a quarter longer where its parts are imported at first use."""
    with embedded.imports():
        import great_expectations.expectations  # noqa: F401
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401
        import mlflow.store.tracking.sqlalchemy_store  # noqa: F401

        import flows.release  # noqa: F401
