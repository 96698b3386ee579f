"""``anonflow serve``: the stack in the foreground, for a terminal or a service manager."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from flows.commands.options import Where, plain
from flows.embedded.settings import LOOPBACK, USER
from flows.served import settings
from flows.served.settings import NAMES, PARTS
from tasks.common.errors import Refused, visible, visible_lines
from tasks.common.home import Home


def serve(
    plans: Annotated[
        Path | None,
        typer.Argument(metavar="[PLANS]", help="A folder of plans, each with its schedule; . by default."),
    ] = None,
    home: Where = None,
    prefect_port: Annotated[int, typer.Option(help="Port of Prefect.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(help="Port of MLflow.")] = 5000,
    host: Annotated[str, typer.Option(help="Address to listen on; another one belongs behind TLS.")] = LOOPBACK,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", help="A further name under which the pages may be called.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this part: postgres, prefect, mlflow or worker.")
    ] = None,
    secrets: Annotated[bool, typer.Option("--secrets", help="Print the passwords of the pages, and end.")] = False,
    healthy: Annotated[
        bool, typer.Option("--healthy", help="Say whether what runs answers, with code 0 or 1, and end.")
    ] = False,
) -> None:
    """Run everything that schedules need on this machine: PostgreSQL, Prefect, MLflow, a worker.

    A PostgreSQL of your own is named in ANONFLOW_DATABASE_URL.
    """
    where = Home.locate(home)
    if secrets:
        _tell_secrets(where)
        return
    parts = _parts(only)
    if healthy:
        _tell_health(where, parts if only else ())
        return
    folder = (plans or Path(".")).absolute()
    if not folder.is_dir():
        raise Refused(f"{folder.name} is not a folder of plans")
    database = os.environ.get("ANONFLOW_DATABASE_URL") or None
    if database is not None and urlsplit(database).scheme not in ("postgresql", "postgres"):
        raise Refused("ANONFLOW_DATABASE_URL must begin with postgresql://")
    from flows.served.stack import Wanted

    _run(
        where,
        Wanted(
            plans=folder,
            parts=parts,
            prefect_port=prefect_port,
            mlflow_port=mlflow_port,
            host=host,
            allow=tuple(allow or ()),
            database=database and database.replace("postgres://", "postgresql://", 1),
        ),
    )


def _run(home: Home, wanted: Any) -> None:
    from flows.served.stack import Stack, only_one, until_signal

    begun = time.monotonic()
    with until_signal() as ended, only_one(home, wanted.parts):
        stack = Stack(home, wanted, _told)
        try:
            stack.start(ended)
            if not ended():
                _ready(stack, time.monotonic() - begun)
            stack.watch(ended)
        finally:
            stack.stop()
    _told("Stopped.")


def _ready(stack: Any, seconds: float) -> None:
    layout, parts = stack.layout, stack.wanted.parts
    for name in ("prefect", "mlflow"):
        if name in parts:
            plain.print(f"{NAMES[name]:8} {visible(getattr(layout, name))}")
    if "worker" in parts:
        report = stack.report()
        for name, clock in report["plans"].items():
            plain.print(f"{'Plan':8} {visible(name)}: {clock}; {report['done'].get(name, 'unchanged')}")
        for name, what in report["done"].items():
            if what == "removed":
                plain.print(f"{'Plan':8} {visible(name)}: removed")
        for file, why in report["problems"].items():
            plain.print(f"{'Refused':8} {visible(file)}: {visible_lines(why)}")
    plain.print(f"{'Logs':8} {visible(settings.logs(stack.home))}")
    plain.print(f"{'Secrets':8} anonflow serve --secrets --home {visible(stack.home.path)}")
    _told(f"Ready after {seconds:.1f} s. Ctrl-C ends it.")


def _parts(only: list[str] | None) -> tuple[str, ...]:
    unknown = sorted(set(only or ()) - set(PARTS))
    if unknown:
        raise Refused("--only takes postgres, prefect, mlflow or worker")
    return tuple(part for part in PARTS if not only or part in only)


def _tell_secrets(home: Home) -> None:
    layout = settings.read_layout(home)
    if layout is None:
        raise Refused("anonflow serve never ran in this home")
    plain.print(f"Prefect  {visible(layout.prefect or '-')}  {settings.prefect_auth(home)}")
    plain.print(f"MLflow   {visible(layout.mlflow or '-')}  user {USER}, password {settings.secret(home, 'mlflow')}")


def _tell_health(home: Home, parts: tuple[str, ...]) -> None:
    from flows.served.health import problems

    found = problems(home, parts)
    plain.print(visible_lines("\n".join(found)) or "Everything that runs answers.")
    if found:
        raise typer.Exit(1)


def _told(text: str) -> None:
    plain.print(visible_lines(text))
    sys.stdout.flush()
