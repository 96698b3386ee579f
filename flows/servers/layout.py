"""What `anonflow serve` leaves in a home for the commands beside it: addresses, passwords, which parts run."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tasks.common.home import Home, make_private, write_first, write_private
from tasks.common.locks import is_held, locked
from tasks.common.values import from_json, to_json

# The user name of both pages.
USER = "anonflow"


# Where browsers find the pages, if that is not where the servers are for us.
PREFECT_PAGE, MLFLOW_PAGE = "ANONFLOW_PREFECT_PAGE", "ANONFLOW_MLFLOW_PAGE"


@dataclass(frozen=True)
class Layout:
    """Where the parts of a served home are; kept in the home without any secret.

    Attributes
    ----------
    plans : folder of plans
    prefect, mlflow : addresses of the servers; empty while they are not known
    worker : address of the worker's health endpoint
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


def state_folder(home: Home) -> Path:
    """Return the folder of the stack's own state."""
    return make_private(home.path / "served")


def lock_of(home: Home, part: str) -> Path:
    """Return the lock file that the process of a part holds."""
    return home.path / "served" / f"{part}.lock"


def read_layout(home: Home) -> Layout | None:
    """Return the addresses of the last `anonflow serve`; None when it never ran here."""
    try:
        return from_json(Layout, json.loads((home.path / "served" / "layout.json").read_text()))
    except (OSError, ValueError):
        return None


def pages(layout: Layout) -> tuple[str, str]:
    """Return where browsers find the pages of Prefect and MLflow, which may be elsewhere than for us."""
    return os.environ.get(PREFECT_PAGE) or layout.prefect, os.environ.get(MLFLOW_PAGE) or layout.mlflow


def write_layout(home: Home, update: Callable[[Layout], Layout]) -> Layout:
    """Store the layout that ``update`` makes of the stored one, and return it.

    Claim: parts of one home that start at the same time do not overwrite each other's addresses.
    """
    folder = state_folder(home)
    with locked(folder / "layout.lock"):
        layout = update(read_layout(home) or Layout())
        write_private(folder / "layout.json", json.dumps(to_json(layout), indent=1).encode())
    return layout


def secret(home: Home, name: str) -> str:
    """Return a secret of this home, drawn on first use, from a file for the owner alone."""
    path = make_private(home.path / "secrets") / name
    if not path.exists():
        write_first(path, secrets.token_urlsafe(24).encode())
    return path.read_text(encoding="ascii").strip()


def prefect_auth(home: Home) -> str:
    """Return user and password of the Prefect API, which its page asks for as one text."""
    return f"{USER}:{secret(home, 'prefect')}"


def mlflow_auth(home: Home) -> dict[str, str]:
    """Return user and password of MLflow, as its client reads them."""
    return {"MLFLOW_TRACKING_USERNAME": USER, "MLFLOW_TRACKING_PASSWORD": secret(home, "mlflow")}


def runs(home: Home, *parts: str) -> bool:
    """Return whether a process runs any of these parts, seen by the lock that it holds."""
    return any(is_held(lock_of(home, part)) for part in parts)


def is_stopped(home: Home) -> bool:
    """Return whether this home's MLflow belongs to `anonflow serve`, and does not run."""
    layout = read_layout(home)
    if layout is None or not layout.mlflow or os.environ.get("MLFLOW_TRACKING_URI") not in (None, "", layout.mlflow):
        return False
    return not runs(home, "mlflow", "worker")


def credentials(home: Home, chosen: dict[str, str]) -> dict[str, str]:
    """Return the variables that give access to the servers of `anonflow serve` while it runs for this home.

    Its MLflow is the one to write to, unless another was chosen; its Prefect only if that was chosen.

    Claim: no password goes to another server. That one of ours runs, or a worker that uses it, is seen by a
    lock.
    """
    layout = read_layout(home)
    if layout is None:
        return {}
    variables: dict[str, str] = {}
    with contextlib.suppress(OSError):
        mlflow = layout.mlflow
        if mlflow and chosen.get("MLFLOW_TRACKING_URI", mlflow) == mlflow and runs(home, "mlflow", "worker"):
            variables = {"MLFLOW_TRACKING_URI": mlflow} | mlflow_auth(home)
        if chosen.get("PREFECT_API_URL") == layout.api and runs(home, "prefect", "worker"):
            variables["PREFECT_API_AUTH_STRING"] = prefect_auth(home)
    return variables
