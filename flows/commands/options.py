"""What several commands take, and where they print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tasks.common.errors import Refused

# Foreign names are shown as they are, also one like :bomb:, which rich would draw.
out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)
# For lines as they are: nothing in them is markup, and a terminal does not break them.
plain = Console(highlight=False, emoji=False, markup=False, soft_wrap=True)

Where = Annotated[
    Path | None, typer.Option("--home", help="Where state is kept; by default ANONFLOW_HOME, else .anonflow here.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for scripts, and nothing else.")]
Inline = Annotated[bool, typer.Option("--inline", help="Without Prefect: no run history, for development and tests.")]
Plan = Annotated[Path, typer.Argument(metavar="PLAN", help="A release plan, a YAML file.")]
Release = Annotated[str, typer.Argument(metavar="ID", help="The release's id, see anonflow list.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is kept in the ledger.")]


def stated(by: str, reason: str, *, does: str = "decides") -> None:
    """Make sure that a name and a reason are more than blanks.

    Raises `Refused` when one of them is not.
    """
    if not by.strip() or not reason.strip():
        raise Refused(f"state who {does} and why: --by NAME --reason TEXT")
