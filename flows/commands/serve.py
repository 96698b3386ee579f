"""``anonflow serve``: the stack in the foreground, for a terminal or a service manager."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import Json, Where, database_url, plain
from flows.commands.shown import print_json
from flows.servers.environment import LOOPBACK, NAMES, PARTS
from flows.servers.layout import mlflow_auth, pages, prefect_auth, read_layout
from tasks.common.errors import Refused, sanitise_errors, visible, visible_lines
from tasks.common.formatting import to_minute
from tasks.common.home import Home
from tasks.common.values import to_json

if TYPE_CHECKING:
    from flows.served.stack import Request, Stack


def serve(
    plans: Annotated[
        Path | None,
        typer.Argument(metavar="PLANS", help="Folder of plans, each with its schedule; by default this folder."),
    ] = None,
    home: Where = None,
    prefect_port: Annotated[int, typer.Option(help="Port of Prefect.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(help="Port of MLflow.")] = 5000,
    metrics_port: Annotated[int, typer.Option(help="Port of /metrics for Prometheus; 0 takes any.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on; any other than the default needs TLS.")] = LOOPBACK,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", help="A further host name under which the pages may be opened.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this part: postgres, prefect, mlflow or worker.")
    ] = None,
    secrets: Annotated[bool, typer.Option("--secrets", help="Print the passwords of the pages, and exit.")] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Print parts, plans, runs and candidates that wait, and exit.")
    ] = False,
    json_: Json = False,
    healthy: Annotated[
        bool, typer.Option("--healthy", help="Check whether the running parts answer (exit code 0 or 1), and exit.")
    ] = False,
) -> None:
    """Run everything that scheduled releases need on this machine: PostgreSQL, Prefect, MLflow, a worker.

    To use a PostgreSQL server of your own, give its address in ANONFLOW_DATABASE_URL.
    """
    where = (Home.existing if secrets or status or healthy else Home.locate)(home)
    if secrets:
        _print_secrets(where)
        return
    if status:
        _print_status(where, as_json=json_)
        return
    parts = _parts(only)
    if healthy:
        _print_health(where, parts if only else ())
        return
    folder = (plans or Path(".")).absolute()
    if not folder.is_dir():
        raise Refused(f"{folder.name} is not a folder of plans")
    from flows.served.stack import Request

    ports = {"prefect_port": prefect_port, "mlflow_port": mlflow_port, "metrics_port": metrics_port}
    _run(where, Request(folder, parts, **ports, host=host, allow=tuple(allow or ()), database=database_url()))


def _run(home: Home, request: Request) -> None:
    from flows.served.logs import note
    from flows.served.stack import Stack, only_one, until_signal

    def report(text: str) -> None:
        _say(text)
        note(home, text)

    begun = time.monotonic()
    with until_signal() as stopped, only_one(home, request.parts):
        mail_problem = _checked(home, request.parts)
        stack = Stack(home, request, report)
        try:
            stack.start(stopped)
            if not stopped():
                _print_ready(stack)
                if mail_problem:
                    report(mail_problem)
                report(f"Ready after {time.monotonic() - begun:.1f} s. Press Ctrl-C to stop.")
            stack.watch(stopped)
        finally:
            stack.stop()
    report("Stopped.")


def _checked(home: Home, parts: tuple[str, ...]) -> str:
    """Refuse settings that would be met only later; return what is wrong with the mail server, empty where nothing is.

    Raises
    ------
    Refused
        When a variable cannot be used, or the secret of the mail server is not there.
    """
    from flows.orchestration.retries import pauses
    from flows.served.logs import as_json
    from flows.served.mail import MailServer
    from flows.served.settings import runs_at_once

    as_json()
    if "worker" not in parts:
        return ""
    pauses()
    runs_at_once()
    server = MailServer.of_environment()
    problem = server.problem(home) if server is not None else ""
    return problem and f"{problem}; notices wait until it can"


def _print_ready(stack: Stack) -> None:
    from flows.served.logs import logs

    parts = stack.request.parts
    for name in ("prefect", "mlflow"):
        if name in parts:
            _line(NAMES[name], getattr(stack.layout, name))
    if "worker" in parts:
        report = stack.worker_report()
        for name, schedule in report.schedules.items():
            _line("Plan", f"{name}: {schedule}; {report.changes.get(name, 'unchanged')}")
        for name, change in report.changes.items():
            if change == "removed":
                _line("Plan", f"{name}: removed")
        for file, problem in report.problems.items():
            plain.print(f"{'Refused':8} {visible(file)}: {visible_lines(problem)}")
    _line("Logs", logs(stack.home))
    _line("Secrets", f"anonflow serve --secrets --home {stack.home.path}")


def _parts(only: list[str] | None) -> tuple[str, ...]:
    if set(only or ()) - set(PARTS):
        raise Refused("--only takes postgres, prefect, mlflow or worker")
    return tuple(part for part in PARTS if not only or part in only)


def _print_secrets(home: Home) -> None:
    layout = read_layout(home)
    if layout is None:
        raise Refused("anonflow serve has not run in this home yet")
    user, password = mlflow_auth(home).values()
    prefect, mlflow = pages(layout)
    plain.print(f"Prefect  {visible(prefect or '-')}  {prefect_auth(home)}")
    plain.print(f"MLflow   {visible(mlflow or '-')}  user {user}, password {password}")


def _print_status(home: Home, *, as_json: bool) -> None:
    from flows.served.status import status

    found = sanitise_errors(status)(home)
    if as_json:
        print_json(to_json(found))
        return
    for part, problem in found.parts.items():
        _line(part, problem or "answers")
    for name in dict.fromkeys((*found.schedules, *found.last_releases)):
        schedule = found.schedules.get(name, "not scheduled now")
        _line("Plan", f"{name}: {schedule}; last release {_minute(found.last_releases.get(name, ''))}")
    for file, problem in found.refused.items():
        plain.print(f"{'Refused':8} {visible(file)}: {visible_lines(problem)}")
    for run in found.under_way:
        _line("Runs", f"{run.name}: process {run.pid} on {run.host}, attempt {run.attempt}")
    for one in found.waiting:
        _line("Waits", f"{one.release} since {one.since}" + (f", until {one.until}" if one.until else ""))
    _line("Disk", f"{found.disk_free / 1e9:.1f} GB free")
    if found.undelivered:
        _line("Notices", f"{found.undelivered} not delivered yet")
    if not found.parts:
        _line("Serve", "anonflow serve does not run in this home")


def _minute(time: str) -> str:
    return f"{to_minute(time)} UTC" if time else "none"


def _print_health(home: Home, parts: tuple[str, ...]) -> None:
    from flows.served.health import problems

    messages = problems(home, parts)
    plain.print(visible_lines("\n".join(messages)) or "All running parts answer.")
    if messages:
        raise typer.Exit(1)


def _line(what: str, text: object) -> None:
    plain.print(f"{what:8} {visible(text)}")


def _say(text: str) -> None:
    plain.print(visible_lines(text))
    sys.stdout.flush()
