"""Options that several commands take, and where they print."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType

from tasks.common.errors import Refused

# Names given by others are shown as they are, also one like :bomb:, which rich would draw.
out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)
# For lines as they are: nothing in them is markup, and a terminal does not break them.
plain = Console(highlight=False, emoji=False, markup=False, soft_wrap=True)

Where = Annotated[
    Path | None, typer.Option("--home", help="Folder of all state; by default ANONFLOW_HOME, else .anonflow here.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value for scripts, and nothing else.")]
Inline = Annotated[bool, typer.Option("--inline", help="Run without Prefect and its history, for tests.")]
EveryGate = Annotated[bool, typer.Option("--all", help="Show every gate, also those that pass.")]
Engine = Annotated[
    Literal["memory", "local", "dask", "auto"] | None,
    typer.Option("--engine", help="In place of what the plan states."),
]
Plan = Annotated[Path, typer.Argument(metavar="PLAN", help="A release plan, a YAML file.")]
Release = Annotated[str, typer.Argument(metavar="ID", help="The release's id, as anonflow list shows it.")]
Reason = Annotated[
    str, typer.Option("--reason", help="Why; kept in the ledger, and published of approvals and withdrawals.")
]
ByDesign = Annotated[
    list[str] | None,
    typer.Option("--by-design", help="A measure that carries no information here: ambiguity or uncertainty."),
]


def clear_line() -> None:
    """Clear the line of a terminal that says which step is under way: what follows may be shorter."""
    if err.is_terminal:
        err.control(Control((ControlType.ERASE_IN_LINE, 2)))


def require_name_and_reason(by: str, reason: str) -> None:
    """Raise `Refused` unless a name and a reason are more than blanks."""
    if not by.strip() or not reason.strip():
        raise Refused("give a name and a reason: --by NAME --reason TEXT")


def database_url() -> str | None:
    """Return the address of the user's own PostgreSQL, if there is one."""
    url = os.environ.get("ANONFLOW_DATABASE_URL") or None
    if url is not None and urlsplit(url).scheme not in ("postgresql", "postgres"):
        raise Refused("ANONFLOW_DATABASE_URL must begin with postgresql://")
    return url and url.replace("postgres://", "postgresql://", 1)
