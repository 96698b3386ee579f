"""``anonflow studio``: the workspace in the browser."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import Where, plain
from flows.servers.environment import LOOPBACK
from flows.servers.layout import read_layout
from tasks.common.errors import visible
from tasks.common.home import Home


def studio(
    plans: Annotated[
        Path | None,
        typer.Argument(metavar="PLANS", help="Folder of plans; by default that of anonflow serve, else this folder."),
    ] = None,
    home: Where = None,
    port: Annotated[int, typer.Option(help="Port to try first; 0 takes any.")] = 4300,
    host: Annotated[str, typer.Option(help="Address to listen on; others than the default need logins and TLS.")] = (
        LOOPBACK
    ),
    allow: Annotated[
        list[str] | None, typer.Option("--allow", help="A further host name under which the pages may be opened.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the pages in a browser.")] = True,
) -> None:
    """Go from a file to a decision in the browser: import, variables, edits, steps, run, report, approval."""
    where = Home.locate(home)
    from flows.studio.serve import Serving, serve_studio

    layout = read_layout(where)
    folder = plans or Path(layout.plans if layout and layout.plans else ".")

    def ready(address: str, people: bool) -> None:
        plain.print(f"Studio   {visible(address)}")
        plain.print("People log in by name and password." if people else "Anyone who has this address may use it.")
        plain.print("Press Ctrl-C to stop.")
        sys.stdout.flush()
        if browser and not people and sys.stdout.isatty():
            webbrowser.open(address)

    serve_studio(where, Serving(folder.absolute(), port, host, tuple(allow or ())), ready)
