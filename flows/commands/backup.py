"""``anonflow backup`` and ``anonflow restore``: a home in one file, and a home of it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import Json, Where, database_url, err
from flows.commands.shown import print_json, safe
from tasks.common.errors import ExitCode, Refused, sanitise_errors
from tasks.common.home import Home
from tasks.common.values import to_json

File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup, a tar file. It holds secrets: encrypt it.")]


def backup(file: File, home: Where = None, json_: Json = False) -> None:
    """Copy everything that a home needs into one file, while it is in use.

    Plans and sources of data lie outside of the home and are not in it.
    """
    where = Home.existing(home)
    from flows.served.backup import back_up

    about = sanitise_errors(back_up)(where, file.absolute(), database_url())
    if json_:
        print_json(to_json(about))
        return
    err.print(f"Wrote {about.entries} entries of the ledger and all they name to {safe(file)}", soft_wrap=True)


def restore(
    file: File,
    home: Annotated[Path, typer.Option("--home", help="A new folder, which becomes the home.")],
    json_: Json = False,
) -> None:
    """Make a home of a backup, on this or another machine, and check it against its ledger."""
    from flows.served.backup import restore as restored

    if not file.is_file():
        raise Refused(f"{file.name} is no file")
    about = sanitise_errors(restored)(file.absolute(), home.absolute(), database_url())
    from tasks.audit import verification as audit

    findings = sanitise_errors(audit.verify)(Home.locate(home), mlflow=False)
    if json_:
        print_json({**to_json(about), "findings": [finding.sentence for finding in findings]})
    else:
        for finding in findings:
            err.print(f"[bold red]{safe(finding.kind)}[/bold red] {safe(finding.sentence)}", soft_wrap=True)
        err.print(f"Restored the home of {safe(about.made)}: {about.entries} entries, {len(findings)} finding(s).")
        err.print("End the home that it was made of before this one is used: both would sign one ledger.")
    raise typer.Exit(int(ExitCode.REJECTED if findings else ExitCode.PUBLISHED))
