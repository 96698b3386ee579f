"""The command ``anonflow audit``: what was decided, and whether it is still as it was."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tasks.faults import ExitCode, Refused, guarded
from tasks.home import Home

app = typer.Typer(no_args_is_help=True, help="The signed record: verify it, read it, hand it to auditors.")
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Where = Annotated[
    Path | None,
    typer.Option("--home", help="Where state is kept; by default ANONFLOW_HOME, else .anonflow here."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for scripts, and nothing else.")]
By = Annotated[str, typer.Option("--by", help="Who does this.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is kept in the ledger.")]
# What an entry is about, besides a release.
SUBJECTS = ("release", "person", "delivers")


@app.command()
def verify(
    anchor: Annotated[
        str | None, typer.Option("--anchor", help="Digest of an entry that was kept elsewhere.")
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option("--public-key", help="This home's public key, as it was kept elsewhere.")
    ] = None,
    mlflow: Annotated[bool, typer.Option(help="Check the runs in MLflow too.")] = True,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Find whatever was changed, removed, reordered or cut off since: 0 nothing, 3 something was found."""
    where = _home(home, tracking=mlflow)
    from tasks import audit, keys, ledger

    public = keys.pem(guarded(keys.read_public)(public_key)) if public_key else None
    found = guarded(audit.verify)(where, public_key=public, anchor=anchor, mlflow=mlflow)
    entries = len(ledger.entries(where)) if not any(f.kind == "unreadable" for f in found) else None
    code = ExitCode.REJECTED if found else ExitCode.PUBLISHED
    if json_:
        _print({"entries": entries, "findings": [asdict(f) for f in found], "exit_code": int(code)})
    elif found:
        for finding in found:
            out.print(
                f"[bold red]{escape(finding.kind)}[/bold red] {escape(finding.sentence)}", soft_wrap=True
            )
        out.print(f"{len(found)} finding(s).")
    else:
        checked = "ledger, people, releases, candidates, figures" + (", MLflow" if mlflow else "")
        out.print(f"Nothing was found: {entries} entries; {checked} are as they were left.", soft_wrap=True)
    raise typer.Exit(int(code))


@app.command(name="list")
def list_(home: Where = None, json_: Json = False) -> None:
    """List every entry, oldest first."""
    from tasks import ledger

    known = guarded(ledger.entries)(Home.locate(home))
    if json_:
        _print(known)
        return
    table = Table("No", "When", "Event", "About", "By", "Digest", box=None, pad_edge=False)
    for entry in known:
        about = next((str(entry[s]) for s in SUBJECTS if entry.get(s)), "")
        who = str(entry.get("approver") or entry.get("by") or "")
        unverified = " (unverified)" if entry.get("identity") == "unverified" else ""
        table.add_row(
            str(entry.get("number")),
            str(entry.get("time")),
            str(entry.get("event")),
            escape(about),
            escape(who) + unverified,
            str(entry.get("digest"))[:12],
        )
    out.print(table)


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="ID", help="A release's id, or the number of an entry.")],
    home: Where = None,
    json_: Json = False,
) -> None:
    """Show every fact that is recorded about a release, or in one entry."""
    from tasks import ledger

    known = guarded(ledger.entries)(Home.locate(home))
    chosen = [e for e in known if what in (str(e.get("number")), *(e.get(s) for s in SUBJECTS))]
    if not chosen:
        raise Refused(f"the ledger holds nothing about {what!r}; see anonflow audit list")
    if json_:
        _print(chosen)
        return
    for entry in chosen:
        out.print(f"[bold]{entry.get('number')} {escape(str(entry.get('event')))}[/bold] {entry.get('time')}")
        for key, value in entry.items():
            if key not in ("number", "event", "time"):
                out.print(f"  {key}: {_told(value)}", soft_wrap=True, markup=False)


@app.command()
def export(
    target: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A new file, one JSON object a line.")
    ] = None,
    anchor: Annotated[
        bool, typer.Option("--anchor", help="Print the last entry's digest, to be kept elsewhere.")
    ] = False,
    public_key: Annotated[
        bool, typer.Option("--public-key", help="Print the public key, to be kept elsewhere.")
    ] = False,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Hand the ledger to auditors, with the public keys; or print what is to be kept elsewhere."""
    from tasks import audit, ledger

    if target is None and not anchor and not public_key:
        raise Refused("name a file to write, or what to print: --anchor, --public-key")
    where = Home.locate(home)
    told: dict[str, Any] = {}
    if target is not None:
        told |= {"file": target, "entries": guarded(audit.export)(where, target)}
    if anchor:
        told |= guarded(audit.head)(where)
    if public_key:
        told |= {"public_key": guarded(ledger.public_key)(where)}
    if json_:
        _print(told)
        return
    if target is not None:
        err.print(f"Wrote {told['entries']} entries to {target}", soft_wrap=True)
    if anchor:
        sys.stdout.write(f"{told['digest']}\n")
    if public_key:
        sys.stdout.write(told["public_key"])


@app.command(name="rotate-key")
def rotate_key(by: By, reason: Reason, home: Where = None) -> None:
    """Sign with a new key from now on; the entry that says so is the last that the old one signs."""
    from tasks import ledger

    _stated(by, reason)
    where = Home.locate(home)
    entry = guarded(ledger.rotate_key)(where, by=by.strip(), reason=reason.strip())
    out.print(f"Entry {entry['number']} names the new key. Keep its public half elsewhere:", soft_wrap=True)
    sys.stdout.write(ledger.public_key(where))


@app.command()
def resume(by: By, reason: Reason, home: Where = None) -> None:
    """Go on with a ledger whose end was lost and is in no backup; the loss stays on record."""
    from tasks import ledger

    _stated(by, reason)
    where = Home.locate(home)
    if not any(f.kind in ("truncated", "head") for f in guarded(ledger.problems)(where)):
        raise Refused("the ledger's end is not lost; there is nothing to resume")
    entry = guarded(ledger.resume)(where, by=by.strip(), reason=reason.strip())
    out.print(f"Entry {entry['number']} says what was lost. anonflow audit verify keeps telling of it.")


@app.command()
def mirror(home: Where = None) -> None:
    """Set the status tags in MLflow to what the ledger says, as after MLflow could not be reached."""
    where = _home(home, tracking=True)
    from tasks import audit

    out.print(f"{guarded(audit.mirror)(where)} run(s) in MLflow say what the ledger says.")


def _home(given: Path | None, *, tracking: bool) -> Home:
    """Return the home; with MLflow's settings applied before it is imported, where it is asked."""
    if not tracking:
        return Home.locate(given)
    from flows import cli, embedded

    home = cli._home(given)
    embedded.tracking_ready(home.path)
    return home


def _stated(by: str, reason: str) -> None:
    if not by.strip() or not reason.strip():
        raise Refused("state who does this and why: --by NAME --reason TEXT")


def _told(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _print(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")
