"""The command line: ``anonflow demo | plan | check | run | compare | assess | approve | reject | ...``."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer

# Frameworks and numerics are imported inside the commands: `anonflow --help` must answer at once, and
# the embedded Prefect server must be on its way before anything heavy is loaded.
from flows.commands import (
    audit,
    backup,
    decisions,
    deliver,
    digests,
    judged,
    people,
    plans,
    prune,
    releases,
    serve,
    studio,
    tune,
)
from flows.commands.options import clear_line, err, plain
from flows.commands.shown import print_json
from flows.servers.process import ServerError
from tasks.common.errors import ExitCode, Fault, ReleaseError, lacks_space, translated, visible_lines

INTERRUPTED = 130

# In the order in which the help lists them.
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": releases.demo,
    "run": releases.run,
    "check": plans.check,
    "plan": plans.plan,
    "assess": judged.assess,
    "compare": judged.compare,
    "tune": tune.tune,
    "approve": decisions.approve,
    "reject": decisions.reject,
    "withdraw": decisions.withdraw,
    "sign": decisions.sign,
    "list": releases.list_,
    "show": releases.show,
    "ui": releases.ui,
    "studio": studio.studio,
    "serve": serve.serve,
    "deliver": deliver.deliver,
    "backup": backup.backup,
    "restore": backup.restore,
    "prune": prune.prune,
}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Publish microdata without disclosing individuals, with an auditable record of every decision.",
)


def _print_version(asked: bool) -> None:
    if asked:
        plain.print(f"anonflow {version('anonflow')}")
        raise typer.Exit


@app.callback()
def _options(
    version_: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version)] = False,
) -> None:
    pass


for _name, _command in COMMANDS.items():
    app.command(name=_name)(_command)
app.add_typer(people.app, name="people")
app.add_typer(digests.app, name="digests")
app.add_typer(audit.app, name="audit")


def main() -> None:
    """Run the command line; every error ends in one message and an exit code."""
    os.umask(0o077)
    # Ended from outside, a run must still wipe its workspace.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    logging.captureWarnings(True)
    as_json = "--json" in sys.argv
    sys.exit(exit_code_of(lambda: app(standalone_mode=True), as_json))


def exit_code_of(command: Callable[[], Any], as_json: bool) -> int:
    """Carry a command out and return its exit code; an error ends in one message, without a traceback."""
    try:
        command()
    except (KeyboardInterrupt, SystemExit) as end:
        code = INTERRUPTED if isinstance(end, KeyboardInterrupt) else int(end.code or 0)
        if code == INTERRUPTED:
            clear_line()
            err.print("Interrupted. anonflow list shows what was decided before.")
        return code
    except ReleaseError as error:
        return _report(error, as_json)
    except ServerError as error:
        return _report(Fault(str(error)), as_json)
    except Exception as error:
        if lacks_space(error):
            return _report(translated(error), as_json)
        message = f"an unexpected {type(error).__name__}; this is a fault of anonflow, please report it"
        return _report(Fault(message), as_json)
    return 0


def _report(error: ReleaseError, as_json: bool) -> int:
    title, message = "Refused" if error.code == ExitCode.REFUSED else "Fault", visible_lines(error)
    if as_json:
        print_json({"status": title.lower(), "message": message, "exit_code": int(error.code)})
    else:
        clear_line()
        err.print(f"[bold red]{title}[/bold red]")
        for line in message.splitlines():
            err.print(f"  {line}", markup=False)
    return int(error.code)
